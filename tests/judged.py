"""What tests of `headrace why` share: they run it on a program and read the verdict it kept."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.system.page_cache import drop_files
from workspace import Workspace

Judged = tuple[dict[str, Any], subprocess.CompletedProcess[str]]
"""A verdict, and the command that gave it."""

ENOUGH_SAMPLES = 50
"""So many bound the parts of the time (`headrace.verdict.shares`)."""
DOUBLINGS = 7

IN_ORDER = """
import sys
with open(sys.argv[1], "rb", buffering=0) as file:
    while file.read(65536): pass
"""
FILE_BYTES = 96 << 20


def written(folder: Path, size: int = FILE_BYTES) -> Path:
    """Write a file of random bytes that is not in the page cache."""
    file = folder / "data.bin"
    with file.open("wb") as opened:
        opened.write(os.urandom(size))
        opened.flush()
        os.fsync(opened.fileno())
    assert drop_files([file]) == 0
    return file


def why(workspace: Workspace, *command: str, code: int = 0) -> Judged:
    """Run the command and judge it."""
    ended = workspace.run("why", "--keep", "kept", "--", *command)
    assert ended.returncode == code, ended.stderr
    lines = ended.stderr.splitlines()[-5:]
    assert max(map(len, lines)) <= 80
    return kept(workspace), ended


def kept(workspace: Workspace) -> dict[str, Any]:
    return json.loads((workspace.place / "kept" / "verdict.json").read_text())


def decided(judge: Callable[[int], Judged], amount: int) -> Judged:
    """Judge more and more work until there is enough, as `why` advises: fast machines do it in no
    time, and busy ones leave no CPU to samples."""
    for doublings in range(DOUBLINGS):
        verdict, ended = judge(amount << doublings)
        enough = verdict["observation"]["samples"] >= ENOUGH_SAMPLES
        if enough and verdict["limit"]["kind"] != "too-short":
            return verdict, ended
    raise AssertionError("too short to judge, whatever the work")


def part(verdict: dict[str, Any], *kinds: str) -> float:
    """Return the part of the wall time of these kinds."""
    seen = verdict["observation"]
    return sum(each["seconds"] for each in seen["shares"] if each["kind"] in kinds) / seen["wall_s"]
