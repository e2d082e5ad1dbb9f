"""Jobs of several threads in a study as a user runs it."""

from __future__ import annotations

import os

import duckdb
import pytest

from workspace import Workspace

STUDY = """
headrace = 1
title = "threads of jobs"
[target.here]
kind = "path"
path = "data"
[workload.analysis]
kind = "analysis"
reader = "rdataframe"
data = { events = 40_000, files = 1, cluster_events = 2000 }
[factors]
threads = [1, THREADS]
format = ["ttree", "rntuple"]
[plan]
repeats = { min = 2 }
[run]
shortest = 0
FURTHER
"""


def study(threads: int, further: str = "") -> str:
    return STUDY.replace("THREADS", str(threads)).replace("FURTHER", further)


def test_two_threads_find_what_one_finds_in_less_time(workspace: Workspace) -> None:
    pytest.importorskip("ROOT")
    (workspace.place / "data").mkdir()
    ended = workspace.measure(workspace.study(study(2)))
    assert ended.returncode in (0, 5), ended.stderr
    rows = duckdb.sql(
        "select trial, exit, events, results, bytes_uncompressed, wall_s, user_s + system_s,"
        " on_cpu_s + wait_cpu_s + wait_block_s + wait_network_s + other_s"
        f" from '{workspace.place}/results/trials/*/jobs.parquet' order by trial"
    ).fetchall()
    levels = {trial["id"]: trial["levels"] for trial in workspace.trials()}
    cpu_s: dict[tuple[str, int], float] = {}
    for trial, end, events, _, _, wall_s, used_s, ledger_s in rows:
        assert end == "ok" and events == 40_000
        assert ledger_s == pytest.approx(wall_s)
        cell = levels[trial]["format"], int(levels[trial]["threads"])
        cpu_s[cell] = min(used_s, cpu_s.get(cell, used_s))
    assert len({str(results) for _, _, _, results, *_ in rows}) == 1
    for format_ in ("ttree", "rntuple"):
        # The mean thread's CPU time: half of the work, and what each does for itself.
        assert 0.45 < cpu_s[format_, 2] / cpu_s[format_, 1] < 0.85


def test_threads_that_cannot_be_are_refused_before_anything_starts(workspace: Workspace) -> None:
    pytest.importorskip("ROOT")
    (workspace.place / "data").mkdir()
    cpus = len(os.sched_getaffinity(0))
    ended = workspace.measure(workspace.study(study(cpus + 1)))
    assert ended.returncode == 3
    said = " ".join(ended.stderr.split())
    assert f"threads = {cpus + 1}" in said and f"each of the {cpus} CPUs" in said
    ended = workspace.measure(workspace.study(study(2, 'feed = "packets"')))
    assert ended.returncode == 3
    assert 'threads = 2 with feed = "packets"' in " ".join(ended.stderr.split())
    assert not (workspace.place / "results").exists()
