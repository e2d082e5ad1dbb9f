"""Target `block` on real loop devices: every file system, every scheduler.

What it refuses; what it leaves behind (nothing).
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import ExitCode, HeadraceError, RefusedError, UnsupportedLevelError
from headrace.system import block_queue, devices, filesystems
from headrace.system.loops import attach
from headrace.system.mounts import mount_of
from headrace.system.owned import make_file
from headrace.system.signatures import contents, read_signature
from headrace.targets import TargetContext
from headrace.targets.block import BlockOptions, BlockTarget
from machine import loops_below, mounts_below, queue_of

pytestmark = pytest.mark.usefixtures("needs_root")

SIZE = {"ext3": "64 MiB", "ext4": "64 MiB", "xfs": "320 MiB", "btrfs": "160 MiB"}


def target(folder: Path, **options: Any) -> BlockTarget:
    given = {"image": str(folder / "disk.img"), "size": "64 MiB", **options}
    return BlockTarget(
        "disk", BlockOptions.model_validate({k: v for k, v in given.items() if v is not None})
    )


@pytest.fixture
def device(context: TargetContext, tmp_path: Path) -> Path:
    """A block device that belongs to nobody, as a user's own would."""
    file = tmp_path / "device.img"
    make_file(context.journal, file, 64 << 20)
    return attach(context.journal, file).device


def partition_it(path: Path) -> None:
    """Writes a master boot record with one Linux partition of 32 MiB."""
    with path.open("r+b") as file:
        file.seek(446)
        file.write(
            struct.pack("<8B2I", 0, 0, 2, 0, 0x83, 0, 0, 0, 2048, 65536) + bytes(48) + b"\x55\xaa"
        )


@pytest.mark.parametrize("filesystem", sorted(SIZE))
def test_every_filesystem_with_every_scheduler(
    filesystem: str, context: TargetContext, tmp_path: Path
) -> None:
    disk = target(tmp_path, filesystem=filesystem, size=SIZE[filesystem], mount="noatime,nodev")
    assert disk.check(frozenset()) == []
    promised = disk.free_bytes()
    location = disk.prepare(context)
    try:
        directory = location.directory
        assert directory is not None
        (name,) = location.device_names
        before = queue_of(name)
        mounted = mount_of(directory)
        assert mounted.filesystem == filesystem
        assert {"noatime", "nodev"} <= set(mounted.options)
        assert location.description["filesystem"] == filesystem
        assert location.description["loop_direct_io"] is True
        assert promised is not None
        (directory / "data").write_bytes(b"\1" * (promised // 2))

        offered = block_queue.schedulers(name)
        assert len(offered) > 1
        for scheduler in offered:
            asked = disk.options.model_copy(
                update={"scheduler": scheduler, "read_ahead": 65536, "queue_depth": 24}
            )
            settings = {setting.name: setting for setting in disk.apply(asked, context)}
            assert all(setting.applied for setting in settings.values()), settings
            assert settings["scheduler"].before == before[0]
            assert disk.read_settings() == {
                "scheduler": scheduler,
                "read_ahead": 65536,
                "queue_depth": 24,
            }
            assert block_queue.read_scheduler(name) == scheduler
            assert block_queue.read_depth(name) == 24
    finally:
        disk.release(context)
    disk.release(context)
    assert queue_of(name) == before
    assert mounts_below(tmp_path) == []
    assert loops_below(tmp_path) == []
    assert not (tmp_path / "disk.img").exists()


def test_a_level_that_cannot_be_had_is_never_another(
    context: TargetContext, tmp_path: Path
) -> None:
    disk = target(tmp_path)
    disk.prepare(context)
    try:
        before = disk.read_settings()
        asked = disk.options.model_copy(
            update={"scheduler": "cfq", "queue_depth": 100_000, "read_ahead": 1000}
        )
        settings = {setting.name: setting for setting in disk.apply(asked, context)}
        assert not any(setting.applied for setting in settings.values())
        assert 'no scheduler "cfq"' in settings["scheduler"].reason
        assert "mq-deadline" in settings["scheduler"].reason
        assert "from 4 to 128" in settings["queue_depth"].reason
        assert "whole KiB" in settings["read_ahead"].reason
        assert disk.read_settings() == before
        (odd,) = disk.apply(disk.options.model_copy(update={"read_ahead": 1024}), context)
        assert not odd.applied, "the kernel keeps whole pages: 1 KiB becomes 0"
        assert odd.after == 0
    finally:
        disk.release(context)


def test_a_mounted_device_is_refused_even_by_force(
    context: TargetContext, device: Path, tmp_path: Path
) -> None:
    subprocess.run(["mkfs.ext4", "-q", "-F", str(device)], check=True)
    first = target(tmp_path)
    location = first.prepare(context)
    (name,) = location.device_names
    other = target(tmp_path, image=None, size=None, device=f"/dev/{name}")
    for forced in (frozenset[str](), frozenset({f"/dev/{name}"})):
        (problem,) = other.check(forced)
        assert problem.fatal
        assert f"in use: mounted on {location.directory}" in problem.what
        with pytest.raises(RefusedError, match="in use"):
            other.prepare(replace(context, forced_devices=forced))
    assert location.directory is not None
    assert location.directory.is_mount()
    first.release(context)


def test_a_device_in_use_by_a_program_is_refused(
    context: TargetContext, device: Path, tmp_path: Path
) -> None:
    handle = os.open(device, os.O_RDWR | os.O_EXCL)
    try:
        with pytest.raises(RefusedError, match="in use: another program"):
            target(tmp_path, image=None, size=None, device=str(device)).prepare(context)
    finally:
        os.close(handle)


def test_a_device_that_a_program_has_open_without_a_claim_is_refused(
    context: TargetContext, device: Path, tmp_path: Path
) -> None:
    """As a virtual machine has its disk: the kernel would let both write."""
    disk = target(tmp_path, image=None, size=None, device=str(device))
    other = subprocess.Popen(["sleep", "60"], stdin=device.open("rb"))
    try:
        (problem,) = disk.check(frozenset({str(device)}))
        assert f"in use: opened by sleep ({other.pid})" in problem.what
        with pytest.raises(RefusedError, match="opened by sleep"):
            disk.prepare(context)
        assert contents(device) is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.parametrize("holds", ["file system", "partition table", "unknown data"])
def test_a_device_that_is_not_empty_needs_force(
    holds: str, context: TargetContext, device: Path, tmp_path: Path
) -> None:
    if holds == "file system":
        subprocess.run(["mkfs.ext4", "-q", "-F", "-L", "thesis", str(device)], check=True)
        said = 'ext4 named "thesis"'
    elif holds == "partition table":
        partition_it(device)
        said = "a partition table (dos)"
    else:
        with device.open("r+b") as file:
            file.seek(-5000, os.SEEK_END)
            file.write(b"something")
        said = "data of no known kind"
    before = device.read_bytes()
    disk = target(tmp_path, image=None, size=None, device=str(device))
    (problem,) = disk.check(frozenset())
    assert problem.what == f"{device} is not empty: it holds {said}"
    assert problem.remedy == f"if that may be lost, add --force-device {device}"
    with pytest.raises(RefusedError) as caught:
        disk.prepare(context)
    assert caught.value.exit_code == ExitCode.REFUSED
    assert device.read_bytes() == before

    forced = frozenset({str(device)})
    assert disk.check(forced) == []
    disk.prepare(replace(context, forced_devices=forced))
    disk.release(context)
    assert contents(device) is None, "what Headrace formatted is blank again"


def test_a_blank_device_is_blank_again(
    context: TargetContext, device: Path, tmp_path: Path
) -> None:
    for filesystem in ("ext3", "ext4"):
        disk = target(tmp_path, image=None, size=None, device=str(device), filesystem=filesystem)
        location = disk.prepare(context)
        assert location.device_names == (device.name,)
        signature = read_signature(device)
        assert signature is not None
        assert signature.type == filesystem
        disk.release(context)
        assert contents(device) is None
        assert device.name in loops_below(tmp_path), "the device itself is the user's"


def test_a_file_of_the_users_is_never_formatted(context: TargetContext, tmp_path: Path) -> None:
    file = tmp_path / "higgs.root"
    with file.open("wb") as handle:  # nothing at both ends, and something precious between
        handle.truncate(64 << 20)
        handle.seek(32 << 20)
        handle.write(b"events")
    disk = target(tmp_path, image=str(file), size=None)
    with pytest.raises(RefusedError, match="data of no known kind"):
        disk.prepare(context)
    with file.open("rb") as handle:
        handle.seek(32 << 20)
        assert handle.read(6) == b"events"


def test_a_blank_image_of_the_users_is_used_and_kept(
    context: TargetContext, tmp_path: Path
) -> None:
    file = tmp_path / "mine.img"
    file.touch()
    os.truncate(file, 64 << 20)
    inode = file.stat().st_ino
    disk = target(tmp_path, image=str(file), size=None)
    location = disk.prepare(context)
    assert location.directory is not None
    (location.directory / "data").write_bytes(bytes(1000))
    disk.release(context)
    assert file.stat().st_ino == inode
    assert read_signature(file) is None


@pytest.mark.parametrize(
    ("options", "what", "remedy"),
    [
        (
            {"image": None, "size": None, "device": "/dev/no-such"},
            "the device /dev/no-such is missing",
            "lsblk",
        ),
        (
            {"image": None, "size": None, "device": "/dev/null"},
            "/dev/null is not a block device",
            "name a block device",
        ),
        ({"size": None}, "is missing and no size is given", 'size = "4 GiB"'),
        (
            {"image": "/no/such/folder/disk.img"},
            "the directory /no/such/folder for the image is missing",
            "mkdir -p",
        ),
        ({"size": "1 PB"}, "free, the image takes 1.00 PB", "free some space"),
        ({"filesystem": "xfs"}, "64 MiB is too small for xfs", "give 300 MiB at least"),
        (
            {"image": None, "size": "1 PB", "drive": "wd-wd3200bekt"},
            "holds 1.00 PB is kept in memory",
            "(memory =",
        ),
    ],
)
def test_problems_are_found_before_anything_starts(
    options: dict[str, Any], what: str, remedy: str, context: TargetContext, tmp_path: Path
) -> None:
    disk = target(tmp_path, **options)
    problems = [problem for problem in disk.check(frozenset()) if problem.fatal]
    assert len(problems) == 1, problems
    assert what in problems[0].what
    assert remedy in problems[0].remedy
    entries = len(context.journal.open_entries)
    with pytest.raises(HeadraceError):
        disk.prepare(context)
    assert len(context.journal.open_entries) == entries
    disk.release(context)


def test_a_missing_mkfs_is_an_unsupported_level(
    context: TargetContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("mount", "blkid", "setpriv"):
        found = filesystems.find_program(name)
        assert found is not None
        (programs / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr("headrace.system.requirements._SYSTEM_FOLDERS", "")
    disk = target(tmp_path, filesystem="xfs", size="320 MiB")
    assert (
        disk.unsupported()
        == "xfs: the program mkfs.xfs is not installed (apt-get install xfsprogs)"
    )
    (problem,) = disk.check(frozenset())
    assert not problem.fatal
    assert problem.level == ("filesystem", "xfs")
    assert problem.remedy == "apt-get install xfsprogs"
    with pytest.raises(UnsupportedLevelError, match="xfsprogs"):
        disk.prepare(context)


@pytest.mark.parametrize(
    "options",
    [
        {"mount": "no_such_option"},
        {"mkfs": "-O no_such_feature"},
        {"mount": ["data=journal", "dioread_nolock=2"]},
    ],
)
def test_options_that_are_not_understood_are_unsupported(
    options: dict[str, Any], context: TargetContext, tmp_path: Path
) -> None:
    disk = target(tmp_path, **options)
    with pytest.raises(UnsupportedLevelError):
        disk.prepare(context)
    assert not (tmp_path / "disk.img").exists()
    assert loops_below(tmp_path) == []


def test_mkfs_options_take_effect(context: TargetContext, tmp_path: Path) -> None:
    disk = target(
        tmp_path, mkfs=["-b", "1024", "-E", "stride=16"], mount=["data=writeback", "noatime"]
    )
    location = disk.prepare(context)
    assert location.description["block_bytes"] == 1024
    assert "data=writeback" in location.description["mount_options"]
    disk.release(context)


def test_the_device_stack_of_a_loop_is_described(context: TargetContext, tmp_path: Path) -> None:
    disk = target(tmp_path)
    location = disk.prepare(context)
    (name,) = location.device_names
    described = devices.describe(name)
    assert described.kind == "loop"
    assert described.detail == str(tmp_path / "disk.img")
    assert described.size_bytes == 64 << 20
    assert location.description["image_storage"]["filesystem"] == mount_of(tmp_path).filesystem
    disk.release(context)


@pytest.fixture
def partition(context: TargetContext, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A disk with one partition, as a user's own would be: both devices."""
    file = tmp_path / "partitioned.img"
    file.touch()
    os.truncate(file, 64 << 20)
    partition_it(file)
    context.journal.begin("detach_loop", file=str(file), inode=file.stat().st_ino)
    attach_it = ["losetup", "--find", "--show", str(file)]
    whole = Path(
        subprocess.run(attach_it, check=True, capture_output=True, text=True).stdout.strip()
    )
    part = whole.with_name(f"{whole.name}p1")
    subprocess.run(
        ["addpart", str(whole), "1", "2048", "65536"], check=True
    )  # not every kernel reads every table
    try:
        yield whole, part
    finally:
        subprocess.run(["delpart", str(whole), "1"], check=True)


def test_a_partition_of_a_disk(
    partition: tuple[Path, Path], context: TargetContext, tmp_path: Path
) -> None:
    whole, part = partition
    disk = target(tmp_path, image=None, size=None, device=str(part))
    location = disk.prepare(context)
    assert location.device_names == (part.name,)
    before = queue_of(whole.name)
    asked = disk.options.model_copy(
        update={"scheduler": "bfq", "queue_depth": 16, "read_ahead": 32768}
    )
    assert all(setting.applied for setting in disk.apply(asked, context))
    assert (block_queue.read_scheduler(whole.name), block_queue.read_depth(whole.name)) == (
        "bfq",
        16,
    )
    (described,) = location.description["devices"]
    assert (described["kind"], described["below"][0]["name"]) == ("partition", whole.name)
    forced = frozenset({str(whole)})
    (problem,) = target(tmp_path, image=None, size=None, device=str(whole)).check(forced)
    assert f"in use: mounted on {location.directory}" in problem.what, "one of its partitions is"
    disk.release(context)
    assert queue_of(whole.name) == before
    (problem,) = target(tmp_path, image=None, size=None, device=str(whole)).check(frozenset())
    assert "holds a partition table (dos)" in problem.what
