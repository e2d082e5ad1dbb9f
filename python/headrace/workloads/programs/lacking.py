"""What a machine lacks to run a program of the user."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

_LINE_BYTES = 1024


def first_line(program: str, environment: Mapping[str, str]) -> list[str]:
    """Return the interpreter that a program's first line names, with its arguments, or nothing."""
    found = shutil.which(program, path=environment.get("PATH"))
    if found is None:
        return []
    try:
        with Path(found).open("rb") as file:
            line = file.readline(_LINE_BYTES)
    except OSError:  # may be run, but not read
        return []
    return line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []


def lack_of(program: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return what is missing to run a program, and the remedy; None when nothing is."""
    if shutil.which(program, path=environment.get("PATH")) is None:
        what = f"the program {program} is not there, or may not be run"
        return what, f"install {program}, or give its full path in `command`"
    interpreter = first_line(program, environment)[:1]
    if interpreter and not os.access(interpreter[0], os.X_OK):
        what = f"{interpreter[0]}, which the first line of {program} names, is not there"
        return what, f"install it, or correct the first line of {program}"
    return None
