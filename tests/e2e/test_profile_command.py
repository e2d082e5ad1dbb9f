"""The pair of commands that the docs promise: record one job, see many nodes run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEADRACE = [sys.executable, "-c", "from headrace.cli import main; main()"]

JOB = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
for n in range(40):
    os.pread(fd, 50_000, 100_000 * n)
    end = time.thread_time() + 0.005
    while time.thread_time() < end: pass
"""


def test_record_one_job_and_see_twenty_nodes_run_it(tmp_path: Path) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(os.urandom(4_000_000))
    profile = tmp_path / "job.toml"

    def headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
        ended = subprocess.run(
            [*HEADRACE, *arguments], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended

    headrace("record", "--out", str(profile), "--", sys.executable, "-c", JOB, str(data))
    headrace(
        "profile", "simulate", str(profile), "--nodes", "20", "--slots", "2", "--results", str(tmp_path / "results")
    )  # fmt: skip
    trials = [json.loads(path.read_text()) for path in (tmp_path / "results" / "trials").glob("*/trial.json")]
    assert len(trials) == 2, "one trial a drive"
    for trial in trials:
        assert trial["validity"]["valid"], trial["validity"]
        assert trial["totals"]["bytes_asked"] == 20 * 2 * 40 * 50_000
    # A disk of 7200 rpm takes longer over scattered reads than an SSD.
    seconds = {trial["levels"]["drive"]: trial["last_done_s"] for trial in trials}
    assert seconds["seagate-exos-x24-24tb"] > seconds["samsung-870-evo-1tb"] > 0.2
    assert 'kind = "replay"' in (tmp_path / "job.study.toml").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ("record", "--out", "x.hrp", "--", "touch", "ran"),
        ("profile", "import", "x.txt", "--out", "x.hrp"),
        ("profile", "show", "x.hrp"),
        ("profile", "simulate", "x.hrp"),
    ],
    ids=" ".join,
)
def test_a_profile_of_another_ending_is_refused_before_anything_runs(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    ended = subprocess.run(
        [*HEADRACE, *arguments], capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path
    )
    assert ended.returncode == 2
    assert "given: x.hrp); allowed: x.toml" in " ".join(ended.stderr.split())
    assert not list(tmp_path.iterdir())
