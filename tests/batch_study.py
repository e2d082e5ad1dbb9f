"""A study on three nodes of a batch system, and what tests of batch systems look at."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from workspace import Workspace

STUDY = """
headrace = 1
title = "on a batch system"
[target.shared]
kind = "path"
path = "{place}/shared data"
create = true
[workload.job]
kind = "command"
command = ["/bin/sleep", "{seconds}"]
[plan]
repeats = {{ min = 1 }}
{factors}
[run]
on = "{on}"
nodes = 3
slots = 2
cache = "as-is"
foreign_load = "warning"
start_spread = 100
shortest = "0.1 s"
{run}
[run.batch]
folder = "{place}/shared"
{batch}
"""


def batch_study(
    here: Workspace,
    on: str,
    place: Path,
    batch: str,
    *,
    seconds: int = 1,
    factors: str = "",
    run: str = "",
) -> Path:
    """A study file; batch jobs keep credentials and logs in `place`/shared."""
    return here.study(
        STUDY.format(on=on, place=place, batch=batch, seconds=seconds, factors=factors, run=run)
    )


def said_by(here: Workspace, *words: str) -> list[str]:
    """Lines that a command of the batch system prints."""
    said = subprocess.run(
        words, env={**os.environ, **here.environment}, capture_output=True, text=True, check=True
    )
    return said.stdout.splitlines()


def exits(here: Workspace) -> list[str]:
    """How the jobs of all trials ended."""
    import pyarrow.parquet as pq

    files = sorted(here.place.glob("results/trials/*/jobs.parquet"))
    rows: list[dict[str, Any]] = [row for file in files for row in pq.read_table(file).to_pylist()]
    return [row["exit"] for row in rows]
