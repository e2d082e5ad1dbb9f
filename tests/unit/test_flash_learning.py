"""SSDs are learnt from their answers alone, in virtual time: layouts and times, those that other
programs disturbed, and those that no model meets."""

from __future__ import annotations

import copy
import math
import random
import tomllib
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from headrace.catalog import entry
from headrace.drives.learning import (
    LearntDevice,
    ScriptLoad,
    modelled_device,
    modelled_loads,
    run_load,
)
from headrace.drives.learning.device import UNIT
from headrace.drives.learning.drive_file import write_learnt
from headrace.drives.learning.flash import learn_flash, loads_of
from headrace.drives.learning.flash_alike import as_good
from headrace.drives.learning.flash_fit import best_fit
from headrace.drives.learning.flash_layouts import FlashLayout
from headrace.drives.learning.flash_model import FlashFit, missed, table_of
from headrace.drives.learning.flash_starts import reads_ahead
from learnt_drives import Spec, assert_predicts, learnt, silent, slowed, value

SSD_LOADS = (
    ScriptLoad(UNIT, 6),
    ScriptLoad(16, 3),
    ScriptLoad(32, 12),
    ScriptLoad(128, 4),
    ScriptLoad(512, 2, sequential=True, first=0.4),
)


def changed_ssd(name: str, seed: int) -> Spec:
    draw = random.Random(seed)
    table = copy.deepcopy(cast("Spec", entry("drives", name).table))
    for part, field in (
        ("controller", "read_overhead_us"),
        ("controller", "read_iops_max"),
        ("flash", "read_us"),
        ("flash", "channel_bytes_per_s"),
    ):
        table[part][field] *= draw.uniform(0.7, 1.3)
    table["link_bytes_per_s"] *= draw.uniform(0.8, 1.1)
    return table


@pytest.mark.heavy  # 15 s of CPU time
def test_an_ssd_is_learnt_and_predicted() -> None:
    table = changed_ssd("corsair-f40", 5)
    found = learnt(table, seconds=60)
    assert found.table["kind"] == "ssd"
    assert value(found, "link_bytes_per_s") == pytest.approx(table["link_bytes_per_s"], rel=0.05)
    assert_predicts(found, table, SSD_LOADS)


FOUR_DIES = FlashLayout(dies=4, channels=2, page_units=1)
FOUR_DIES_LOGS = np.log([300.0, 50e3, 600.0, 100e6, 250e6])


def four_dies(channel_bytes_per_s: float = 100e6) -> LearntDevice:
    any_ssd = modelled_device(entry("drives", "corsair-f40").table)
    logs = FOUR_DIES_LOGS.copy()
    logs[3] = np.log(channel_bytes_per_s)
    return modelled_device(table_of(any_ssd, FOUR_DIES, logs), seed=1, script_seed=1)


@pytest.mark.slow
@pytest.mark.parametrize(("channel_bytes_per_s", "limit"), [(300e6, "dies"), (10e6, "channels")])
def test_a_number_is_told_only_where_loads_depend_on_it(
    channel_bytes_per_s: float, limit: str
) -> None:
    """A page is read in 600 µs, by four dies, and crosses one of two channels in 14 or in 410 µs:
    loads see either the dies or the channels."""
    device = four_dies(channel_bytes_per_s)
    measured = {load: run_load(device, load, limit_s=0.6) for load in loads_of(32)}
    logs = FOUR_DIES_LOGS.copy()
    logs[3] = np.log(channel_bytes_per_s)
    others = as_good(device, FlashFit(FOUR_DIES, logs, 0.0125), measured)
    assert {"dies", "channels"} - others.keys() == {limit}


@pytest.mark.slow
def test_dies_are_compared_with_those_in_other_channels() -> None:
    """A fit that disturbed loads led to five dies in five channels, where four in two are true, and
    not four in one step of five channels."""
    device = four_dies(channel_bytes_per_s=300e6)
    measured = {load: run_load(device, load, limit_s=0.6) for load in loads_of(32)}
    fit = FlashFit(FlashLayout(dies=5, channels=5, page_units=1), FOUR_DIES_LOGS, 0.05)
    assert 4 in as_good(device, fit, measured)["dies"]


def test_loads_that_were_slowed_are_told_from_those_that_the_model_meets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = four_dies()
    slowed(device, lambda number, _: number in (1, 9), monkeypatch)
    loads = loads_of(32)
    measured = {load: run_load(device, load, limit_s=0.6) for load in loads}
    fit = FlashFit(FOUR_DIES, FOUR_DIES_LOGS, 0.1)
    found = missed(device, fit, measured)
    assert {loads[1], loads[9]} <= set(found)
    assert len(found) < len(loads) / 3  # a few are short, and their p99 by chance another


@pytest.mark.slow
def test_channels_that_limit_reads_are_found() -> None:
    """Two channels of two dies each: not one step from four channels of one."""
    device = four_dies(channel_bytes_per_s=10e6)
    measured = {load: run_load(device, load, limit_s=0.6) for load in loads_of(32)}
    best = best_fit(device, measured, silent)
    assert best.layout.channels == 2
    assert best.error < 0.03
    assert math.exp(best.logs[3]) == pytest.approx(10e6, rel=0.05)


def reading_ahead(ahead_bytes: int, page_units: int = 4) -> Spec:
    """60 µs of a single read are of flash and channel, and 18 µs of controller and link."""
    any_ssd = modelled_device(entry("drives", "corsair-f40").table)
    layout = FlashLayout(dies=16, channels=8, page_units=page_units, ahead_bytes=ahead_bytes)
    return table_of(any_ssd, layout, np.log([10.0, 200e3, 50.0, 400e6, 1.5e9]))


@pytest.mark.parametrize(
    ("ahead_bytes", "page_units"), [(0, 1), (0, 4), (0, 16), (64 << 10, 4), (1 << 20, 16)]
)
def test_read_ahead_is_told_from_pages(ahead_bytes: int, page_units: int) -> None:
    """Small reads in order are fast in the rest of a page, too."""
    device = modelled_device(reading_ahead(ahead_bytes, page_units), seed=1, script_seed=1)
    loads = (ScriptLoad(8, 1), ScriptLoad(8, 1, sequential=True))
    measured = {load: run_load(device, load, limit_s=0.5) for load in loads}
    assert reads_ahead(measured) == (ahead_bytes > 0)


@pytest.mark.heavy  # 12 s of CPU time
def test_an_ssd_that_reads_ahead_is_learnt_and_predicted() -> None:
    table = reading_ahead(512 << 10)
    found = learnt(table, seconds=57)
    assert cast("Spec", found.table)["controller"]["read_ahead_bytes"] > 0
    assert value(found, "flash.read_us") == pytest.approx(50, rel=0.05)
    ordered = (ScriptLoad(8, 1, sequential=True), ScriptLoad(64, 1, sequential=True))
    assert_predicts(found, table, (*SSD_LOADS, *ordered))


@pytest.mark.heavy  # 40 s of CPU time
def test_uncertainties_cover_the_other_fits_that_are_as_good() -> None:
    """Channels limit large reads, the controller small ones, and a slower link with less overhead
    meets the loads as well: 27.9 ± 7.4 µs, five channels and ten dies were learnt."""
    layout = FlashLayout(dies=8, channels=4, page_units=2)
    any_ssd = modelled_device(entry("drives", "corsair-f40").table)
    table = table_of(any_ssd, layout, np.log([60.0, 40e3, 80.0, 50e6, 300e6]))
    found = learn_flash(modelled_device(table, seed=1, script_seed=1), seconds=57, say=silent)
    learnt = {each.name: each for each in found.values}
    for name, true in (("controller.read_overhead_us", 60.0), ("flash.channel_bytes_per_s", 50e6)):
        error = learnt[name].error
        assert error is not None and abs(learnt[name].value - true) < 2 * error
    assert learnt["flash.channels"].value == 4
    assert cast("Spec", found.table)["flash"]["dies_per_channel"] == 2
    # A link of 210 MB/s and one of 2 GB/s carry what four channels deliver.
    link = next(each for each in found.unknown if each.name == "link_bytes_per_s")
    assert "meet the loads as well" in link.why


@pytest.mark.heavy  # 20 s of CPU time
def test_loads_that_other_programs_slowed_are_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = four_dies()
    slowed(device, lambda number, _: number in (1, 9), monkeypatch)
    found = learn_flash(device, seconds=15, say=silent)
    assert value(found, "dies") == 4
    assert value(found, "error of the model") < 3
    assert not any(each.doubt for each in found.values)


@pytest.mark.heavy  # 20 s of CPU time
def test_what_follows_from_loads_that_no_model_meets_is_doubtful(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    device = four_dies()
    slowed(device, lambda _, depth: depth in (2, 8), monkeypatch)
    found = learn_flash(device, seconds=15, say=silent)
    doubtful = {each.name for each in found.values if each.doubt}
    unknown = {each.name for each in found.unknown}
    assert {"dies", "flash.channels", "flash.read_us"} <= doubtful | unknown
    assert doubtful.isdisjoint({"latency of a read of 4 KiB", "error of the model"})
    write_learnt(found, tmp_path / "x.toml", device="/dev/sdx", date="2026-01-02")
    source = tomllib.loads((tmp_path / "x.toml").read_text())["source"]
    marked = [source[name] for name in doubtful & source.keys()]
    assert marked and all("doubtful: the model misses the loads by" in each for each in marked)


@pytest.mark.heavy  # 15 s of CPU time
def test_writes_tell_buffer_and_programs_of_an_ssd() -> None:
    table = changed_ssd("corsair-f40", 5)
    table["initial"] = {"state": "fresh"}
    table["write_buffer_bytes"] = 24 << 20
    table["flash"]["program_us"] *= 2.5
    table["controller"]["write_overhead_us"] = 60.0
    found = learnt(table, seconds=120, writable=True)
    assert value(found, "write_buffer_bytes") == pytest.approx(24 << 20, rel=0.15)
    assert value(found, "controller.write_overhead_us") == pytest.approx(60, rel=0.15)
    loads = (ScriptLoad(256, 4, sequential=True, write=True), ScriptLoad(UNIT, 2, write=True))
    truth = modelled_loads(table, loads, requests=3000, seed=11)
    said = modelled_loads(found.table, loads, requests=3000, seed=12)
    for load, real, model in zip(loads, truth, said, strict=True):
        assert model.iops == pytest.approx(real.iops, rel=0.1), load.name


@pytest.mark.slow
def test_values_of_writes_are_doubtful_when_the_model_misses_random_writes() -> None:
    """A drive that cleans its flash for every write: the times that meet its writes in order are
    not those of its flash."""
    table = copy.deepcopy(entry("drives", "intel-x25-m-g2-160gb").table)
    table["initial"] = {"state": "steady", "fill": 1.0}
    found = learnt(table, 28.5, writable=True)
    (program,) = (each for each in found.values if each.name == "flash.program_us")
    assert abs(program.value / 1640 - 1) > 0.5  # far from the truth
    assert "misses random writes" in program.doubt
    fresh = learnt({**table, "initial": {"state": "fresh"}}, 28.5, writable=True)
    assert not any("random writes" in each.doubt for each in fresh.values)
