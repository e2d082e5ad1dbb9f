"""The nightly script of docs/gate.md is run with simulated nights: when it prints, cron mails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from workspace import ROOT

pytestmark = pytest.mark.slow

FARM = """
headrace = 1
title = "Farm, every night"

[target.disk]
kind = "block"
drive = "samsung-870-evo-1tb"

[workload.read]
kind = "sequential"
file_size = "64 MiB"

[plan]
repeats = { min = 3 }
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script, with nights that are simulated in a folder of the test and named by `$1`."""
    page = (ROOT / "docs" / "gate.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```sh\n(#!/bin/sh\n.*?)```", page, re.DOTALL)
    for documented, here in (
        ("$(date +%F)", "$1"),
        ("/srv/headrace", str(tmp_path)),
        ("headrace run ", "headrace simulate "),
    ):
        assert documented in text
        text = text.replace(documented, here)
    (tmp_path / "headrace").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace "$@"\n')
    (tmp_path / "headrace").chmod(0o755)
    (tmp_path / "farm.toml").write_text(FARM)
    (tmp_path / "night.sh").write_text(text)
    return tmp_path / "night.sh"


def printed(script: Path, night: str) -> str:
    """Return what the script prints in one night: the text of cron's mail, if any."""
    ended = subprocess.run(
        ["sh", str(script), night],
        env={**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout + ended.stderr


def test_a_night_is_mailed_if_it_was_slower_or_could_not_be_judged(script: Path) -> None:
    printed(script, "baseline")
    assert printed(script, "monday") == "", "as fast as the baseline"
    assert "monday" in printed(script, "monday"), "the folder exists: refused"
    farm = script.with_name("farm.toml")
    farm.write_text(FARM.replace("samsung-870-evo-1tb", "wd-wd3200bekt"))
    assert "Regression" in printed(script, "tuesday")
    farm.write_text(FARM.replace("64 MiB", "no size"))
    assert "file_size" in printed(script, "wednesday")
