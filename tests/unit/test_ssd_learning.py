"""SSDs of which one limit hides another are learnt by what shows each of them; in virtual time."""

from __future__ import annotations

import copy
from typing import Any, cast

import numpy as np
import pytest

from headrace.catalog import entry
from headrace.drives.learning import (
    LearntDevice,
    LearntDrive,
    ScriptLoad,
    modelled_device,
    run_load,
)
from headrace.drives.learning.device import UNIT
from headrace.drives.learning.flash import loads_of
from headrace.drives.learning.flash_alike import settle
from headrace.drives.learning.flash_fit import best_fit, fit_layout
from headrace.drives.learning.flash_layouts import FlashLayout
from headrace.drives.learning.flash_model import Measured, misfits
from headrace.drives.learning.flash_region import fill_region
from headrace.drives.learning.flash_writes import learn_flash_writes

Spec = dict[str, Any]

TWO_DIES = FlashLayout(dies=2, channels=2, page_units=4)
TWO_DIES_LOGS = np.log([21.6, 115.8e3, 26.2, 319e6, 6.4e9])


def two_dies() -> Spec:
    """Return an SSD whose channels limit large reads, and dies small ones."""
    table: Spec = copy.deepcopy(cast("Spec", entry("drives", "samsung-pm9a3-3.84tb").table))
    table |= {
        "name": "two-dies",
        "capacity_bytes": 40_000_000_000,
        "link_bytes_per_s": 6.4e9,
        "queue_depth": 128,
        "write_buffer_bytes": 640_000,
        "controller": {
            "read_overhead_us": 21.6,
            "write_overhead_us": 20.8,
            "read_iops_max": 115.8e3,
            "write_iops_max": 85.7e3,
        },
        "flash": table["flash"]
        | {
            "channels": 2,
            "dies_per_channel": 1,
            "planes": 4,
            "page_bytes": 4096,
            "read_us": 26.2,
            "program_us": 565.0,
            "channel_bytes_per_s": 319e6,
        },
        "initial": {"state": "filled", "fill": 1.0},
    }
    return table


def device_of(table: Spec, *, writable: bool = False) -> LearntDevice:
    return modelled_device(table, seed=4, script_seed=2, writable=writable)


def measured_on(device: LearntDevice) -> Measured:
    loads = loads_of(min(device.queue_depth, 128))
    return {load: run_load(device, load, limit_s=1.0, at_most=20_000) for load in loads}


def silent(_: str) -> None:
    """Say nothing."""


def test_times_in_steps_do_not_make_the_truth_miss() -> None:
    """Reads wait for whole reads of others. The median of eight of them on two dies is one step or
    the next by chance: with it the true values missed the loads by 8 %."""
    load = ScriptLoad(UNIT, 8)
    found = [
        run_load(modelled_device(two_dies(), script_seed=seed), load, limit_s=1.0, at_most=4000)
        for seed in range(12)
    ]
    medians_s = [each.p50_s for each in found]
    middles_s = [each.middle_s for each in found]
    assert max(medians_s) > 1.05 * min(medians_s)
    assert max(middles_s) < 1.03 * min(middles_s)
    device = device_of(two_dies())
    left = misfits(device, TWO_DIES, TWO_DIES_LOGS, measured_on(device))
    assert np.sqrt(np.mean(left**2)) < 0.02


@pytest.mark.slow  # 5 s of CPU time
def test_channels_that_limit_a_drive_are_not_taken_for_its_link() -> None:
    """A fit from reads that the link limits ended with 40 µs of flash, one page of 32 KiB."""
    device = device_of(two_dies())
    best = best_fit(device, measured_on(device), silent)
    assert (best.layout.dies, best.layout.page_units) == (2, 4)
    assert np.exp(best.logs[2]) == pytest.approx(26.2, rel=0.03)
    assert best.error < 0.02


@pytest.mark.parametrize("requests", [200, 201, 202, 203])
def test_a_page_of_two_units_is_told(requests: int) -> None:
    """Every second read in order is quick: their median is of either kind, or between them."""
    from headrace.drives.learning.flash_fit import (
        _page_units,  # pyright: ignore[reportPrivateUsage]
    )

    table = two_dies()
    table["flash"] |= {"planes": 2}
    device = device_of(table)
    loads = (ScriptLoad(UNIT, 1), ScriptLoad(UNIT, 1, sequential=True))
    measured = {load: run_load(device, load, limit_s=1.0, at_most=requests) for load in loads}
    assert _page_units(measured) == 2


@pytest.mark.slow  # 5 s of CPU time
def test_limits_that_nothing_reaches_are_known_from_one_side_only() -> None:
    """One die: link, channel and controller are never the limit, and only their sum is seen."""
    table = two_dies()
    table["flash"] |= {"channels": 1, "read_us": 74.0, "channel_bytes_per_s": 1.2e9}
    device = device_of(table)
    measured = measured_on(device)
    logs = np.log([26.0, 150e3, 74.0, 400e6, 2e9])
    fit = fit_layout(device, FlashLayout(1, 1, 4), logs, measured, 30)
    found = settle(device, fit, measured)
    true = np.log([21.6, 115.8e3, 74.0, 1.2e9, 6.4e9])
    assert (found.low <= true + 0.02).all() and (true - 0.02 <= found.high).all()
    assert found.standard_errors()[2] < 0.01 < 0.25 < found.standard_errors()[3]


def learnt_writes(table: Spec, seconds: float) -> LearntDrive:
    """Return what writes tell of a drive whose reads are known."""
    device = device_of(table, writable=True)
    filled = fill_region(device, limit_s=seconds)
    device.take_idle(2.0)
    known: Spec = copy.deepcopy({**table, "name": "learnt"})
    for name in ("slc_cache", "read_priority", "write_buffer_bytes", "write_buffer_protected"):
        known.pop(name, None)
    known["controller"] |= {"write_overhead_us": 21.6, "write_iops_max": 115.8e3}
    known["flash"] |= {"program_us": 262.0}
    learnt = LearntDrive(table=known)
    learn_flash_writes(
        device,
        learnt,
        filled,
        more_dies=lambda _: None,
        link_error_s=0.0,
        seconds=seconds,
        say=silent,
    )
    return learnt


def value(found: LearntDrive, name: str) -> float:
    return next(each.value for each in found.values if each.name == name)


@pytest.mark.slow  # 3 s of CPU time
def test_writes_that_the_buffer_takes_tell_the_controller() -> None:
    """Random writes for long are those of the flash: 7 000 a second, and 184 µs for one."""
    found = learnt_writes(two_dies(), 8.0)
    assert value(found, "controller.write_iops_max") == pytest.approx(85.7e3, rel=0.02)
    assert value(found, "controller.write_overhead_us") == pytest.approx(20.8, rel=0.05)
    assert value(found, "write_buffer_bytes") == pytest.approx(640_000, rel=0.1)
    assert value(found, "flash.program_us") == pytest.approx(565, rel=0.02)


@pytest.mark.slow  # 3 s of CPU time each
@pytest.mark.parametrize("kind", ["fifo", "between_operations", "suspend"])
def test_reads_and_writes_at_a_time_tell_which_go_first(kind: str) -> None:
    table: Spec = two_dies() | {"read_priority": {"kind": kind}}
    if kind == "suspend":
        table["read_priority"]["suspend_us"] = 20.0
    found = learnt_writes(table, 8.0)
    assert cast("Spec", found.table["read_priority"])["kind"] == kind


@pytest.mark.slow  # 3 s of CPU time each
@pytest.mark.parametrize("share", [0.15, 0.85])
def test_an_slc_cache_is_no_write_buffer(share: float) -> None:
    """Also where it was full early or late: its rate was that of a third of the writes. After a
    pause it takes writes again, which were taken for a buffer of 82 MB."""
    cache_bytes = 400_000_000
    table = two_dies() | {"slc_cache": {"bytes": cache_bytes, "program_us": 141.0}}
    fast, slow = (2 * 16384 / program_us * 1e6 for program_us in (141.0, 565.0))
    fast_s = cache_bytes / fast
    found = learnt_writes(table, fast_s / share if share > 0.5 else fast_s + 10.0)
    assert value(found, "slc_cache.bytes") == pytest.approx(cache_bytes, rel=0.05)
    assert value(found, "flash.program_us") == pytest.approx(565, rel=0.05)
    assert value(found, "slc_cache.program_us") == pytest.approx(141, rel=0.05)
    assert slow < value(found, "drain of the write buffer") * 1e6 < 1.1 * fast
    assert cast("Spec", found.table).get("write_buffer_bytes", 0) < 2_000_000
