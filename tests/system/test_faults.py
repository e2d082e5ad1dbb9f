"""Faults on a real loop device: they take effect, are counted, and leave nothing behind."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from headrace.errors import UnsupportedLevelError
from headrace.faults import kinds
from headrace.faults.disk_full import DiskFull, DiskFullOptions
from headrace.faults.throttle import Throttle, ThrottleOptions
from headrace.system import page_cache
from headrace.system.cgroups import hierarchy
from headrace.system.mounts import mount
from headrace.targets import Location, TargetContext
from headrace.targets.block import BlockOptions, BlockTarget

pytestmark = pytest.mark.usefixtures("needs_root")


def disk_in(folder: Path, filesystem: str = "ext4") -> BlockTarget:
    options = {
        "image": str(folder / "disk.img"),
        "size": "320 MiB" if filesystem == "xfs" else "64 MiB",
        "filesystem": filesystem,
    }
    return BlockTarget("disk", BlockOptions.model_validate(options))


def read_s(file: Path) -> float:
    page_cache.drop_files([file])
    start = time.monotonic()
    assert len(file.read_bytes()) == 8 << 20
    return time.monotonic() - start


@pytest.mark.quiet  # a rate is measured
def test_throttle_bounds_the_device_and_only_while_it_lasts(
    context: TargetContext, tmp_path: Path
) -> None:
    disk = disk_in(tmp_path)
    location = disk.prepare(context)
    assert location.directory is not None
    file = location.directory / "data"
    file.write_bytes(b"\1" * (8 << 20))
    entries = len(context.journal.open_entries)

    fault = Throttle(ThrottleOptions.model_validate({"what": "throttle", "read_rate": "8 MiB/s"}))
    assert fault.check() == []
    fault.inject(location, context.journal)
    assert fault.fired == 1
    throttled_s = read_s(file)
    assert 0.8 < throttled_s < 2.5, "8 MiB at 8 MiB/s"
    fault.lift()
    fault.lift()
    assert read_s(file) < throttled_s / 2
    assert len(context.journal.open_entries) == entries
    place = hierarchy("blkio")
    if place is not None:
        assert (place.top / "blkio.throttle.read_bps_device").read_text() == ""
    disk.release(context)


@pytest.mark.parametrize("filesystem", ["ext3", "ext4", "xfs"])
@pytest.mark.parametrize("free", [0, 4 << 20])
def test_disk_full_leaves_what_was_asked(
    filesystem: str, free: int, context: TargetContext, tmp_path: Path
) -> None:
    disk = disk_in(tmp_path, filesystem)
    location = disk.prepare(context)
    assert location.directory is not None
    fault = DiskFull(DiskFullOptions.model_validate({"what": "disk-full", "free": free}))
    assert fault.check() == []
    fault.inject(location, context.journal)
    assert fault.fired == 1
    written = 0
    with (
        pytest.raises(OSError) as caught,
        (location.directory / "data").open("wb", buffering=0) as file,
    ):
        while written < 64 << 20:
            written += file.write(b"\1" * 65536)
    assert caught.value.errno == errno.ENOSPC
    assert free * 0.8 <= written <= free + (256 << 10)
    (location.directory / "data").unlink(missing_ok=True)  # xfs has no room for the inode either
    fault.lift()
    fault.lift()
    (location.directory / "data").write_bytes(b"\1" * (16 << 20))
    disk.release(context)


def test_faults_without_a_device(context: TargetContext, tmp_path: Path) -> None:
    place = tmp_path / "mounted"
    place.mkdir()
    entry = mount(context.journal, "headrace-test", place, "tmpfs", ["size=1m"])
    with pytest.raises(UnsupportedLevelError, match="no block device"):
        Throttle(ThrottleOptions.model_validate({"what": "throttle", "read_iops": 10})).inject(
            Location(place), context.journal
        )
    with pytest.raises(UnsupportedLevelError, match="not a directory"):
        DiskFull(DiskFullOptions(what="disk-full")).inject(
            Location(None, url="s3://x"), context.journal
        )  # pyright: ignore[reportCallIssue]
    context.journal.undo(entry)


def test_the_registry_finds_them() -> None:
    assert {"throttle", "disk-full"} <= kinds().keys()


def test_a_throttle_without_a_bound_is_refused() -> None:
    with pytest.raises(ValueError, match="name at least one"):
        ThrottleOptions.model_validate({"what": "throttle"})
