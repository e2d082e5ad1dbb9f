"""A folder in which end-to-end tests run the installed command as a user does."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command_server import HEADRACE as HEADRACE
from command_server import Started as Started
from command_server import run_command, start_anew, start_command

ROOT = Path(__file__).parents[1]


STUDY = """
headrace = 1
title = "tiny"
[target.here]
kind = "path"
path = "{place}"
create = true
[workload.scan]
kind = "scan"
data = {{ events = {events:_}, files = {files} }}
[factors]
slots = [1, 2]
[plan]
repeats = {{ min = {repeats} }}
[run]
shortest = 0
{run}
"""
ON_A_SHARED_MACHINE = 'foreign_load = "warning"  # a shared machine is never quiet'


def small_study(
    place: object = "storage",
    *,
    events: int = 8_000,
    files: int = 2,
    repeats: int = 3,
    run: str = ON_A_SHARED_MACHINE,
) -> str:
    """The text of a study whose trials take little time; `run`: lines of its table [run]."""
    return STUDY.format(place=place, events=events, files=files, repeats=repeats, run=run)


@dataclass
class Workspace:
    """A folder for studies, their results and a cache."""

    place: Path
    cache: Path
    environment: dict[str, str] = field(default_factory=dict)

    def study(self, text: str, name: str = "study.toml") -> Path:
        file = self.place / name
        file.write_text(text)
        return file

    def start(self, *arguments: object) -> Started:
        """Start a command."""
        environment = {**os.environ, **self.environment}
        return start_command([str(each) for each in arguments], self.place, environment)

    def start_anew(self, *arguments: object, new_session: bool = False) -> subprocess.Popen[str]:
        """Start a command as a shell does: for tests of signals, and of how a process ends."""
        environment = {**os.environ, **self.environment}
        return start_anew([str(each) for each in arguments], self.place, environment, new_session)

    def run(self, *arguments: object, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        ended = run_command(
            [str(each) for each in arguments],
            self.place,
            {**os.environ, **self.environment},
            timeout_s,
        )
        assert "Traceback" not in ended.stderr, ended.stderr
        return ended

    def measure(self, study: Path, results: str = "results") -> subprocess.CompletedProcess[str]:
        return self.run("run", study, "--results", results, "--cache-dir", self.cache)

    def trials(self, results: str = "results") -> list[dict[str, Any]]:
        return [
            json.loads(file.read_text())
            for file in sorted((self.place / results / "trials").glob("*/trial.json"))
        ]


def documented_fields() -> set[str]:
    """Fields of trial.json that docs/records.md names."""
    text = (ROOT / "docs" / "records.md").read_text()
    table = text.partition("## trial.json")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}
