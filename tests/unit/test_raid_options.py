"""How a study says how its RAID is served: md's stripe cache and bitmap, or a controller."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from headrace.site import SiteDrive
from headrace.system.emulator import queue_shape
from headrace.targets.block import BlockTarget, Raid
from headrace.targets.exports import ModelledRaid
from headrace.targets.scenario import site_volume, storage

CONTROLLER = "lsi-megaraid-9260-8i"


def modelled(**raid: Any) -> dict[str, Any]:
    """Return the RAID of a scenario for a target with these options."""
    options = {"drive": "sata-7200-500gb", "raid": {"level": 5, "drives": 4, **raid}}
    target = BlockTarget("array", BlockTarget.Options.model_validate(options))
    (volume,) = target.model(None).node_volumes
    return {**volume, "raid": dict(volume["storage"]["raid"])}


def test_what_the_model_gets() -> None:
    plain = modelled()
    assert plain["raid"] == {"level": 5, "drives": 4, "chunk_bytes": 65_536}
    assert modelled(stripe_cache=4096)["raid"]["stripe_cache_bytes"] == 16 << 20
    assert modelled(bitmap="internal")["raid"]["bitmap_chunk_bytes"] == 64 << 20
    assert (
        modelled(bitmap="internal", bitmap_chunk="1 MiB")["raid"]["bitmap_chunk_bytes"] == 1 << 20
    )
    hardware = modelled(controller=CONTROLLER, battery=False, cache="1 GiB")
    assert hardware["raid"]["controller"]["battery"] is False
    assert hardware["raid"]["controller"]["cache_bytes"] == 1 << 30
    # md reads ahead the data of two stripes; a controller's array is one disk to the kernel.
    assert (plain["read_ahead_bytes"], hardware["read_ahead_bytes"]) == (384 << 10, 128 << 10)


@pytest.mark.parametrize(
    ("level", "drives", "chunks"), [(0, 4, 8), (5, 4, 6), (6, 6, 8), (10, 6, 6), (1, 2, 0)]
)
def test_read_ahead_covers_the_data_of_two_stripes(level: int, drives: int, chunks: int) -> None:
    """Parity and copies are not read: md counts raid_disks - 1, - 2, or by its near copies."""
    chunk_bytes = 256 << 10
    wanted = max(chunks * chunk_bytes, 128 << 10)
    raid = {"level": level, "drives": drives, "chunk": chunk_bytes}
    assert modelled(**raid)["read_ahead_bytes"] == wanted
    drive: Any = {"kind": "hdd", "capacity_bytes": 1 << 40}
    shape = queue_shape(storage(drive, ModelledRaid.model_validate(raid)))
    assert shape.read_ahead_bytes == wanted


def test_a_site_says_the_same() -> None:
    drive = SiteDrive(drive="sata-7200-500gb", count=4, raid=5, controller=CONTROLLER)
    assert site_volume("data", drive)["storage"]["raid"]["controller"]["queue_depth"] == 256


def test_an_emulated_array_behind_a_controller_has_one_queue() -> None:
    drive: Any = {"kind": "hdd", "capacity_bytes": 1 << 40}
    shapes = [
        queue_shape(storage(drive, ModelledRaid(level=5, drives=4, controller=controller)))
        for controller in (None, CONTROLLER)
    ]
    assert [(shape.scheduler, shape.read_ahead_bytes) for shape in shapes] == [
        ("none", 384 << 10),
        ("mq-deadline", 128 << 10),
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"level": 1, "stripe_cache": 512}, "RAID 5 and 6"),
        ({"stripe_cache": 8}, "stripe_cache"),
        ({"level": 0, "bitmap": "internal"}, "redundancy"),
        ({"bitmap_chunk": "64 MiB"}, 'bitmap = "internal"'),
        ({"bitmap": "internal", "bitmap_chunk": "10 kB"}, "power of two"),
        ({"bitmap": "internal", "controller": CONTROLLER}, "md's"),
        ({"battery": False}, "give controller"),
        ({"level": 1, "bitmap": "internal", "by": "kernel"}, "btrfs"),
    ],
)
def test_what_does_not_belong_together_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Raid.model_validate({"level": 5, "drives": 4, **given})
