"""`headrace doctor STUDY`: what can be done with a study that this machine cannot measure."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import make_app
from headrace.errors import ExitCode

STUDY = """headrace = 1
[target.a]
kind = "path"
path = "not there"
[workload.w]
kind = "scan"
data = { shape = "nano", events = 4000, files = 2 }
"""
DRIVE = '[site.node]\ndrives = { a = "seagate-st3750640ns" }\n'


@pytest.mark.parametrize(
    ("more", "without"),
    [(DRIVE, "headrace simulate takes it in virtual time"), ("", "nothing can be run")],
)
def test_what_is_possible_without_what_is_missing(tmp_path: Path, more: str, without: str) -> None:
    """A study that `simulate` takes was said to be one of which nothing can be run."""
    file = tmp_path / "study.toml"
    file.write_text(STUDY + more)
    ended = CliRunner().invoke(make_app(), ["doctor", str(file)])
    said = " ".join(ended.stdout.split())
    assert ended.exit_code == ExitCode.MISSING
    assert "is missing" in said and without in said
