"""The Python of scheduler and workers: that of the user's script, if it has Dask."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from headrace.errors import describe
from headrace.system.own_variables import users_environment
from headrace.workloads.programs.lacking import first_line

_PYTHON = re.compile(r"python[0-9.]*")
_ASK_S = 60


def interpreter_of(program: str, environment: Mapping[str, str]) -> str:
    """Return the Python that runs a program: itself, or what its first line names."""
    if _PYTHON.fullmatch(Path(program).name):
        return program
    words = first_line(program, environment)
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    if words and _PYTHON.fullmatch(Path(words[0]).name):
        return words[0]
    return sys.executable


@cache
def lack_of_dask(python: str, variables: tuple[tuple[str, str], ...]) -> str | None:
    """Return why a Python cannot run workers of Dask with these variables; None when it can."""
    environment = {**users_environment(), **dict(variables)}
    program = shutil.which(python, path=environment.get("PATH"))
    if program is None:
        return "it is not there, or may not be run"
    words = [program, "-c", "import distributed"]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return describe(error)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it fails"])[-1]
