"""Discards of a filesystem reach the map of an emulated SSD and change what later writes cost; the
simulation of the same target agrees."""

from __future__ import annotations

import json
import mmap
import os
import random
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace import _core
from headrace.targets import TargetContext
from headrace.targets.block import BlockOptions, BlockTarget

MIB = 1 << 20
SIZE = 512 * MIB
FILE = 64 * MIB
WRITES = 1000
USED = 2.5
"""Least write amplification of a drive that is in use throughout; with 7 % of spare space, writes
everywhere on it amplify 7.8 times, those within an eighth of it less."""
EMPTY = 1.1
"""Most write amplification of a drive with room."""

DRIVE = """
kind = "ssd"
name = "used-ssd"
capacity_bytes = 536870912
link_bytes_per_s = 500e6
spare_ratio = 0.07
initial = { state = "steady", fill = 1.0 }

[controller]
read_overhead_us = 100.0
write_overhead_us = 100.0
read_iops_max = 90e3
write_iops_max = 30e3

[flash]
channels = 2
dies_per_channel = 2
page_bytes = 4096
pages_per_block = 64
read_us = 50.0
program_us = 30.0
erase_us = 500.0
channel_bytes_per_s = 400e6
"""


@contextmanager
def mounted(context: TargetContext, options: BlockOptions) -> Generator[tuple[Path, BlockTarget]]:
    target = BlockTarget("ssd", options)
    try:
        location = target.prepare(context)
        assert location.directory is not None
        yield location.directory, target
    finally:
        target.release(context)


def options_of(tmp_path: Path, **given: Any) -> BlockOptions:
    """A target on the used drive. Fields of the drive: `drive_fields`."""
    file = tmp_path / "used-ssd.toml"
    file.write_text(given.pop("drive_fields", "") + DRIVE)
    return BlockOptions.model_validate({"drive": str(file), "size": str(SIZE), **given})


def flash_bytes(target: BlockTarget) -> tuple[int, int]:
    assert target._emulated is not None  # pyright: ignore[reportPrivateUsage]
    (device,) = target._emulated.devices  # pyright: ignore[reportPrivateUsage]
    report = device.report()
    return report.flash_host_bytes, report.flash_written_bytes


def overwrite(directory: Path, target: BlockTarget) -> float:
    """Write at random places of a file, past the page cache; return the write amplification."""
    file = directory / "data"
    page = mmap.mmap(-1, 4096)
    page.write(os.urandom(4096))
    if not file.exists():
        file.write_bytes(bytes(FILE))
    os.sync()
    before = flash_bytes(target)
    places = random.Random(1)
    handle = os.open(file, os.O_WRONLY | os.O_DIRECT)
    try:
        for _ in range(WRITES):
            os.pwrite(handle, page, places.randrange(FILE // 4096) * 4096)
        os.fsync(handle)
    finally:
        os.close(handle)
    host, flash = (now - then for now, then in zip(flash_bytes(target), before, strict=True))
    assert host >= WRITES * 4096
    return flash / host


def simulated(options: BlockOptions) -> float:
    """The write amplification of the same writes in virtual time."""
    model = BlockTarget("ssd", options).model(None)
    write = {"do": "pattern", "file": "data", "op": "write", "access": "direct", "count": WRITES}
    scenario = {
        "seed": 1,
        "nodes": [
            {"name": "node", "cores": 2, "memory_bytes": 4 << 30, "volumes": model.node_volumes}
        ],
        "files": [{"name": "data", "on": model.place, "bytes": FILE, "count": 1}],
        "profiles": [
            {
                "name": "job",
                "memory_bytes": 1 << 20,
                "steps": [
                    {"do": "open", "file": "data"},
                    {
                        **write,
                        "length_bytes": 4096,
                        "span_bytes": FILE,
                        "order": {"kind": "random"},
                    },
                    {"do": "close", "file": "data"},
                ],
            }
        ],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}},
    }
    (drive,) = json.loads(_core.simulate_json(json.dumps(scenario)))["drives"]
    return drive["flash_written_bytes"] / drive["flash_host_bytes"]


@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize("filesystem", ["ext4", "xfs"])
@pytest.mark.parametrize("mkfs", ["", "-K"])
def test_making_a_filesystem_empties_a_used_drive_and_the_simulation_agrees(
    context: TargetContext, tmp_path: Path, filesystem: str, mkfs: str
) -> None:
    options = options_of(tmp_path, filesystem=filesystem, mkfs=mkfs)
    virtual = simulated(options)
    with mounted(context, options) as (directory, target):
        measured = overwrite(directory, target)
        if mkfs:
            assert min(measured, virtual) > USED, (measured, virtual)
            subprocess.run(["fstrim", str(directory)], check=True)
            trimmed = overwrite(directory, target)
            assert trimmed < EMPTY, (trimmed, measured)
        else:
            assert max(measured, virtual) < EMPTY, (measured, virtual)


@pytest.mark.usefixtures("needs_root")
def test_removed_files_are_discarded_with_that_mount_option(
    context: TargetContext, tmp_path: Path
) -> None:
    options = options_of(tmp_path, mkfs="-K", mount="discard")
    with mounted(context, options) as (directory, target):
        # A third of the drive, written and removed.
        large = directory / "large"
        large.write_bytes(bytes(SIZE // 3))
        os.sync()
        large.unlink()
        # ext4 discards what a transaction freed once that is committed.
        os.sync()
        assert overwrite(directory, target) < EMPTY


@pytest.mark.usefixtures("needs_root")
def test_a_drive_without_trim_keeps_its_state(context: TargetContext, tmp_path: Path) -> None:
    options = options_of(tmp_path, drive_fields="trim = false\n")
    virtual = simulated(options)
    with mounted(context, options) as (directory, target):
        measured = overwrite(directory, target)
        trim = subprocess.run(["fstrim", str(directory)], capture_output=True, text=True)
    assert min(measured, virtual) > USED, (measured, virtual)
    assert trim.returncode != 0
    assert "not supported" in trim.stderr
