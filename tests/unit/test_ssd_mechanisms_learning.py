"""What an SSD does that only some loads show is learnt from these loads; in virtual time."""

from __future__ import annotations

import copy
import json
from typing import Any, cast

import pytest

from headrace.catalog import entry
from headrace.drives.learning import LearntDevice, LearntDrive, modelled_device, run_load
from headrace.drives.learning.flash import loads_of
from headrace.drives.learning.flash_fit import best_fit
from headrace.drives.learning.flash_region import fill_region
from headrace.drives.learning.flash_writes import learn_flash_writes
from learnt_drives import silent, value

Spec = dict[str, Any]


def drive(**changes: Any) -> Spec:
    """Return an NVMe SSD of 16 dies in four channels, with pages of 16 KiB."""
    table: Spec = copy.deepcopy(cast("Spec", entry("drives", "samsung-pm9a3-3.84tb").table))
    flash = {
        "channels": 4,
        "dies_per_channel": 4,
        "planes": 1,
        "page_bytes": 16384,
        "read_us": 60.0,
        "program_us": 600.0,
        "channel_bytes_per_s": 400e6,
    }
    for name in ("slc_cache", "read_priority"):
        table.pop(name, None)
    return table | {
        "name": "mechanisms",
        "capacity_bytes": 40_000_000_000 // 16384 * 16384,
        "link_bytes_per_s": 3e9,
        "write_buffer_bytes": 4 << 20,
        "write_buffer_protected": False,
        "controller": {
            "read_overhead_us": 10.0,
            "write_overhead_us": 10.0,
            "read_iops_max": 200e3,
            "write_iops_max": 100e3,
        },
        "flash": table["flash"] | flash | changes.pop("flash", {}),
        "mapping": {"ftl": "page", "unit_bytes": 4096},
        "initial": {"state": "filled", "fill": 1.0},
        **changes,
    }


def device_of(table: Spec) -> LearntDevice:
    return modelled_device(table, seed=4, script_seed=2, writable=True)


def learnt_writes(table: Spec, *, dies: int | None = None, seconds: float = 8.0) -> LearntDrive:
    """Return what writes tell of a drive whose reads are known, `dies` of which they see."""
    device = device_of(table)
    filled = fill_region(device, limit_s=seconds)
    device.take_idle(2.0)
    known: Spec = copy.deepcopy({**table, "name": "learnt"})
    for name in ("slc_cache", "read_priority", "write_buffer_bytes", "write_buffer_protected"):
        known.pop(name, None)
    known["flash"] |= {"program_us": 10 * known["flash"]["read_us"]}
    if dies is not None:
        known["flash"]["dies_per_channel"] = dies // known["flash"]["channels"]
    learnt = LearntDrive(table=known)
    learn_flash_writes(
        device,
        learnt,
        filled,
        more_dies=lambda least: (
            -(-least // known["flash"]["channels"]) * known["flash"]["channels"]
        ),
        link_error_s=0.0,
        seconds=seconds,
        say=silent,
    )
    return learnt


@pytest.mark.slow  # 6 s of CPU time each
@pytest.mark.parametrize("unit_bytes", [4096, 16384])
def test_what_the_mapping_keeps_together_is_learnt(unit_bytes: int) -> None:
    """It was always said to be 4 KiB. Of a unit of 16 KiB all has to cross the channel before a
    read is done, so that reads of 16 KiB took 20 to 40 % longer than the model's."""
    device = device_of(drive(mapping={"ftl": "page", "unit_bytes": unit_bytes}))
    measured = {load: run_load(device, load, limit_s=0.5, at_most=8000) for load in loads_of(64)}
    best = best_fit(device, measured, silent)
    assert best.layout.mapped_units * 4096 == unit_bytes
    assert best.error < 0.02


@pytest.mark.slow  # 3 s of CPU time
def test_a_link_that_limits_writes_does_not_hide_the_program() -> None:
    """Ten reads of the flash were assumed, 600 µs, so that the model of a drive whose controller
    hides most dies from reads wrote three times as slowly as the drive."""
    table = drive(link_bytes_per_s=270e6, link_duplex=False, flash={"program_us": 400.0})
    found = learnt_writes(table, dies=4)
    flash = cast("Spec", found.table["flash"])
    assert flash["program_us"] == pytest.approx(400, rel=0.05)
    assert flash["channels"] * flash["dies_per_channel"] * 16384 / 400e-6 > 270e6
    assert "dies" in {each.name for each in found.unknown}


@pytest.mark.slow  # 3 s of CPU time each
@pytest.mark.parametrize("protected", [False, True])
def test_a_protected_buffer_is_told_by_writes_through_it(protected: bool) -> None:
    """Writes that must be in the flash took a program of a model that is never protected."""
    found = learnt_writes(drive(write_buffer_protected=protected))
    assert found.table["write_buffer_protected"] is protected
    assert value(found, "flash.program_us") == pytest.approx(600, rel=0.05)


@pytest.mark.slow  # 3 s of CPU time each
@pytest.mark.parametrize(
    ("unit_bytes", "buffer_bytes", "link_bytes_per_s"),
    [(4096, 400_000, 3e9), (16384, 20_000_000, 270e6)],
)
def test_buffers_that_large_writes_do_not_fill(
    unit_bytes: int, buffer_bytes: int, link_bytes_per_s: float
) -> None:
    """One was smaller than four writes of 128 KiB, the other is filled by small writes only, each
    of which takes a whole unit of the mapping."""
    table = drive(
        mapping={"ftl": "page", "unit_bytes": unit_bytes},
        write_buffer_bytes=buffer_bytes,
        link_bytes_per_s=link_bytes_per_s,
        link_duplex=link_bytes_per_s > 1e9,
    )
    found = learnt_writes(table)
    assert value(found, "write_buffer_bytes") == pytest.approx(buffer_bytes, rel=0.2)


@pytest.mark.slow  # 4 s of CPU time
def test_a_small_cache_is_found_on_a_drive_that_cleans_its_flash_later() -> None:
    """The fall of the rate as cleaning began, after 1 GB, was taken for the end of a cache."""
    table = drive(
        slc_cache={"bytes": 320_000_000, "program_us": 120.0},
        capacity_bytes=20_000_000_000 // 16384 * 16384,
        spare_ratio=0.07,
        flash={"erase_us": 80_000.0, "dies_per_channel": 8},
    )
    found = learnt_writes(table, seconds=6.0)
    assert value(found, "spare_ratio") == pytest.approx(0.07, rel=0.15)
    assert value(found, "slc_cache.bytes") == pytest.approx(320_000_000, rel=0.15)
    assert value(found, "slc_cache.program_us") == pytest.approx(120, rel=0.1)
    assert value(found, "flash.program_us") == pytest.approx(600, rel=0.1)


@pytest.mark.slow  # 4 s of CPU time
def test_reads_beside_writes_tell_a_program_that_no_write_shows() -> None:
    """The buffer is protected, and the link limits writes: 600 µs were assumed."""
    table = drive(
        link_bytes_per_s=270e6,
        link_duplex=False,
        write_buffer_protected=True,
        flash={"program_us": 200.0},
    )
    found = learnt_writes(table)
    assert cast("Spec", found.table["flash"])["program_us"] == pytest.approx(200, rel=0.4)


@pytest.mark.slow  # 4 s of CPU time
def test_a_cache_that_the_link_hides_is_told_by_single_programs() -> None:
    """The rate fell by 14 %, and the program time of sustained writes held for all of them: bursts
    and writes through the buffer took three times as long as those of the drive."""
    table = drive(
        link_bytes_per_s=540e6,
        link_duplex=False,
        slc_cache={"bytes": 900_000_000, "program_us": 180.0},
    )
    found = learnt_writes(table)
    assert value(found, "slc_cache.bytes") == pytest.approx(900_000_000, rel=0.1)
    assert value(found, "slc_cache.program_us") == pytest.approx(180, rel=0.05)
    assert value(found, "flash.program_us") == pytest.approx(600, rel=0.05)


def test_reads_in_order_find_no_pages_of_random_ones_in_the_registers() -> None:
    """The model of 40 dies read the end of its pieces in order from the registers, where the last
    random reads before had left them: 4 % too fast, and 35 dies met the loads better."""
    from headrace.drives.learning.flash_model import (
        _modelled,  # pyright: ignore[reportPrivateUsage]
    )

    table = drive(capacity_bytes=256 << 20, flash={"channels": 10})
    loads = tuple(loads_of(32))
    together = dict(zip(loads, _modelled(json.dumps(table), loads, False, 0), strict=True))
    for load in (each for each in loads if each.sequential):
        (alone,) = _modelled(json.dumps(table), (load,), False, 0)
        assert together[load].iops == pytest.approx(alone.iops, rel=0.001), load.name


@pytest.mark.slow  # 3 s of CPU time
def test_a_buffer_that_holds_back_the_dies_is_learnt() -> None:
    """It has room for 24 pages of 64 dies. Programs were said to take 900 µs, and not 600."""
    found = learnt_writes(drive(flash={"dies_per_channel": 16}, write_buffer_bytes=24 << 14))
    assert value(found, "write_buffer_bytes") == pytest.approx(24 << 14, rel=0.15)
    assert value(found, "flash.program_us") == pytest.approx(600, rel=0.1)
