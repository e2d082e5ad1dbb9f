"""A target whose medium is a drive of the catalog, under the real kernel.

It comes to be, takes every fault of drives, and leaves nothing.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.faults import kinds
from headrace.system import page_cache
from headrace.targets import Location, TargetContext
from headrace.targets.block import BlockOptions, BlockTarget
from machine import mounts_below

pytestmark = pytest.mark.usefixtures("needs_root")

DISK, SSD = "seagate-st3750640ns", "mtron-msp-sata7035064"
FILE_BYTES = 48 << 20


def target(**more: Any) -> BlockTarget:
    options = {"drive": SSD, "size": "256 MiB", **more}
    made = BlockTarget("disk", BlockOptions.model_validate(options))
    assert not made.check(frozenset()), "emulated drives need root, FUSE and a free loop device"
    return made


def fault(what: str, **more: Any) -> Any:
    kind = kinds()[what]
    return kind(kind.Options.model_validate({"what": what, **more}))


def written(location: Location) -> Path:
    assert location.directory is not None
    file = location.directory / "data"
    if not file.exists():
        with file.open("wb") as open_file:
            open_file.write(os.urandom(FILE_BYTES))
            open_file.flush()
            os.fsync(open_file.fileno())
    return file


def read_s(file: Path, struck: Callable[[], None] = lambda: None) -> float:
    """Time to read some of the file's pages from the device, after a fault was injected.

    Raises OSError.
    """
    page_cache.drop_files([file])
    descriptor = os.open(file, os.O_RDONLY)
    try:
        struck()
        begun = time.monotonic()
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        for place in random.sample(
            range(FILE_BYTES // 4096), 16
        ):  # elsewhere each time: drives have caches
            os.pread(descriptor, 4096, place * 4096)
        return time.monotonic() - begun
    finally:
        os.close(descriptor)


@pytest.fixture
def ssd(context: TargetContext) -> Iterator[Location]:
    made = target()
    yield made.prepare(context)
    made.release(context)
    made.release(context)
    assert (
        mounts_below(context.work_dir) == []
        and context.journal.open_entries == context.journal.open_entries[:1]
    )


def test_it_is_a_block_device_of_its_own_that_says_what_it_is(ssd: Location) -> None:
    assert ssd.provenance == "emulated" and ssd.own_device and len(ssd.emulated) == 1
    assert ssd.device_names == (ssd.emulated[0].name,)
    assert ssd.description["medium"] == f"emulated {SSD}"
    read_s(written(ssd))
    report = ssd.emulated[0].report()
    assert report.reads >= 16 and report.writes > 0 and not report.full


@pytest.mark.quiet  # times are compared
def test_faults_of_requests_fire_and_end(ssd: Location, context: TargetContext) -> None:
    file = written(ssd)
    plain_s = read_s(file)
    for what, options, least_s in (
        ("latency-spike", {"extra": "20 ms"}, 0.32),
        ("slow-drive", {"factor": 200}, 3 * plain_s),
        ("stall", {"duration": "700 ms"}, 0.6),
    ):
        struck = fault(what, **options)
        taken_s = read_s(file, partial(struck.inject, ssd, context.journal))
        struck.lift()
        struck.lift()
        assert struck.fired > 0, what
        assert taken_s > least_s, f"{what}: {taken_s:.3f} s, {plain_s:.3f} s without it"
    for what, options in (("media-error", {"access": "read"}), ("drop-off", {})):
        struck = fault(what, **options)
        with pytest.raises(OSError):
            read_s(file, partial(struck.inject, ssd, context.journal))
        struck.lift()
        assert struck.fired > 0, what
        read_s(file)


def test_what_was_made_safe_outlives_a_loss_of_power(ssd: Location, context: TargetContext) -> None:
    file = written(ssd)
    kept = file.read_bytes()
    loss = fault("power-loss", duration="300 ms", witness="20 ms")
    loss.begin(ssd, context.journal)
    time.sleep(0.5)
    assert ssd.directory is not None
    (ssd.directory / "unsafe").write_bytes(b"\1" * (1 << 20))
    loss.inject(ssd, context.journal)
    time.sleep(0.5)
    loss.lift()
    loss.end(ssd, context.journal)
    assert loss.fired > 0
    assert loss.seen["acknowledged_writes"] >= 5 and loss.seen["lost_writes"] == 0
    assert loss.seen["file_system"].startswith(("clean", "put right"))
    assert file.read_bytes() == kept, "mounted again, with what had been forced to the drive"


@pytest.mark.parametrize(
    ("what", "options"), [("degraded", {"drive": 1}), ("rebuild", {"drive": 0})]
)
def test_a_mirror_goes_on_without_a_drive(
    what: str, options: dict[str, Any], context: TargetContext
) -> None:
    made = target(raid={"level": 1, "drives": 2})
    location = made.prepare(context)
    file = written(location)
    struck = fault(what, **options)
    struck.inject(location, context.journal)
    read_s(file)
    struck.lift()
    made.release(context)
    assert struck.fired == 1


@pytest.mark.parametrize("level", [0, 1])
def test_the_kernels_raid_over_several_emulated_drives(level: int, context: TargetContext) -> None:
    made = target(
        filesystem="btrfs", size="512 MiB", raid={"level": level, "drives": 2, "by": "kernel"}
    )
    assert made.unsupported() is None
    location = made.prepare(context)
    file = written(location)
    kept = file.read_bytes()
    assert len(location.emulated) == 2 and set(location.device_names) == {
        each.name for each in location.emulated
    }
    assert all(device.report().writes > 0 for device in location.emulated)
    if level == 1:
        gone = fault("drop-off", drive=1)
        gone.inject(location, context.journal)
        read_s(file)
        assert file.read_bytes() == kept, "the other drive has it"
        gone.lift()
    made.release(context)


@pytest.mark.quiet  # times are compared
def test_a_disk_is_slower_than_an_ssd(context: TargetContext) -> None:
    taken: dict[str, float] = {}
    for drive in (DISK, SSD):
        made = target(drive=drive)
        location = made.prepare(context)
        file = written(location)
        taken[drive] = min(read_s(file) for _ in range(3))
        made.release(context)
    assert taken[DISK] > 3 * taken[SSD], taken


def test_more_data_than_memory_is_refused_beforehand() -> None:
    target()
    made = BlockTarget("disk", BlockOptions.model_validate({"drive": DISK, "size": "700 GB"}))
    (problem,) = made.check(frozenset())
    assert problem.fatal and "kept in memory" in problem.what and "memory = " in problem.remedy
    made = BlockTarget(
        "disk", BlockOptions.model_validate({"drive": DISK, "size": "700 GB", "memory": "256 MiB"})
    )
    assert made.check(frozenset()) == []
