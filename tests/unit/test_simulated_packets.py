"""Packets in virtual time: shares fixed from the start against packets on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.analysis.read import read
from headrace.library import load_study, simulate
from headrace.records.trial_record import TrialRecord

STUDIES = Path(__file__).parents[2] / "studies"

SLOW_SERVER = """
headrace = 1
[target.proof]
kind = "xrootd"
servers = 2
bricks = { drive = "mtron-msp-sata7035064", size = "200 MiB" }
[workload.analysis]
kind = "analysis"
data = { shape = "bench", events = 240_000, files = 6, cluster_events = 1000 }
[[fault]]
what = "link-slowed"
server = 0
at = "0 s"
share = 0.1
[factors]
"run.packets" = ["adaptive", "static"]
[run]
nodes = 4
feed = "packets"
workers_per_server = 3
[plan]
repeats = { min = 1 }
"""


def packets_of(study: Path, results: Path) -> dict[str, TrialRecord]:
    """Simulate a study; return a record for each split."""
    read_back = read(simulate(load_study(study), results))
    found = [read_back.trial_record(str(trial)) for trial in read_back.trials["id"]]
    return {str(record.levels["run.packets"]): record for record in found}


def test_the_farm_with_unequal_nodes_gains_by_packets(tmp_path: Path) -> None:
    of = packets_of(STUDIES / "proof-ssd" / "packets.toml", tmp_path / "results")
    adaptive, static = of["adaptive"].packets, of["static"].packets
    assert adaptive is not None and static is not None
    assert adaptive.events == static.events == 240_000
    assert not adaptive.events_not_processed
    assert static.events_local == 240_000
    assert sorted(worker.events for worker in static.workers) == [40_000] * 2 + [80_000] * 2
    assert adaptive.events_local < 240_000, "nodes with fewer files read those of others"
    assert of["adaptive"].last_done_s < of["static"].last_done_s


def test_eight_small_nodes_are_eight_times_as_fast_as_one(tmp_path: Path) -> None:
    study = load_study(STUDIES / "proof-ssd" / "farm-small.toml")
    read_back = read(simulate(study, tmp_path / "results"))
    took: dict[object, float] = {}
    for trial in read_back.trials["id"]:
        record = read_back.trial_record(str(trial))
        packets = record.packets
        assert packets is not None and packets.events == packets.events_local == 80_000
        took[record.levels["nodes"]] = record.last_done_s
    assert took[1] == pytest.approx(8 * took[8], rel=0.1)


def test_workers_of_a_slow_server_do_less_and_its_link_bounds_both_splits(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(SLOW_SERVER)
    of = packets_of(tmp_path / "study.toml", tmp_path / "results")
    assert of["adaptive"].last_done_s == pytest.approx(of["static"].last_done_s, rel=0.1)
    packets = of["adaptive"].packets
    assert packets is not None
    events = [worker.events for worker in packets.workers]
    assert sum(events) == 240_000
    assert max(events) > 1.5 * min(events), "workers of the fast server do more"


@pytest.mark.parametrize(("limit", "slower"), [(1, True), (4, False)])
def test_the_limit_of_a_server_holds_back_workers(tmp_path: Path, limit: int, slower: bool) -> None:
    text = SLOW_SERVER.replace("share = 0.1", "share = 0.999").replace('"adaptive", ', "")
    for name, workers in (("free", 8), ("limited", limit)):
        changed = text.replace("workers_per_server = 3", f"workers_per_server = {workers}")
        (tmp_path / f"{name}.toml").write_text(changed)
    free, limited = (
        packets_of(tmp_path / f"{name}.toml", tmp_path / name)["static"]
        for name in ("free", "limited")
    )
    assert limited.packets is not None and limited.packets.events == 240_000
    assert (limited.last_done_s > 1.2 * free.last_done_s) is slower
