"""A drive is learnt from its answers alone: models of disks with changed values, in virtual time,
by the script that reads real drives; loads that were not part of it are predicted."""

from __future__ import annotations

import copy
import json
import random
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from headrace import _core
from headrace.catalog import entry
from headrace.drives.learning import (
    NotLearntError,
    ScriptLoad,
    learn_drive,
    modelled_device,
    modelled_loads,
)
from headrace.drives.learning.buffering import learn_hits, learn_read_ahead, learn_segments
from headrace.drives.learning.device import UNIT, RequestTimes
from headrace.drives.learning.drive_file import write_learnt
from headrace.drives.learning.loads import result_of
from headrace.drives.learning.queueing import learn_reordering, with_queue
from headrace.drives.learning.rotation import cleaned
from headrace.drives.learning.traffic import DiskSums, others_in, parse_stat
from learnt_drives import Spec, assert_predicts, learnt, silent, slowed, value

DISK_LOADS = (
    ScriptLoad(32, 3),
    ScriptLoad(128, 1),
    ScriptLoad(UNIT, 12),
    ScriptLoad(UNIT, 6, first=0.2, last=0.3),
    ScriptLoad(512, 1, sequential=True, first=0.4),
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


def test_a_buffer_is_found_when_its_reads_were_delayed_at_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A larger read was no slower than a smaller one, and a disk with a buffer had none."""
    device = modelled_device(entry("drives", "seagate-st3750640ns").table)
    slowed(device, lambda number, _: number < 2, monkeypatch, times=10)
    found = learn_hits(device, 60 / 7200, repeats=8)
    assert found is not None and found.bytes_per_s == pytest.approx(300e6, rel=0.1)


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


def test_counters_are_those_of_the_kernel() -> None:
    line = "  10 1 80 5 20 2 160 6 0 7 11 0 0 0 0 3 4\n"  # Documentation/block/stat.rst
    assert parse_stat(line) == DiskSums(30, 80, 160)


def test_a_drive_of_another_kind_is_no_disk() -> None:
    device = modelled_device(entry("drives", "samsung-870-evo-1tb").table)
    with pytest.raises(NotLearntError, match="revolution"):
        learn_drive(device, name="x", seconds=30, kind="hdd", say=silent)


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


def test_a_place_at_an_edge_that_was_measured_wrongly_does_not_count() -> None:
    """Late reads look like the end of a track; tracks further out hold no fewer sectors."""
    right = [1400.0, 1400.0, 1300.0, 1200.0, 1200.0]
    assert cleaned(right) == right
    assert cleaned([1250.0, *right[1:]]) == right
    assert cleaned([*right[:2], 900.0, *right[3:]])[2] == 1200.0
    assert cleaned([*right[:-1], 1350.0]) == right
