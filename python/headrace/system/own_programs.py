"""Programs and libraries of Headrace's own that are not Python: where `make setup` has put them.

The emulator's daemon, the metadata client and the recorder's library are built from `crates/` and lie beside the interpreter,
so that what runs is always what belongs to this installation.
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

from headrace.errors import MissingError


def own_program(name: str) -> Path:
    """The absolute path of a program of ours, such as `headrace-emulator`. Raises MissingError when it was not built."""
    beside = Path(sysconfig.get_path("scripts")) / name
    if beside.is_file():
        return beside
    if found := shutil.which(name):
        return Path(found)
    raise MissingError(f"{name} is missing: it is built by make setup", hint="run make setup")


def own_library(name: str) -> Path:
    """The absolute path of a shared library of ours, such as `libheadrace_recorder.so`. Raises MissingError when it was not built."""
    path = Path(sysconfig.get_path("data")) / "lib" / "headrace" / name
    if path.is_file():
        return path
    raise MissingError(f"{name} is missing: it is built by make setup", hint="run make setup")
