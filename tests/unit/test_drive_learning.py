"""A drive is learnt from its answers alone: models with changed values, in virtual time, are learnt
by the script that reads real drives, and loads that were not part of it are predicted."""

from __future__ import annotations

import copy
import itertools
import json
import math
import random
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from typer.testing import CliRunner

from headrace import _core
from headrace.catalog import entry
from headrace.cli import make_app
from headrace.cli.drive.learnt import (
    _doubt_an_empty_ssd,  # pyright: ignore[reportPrivateUsage]
)
from headrace.drives.learning import (
    LearntDevice,
    LearntDrive,
    NotLearntError,
    ScriptLoad,
    block_device,
    learn_drive,
    modelled_device,
    modelled_loads,
    run_load,
    share_of_zeros,
)
from headrace.drives.learning.buffering import learn_hits, learn_read_ahead, learn_segments
from headrace.drives.learning.device import UNIT, RequestTimes
from headrace.drives.learning.drive_file import write_learnt
from headrace.drives.learning.flash import learn_flash, loads_of
from headrace.drives.learning.flash_alike import as_good
from headrace.drives.learning.flash_fit import best_fit
from headrace.drives.learning.flash_layouts import FlashLayout
from headrace.drives.learning.flash_model import FlashFit, missed, table_of
from headrace.drives.learning.loads import result_of
from headrace.drives.learning.queueing import learn_reordering, with_queue
from headrace.drives.learning.rotation import cleaned
from headrace.drives.learning.traffic import DiskSums, others_in, parse_stat
from headrace.errors import RefusedError, StudyError, UsageError

Spec = dict[str, Any]

DISK_LOADS = (
    ScriptLoad(32, 3),
    ScriptLoad(128, 1),
    ScriptLoad(UNIT, 12),
    ScriptLoad(UNIT, 6, first=0.2, last=0.3),
    ScriptLoad(512, 1, sequential=True, first=0.4),
)
SSD_LOADS = (
    ScriptLoad(UNIT, 6),
    ScriptLoad(16, 3),
    ScriptLoad(32, 12),
    ScriptLoad(128, 4),
    ScriptLoad(512, 2, sequential=True, first=0.4),
)


def changed_disk(name: str, seed: int) -> Spec:
    """Return a disk of the catalog with other values, which the script cannot know."""
    draw = random.Random(seed)
    table = copy.deepcopy(cast("Spec", entry("drives", name).table))
    table["rotation_rpm"] *= draw.uniform(0.85, 1.15)
    table["controller_overhead_us"] *= draw.uniform(0.7, 1.4)
    table["link_bytes_per_s"] *= draw.uniform(0.8, 1.2)
    table["queue"]["reordering"] = draw.uniform(0.1, 0.8)
    seek = table["seek"]
    slower = draw.uniform(0.95, 1.25)
    for field in ("average_ms", "short_root_ms", "long_slope_ms"):
        if field in seek:
            seek[field] *= slower
    if "rates" in table:
        faster = draw.uniform(0.8, 1.2)
        table["rates"] = {key: rate * faster for key, rate in table["rates"].items()}
    return table


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


def silent(_: str) -> None:
    """Say nothing."""


def learnt(table: Spec, seconds: float, writable: bool = False) -> LearntDrive:
    device = modelled_device(table, seed=4, script_seed=2, writable=writable)
    return learn_drive(device, name="learnt", seconds=seconds, kind=None, say=silent)


def assert_predicts(found: LearntDrive, table: Spec, loads: tuple[ScriptLoad, ...]) -> None:
    """Loads that were not learnt: IOPS and median within 10 %, p99 within 20 %."""
    truth = modelled_loads(table, loads, requests=6000, seed=11)
    said = modelled_loads(found.table, loads, requests=6000, seed=12)
    for load, real, model in zip(loads, truth, said, strict=True):
        assert model.iops == pytest.approx(real.iops, rel=0.1), load.name
        if load.sequential:
            continue
        assert model.p50_s == pytest.approx(real.p50_s, rel=0.1), load.name
        assert model.p99_s == pytest.approx(real.p99_s, rel=0.2), load.name


def value(found: LearntDrive, name: str) -> float:
    return next(each.value for each in found.values if each.name == name)


@pytest.mark.slow  # 2 s of CPU time each
@pytest.mark.parametrize(
    ("name", "seed"), [("seagate-st3750640ns", 1), ("cheetah-9lp", 2), ("wd-wd3200bekt", 3)]
)
def test_a_disk_is_learnt_and_predicted(name: str, seed: int) -> None:
    table = changed_disk(name, seed)
    found = learnt(table, seconds=150)
    assert found.table["kind"] == "hdd"
    assert value(found, "rotation_rpm") == pytest.approx(table["rotation_rpm"], rel=1e-3)
    link = value(found, "link_bytes_per_s") * 1e6
    assert link == pytest.approx(table["link_bytes_per_s"], rel=0.02)
    assert value(found, "buffer.segments") == table["buffer"]["segments"]
    hit_us = value(found, "overhead.read_hit_after_read_us")
    assert hit_us == pytest.approx(table["controller_overhead_us"], rel=0.05)
    if name == "cheetah-9lp":
        assert value(found, "heads") == table["heads"]
        assert value(found, "track_skew_ms") == pytest.approx(table["head_switch_ms"], rel=0.02)
    assert_predicts(found, table, DISK_LOADS)


@pytest.mark.slow
@pytest.mark.parametrize("read_ahead_bytes", [0, 16 << 10])
def test_a_disk_that_hardly_reads_ahead_is_learnt_and_predicted(read_ahead_bytes: int) -> None:
    """It misses the next piece of a stream by a revolution, which says nothing of its tracks."""
    table = changed_disk("sata-7200-250gb", 3)
    table["buffer"] |= {"segment_bytes": 1 << 19, "read_ahead_bytes": read_ahead_bytes}
    found = learnt(table, seconds=120)
    rate = value(found, "rate at the outer edge")
    assert rate == pytest.approx(table["rates"]["outer_bytes_per_s"] / 1e6, rel=0.02)
    assert_predicts(found, table, DISK_LOADS)


@pytest.mark.parametrize("seed", range(12))
def test_a_read_that_a_busy_machine_delays_hides_no_segment(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = cast("Spec", entry("drives", "seagate-st3750640ns").table)
    device = modelled_device(table, seed=seed, script_seed=seed)
    turn_s = 60 / table["rotation_rpm"]
    hits = learn_hits(device, turn_s, repeats=25)
    assert hits is not None
    reads, draw = device.reads, np.random.default_rng(seed)

    def delayed(*arguments: Any, **options: Any) -> RequestTimes:
        timings = reads(*arguments, **options)
        late_s = np.where(draw.random(len(timings)) < 0.35, 3e-3, 0.0)
        return replace(timings, end_s=timings.end_s + late_s)

    monkeypatch.setattr(device, "reads", delayed)
    assert learn_segments(device, turn_s, hits) == table["buffer"]["segments"]


@pytest.mark.parametrize(("share", "window"), [(1.0, 4), (0.5, None), (0.0, None)])
def test_depths_tell_reordering_and_its_window(share: float, window: int | None) -> None:
    table = changed_disk("cheetah-9lp", 1)
    loads = [ScriptLoad(UNIT, depth) for depth in (2, 4, 8, 16, 32)]
    truth = with_queue(table, share, 1000.0, window)
    measured = dict(zip(loads, modelled_loads(truth, loads, requests=600, seed=9), strict=True))
    found = learn_reordering(with_queue(table, 0.3, 1000.0), measured, silent)
    assert found.window == window
    assert found.share == pytest.approx(share, abs=0.15)
    assert found.share_low <= found.share <= found.share_high


def test_shares_between_those_of_the_grid_are_told() -> None:
    """With 0.2 the disk chooses among one command more at depth 12, with 0.15 one less at 24."""
    table = changed_disk("cheetah-9lp", 1)
    loads = [ScriptLoad(UNIT, depth) for depth in (2, 4, 8, 16, 32)]
    truth = with_queue(table, 0.176, 1000.0)
    measured = dict(zip(loads, modelled_loads(truth, loads, requests=3000, seed=9), strict=True))
    found = learn_reordering(truth, measured, silent)
    between = [ScriptLoad(UNIT, depth) for depth in (12, 24)]
    said = modelled_loads(with_queue(table, found.share, 1000.0), between, requests=3000, seed=3)
    real = modelled_loads(truth, between, requests=3000, seed=3)
    assert [each.iops for each in said] == pytest.approx([each.iops for each in real], rel=0.01)


@pytest.mark.parametrize("commit_ms", [0.5, 4.0])
def test_depths_tell_that_a_disk_chooses_late(commit_ms: float) -> None:
    """It gains from the second command on, which no other reordering does."""
    table = changed_disk("sata-7200-500gb", 1)
    loads = [ScriptLoad(UNIT, depth) for depth in (2, 4, 8, 16, 32)]
    truth = with_queue(table, 1.0, 1000.0, commit_ms=commit_ms)
    measured = dict(zip(loads, modelled_loads(truth, loads, requests=600, seed=9), strict=True))
    found = learn_reordering(with_queue(table, 0.3, 1000.0), measured, silent)
    assert found.commit_ms in found.commits_alike_ms
    assert min(found.commits_alike_ms) <= commit_ms <= max(found.commits_alike_ms)
    assert found.share == pytest.approx(1.0, abs=0.15)


@pytest.mark.heavy  # 15 s of CPU time
def test_an_ssd_is_learnt_and_predicted() -> None:
    table = changed_ssd("corsair-f40", 5)
    found = learnt(table, seconds=60)
    assert found.table["kind"] == "ssd"
    assert value(found, "link_bytes_per_s") == pytest.approx(table["link_bytes_per_s"], rel=0.05)
    assert_predicts(found, table, SSD_LOADS)


def slowed(
    device: LearntDevice,
    late: Callable[[int, int], bool],
    monkeypatch: pytest.MonkeyPatch,
    times: float = 1.8,
) -> None:
    """Slow some of the loads that the script runs, by their number and depth."""
    reads, numbers = device.reads, itertools.count()

    def read(*arguments: Any, **options: Any) -> RequestTimes:
        timings = reads(*arguments, **options)
        longer = times if late(next(numbers), options.get("depth", 1)) else 1.0
        return RequestTimes(timings.start_s * longer, timings.end_s * longer)

    monkeypatch.setattr(device, "reads", read)


def test_a_buffer_is_found_when_its_reads_were_delayed_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A larger read was no slower than a smaller one, and a disk with a buffer had none."""
    device = modelled_device(entry("drives", "seagate-st3750640ns").table)
    slowed(device, lambda number, _: number < 2, monkeypatch, times=10)
    found = learn_hits(device, 60 / 7200, repeats=8)
    assert found is not None and found.bytes_per_s == pytest.approx(300e6, rel=0.1)


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


@pytest.mark.parametrize("count", [1, 2, 3, 40, 1501])
def test_results_of_a_load_are_those_of_all_its_times(count: int) -> None:
    """Its quantiles are those of NumPy; its rate is that between the steady state's ends."""
    random_ = np.random.default_rng(count)
    start_s = np.sort(random_.random(count))
    timings = RequestTimes(start_s, start_s + random_.choice([1e-3, 2e-3, 0.1], count))
    for skipped in (0, count // 2):
        found = result_of(timings, 4, skipped)
        first = max(16 if count > 32 else 0, skipped)
        times = timings.response_s[first:]
        assert [found.p50_s, found.p99_s] == np.quantile(times, [0.5, 0.99]).tolist()
        ends = np.sort(timings.end_s)
        steady = ends[first : count - 3] if count > first + 8 else ends
        assert found.requests == count
        if count > 1:
            assert found.iops == (len(steady) - 1) / (steady[-1] - steady[0])


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


@pytest.mark.slow  # 3 s of CPU time each
@pytest.mark.parametrize(("cache_bytes", "settle_ms"), [(16 << 20, 1.2), (0, 0.3)])
def test_writes_tell_the_cache_and_the_settle_of_a_disk(cache_bytes: int, settle_ms: float) -> None:
    table = changed_disk("seagate-st3750640ns", 1)
    table["buffer"] |= {"write_cache_bytes": cache_bytes, "write_cache_extents": 40}
    table["write_settle_ms"] = settle_ms
    if cache_bytes:  # otherwise writes seek longer than reads, too
        del table["seek_write"]
    else:
        table["seek_write"]["average_ms"] = table["seek"]["average_ms"] + 1.5
    found = learnt(table, seconds=300, writable=True)
    more_ms = settle_ms if cache_bytes else settle_ms + 0.2
    assert found.table["write_settle_ms"] == pytest.approx(more_ms, abs=0.15)
    assert ("seek_write" in found.table) == (not cache_bytes)
    buffer = cast("Spec", found.table["buffer"])
    assert buffer["write_cache_bytes"] == pytest.approx(cache_bytes, rel=0.1)
    if cache_bytes:
        assert buffer["write_cache_extents"] == pytest.approx(40, abs=3)
        assert value(found, "destage rate") > 50
    loads = (ScriptLoad(UNIT, 2, write=True), ScriptLoad(64, 1, write=True))
    truth = modelled_loads(table, loads, requests=3000, seed=11)
    said = modelled_loads(found.table, loads, requests=3000, seed=12)
    for load, real, model in zip(loads, truth, said, strict=True):
        assert model.iops == pytest.approx(real.iops, rel=0.1), load.name
        assert model.p50_s == pytest.approx(real.p50_s, rel=0.1), load.name
    assert found.seconds < 330


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


@pytest.mark.parametrize(
    ("counted", "issued", "requests"),
    [
        (DiskSums(100, 800, 0), DiskSums(100, 800, 0), None),
        (DiskSums(110, 800, 0), DiskSums(100, 800, 0), None),  # large ones were divided
        (DiskSums(101, 808, 0), DiskSums(100, 800, 0), 1),
        (DiskSums(60, 808, 0), DiskSums(100, 800, 0), 1),  # small ones were merged
        (DiskSums(150, 800, 400), DiskSums(100, 800, 0), 50),
    ],
)
def test_what_was_counted_beyond_what_was_issued_is_of_others(
    counted: DiskSums, issued: DiskSums, requests: int | None
) -> None:
    found = others_in("seek curve", counted, issued)
    assert (found.requests if found else None) == requests
    if found is not None:
        assert found.doubtful == (found.requests > 1)


def test_values_of_a_disturbed_part_are_doubtful(tmp_path: Path) -> None:
    found = learnt(changed_disk("hp-97560", 7), seconds=30)
    found.add("write_settle_ms", 1.0, "ms", "pairs")
    found.end_part("writes", others_in("writes", DiskSums(150, 800, 400), DiskSums(100, 800, 0)))
    assert [each.name for each in found.values if each.doubt] == ["write_settle_ms"]
    found.table["write_settle_ms"] = 1.0
    write_learnt(found, tmp_path / "x.toml", device="/dev/sdx", date="2026-01-02")
    source = tomllib.loads((tmp_path / "x.toml").read_text())["source"]
    assert [name for name in source if "doubtful" in source[name]] == ["write_settle_ms"]


@pytest.mark.parametrize(("zero_parts", "doubtful"), [(0, False), (1, True), (4, True)])
def test_an_ssd_that_may_never_have_been_written_is_doubtful(
    zero_parts: int, doubtful: bool, tmp_path: Path
) -> None:
    """An SSD answers such reads without its flash: what was learnt of one was taken for sound."""
    device = tmp_path / "device"
    parts = [bytes(1 << 20)] * zero_parts + [b"x" * (1 << 20)] * (4 - zero_parts)
    device.write_bytes(b"".join(parts))
    assert share_of_zeros(device) == pytest.approx(zero_parts / 4, abs=0.02)
    learnt = LearntDrive(table={"kind": "ssd"})
    learnt.add("flash.read_us", 5.0, "µs", "all loads, and the model")
    _doubt_an_empty_ssd(learnt, device)
    assert [bool(each.doubt) for each in learnt.values] == [doubtful]
    disk = LearntDrive(table={"kind": "hdd"}, values=[replace(learnt.values[0], doubt="")])
    _doubt_an_empty_ssd(disk, device)
    assert not disk.values[0].doubt


def test_counters_are_those_of_the_kernel() -> None:
    line = "  10 1 80 5 20 2 160 6 0 7 11 0 0 0 0 3 4\n"  # Documentation/block/stat.rst
    assert parse_stat(line) == DiskSums(30, 80, 160)


def test_a_drive_of_another_kind_is_no_disk() -> None:
    device = modelled_device(entry("drives", "samsung-870-evo-1tb").table)
    with pytest.raises(NotLearntError, match="revolution"):
        learn_drive(device, name="x", seconds=30, kind="hdd", say=silent)


def test_a_device_that_cannot_be_opened_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"  # what the core says of it is what it says of a device
    with pytest.raises(OSError, match="No such file") as refused:
        _core.TimedBlockDevice(gone, False)
    assert isinstance(refused.value, FileNotFoundError)

    def yes(_: Path) -> bool:
        return True

    monkeypatch.setattr(Path, "exists", yes)
    monkeypatch.setattr(Path, "is_block_device", yes)
    with pytest.raises(StudyError, match="cannot be opened: No such file"):
        block_device(gone)


@pytest.mark.parametrize("seed", [7, 8, 15])
def test_the_file_is_a_drive_and_says_where_values_come_from(seed: int, tmp_path: Path) -> None:
    """Also where values that just agree are rounded."""
    found = learnt(changed_disk("hp-97560", seed), seconds=30)
    path = tmp_path / "my disk.toml"
    write_learnt(found, path, device="/dev/sdx", date="2026-01-02")
    table = tomllib.loads(path.read_text())
    assert table["name"] == "my disk"
    assert "/dev/sdx" in table["source"]["rotation_rpm"]
    missing = {name for name in table if name not in ("kind", "name", "about", "source")} - {
        name.split(".")[0] for name in table["source"]
    }
    assert not missing
    drive = cast("Spec", entry("drives", str(path)).table)
    _core.TimedModel(json.dumps(drive), 0, False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere", "--out", "x.toml"), "not found"),
        (("{file}", "--out", "x.toml"), "is not a block device"),
        (("{file}", "--out", "x.toml", "--minutes", "11"), "--minutes"),
        (("{file}", "--out", "x.toml", "--kind", "tape"), "--kind"),
        (("{file}", "--out", "no/folder/x.toml"), "--out"),
    ],
)
def test_a_mistake_is_one_message(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    given = [word.format(file=file) for word in words]
    with pytest.raises(StudyError) as refused:
        CliRunner().invoke(make_app(), ["drive", "learn", *given], catch_exceptions=False)
    assert said in str(refused.value)


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    """Said before the reads, which take minutes: a drive file may have been edited."""
    mine = tmp_path / "mine.toml"
    mine.write_text("# my own words\n")
    with pytest.raises(RefusedError, match="already exists"):
        words = ["drive", "learn", "nowhere", "--out", str(mine)]
        CliRunner().invoke(make_app(), words, catch_exceptions=False)
    assert mine.read_text() == "# my own words\n"


@pytest.mark.parametrize("folder", [".", "/"])
def test_a_folder_is_no_file_for_the_drive(folder: str) -> None:
    """A name without a last part ended in a traceback."""
    with pytest.raises(UsageError, match="is a folder, not a file") as refused:
        words = ["drive", "learn", "nowhere", "--out", folder]
        CliRunner().invoke(make_app(), words, catch_exceptions=False)
    assert "--out" in (refused.value.hint or "")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_read_that_met_its_sector_at_once_is_not_taken_for_read_ahead(seed: int) -> None:
    """One in 25 reads of the medium is as quick as the buffer: read-ahead of 512 KiB was 600 KiB,
    and the disk was one that reads ahead to the end of a cylinder."""
    table = copy.deepcopy(entry("drives", "sas-10k-146gb").table)
    table["rotation_rpm"] = 8775.0
    table["buffer"] |= {"segment_bytes": 524_288, "read_ahead_bytes": 524_288}
    device = modelled_device(table, seed=seed, script_seed=seed)
    turn_s = 60 / 8775
    hits = learn_hits(device, turn_s, repeats=25)
    assert hits is not None
    found = learn_read_ahead(device, turn_s, hits, 1000.0, 4, places=5)
    assert found.rule == "always"
    assert 0.9 * 1024 <= found.sectors <= 1.03 * 1024
    assert found.spread < 0.1 * found.sectors


@pytest.mark.slow
def test_the_rate_counts_the_skew_of_cylinders() -> None:
    table = entry("drives", "wd-wd3200bekt").table
    found = learnt(table, 60)
    rate = value(found, "rate at the outer edge")
    assert rate == pytest.approx(table["rates"]["outer_bytes_per_s"] / 1e6, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("writable", [False, True])
def test_parts_share_what_the_first_ones_left_of_the_time(writable: bool) -> None:
    """In virtual time: 32 and 42 s of half a minute were taken."""
    found = learnt(entry("drives", "sas-10k-146gb").table, 28.5, writable)
    assert found.seconds < (36 if writable else 30)


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


def test_a_place_at_an_edge_that_was_measured_wrongly_does_not_count() -> None:
    """Late reads look like the end of a track; tracks further out hold no fewer sectors."""
    right = [1400.0, 1400.0, 1300.0, 1200.0, 1200.0]
    assert cleaned(right) == right
    assert cleaned([1250.0, *right[1:]]) == right
    assert cleaned([*right[:2], 900.0, *right[3:]])[2] == 1200.0
    assert cleaned([*right[:-1], 1350.0]) == right
