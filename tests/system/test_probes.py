"""Probes beside real work: what they say must agree with what was done."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace import probes
from headrace.engine.measure import validity
from headrace.probes import Watch
from headrace.probes.block import BlockProbe, uppermost
from headrace.probes.cpu import CpuProbe
from headrace.probes.memory import MemoryProbe
from headrace.probes.network import NetworkProbe
from headrace.probes.pressure import PressureProbe
from headrace.probes.sampler import Sampler
from headrace.system.network_interface import Interface

# Alone: they compare the counters of the whole machine with what one program did.
pytestmark = pytest.mark.machine

SIZE = 128 << 20
"""So much that a fast device is busy for several ticks of the kernel."""
LOOP_CTL_ADD, LOOP_CTL_REMOVE = 0x4C80, 0x4C81

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def watch(tmp_path: Path, *devices: str, interfaces: tuple[Interface, ...] = ()) -> Watch:
    return Watch(
        device_names=devices, slot_pids=(), directory=tmp_path, keep=tmp_path, interfaces=interfaces
    )


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "disk.img"
    with image.open("wb") as file:
        file.truncate(SIZE)
    made = subprocess.run(
        ["losetup", "--find", "--show", str(image)], check=True, capture_output=True, text=True
    )
    yield made.stdout.strip()
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


@root_only
def test_block_counts_what_was_read_and_written(tmp_path: Path, loop: str) -> None:
    name = Path(loop).name
    probe = BlockProbe()
    probe.start(watch(tmp_path, name, "no-such-device"))
    for flag, size in (("of", SIZE // 2), ("if", SIZE)):
        other = "if=/dev/zero" if flag == "of" else "of=/dev/null"
        direct = "oflag=direct" if flag == "of" else "iflag=direct"
        subprocess.run(
            ["dd", f"{flag}={loop}", other, "bs=1M", f"count={size >> 20}", direct],
            check=True,
            capture_output=True,
        )
    (row,) = probe.sample()
    totals = probe.finish().values
    assert totals["devices"] == [name]
    assert totals["gone"] == ["no-such-device"]
    assert totals["bytes_written"] == SIZE // 2
    # udev may look at the device's head and tail meanwhile.
    assert SIZE <= totals["bytes_read"] <= SIZE + (2 << 20)
    assert totals["requests_read"] >= SIZE >> 20
    assert row["device"] == name
    assert row["read_bytes_per_s"] > row["write_bytes_per_s"] > 0
    assert 0 < row["read_latency_ms"] < 1000
    assert 0 < row["busy"] <= 1


@pytest.fixture
def bare_loop() -> Iterator[Callable[[], None]]:
    """A loop device of the test's own, `bare_loop_name()`.

    Calling it takes the device from the kernel.
    """
    control = os.open("/dev/loop-control", os.O_RDWR)
    fcntl.ioctl(control, LOOP_CTL_ADD, bare_loop_number())

    def remove() -> None:
        with contextlib.suppress(OSError):
            fcntl.ioctl(control, LOOP_CTL_REMOVE, bare_loop_number())

    yield remove
    remove()
    os.close(control)


def bare_loop_number() -> int:
    return 500_000 + os.getpid() % 500_000


@root_only
def test_a_device_that_goes_away_while_it_is_sampled_makes_the_trial_invalid(
    tmp_path: Path, bare_loop: Callable[[], None]
) -> None:
    name = f"loop{bare_loop_number()}"
    sampler = Sampler({"block": BlockProbe()}, 0.01)
    sampler.start(watch(tmp_path, name))
    bare_loop()
    samples = sampler.finish()
    (found,) = validity.probes(samples)
    assert found.code == "device-gone"
    assert name in found.text
    assert samples.totals["block"].values["gone"] == [name]


def test_block_is_silent_without_devices(tmp_path: Path) -> None:
    probe = BlockProbe()
    probe.start(watch(tmp_path))
    assert probe.sample() == []
    assert probe.finish().values == {}


def test_a_partition_stands_above_its_disk() -> None:
    disks = [
        (disk.name, part.parent.name)
        for disk in Path("/sys/block").iterdir()
        for part in disk.glob("*/partition")
    ]
    for disk, part in disks:
        assert uppermost([disk, part]) == {part}
    assert uppermost(["loop0", "loop1"]) == {"loop0", "loop1"}


def test_cpu_sees_a_busy_core(tmp_path: Path) -> None:
    probe = CpuProbe()
    probe.start(watch(tmp_path))
    end = time.process_time() + 0.5
    while time.process_time() < end:
        sum(range(1000))
    (row,) = probe.sample()
    totals = probe.finish().values
    assert sum(row.values()) == pytest.approx(1)
    assert totals["cores"] == os.cpu_count()
    assert totals["busy_s"] >= 0.45
    assert row["user"] >= 0.4 / totals["cores"] / 2


def test_memory_sees_a_file_enter_the_page_cache(tmp_path: Path) -> None:
    file = tmp_path / "file"
    probe = MemoryProbe()
    probe.start(watch(tmp_path))
    (before,) = probe.sample()
    file.write_bytes(bytes(64 << 20))
    (after,) = probe.sample()
    probe.finish()
    # Other processes may drop caches or write meanwhile: half of it must be seen.
    assert (
        max(
            after["cached_bytes"] - before["cached_bytes"],
            after["dirty_bytes"] - before["dirty_bytes"],
        )
        > 32 << 20
    )
    assert after["free_bytes"] > 0


def test_pressure_is_a_share(tmp_path: Path) -> None:
    probe = PressureProbe()
    if probe.check():
        pytest.skip("no PSI here")
    probe.start(watch(tmp_path))
    spinner = "import time\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end: pass"
    spinners = [
        subprocess.Popen(["taskset", "-c", "0", "python3", "-c", spinner]) for _ in range(2)
    ]
    for process in spinners:
        process.wait()
    (row,) = probe.sample()
    totals = probe.finish().values
    assert set(row) == set(totals) == {"cpu_some", "io_some", "io_full", "memory_some"}
    assert all(0 <= value <= 1 for value in row.values())
    assert totals["cpu_some"] > 0.3


def test_network_counts_loopback(tmp_path: Path) -> None:
    probe = NetworkProbe()
    probe.start(
        watch(tmp_path, interfaces=(Interface("lo", "lo"), Interface("nosuch0", "nosuch0")))
    )
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        for _ in range(100):
            sender.sendto(bytes(1000), receiver.getsockname())
            receiver.recv(2000)
    (row,) = probe.sample()
    found = probe.finish()
    totals = found.values
    assert row["received_bytes_per_s"] > 0
    assert totals["lo"]["bytes_received"] >= 100_000
    assert totals["gone"] == ["nosuch0"]
    assert [code for code, _ in found.invalid] == ["interface-gone"]


@pytest.mark.parametrize("kind", sorted(set(probes.kinds()) - set(probes.service_kinds())))
def test_every_probe_keeps_the_contract(kind: str, tmp_path: Path) -> None:
    """Two trials in a row with one probe, and no open file left behind."""
    probe = probes.kinds()[kind]()
    probe.check()
    handles = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(2):
        probe.start(watch(tmp_path))
        time.sleep(0.03)
        for row in probe.sample():
            assert all(
                value is None or isinstance(value, (int, float, str)) for value in row.values()
            )
        totals = probe.finish()
        assert totals.invalid == []
    assert len(list(Path("/proc/self/fd").iterdir())) == handles
