"""An emulated drive is a block device like any other: what is written is read, filesystems live on
it, its queue and its timing are the drive's; and it goes away without a trace."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import entry
from headrace.drives import Load, run_drive
from headrace.errors import HeadraceError, RefusedError
from headrace.system import block_queue, emulator, loops
from headrace.system.emulator import EmulatedDevice, QueueShape
from headrace.system.emulator.idle_cpus import LOOK_OUT_NS
from headrace.system.journal import Journal
from headrace.system.mounts import mount
from headrace.system.owned import work_directory
from headrace.system.signatures import holders
from headrace.system.waiting import wait_until

pytestmark = pytest.mark.usefixtures("needs_root")

MIB = 1 << 20
DISK, SSD = "seagate-st3750640ns", "mtron-msp-sata7035064"
Attach = Callable[..., EmulatedDevice]


def storage_of(drive: str, raid: dict[str, int] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"drives": [entry("drives", drive).table]}
    return made if raid is None else {**made, "raid": raid}


def is_free(device: EmulatedDevice) -> bool:
    return not device.alive or not holders(device.device)


@pytest.fixture
def attach(journal: Journal, tmp_path: Path) -> Iterator[Attach]:
    """Attaches drives of the catalog ("" answers at once), and detaches them after the test."""
    made: list[EmulatedDevice] = []

    def attach(
        drive: str, size: int = 256 * MIB, raid: dict[str, int] | None = None, **options: Any
    ) -> EmulatedDevice:
        directory, _ = work_directory(journal, tmp_path)
        storage = storage_of(drive, raid) if drive else {}
        made.append(emulator.attach(journal, storage, size, directory, seed=1, **options))
        return made[-1]

    yield attach
    for device in made:
        label = loops.label_of(device.name)
        # A mount is also in mount namespaces that other tests made while it was there.
        assert wait_until(partial(is_free, device), 60, 0.1)
        device.detach()
        assert not device.alive
        assert label is None or loops.labelled(label) == []


def fio(device: EmulatedDevice | Path, **options: Any) -> dict[str, Any]:
    """Runs fio with direct I/O; its first job's results."""
    file = device.device if isinstance(device, EmulatedDevice) else device
    given = {"direct": 1, "ioengine": "libaio", "randrepeat": 1, "output-format": "json", **options}
    argv = [
        "fio",
        "--name=test",
        f"--filename={file}",
        *(f"--{key}={value}" for key, value in given.items()),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]


def model_of(drive: str, size_bytes: int = 1 << 30, **load: Any) -> dict[str, Any]:
    """The same load in virtual time, on the front of the drive."""
    return run_drive(
        entry("drives", drive).table,
        Load(bs_bytes=4096, runtime_s=20, size_bytes=size_bytes, **load),
    )


@pytest.mark.parametrize(
    ("rw", "bs"), [("randwrite", "4k"), ("write", "1m"), ("randwrite", "512-64k")]
)
def test_what_is_written_is_read(attach: Attach, rw: str, bs: str) -> None:
    device = attach("")
    sizes = {"bsrange": bs} if "-" in bs else {"bs": bs}
    fio(
        device,
        rw=rw,
        **sizes,
        iodepth=32,
        size="64m",
        verify="crc32c",
        do_verify=1,
        verify_state_save=0,
    )
    assert device.report().failed == 0


def test_its_directory_may_have_a_long_path(journal: Journal, tmp_path: Path) -> None:
    """Longer than the address of a socket, which has at most 107 bytes."""
    place = tmp_path / ("results-" * 25)
    place.mkdir()
    directory, _ = work_directory(journal, place)
    device = emulator.attach(journal, storage_of(DISK), 64 * MIB, directory, seed=1)
    try:
        fio(device, rw="randwrite", bs="4k", number_ios=8, size="1m")
        (found,) = [one for one in emulator.running() if one.pid == device.pid]
        assert found.report is not None
        assert found.report.failed == device.report().failed == 0
    finally:
        device.detach()
    assert not device.alive


def test_its_queue_is_the_drives(attach: Attach) -> None:
    disk = attach(DISK)
    assert block_queue.read_number(disk.name, "rotational") == 1
    assert block_queue.read_scheduler(disk.name) == "mq-deadline"
    assert block_queue.read_depth(disk.name) == 32
    ssd = attach(SSD, queue=QueueShape(8, "bfq", 64 << 10, rotational=False))
    assert block_queue.read_number(ssd.name, "rotational") == 0
    assert block_queue.read_scheduler(ssd.name) == "bfq"
    assert block_queue.read_depth(ssd.name) == 8
    assert block_queue.read_number(ssd.name, "read_ahead_kb") == 64


DEFAULTS = ("none", 128, "100", "0")
"""Of an unchanged loop device: scheduler, depth, share of dirty pages, whether that is strict."""


def settings_of(disk: Path) -> tuple[str | None, int | None, str, str]:
    bdi = disk / "bdi"
    return (
        block_queue.read_scheduler(disk.name),
        block_queue.read_depth(disk.name),
        (bdi / "max_ratio").read_text().strip(),
        (bdi / "strict_limit").read_text().strip(),
    )


@pytest.mark.machine  # another test may attach the same loop device
def test_a_queue_is_put_back(attach: Attach, journal: Journal) -> None:
    """Also the true depth, which a loop device keeps when it is attached to something else."""
    before = {disk.name: settings_of(disk) for disk in Path("/sys/block").glob("loop*")}
    device = attach(DISK)
    disk = Path("/sys/block") / device.name
    assert settings_of(disk) != DEFAULTS
    device.detach()
    assert settings_of(disk) == before.get(disk.name, DEFAULTS)


LOOK_OUT = Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")


@pytest.mark.machine  # other drives need the setting, too
@pytest.mark.skipif(
    not LOOK_OUT.exists(),
    reason="only virtual machines have the kernel's haltpoll governor of idle CPUs",
)
def test_idle_cpus_look_out_for_work_while_a_drive_is_attached(attach: Attach) -> None:
    before = int(LOOK_OUT.read_text())
    device = attach(SSD)
    assert int(LOOK_OUT.read_text()) == max(before, LOOK_OUT_NS)
    device.detach()
    assert int(LOOK_OUT.read_text()) == before


@pytest.fixture
def raised_workers() -> Callable[[], set[int]]:
    """Returns the kernel's workers that have the emulator's priority for them."""

    def found() -> set[int]:
        workers: set[int] = set()
        for comm in Path("/proc").glob("[0-9]*/comm"):
            with contextlib.suppress(OSError):
                pid = int(comm.parent.name)
                if comm.read_text().startswith("kworker/") and os.sched_getscheduler(pid) == 1:
                    workers.add(pid)
        return workers

    return found


@pytest.mark.machine  # other emulated drives have workers, too
def test_the_kernels_worker_comes_before_other_programs(
    attach: Attach, raised_workers: Callable[[], set[int]]
) -> None:
    before = raised_workers()
    device = attach(SSD)
    fio(device, rw="randread", bs="4k", number_ios=300)
    report = device.report()
    assert report.worker_raised
    assert raised_workers() - before or before
    # Each request's way to the emulator was seen, and takes time.
    assert report.submission_ns is not None
    assert 0 < report.submission_ns.p50 <= report.submission_ns.p99
    device.detach()
    assert raised_workers() <= before


@pytest.mark.parametrize("filesystem", ["ext4", "xfs", "btrfs"])
def test_a_filesystem_lives_on_it(
    attach: Attach, journal: Journal, tmp_path: Path, filesystem: str
) -> None:
    device = attach("", 512 * MIB)
    subprocess.run([f"mkfs.{filesystem}", "-q", str(device.device)], check=True)
    place = tmp_path / "mount"
    place.mkdir()
    mounted = mount(journal, str(device.device), place, filesystem)
    data = os.urandom(3 * MIB + 17)
    (place / "file").write_bytes(data)
    with pytest.raises(RefusedError, match="in use"):
        device.detach()
    journal.undo(mounted)
    mounted = mount(journal, str(device.device), place, filesystem)
    assert (place / "file").read_bytes() == data
    journal.undo(mounted)


def test_discard_gives_memory_back(attach: Attach) -> None:
    device = attach("")
    fio(device, rw="write", bs="1m", size="32m")
    assert device.report().data_bytes >= 32 * MIB
    subprocess.run(["blkdiscard", str(device.device)], check=True)
    found = device.report()
    assert found.data_bytes == 0
    assert found.discards > 0
    with device.device.open("rb") as file:
        assert file.read(MIB) == bytes(MIB)


def test_zeroes_take_no_memory(attach: Attach) -> None:
    device = attach("")
    with device.device.open("r+b", buffering=0) as file:
        file.write(bytes(8 * MIB))
        os.fsync(file.fileno())
    found = device.report()
    assert found.written_bytes >= 8 * MIB
    assert found.data_bytes == 0
    assert found.flushes >= 1


def test_a_large_drive_holds_what_memory_allows(attach: Attach) -> None:
    device = attach(DISK, 700_000_000_000, data_limit_bytes=16 * MIB)
    assert device.memory_bytes < 256 * MIB
    fio(device, rw="write", bs="1m", size="8m", offset="500g")
    with pytest.raises(AssertionError, match=r"No space left|Input/output error"):
        fio(device, rw="write", bs="1m", size="16m", offset="600g", end_fsync=1)
    found = device.report()
    assert found.full > 0
    assert found.data_bytes <= 16 * MIB
    assert not found.trustworthy


def test_several_at_once(attach: Attach, journal: Journal, tmp_path: Path) -> None:
    """A RAID of the kernel's own over emulated drives."""
    legs = [attach("") for _ in range(2)]
    subprocess.run(
        [
            "mkfs.btrfs",
            "-q",
            "-f",
            "-d",
            "raid1",
            "-m",
            "raid1",
            *(str(leg.device) for leg in legs),
        ],
        check=True,
    )
    place = tmp_path / "mount"
    place.mkdir()
    mounted = mount(journal, str(legs[0].device), place, "btrfs", [f"device={legs[1].device}"])
    (place / "file").write_bytes(os.urandom(4 * MIB))
    os.sync()
    assert all(leg.report().written_bytes >= 4 * MIB for leg in legs)
    journal.undo(mounted)
    subprocess.run(["btrfs", "device", "scan", "--forget"], check=True)


@pytest.mark.quiet  # times are measured
def test_timing_is_the_models(attach: Attach) -> None:
    """A wide margin, on however busy a machine this runs.

    Benchmarks/emulated_drive.py has the narrow one.
    """
    load: dict[str, Any] = {"rw": "randread", "iodepth": 4}
    given = {"bs": "4k", "size": "1g", "norandommap": 1, "runtime": 2, "time_based": 1}
    device = attach(DISK, 1 << 30)
    measured = fio(device, **given, **load)["read"]
    model = model_of(DISK, **load)["read"]
    assert 0.7 * model["iops"] < measured["iops"] < 1.25 * model["iops"]
    found = device.report()
    assert found.lateness_ns.timed == found.requests >= measured["total_ios"]


@pytest.mark.quiet  # times are measured
def test_timing_of_an_ssd(attach: Attach) -> None:
    """Whatever else the machine does slows some requests, but not the quicker ones; and none is
    quicker than the drive. What has been written is read from its flash, what has not is
    answered without."""
    device = attach(SSD, 1 << 30)
    given = {
        "bs": "4k",
        "size": "64m",
        "norandommap": 1,
        "runtime": 2,
        "time_based": 1,
        "lat_percentiles": 1,
    }
    models: list[int] = []
    for empty in (True, False):
        if not empty:
            fio(device, rw="write", bs="1m", size="64m")
        measured = fio(device, rw="randread", percentile_list="1:10", **given)["read"]["lat_ns"][
            "percentile"
        ]
        model = model_of(SSD, 64 << 20, rw="randread", empty=empty)["read"]["latency_ns_p50"]
        assert model - device.floor_ns <= measured["1.000000"]
        assert measured["10.000000"] < 2 * model
        models.append(model)
    assert models[1] > models[0] + 100_000, models


@pytest.mark.quiet  # rates are measured
def test_a_raid_of_the_model(attach: Attach) -> None:
    """Two disks striped serve twice as many random reads."""
    one = attach(DISK, 1 << 30)
    two = attach(DISK, 1 << 30, raid={"level": 0, "drives": 2})
    load = {
        "rw": "randread",
        "bs": "4k",
        "size": "1g",
        "norandommap": 1,
        "runtime": 2,
        "time_based": 1,
        "iodepth": 16,
    }
    rates = [fio(device, **load)["read"]["iops"] for device in (one, two)]
    assert 1.4 < rates[1] / rates[0] < 2.6


def test_faults_strike_and_are_counted(attach: Attach) -> None:
    device = attach(DISK, 64 * MIB)
    fault = device.inject(
        {"fault": {"kind": "media_error"}, "only": "read", "first_sector": 2048, "sectors": 8}
    )
    with pytest.raises(AssertionError, match="error"):
        fio(device, rw="read", bs="4k", size="4k", offset="1m")
    fio(device, rw="read", bs="4k", size="4k", offset="2m")
    assert device.report().faults_fired[fault] >= 1
    assert device.lift(fault) >= 1
    fio(device, rw="read", bs="4k", size="4k", offset="1m")
    slow = device.inject({"fault": {"kind": "latency_spike", "extra_ms": 300.0}, "at_most": 2})
    done = fio(device, rw="randread", bs="4k", number_ios=4, size="64m")
    assert done["read"]["clat_ns"]["max"] > 300e6
    assert device.report().faults_fired[slow] == 2
    with pytest.raises(HeadraceError, match="stall"):
        device.inject({"fault": {"kind": "stall"}, "until_s": 60.0})
    with pytest.raises(HeadraceError, match="factor"):
        device.inject({"fault": {"kind": "slow_down", "factor": 0.1}})


@pytest.mark.quiet  # the power must go before the drive has written its cache by itself
def test_what_was_flushed_survives_a_power_loss(attach: Attach) -> None:
    """And what was only acknowledged is gone: a disk with a write cache."""
    device = attach(DISK, 64 * MIB)
    handle = os.open(device.device, os.O_RDWR | os.O_DIRECT)
    buffer, lost_bytes = mmap.mmap(-1, 4096), 0
    try:
        # This program may be stopped for longer than the drive takes to write its cache: again.
        for place in range(4 << 20, 44 << 20, 4 << 20):
            flushed, unflushed = os.urandom(4096), os.urandom(4096)
            buffer[:] = flushed
            os.pwritev(handle, [buffer], place)
            os.fsync(handle)
            buffer[:] = unflushed
            os.pwritev(handle, [buffer], place)
            os.pwritev(handle, [buffer], place + (1 << 20))
            device.power_loss(off_s=0.3)
            with pytest.raises(OSError):
                os.preadv(handle, [buffer], place)
            time.sleep(0.6)
            os.preadv(handle, [buffer], place)
            first = buffer[:]
            os.preadv(handle, [buffer], place + (1 << 20))
            second = buffer[:]
            assert first in (flushed, unflushed) and second in (bytes(4096), unflushed)
            lost_bytes += 4096 * ((first == flushed) + (second == bytes(4096)))
            assert device.report().lost_bytes == lost_bytes
            if (first, second) == (flushed, bytes(4096)):
                return
        pytest.fail("each time the drive had written its cache")
    finally:
        os.close(handle)


def test_a_drive_that_is_too_fast_is_refused(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=r"intel-670p-1tb answers within .* simulate"):
        emulator.attach(journal, storage_of("intel-670p-1tb"), 64 * MIB, tmp_path, seed=1)


def test_a_size_beyond_memory_is_refused(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="kept in memory"):
        emulator.attach(journal, storage_of(DISK), 700_000_000_000, tmp_path, seed=1)
    assert list(tmp_path.iterdir()) == [tmp_path / "journal"]
