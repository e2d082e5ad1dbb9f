"""Options of the target `block`, and whether mount options are in force, as the kernel shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headrace.system.filesystems import not_in_force, usable_bytes
from headrace.system.mounts import Mount
from headrace.targets.block import BlockOptions


def options(**given: Any) -> BlockOptions:
    return BlockOptions.model_validate({"image": "disk.img", "size": "1 GB", **given})


def test_text_and_lists_mean_the_same() -> None:
    assert options(mkfs="-b 4096 -L 'my disk'").mkfs == ("-b", "4096", "-L", "my disk")
    assert options(mkfs=["-b", "4096"]).mkfs == ("-b", "4096")
    assert (
        options(mount="noatime,data=writeback").mount
        == options(mount=["noatime", "data=writeback"]).mount
    )


def test_an_image_is_relative_to_where_headrace_is_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert options().medium == tmp_path / "disk.img"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"image": None}, "none is given"),
        ({"device": "/dev/sdb"}, "given: device, image"),
        ({"image": None, "device": "/dev/sdb"}, "a device has its own size"),
        ({"filesystem": "zfs"}, "'ext3', 'ext4', 'xfs' or 'btrfs'"),
        ({"mkfs": "/dev/sda"}, "names a path"),
        ({"mkfs": "-l logdev=/dev/sda1"}, "names a path"),
        ({"mount": "noatime,remount"}, "remount"),
        ({"mount": "bind"}, "bind"),
        ({"mount": "logdev=/dev/sda1"}, "logdev"),
        ({"size": "1 GW"}, "not a unit of size"),
        ({"raid": {"level": 7}}, "level"),
        ({"shedule": "none"}, "shedule"),
    ],
)
def test_mistakes_are_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        options(**given)


def mounted(*shown: str) -> Mount:
    return Mount(1, "7:0", "/", Path("/m"), "ext4", "/dev/loop0", shown, ("rw",))


@pytest.mark.parametrize(
    ("asked", "shown", "in_force"),
    [
        (["noatime"], ["rw", "noatime"], True),
        (["noatime"], ["rw", "relatime"], False),
        (["defaults", "rw", "strictatime"], ["rw"], True),
        (["data=ordered"], ["rw", "relatime"], True),
        (["data=journal"], ["rw", "data=ordered"], False),
        (["logbsize=32768"], ["rw", "logbsize=32k"], True),
        (["logbsize=64k"], ["rw", "logbsize=32k"], False),
        (["compress=zstd"], ["rw", "compress=zstd:3"], True),
        (["barrier"], ["rw", "nobarrier"], False),
        (["nobarrier"], ["rw", "barrier"], False),
        (["discard"], ["rw", "discard=async"], True),
    ],
)
def test_options_in_force(asked: list[str], shown: list[str], in_force: bool) -> None:
    assert (not_in_force(asked, mounted(*shown)) is None) == in_force


@pytest.mark.parametrize("kind", ["ext3", "ext4", "xfs", "btrfs"])
def test_room_for_data_is_less_than_the_device(kind: str) -> None:
    for size in (1 << 20, 1 << 30, 1 << 40):
        assert 0 <= usable_bytes(kind, size) < size
    assert usable_bytes(kind, 1 << 40) > 0.8 * (1 << 40)
