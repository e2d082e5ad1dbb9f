"""Unit: what a study says of its jobs' memory and reads, as the simulator gets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.engine.simulate.scenario import scenario_of
from headrace.errors import StudyError
from headrace.study import load_study
from headrace.study.resolve import resolve
from headrace.workloads.replay import Replay, ReplayOptions

STUDY = """
headrace = 1
title = "Jobs"

[target.here]
kind = "block"
drive = "wd-wd3200bekt"
filesystem = "ext4"

[workload.read]
kind = "scan"
reader = "READER"
data = { events = 20_000, cluster_events = 5_000, format = "FORMAT" }

[run]
LIMIT
"""


def scenario(
    folder: Path, reader: str = "uproot", form: str = "ttree", limit: str = ""
) -> dict[str, Any]:
    text = STUDY.replace("READER", reader).replace("FORMAT", form).replace("LIMIT", limit)
    (folder / "study.toml").write_text(text)
    study = load_study(folder / "study.toml")
    return dict(scenario_of(resolve(study, "here", "read", {}), "here", "read", 1))


@pytest.mark.parametrize(
    ("reader", "form", "ahead"),
    [("rdataframe", "rntuple", 1), ("event-loop", "rntuple", 1), ("rdataframe", "ttree", 0),
     ("uproot", "rntuple", 0)],
)  # fmt: skip
def test_root_reads_an_rntuple_one_cluster_ahead(
    tmp_path: Path, reader: str, form: str, ahead: int
) -> None:
    steps = scenario(tmp_path, reader, form)["profiles"][0]["steps"]
    runs = [step for step in steps if step.get("events")]
    assert [step.get("ahead", 0) for step in runs] == [ahead] * len(runs)
    # No cluster is read twice: each run has its own.
    ranges = [tuple(map(tuple, step["ranges_bytes"])) for step in runs]
    assert runs and len(set(ranges)) == len(ranges)


def test_a_memory_limit_bounds_jobs_and_their_page_cache(tmp_path: Path) -> None:
    free = scenario(tmp_path)["nodes"][0]
    node = scenario(tmp_path, limit='memory_limit = "2 GB"')["nodes"][0]
    assert node["memory_bytes"] - node["memory_reserved_bytes"] == 2_000_000_000
    assert free["memory_bytes"] > 100e9
    ample = scenario(tmp_path, limit='memory_limit = "1 TB"')["nodes"][0]
    assert ample["memory_bytes"] == free["memory_bytes"]


def test_a_memory_limit_of_each_job_is_simulated(tmp_path: Path) -> None:
    made = scenario(tmp_path, limit='job_memory_limit = "2 GB"')
    assert made["run"]["job_memory_limit_bytes"] == 2_000_000_000
    free = scenario(tmp_path)
    assert made["nodes"] == free["nodes"] and "job_memory_limit_bytes" not in free["run"]


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ('job_memory_limit = "1 MB"', "job_memory_limit"),
        ('job_memory_limit = "1 GB"\nmemory_limit = "2 GB"', "give one of them"),
    ],
)
def test_memory_limits_that_cannot_be_are_refused(tmp_path: Path, limit: str, words: str) -> None:
    with pytest.raises(StudyError, match=words):
        scenario(tmp_path, limit=limit)


def test_a_profile_that_sets_its_memory_is_simulated_only(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        'name = "job"\nabout = "holds memory"\n'
        '[[steps]]\ndo = "memory"\nbytes = 1_000_000\n'
        '[source]\nsteps = "assumption: a test"\n'
    )
    options = ReplayOptions.model_validate({"profile": str(tmp_path / "job.toml")})
    workload = Replay("job", options)
    (problem,) = workload.check()
    assert "memory" in problem.what and "simulate" in str(problem.remedy)
