"""Reads of more than the read-ahead, by machines with today's kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.engine.simulate.simulator import Cores
from headrace.engine.simulate.trials import PreparedTrial
from headrace.plan.order import make_plan
from headrace.study.load import load_study_text

STUDY = """
headrace = 1
title = "two threads of one job"
[target.disk]
kind = "block"
drive = "seagate-st3750640ns"
[site.node]
cores = 2
RULES
[workload.analysis]
kind = "analysis"
reader = "rdataframe"
threads = 2
data = { format = "rntuple", events = 100_000, files = 1, cluster_events = 10_000 }
"""


def scenario(rules: str) -> Any:
    study = load_study_text(STUDY.replace("RULES", rules), file=Path("s.toml"), base=Path("/"))
    (trial, *_) = make_plan(study).trials
    return json.loads(PreparedTrial.of(study, trial).scenario(series=False))


def disk_reads(given: Any) -> int:
    found: list[str] = []

    def finished(_: int, outcome: str | None, __: object) -> bool:
        found.append(outcome or "")
        return True

    Cores().run([json.dumps(given)], finished, lambda: False)
    (drive,) = json.loads(found[0])["drives"]
    return drive["reads"]


def test_todays_kernels_read_clusters_in_large_requests() -> None:
    today, before = scenario('read_ahead_rules = "large_folios"'), scenario("")
    (volume,) = today["nodes"][0]["volumes"]
    assert volume["large_read_bytes"] == 1280 * 1024
    assert "large_read_bytes" not in before["nodes"][0]["volumes"][0]
    # Ten clusters of 2.8 MB, and what begins and ends the file.
    assert disk_reads(before) > 200
    assert disk_reads(today) < 90
