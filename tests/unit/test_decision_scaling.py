"""Decisions on other numbers of nodes and slots."""

from __future__ import annotations

from pathlib import Path

import pytest

from decided import answered, results_of
from headrace import decide, simulate
from headrace.analysis.read import read
from headrace.whatif.scaling import scaled
from synthetic_records import Truth, plan_of, write_results

SCALED = """
headrace = 1
title = "scaled"
[target.a]
kind = "block"
drive = "wd-wd3200bekt"
[target.b]
kind = "block"
drive = "samsung-870-evo-1tb"
[target.c]
kind = "path"
path = "."
[workload.scan]
kind = "scan"
data = { events = 2000, files = 4 }
[factors]
target = ["a", "b", "c"]
slots = [1, 4]
"""


@pytest.mark.parametrize("factor", ["nodes", "run.nodes"])
def test_more_nodes_are_simulated_whatever_the_factor_is_called(
    tmp_path: Path, factor: str
) -> None:
    levels = f'target = ["a"]\n"{factor}" = [1, 2]\n"run.slots" = [1, 2]'
    text = SCALED.replace('target = ["a", "b", "c"]\nslots = [1, 4]', levels)
    (tmp_path / "s.toml").write_text(text)
    records = read(simulate(tmp_path / "s.toml", tmp_path / "r"))
    made = answered([scaled(records, 8)])
    assert {each.nodes for each in made.choice.basis.candidates} == {8}
    assert {tuple(each.levels) for each in made.choice.basis.candidates} == {("slots",)}


def test_measured_cells_are_scaled_each_by_its_own_simulation(tmp_path: Path) -> None:
    """Repeats lie between one another in the plan. A target without a model is left out by name."""
    cells = [
        {"target": name, "workload": "scan", "slots": slots}
        for name in ("a", "b", "c")
        for slots in (1, 4)
    ]
    truth = Truth(effects={"target": {"a": 0.0, "b": 1.0}}, trial_sigma=0.05)
    root = write_results(
        tmp_path / "r", plan_of(cells, 2, ()), truth, study_text=SCALED, series=False
    )
    records = read(root)
    both = scaled(records, 3)
    assert any("target c" in warning for warning in both.warnings)
    measured = {row["id"]: row for row in records.trials.to_dict("records")}
    assert set(both.trials["target"]) == {"a", "b"} and len(both.trials) == 8
    ratios: dict[tuple[str, int], set[float]] = {}
    for row in both.trials.to_dict("records"):
        own = measured[row["id"]]
        assert (own["target"], own["slots"], own["repeat"]) == (
            row["target"],
            row["slots"],
            row["repeat"],
        )
        ratio = row["metrics"]["events_per_s"] / own["metrics"]["events_per_s"]
        ratios.setdefault((row["target"], row["slots"]), set()).add(round(ratio, 6))
    assert all(len(each) == 1 for each in ratios.values()), ratios
    assert len({min(each) for each in ratios.values()}) > 1, "cells differ"


WEAK = """
headrace = 1
title = "drives of the nodes"
[target.a]
kind = "block"
drive = "wd-wd3200bekt"
[target.nas]
kind = "nfs"
server = "s"
export = {{ drive = "samsung-870-evo-1tb" }}
[site.server.s]
machine = "generic-server"
[workload.scan]
kind = "scan"
data = {{ events = {events}, files = {files} }}
[run]
slots = 4
nodes = {nodes}
{run}
[plan]
repeats = {{ min = 1 }}
"""


@pytest.mark.parametrize("run", ["", "jobs = {jobs}", 'feed = "packets"'])
def test_more_nodes_have_more_files_and_jobs(tmp_path: Path, run: str) -> None:
    """They are as fast as a study with so many nodes, files and jobs: with the files of one node,
    all jobs of a node would read one file, most of them from memory."""
    rates: dict[int, dict[str, float]] = {}
    for nodes in (1, 8):
        file = tmp_path / f"{nodes}.toml"
        made = run.format(jobs=6 * nodes)
        file.write_text(WEAK.format(events=20_000 * nodes, files=4 * nodes, nodes=nodes, run=made))
        rows = read(simulate(file, tmp_path / f"r{nodes}"))
        scaled_rows = scaled(rows, 8).trials.to_dict("records")
        rates[nodes] = {row["target"]: row["metrics"]["events_per_s"] for row in scaled_rows}
    assert rates[1] == pytest.approx(rates[8])


def test_a_number_of_slots_with_which_another_storage_leads_is_named(tmp_path: Path) -> None:
    """Storage b is twice as fast for one job, and does not get faster with four."""
    cells = [
        {"target": name, "workload": "scan", "slots": slots}
        for name in ("a", "b")
        for slots in (1, 4)
    ]
    truth = Truth(effects={"target": {"a": 0.0, "b": 0.7}}, trial_sigma=0.0, cores=64, site_w=200.0)
    root = write_results(tmp_path / "r", plan_of(cells, 2), truth, series=False)
    records = read(root)
    for row in records.trials.to_dict("records"):
        if (row["target"], row["slots"]) == ("b", 4):
            row["metrics"]["events_per_s"] /= 4
    by = {each.what: each.leads for each in answered([records]).changes}
    assert by["1 slot per node instead of 4"] == "b, 1 slot"
    same = {
        each.what for each in answered([results_of(tmp_path / "s", {"a": 0.0, "b": 0.7})]).changes
    }
    assert not any("per node" in what for what in same)


NODES = """
headrace = 1
title = "nodes"
[site.server.nas]
machine = "generic-server"
link = "1 GbE"
[target.local]
kind = "block"
drive = "wd-wd3200bekt"
[target.nas]
kind = "nfs"
server = "nas"
export = { drive = "samsung-870-evo-1tb" }
[workload.read]
kind = "sequential"
mode = "read"
file_size = "64 MiB"
[plan]
repeats = { min = 1 }
"""


def test_a_number_of_nodes_with_which_another_storage_leads_is_named(tmp_path: Path) -> None:
    """A server feeds one node faster than its disk does; four disks together are faster."""
    file = tmp_path / "nodes.toml"
    file.write_text(NODES)
    results = simulate(file, tmp_path / "r")
    made, _ = decide([results], want="asked_bytes_per_s")
    leading = made.choice.leading
    assert leading is not None and leading.candidate.target == "nas"
    by = {each.what: each.leads for each in made.changes}
    assert [lead for what, lead in by.items() if "nodes" in what] == ["local, 1 slot"], by


ALIKE = """
headrace = 1
title = "two disks that are the same"
[target.a]
kind = "block"
drive = "wd-wd3200bekt"
[target.b]
kind = "block"
drive = "wd-wd3200bekt"
[workload.analysis]
kind = "analysis"
data = { shape = "bench", events = 4000, files = 4, order = "unordered" }
[run]
slots = 2
[plan]
repeats = { min = 3 }
"""


def test_chance_is_not_named_as_an_effect_of_the_number_of_nodes(tmp_path: Path) -> None:
    """The first repeats of the same two disks differ with more nodes, too."""
    said: list[str] = []
    for seed in range(1, 5):
        file = tmp_path / f"{seed}.toml"
        file.write_text(ALIKE + f"seed = {seed}\n")
        made, _ = decide([simulate(file, tmp_path / f"r{seed}")])
        said += [change.what for change in made.changes]
    assert not said
