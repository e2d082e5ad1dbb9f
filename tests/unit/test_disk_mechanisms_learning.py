"""What the script of a disk has to see beside the values of a data sheet: what the buffer drops, a
track's end that read-ahead does not pass, a limit of age near what reads wait, a small cache."""

from __future__ import annotations

import copy
from typing import cast

import pytest

from headrace.catalog import entry
from headrace.drives.learning import LoadResult, ScriptLoad, modelled_device, modelled_loads
from headrace.drives.learning.buffering import learn_hits, learn_segments
from headrace.drives.learning.device import UNIT
from headrace.drives.learning.queueing import learn_reordering, with_queue
from headrace.drives.learning.rotation import learn_all_tracks, learn_rotation, skews_of
from learnt_drives import Spec, learnt, silent, value


def disk(name: str = "sata-7200-500gb") -> Spec:
    return copy.deepcopy(cast("Spec", entry("drives", name).table))


@pytest.mark.parametrize("rule", ["always", "sequential"])
def test_a_buffer_that_drops_what_was_sent_is_found_by_what_it_reads_ahead(rule: str) -> None:
    """Its second read of a place is no hit: it was said to have no buffer."""
    table = disk()
    table["buffer"] |= {"keep_sent": False, "read_ahead": rule, "segments": 6}
    device = modelled_device(table, seed=4, script_seed=2)
    turn_s = 60 / table["rotation_rpm"]
    hits = learn_hits(device, turn_s, repeats=25)
    assert hits is not None and not hits.keeps_sent
    assert hits.bytes_per_s == pytest.approx(table["link_bytes_per_s"], rel=0.02)
    assert hits.overhead_s * 1e6 == pytest.approx(table["controller_overhead_us"], rel=0.05)
    assert learn_segments(device, turn_s, hits) == 6


def test_a_disk_without_any_buffer_has_no_hits() -> None:
    table = disk()
    table["buffer"] |= {"keep_sent": False, "read_ahead_bytes": 0}
    device = modelled_device(table, seed=4, script_seed=2)
    assert learn_hits(device, 60 / table["rotation_rpm"], repeats=25) is None


@pytest.mark.slow  # 3 s of CPU time
def test_small_reads_in_order_are_predicted_if_the_buffer_drops_what_was_sent() -> None:
    """They were predicted at a hundredth of their rate: one for each revolution."""
    table = disk()
    table["buffer"]["keep_sent"] = False
    found = learnt(table, seconds=120)
    loads = [ScriptLoad(sectors, 1, sequential=True, first=0.4) for sectors in (UNIT, 512)]
    truth = modelled_loads(table, loads, requests=2000, seed=11)
    said = modelled_loads(found.table, loads, requests=2000, seed=11)
    assert [each.iops for each in said] == pytest.approx([each.iops for each in truth], rel=0.1)


def test_the_ends_of_tracks_are_seen_if_read_ahead_stops_there() -> None:
    """A stream misses each next track by a revolution, which told nothing of skew and heads."""
    table: Spec = {
        "kind": "hdd", "name": "track-by-track", "capacity_bytes": 128 << 30,
        "rotation_rpm": 15000.0, "heads": 4, "link_bytes_per_s": 120e6,
        "rates": {"outer_bytes_per_s": 30e6, "inner_bytes_per_s": 15e6, "zones": 4},
        "seek": {"curve": "sheet", "track_to_track_ms": 0.96, "average_ms": 5.4},
        "head_switch_ms": 0.63, "controller_overhead_us": 140.0,
        "buffer": {"segments": 1, "read_ahead": "track"},
    }  # fmt: skip
    device = modelled_device(table, seed=4, script_seed=2)
    rotation = learn_rotation(device, reads=60)
    hits = learn_hits(device, rotation.turn_s, repeats=25)
    skews = skews_of(learn_all_tracks(device, rotation, hits, [0.1, 0.3, 0.5, 0.7, 0.9], 30))
    assert skews is not None and skews.heads == 4
    assert skews.track_s == pytest.approx(0.63e-3, rel=0.02)
    assert skews.cylinder_s == pytest.approx(0.96e-3, rel=0.02)


def measured_depths(truth: Spec, requests: int) -> dict[ScriptLoad, LoadResult]:
    loads = [ScriptLoad(UNIT, depth) for depth in (2, 4, 8, 12, 16, 24, 32)]
    return dict(zip(loads, modelled_loads(truth, loads, requests=requests, seed=9), strict=True))


def test_a_limit_of_age_that_most_reads_reach_is_not_taken_for_a_window() -> None:
    """Above it reads are served in order, so that the deepest load is the slowest one."""
    truth = with_queue(disk(), 0.5, 300.0)
    found = learn_reordering(with_queue(disk(), 0.3, 1000.0), measured_depths(truth, 600), silent)
    assert found.age_limit_seen and found.window is None
    assert found.age_limit_ms == pytest.approx(300.0, rel=0.1)
    assert found.share == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("requests", [100, 200])
def test_a_disk_in_order_of_arrival_is_given_no_limit_of_age(requests: int) -> None:
    """Few reads scatter; any share under a limit that all reads reach serves them in order, too."""
    truth = with_queue(disk(), 0.0, 1000.0)
    measured = measured_depths(truth, requests)
    found = learn_reordering(with_queue(disk(), 0.3, 1000.0), measured, silent)
    assert found.share == 0.0 and not found.age_limit_seen


@pytest.mark.slow  # 3 s of CPU time each
@pytest.mark.parametrize("cache_bytes", [1_600_000, 3_500_000])
def test_a_cache_of_few_large_writes_behind_a_slow_link_is_learnt(cache_bytes: int) -> None:
    """It empties while a large write crosses the link, so that three of them were no test: what it
    took was then counted in writes of 512 KiB, and its random writes were a quarter too slow."""
    table = disk()
    table["link_bytes_per_s"] = 118e6
    table["buffer"] |= {"write_cache_bytes": cache_bytes, "write_cache_extents": 512}
    found = learnt(table, seconds=120, writable=True)
    assert value(found, "buffer.write_cache_bytes") == pytest.approx(cache_bytes, rel=0.12)
    loads = [ScriptLoad(UNIT, 4, write=True), ScriptLoad(128, 8, write=True)]
    truth = modelled_loads(table, loads, requests=3000, seed=11)
    said = modelled_loads(found.table, loads, requests=3000, seed=11)
    assert [each.iops for each in said] == pytest.approx([each.iops for each in truth], rel=0.1)
