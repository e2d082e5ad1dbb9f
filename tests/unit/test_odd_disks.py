"""Disks with values unlike those of the catalog are learnt, too; in virtual time."""

from __future__ import annotations

import copy
from typing import Any, cast

import pytest

from headrace.catalog import entry
from headrace.drives.learning import LearntDrive, learn_drive, modelled_device

Spec = dict[str, Any]


def disk(name: str) -> Spec:
    return copy.deepcopy(cast("Spec", entry("drives", name).table))


def learnt(table: Spec, seconds: float, *, writable: bool = True) -> LearntDrive:
    device = modelled_device(table, seed=4, script_seed=2, writable=writable)
    return learn_drive(device, name="learnt", seconds=seconds, kind=None, say=lambda _: None)


def value(found: LearntDrive, name: str) -> float:
    return next(each.value for each in found.values if each.name == name)


@pytest.mark.slow  # 2 s of CPU time
def test_a_write_cache_smaller_than_a_write_is_seen() -> None:
    """It takes no write of 512 KiB, so that none waited for the others: 152 MiB were learnt."""
    table = disk("sata-7200-500gb")
    table["buffer"] |= {
        "segments": 2,
        "segment_bytes": 96 << 10,
        "read_ahead_bytes": 64 << 10,
        "write_cache_bytes": 128 << 10,
    }
    found = learnt(table, 100)
    cache_bytes = cast("Spec", found.table["buffer"])["write_cache_bytes"]
    assert cache_bytes == pytest.approx(128 << 10, rel=0.1)


@pytest.mark.slow  # 2 s of CPU time
def test_a_bus_slower_than_the_medium_is_no_overhead() -> None:
    """A read of 4 KiB ends 124 µs after its first sector, which were taken for those of one."""
    table = disk("sas-10k-146gb") | {"link_bytes_per_s": 33e6}
    found = learnt(table, 60, writable=False)
    assert value(found, "controller_overhead_us") == pytest.approx(
        table["controller_overhead_us"], rel=0.1
    )


@pytest.mark.slow
def test_a_disk_that_does_not_read_ahead_takes_no_longer_than_it_may() -> None:
    """Each of the small reads that fill a segment waited for a revolution: 484 s of 120 s."""
    table = disk("sas-10k-146gb")
    table["buffer"]["read_ahead_bytes"] = 0
    assert learnt(table, 60, writable=False).seconds < 75


@pytest.mark.slow
def test_writes_tell_the_order_of_a_disk_that_holds_one_command() -> None:
    """Its reads do not; that it does not reorder was taken for granted, and writes took twice as
    long as they do."""
    table = disk("seagate-st3750640ns")
    table["queue"] |= {"depth": 1, "reordering": 0.7}
    found = learnt(table, 120)
    (order,) = (each for each in found.values if each.name == "queue.reordering")
    assert order.error is not None and abs(order.value - 0.7) < 2 * order.error
    assert order.value > 0.4
