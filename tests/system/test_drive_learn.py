"""`headrace drive learn` through the kernel: emulated drives with values that the command cannot
know are learnt, and their files have them; what holds data is not written."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command_server import run_command
from headrace.catalog import entry
from headrace.drives.learning import block_device, served_in_order
from headrace.drives.learning.serving_order import IN_ORDER
from headrace.errors import HeadraceError, RefusedError
from headrace.system import block_queue, signatures

pytestmark = [pytest.mark.usefixtures("needs_root", "journal_place")]

TURN_RPM, LINK = 6500, 200e6


def headrace(*words: str) -> dict[str, Any]:
    done = run_command(words)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout) if "--json" in words else {}


@pytest.mark.slow
@pytest.mark.quiet(seconds=46)  # times of requests are measured
def test_a_disk_is_learnt_through_the_kernel(tmp_path: Path) -> None:
    text = entry("drives", "seagate-st3750640ns").file.read_text()
    hidden = tmp_path / "hidden.toml"
    for old, new in (
        ("rotation_rpm = 7200.0", f"rotation_rpm = {TURN_RPM}.0"),
        ("link_bytes_per_s = 300e6", f"link_bytes_per_s = {LINK:g}"),
        ('name = "seagate-st3750640ns"', 'name = "hidden"'),
    ):
        assert old in text
        text = text.replace(old, new)
    hidden.write_text(text)
    made = headrace("drive", "attach", str(hidden), "--memory", "64MiB", "--json")
    path = tmp_path / "learnt.toml"
    try:
        words = ("drive", "learn", made["device"], "--out", str(path), "--minutes", "0.5")
        found = headrace(*words, "--kind", "hdd", "--json")
    finally:
        headrace("drive", "detach", made["device"])
    value = {each["name"]: each["value"] for each in found["values"]}
    # What a busy machine delays leaves these as they are; loads are compared in benchmarks/.
    assert value["rotation_rpm"] == pytest.approx(TURN_RPM, rel=0.01)
    assert value["rate at the outer edge"] == pytest.approx(78, rel=0.1)
    assert value["buffer.segments"] == 16
    assert {"kind": "hdd", "capacity_bytes": 750_156_374_016}.items() <= found["table"].items()
    run = headrace("drive", "run", str(path), "--rw", "randread", "--runtime", "5", "--json")
    assert 40 < run["read"]["iops"] < 120


def test_the_kernels_scheduler_keeps_the_order_while_a_drive_is_learnt() -> None:
    """The drive takes one request at a time, of twelve that the scheduler would sort."""
    words = ("drive", "attach", "mtron-msp-sata7035064", "--size", "128MiB", "--json")
    made = headrace(*words)

    def settings(device: Path) -> dict[str, str]:
        folder = Path("/sys/block") / device.name / "queue/iosched"
        return {name: (folder / name).read_text().strip() for name in IN_ORDER}

    try:
        device = Path(made["device"])
        assert block_queue.read_scheduler(device.name) == "mq-deadline"
        before = settings(device)
        with served_in_order(device) as kept:
            assert kept is None
            assert settings(device) == {name: str(value) for name, value in IN_ORDER.items()}
            # The kernel holds what the drive does not.
            found = block_device(device)
            assert found.most_in_flight > found.queue_depth
            assert len(found.reads(found.random_sectors(64), depth=12)) == 64
        del found
        assert settings(device) == before
    finally:
        headrace("drive", "detach", made["device"])


def learnt_by_writes(drive: Path, path: Path) -> dict[str, Any]:
    made = headrace("drive", "attach", str(drive), "--memory", "512MiB", "--json")
    try:
        words = ("drive", "learn", made["device"], "--out", str(path), "--minutes", "0.5")
        return headrace(*words, "--kind", "ssd", "--write-to", made["device"], "--json")
    finally:
        headrace("drive", "detach", made["device"])


@pytest.mark.slow
@pytest.mark.quiet(seconds=56)  # times of requests are measured
def test_an_empty_ssd_is_learnt_by_writes_through_the_kernel(tmp_path: Path) -> None:
    """Half a minute: it is written, so that reads need its flash, and read."""
    hidden = tmp_path / "hidden.toml"
    hidden.write_text(
        'kind = "ssd"\nname = "hidden"\ncapacity_bytes = 268_435_456\n'
        "link_bytes_per_s = 250e6\nqueue_depth = 32\n"
        "controller = { read_overhead_us = 300.0, write_overhead_us = 400.0,"
        " read_iops_max = 50e3, write_iops_max = 50e3 }\n"
        "flash = { channels = 2, dies_per_channel = 2, page_bytes = 4096, pages_per_block = 128,"
        " read_us = 600.0, program_us = 2000.0, erase_us = 3000.0,"
        " channel_bytes_per_s = 100e6 }\n"
        'initial = { state = "fresh" }\n[source]\nkind = "a test"\n'
    )
    found = learnt_by_writes(hidden, tmp_path / "learnt.toml")
    value = {each["name"]: each["value"] for each in found["values"]}
    # Without writes nothing of the flash would be read: 0.3 ms, not 0.9 ms and the transfers.
    assert value["latency of a read of 4 KiB"] == pytest.approx(960, rel=0.2)
    # Four dies program 4 KiB in 2 ms each.
    assert value["sustained writes"] == pytest.approx(8.2, rel=0.2)
    assert value["flash.program_us"] == pytest.approx(2000, rel=0.3)
    assert found["written_bytes"] > 64 << 20
    # Where other drives are emulated at once, loads that were slowed are measured again: without
    # it, 4.6 and 10.5 % were seen, the latter with six dies instead of four. On a machine that is
    # too busy for that, no number of dies is said to be sure.
    told = {each["name"]: each for each in found["values"] if not each["doubt"]}
    assert value["error of the model"] < 5 or "dies" not in told, found
    assert told.get("dies", {"value": 4})["value"] == 4, found
    # How they divide into channels hardly any load of the script tells.
    assert told.get("flash.channels", {"value": 2})["value"] == 2, found
    assert not found["others"]


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Path]:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(80 << 20)
    made = attach(str(image))
    yield made
    subprocess.run(["losetup", "--detach", str(made)], check=True)


def refused(*words: str, code: int) -> str:
    done = run_command(("drive", "learn", *words))
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join(done.stderr.split())


def test_only_an_empty_unused_device_that_is_named_again_is_written(
    loop: Path, tmp_path: Path
) -> None:
    words = (str(loop), "--out", str(tmp_path / "x.toml"), "--write-to")
    assert "not the device that is learnt" in refused(*words, "/dev/null", code=2)
    held = os.open(loop, os.O_RDONLY | os.O_EXCL)
    try:
        said = refused(*words, str(loop), code=4)
        assert "is in use: another program" in said
        assert "learn it without --write-to, which only reads it" in said
    finally:
        os.close(held)
    with loop.open("wb") as device:
        device.seek(4096)
        device.write(b"mine")
    assert "is not empty: it holds data of no known kind" in refused(*words, str(loop), code=4)
    subprocess.run(["mkfs.ext4", "-q", str(loop)], check=True)
    assert "is not empty: it holds ext4" in refused(*words, str(loop), code=4)
    assert not (tmp_path / "x.toml").exists()


def test_a_device_that_another_program_has_open_is_not_written(loop: Path) -> None:
    """A virtual machine does not claim the disk that it opens."""
    other = subprocess.Popen(["sleep", "60"], stdin=loop.open("rb"))
    try:
        with pytest.raises(RefusedError, match=rf"in use: opened by sleep \({other.pid}\)"):
            block_device(loop, writable=True)
    finally:
        other.kill()
        other.wait()
    assert block_device(loop, writable=True).writable


def attach(*words: str) -> Path:
    made = subprocess.run(
        ["losetup", "--find", "--show", *words], check=True, capture_output=True, text=True
    )
    return Path(made.stdout.strip())


def test_a_device_with_another_loop_device_of_its_data_is_not_written(
    loop: Path, tmp_path: Path
) -> None:
    """The kernel lets both be claimed: what the other one holds would be lost."""
    for backing in (loop, tmp_path / "image"):
        other = attach(str(backing))
        try:
            with pytest.raises(RefusedError, match=f"in use: the loop device {other}"):
                block_device(loop, writable=True)
        finally:
            subprocess.run(["losetup", "--detach", str(other)], check=True)


def add_partition(device: Path) -> None:
    """Tell the kernel of a partition without a table on the device (BLKPG of linux/blkpg.h)."""
    part = ctypes.create_string_buffer(struct.pack("=qqi64s64s4x", 2 << 20, 70 << 20, 1, b"", b""))
    handle = os.open(device, os.O_RDWR)
    try:
        fcntl.ioctl(handle, 0x1269, struct.pack("@iiiP", 1, 0, 152, ctypes.addressof(part)))
    finally:
        os.close(handle)


def test_a_device_with_partitions_in_use_or_not_is_not_written(tmp_path: Path) -> None:
    """Even if their table has been overwritten: what they hold is behind the first MiB."""
    (tmp_path / "disk").write_bytes(b"")
    os.truncate(tmp_path / "disk", 80 << 20)
    disk = attach("--partscan", str(tmp_path / "disk"))
    try:
        add_partition(disk)
        with pytest.raises(RefusedError, match=rf"it holds partitions \({disk.name}p1\)"):
            block_device(disk, writable=True)
        on_part = attach(f"{disk}p1")
        try:
            with pytest.raises(RefusedError, match=f"in use: the loop device {on_part}"):
                block_device(disk, writable=True)
        finally:
            subprocess.run(["losetup", "--detach", str(on_part)], check=True)
        other = subprocess.Popen(["sleep", "60"], stdin=disk.open("rb"))
        try:
            with pytest.raises(RefusedError, match="opened by sleep"):
                block_device(Path(f"{disk}p1"), writable=True)
        finally:
            other.kill()
            other.wait()
    finally:
        subprocess.run(["losetup", "--detach", str(disk)], check=True)


def test_a_read_only_device_is_not_written(loop: Path) -> None:
    subprocess.run(["blockdev", "--setro", str(loop)], check=True)
    try:
        with pytest.raises(RefusedError, match="is read-only"):
            block_device(loop, writable=True)
    finally:
        subprocess.run(["blockdev", "--setrw", str(loop)], check=True)


def test_a_request_that_fails_is_an_error_with_the_device(loop: Path, tmp_path: Path) -> None:
    device = block_device(loop)
    os.truncate(tmp_path / "image", 1 << 20)  # as a drive that is pulled out
    with pytest.raises(HeadraceError, match=f"{loop}: a read failed after 0 s: .*rror"):
        device.reads([64 << 10])


def test_a_link_that_changes_meanwhile_leads_to_no_other_device(
    loop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """udev may let a name of /dev/disk point elsewhere between a look and the opening."""
    link = tmp_path / "by id"
    link.symlink_to(loop)
    looked = signatures.holders

    def change(path: Path) -> list[str]:
        link.unlink(missing_ok=True)
        link.symlink_to("/dev/null")
        return looked(path)

    monkeypatch.setattr(signatures, "holders", change)
    assert block_device(link, writable=True).capacity_bytes == 80 << 20


def test_the_ends_of_a_device_are_not_written(loop: Path) -> None:
    """It is blank afterwards for those who look for what it holds."""
    device = block_device(loop, writable=True)
    device.writes(device.writable_sectors(50))
    with pytest.raises(ValueError, match="must not be written"):
        device.writes([0])
    del device
    assert block_device(loop, writable=True).written_bytes == 0
    with pytest.raises(ValueError, match="must not be written"):
        block_device(loop).writes([80 << 10])


def test_requests_of_other_programs_are_noticed(loop: Path) -> None:
    device = block_device(loop)
    device.reads(device.random_sectors(300))
    assert device.take_others("first") is None
    device.reads(device.random_sectors(300))
    other = block_device(loop, seed=1)
    other.reads(other.random_sectors(20))
    found = device.take_others("second")
    assert found is not None
    assert (found.requests, found.read_bytes, found.doubtful) == (20, 20 * 4096, True)
    device.reads(device.random_sectors(300))
    assert device.take_others("third") is None


def test_a_device_in_use_is_still_read(loop: Path) -> None:
    held = os.open(loop, os.O_RDONLY | os.O_EXCL)
    try:
        with pytest.raises(RefusedError, match="in use"):
            block_device(loop, writable=True)
        assert len(block_device(loop).reads([0, 8])) == 2
    finally:
        os.close(held)


def test_who_may_not_read_a_device_is_told_what_to_do(loop: Path) -> None:
    """The message is that of `learn`, with exit code 3, not one of the command line."""
    as_nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    words = ("drive", "learn", str(loop), "--out", "learnt.toml")
    done = subprocess.run(
        [*as_nobody, sys.executable, "-m", "headrace", *words],
        cwd="/tmp",
        env={**os.environ, "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "cannot be read by this user" in done.stderr
    assert "root or in its group" in " ".join(done.stderr.split())
