"""Nodes compared with each other: the slow one is named with its reason, and no other."""

from __future__ import annotations

import io
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from headrace.analysis import nodes as analysis
from headrace.analysis.find import FindOptions, find
from headrace.analysis.findings import Findings
from headrace.analysis.read import read
from headrace.report.html import render
from headrace.report.nodes import MOST_ROWS, sentences, tables
from headrace.report.terminal import print_report
from headrace.report.tidy import tidy_table
from synthetic_records import Truth, plan_of, write_results


def found(folder: Path, truth: Truth, nodes: int = 8, repeats: int = 4, slots: int = 2) -> Findings:
    cells = [{"target": "disk", "workload": "higgs", "nodes": nodes, "slots": slots}]
    write_results(folder, plan_of(cells, repeats), truth, series=False)
    return find(read(folder), FindOptions())


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("wait_block", "of the excess is waiting for block I/O"),
        ("wait_cpu", "other programs used 1.5 of its CPUs"),
        ("on_cpu", "its CPUs computed more slowly"),
    ],
)
def test_a_slow_node_is_named_with_its_reason(tmp_path: Path, part: str, reason: str) -> None:
    truth = Truth(cores=32, slow_node=(3, part, 0.25), node_sigma=0.01)
    (cell,) = found(tmp_path / "r", truth).nodes
    assert [node.name for node in cell.nodes if node.is_slow] == ["node-3"]
    slow = cell.nodes[3]
    assert slow.relative is not None
    assert slow.relative.value == pytest.approx(1.25, rel=0.03)
    (said,) = sentences(cell)
    assert said.startswith("node-3 was slow: 1.2")
    assert reason in said
    assert slow.host == "wn03"


def test_nodes_that_differ_by_chance_are_rarely_called_slow(tmp_path: Path) -> None:
    cells = [{"target": "disk", "workload": "higgs", "nodes": 16, "slots": 1}]
    truth = Truth(cores=64, node_sigma=0.1, trial_sigma=0.01)
    named = 0
    for seed in range(20):
        root = tmp_path / f"{seed}"
        write_results(root, plan_of(cells, 3), truth, seed=seed, series=False)
        (cell,) = find(read(root), FindOptions()).nodes
        named += any(node.is_slow for node in cell.nodes)
    assert named <= 4


def test_the_report_shows_nodes_at_80_columns_and_on_its_page(tmp_path: Path) -> None:
    truth = Truth(cores=32, slow_node=(3, "wait_block", 0.25), node_sigma=0.01)
    findings = found(tmp_path / "r", truth)
    text = io.StringIO()
    print_report(findings, Console(file=text, width=80))
    said = text.getvalue()
    assert max(map(len, said.splitlines())) <= 80
    assert "Nodes: disk, higgs, 8 nodes × 2 slots" in said
    assert "node-3 was slow" in said
    page = render(findings, tmp_path / "r")
    assert '<section id="nodes">' in page
    assert "wn03" in page


def test_one_trial_calls_no_node_slow(tmp_path: Path) -> None:
    truth = Truth(cores=32, slow_node=(1, "wait_block", 0.5))
    (cell,) = found(tmp_path / "r", truth, nodes=2, repeats=1).nodes
    assert not any(node.is_slow for node in cell.nodes)
    assert sentences(cell) == [
        "node-1 took 1.50 times the others' time per event; with one trial, no node can be called "
        "slow."
    ]


def test_one_node_has_no_table(tmp_path: Path) -> None:
    assert found(tmp_path / "r", Truth(), nodes=1).nodes == ()


def test_jobs_without_events_are_compared_by_job(tmp_path: Path) -> None:
    truth = Truth(job_events=0, cores=32, slow_node=(0, "wait_block", 0.5))
    (cell,) = found(tmp_path / "r", truth, nodes=3).nodes
    assert cell.per == "job"
    assert [node.name for node in cell.nodes if node.is_slow] == ["node-0"]


def test_a_script_whose_events_are_with_the_first_job_is_compared_by_job(tmp_path: Path) -> None:
    """Else its own node alone would have a rate, and no other could be called slow."""
    truth = Truth(cores=32, slow_node=(2, "wait_block", 0.5), first_job_has_events=True)
    findings = found(tmp_path / "r", truth, nodes=3)
    (cell,) = findings.nodes
    assert cell.per == "job"
    assert [node.name for node in cell.nodes if node.is_slow] == ["node-2"]
    (shown,) = tables(findings)
    assert shown["rate"].startswith("Jobs")
    assert "0" not in [row["rate"] for row in shown["rows"]]


def test_a_node_without_events_does_not_change_what_the_others_are_compared_by(
    tmp_path: Path,
) -> None:
    truth = Truth(cores=32, slow_node=(2, "wait_block", 0.5), idle_node=0)
    (cell,) = found(tmp_path / "r", truth, nodes=4).nodes
    assert cell.per == "event"
    assert cell.nodes[0].relative is None
    assert [node.name for node in cell.nodes if node.is_slow] == ["node-2"]


def test_of_many_nodes_the_slowest_are_shown_and_all_are_in_the_table_of_data(
    tmp_path: Path,
) -> None:
    truth = Truth(cores=4000, slow_node=(70, "wait_block", 0.3))
    findings = found(tmp_path / "r", truth, nodes=100, slots=1)
    (shown,) = tables(findings)
    assert len(shown["rows"]) == MOST_ROWS
    assert shown["more"] == 100 - MOST_ROWS
    assert shown["rows"][0]["node"] == "node-70"
    rows = tidy_table(findings).to_pylist()
    assert len({row["level"] for row in rows if row["about"] == "node"}) == 100


@given(st.lists(st.floats(0.1, 10) | st.just(float("nan")), max_size=12))
def test_the_median_of_the_others(values: list[float]) -> None:
    medians = analysis.medians_of_others(np.array(values))
    for place, got in enumerate(medians):
        others = [
            each for other, each in enumerate(values) if other != place and not np.isnan(each)
        ]
        if others and not np.isnan(values[place]):
            assert got == pytest.approx(statistics.median(others))
        else:
            assert np.isnan(got)
