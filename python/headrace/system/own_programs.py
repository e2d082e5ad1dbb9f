"""Programs and libraries of Headrace: how its own processes are started.

The compiled ones are the emulator's daemon, the metadata client, the block trace reader, and the
recorder's library, built from `crates/`. An installed wheel contains them in the package; `make
setup` puts them next to the interpreter, so that they always belong to this installation.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

from headrace.errors import MissingError

_PACKAGED = Path(__file__).parents[1] / "programs"
_REMEDY = "run make setup in the clone, or install Headrace from its wheel again"


def own_program(name: str) -> Path:
    """Return the absolute path of a program of ours, such as `headrace-emulator`.

    Raises MissingError when it was not built.
    """
    for folder in (_PACKAGED, Path(sysconfig.get_path("scripts"))):
        if (folder / name).is_file():
            return folder / name
    if found := shutil.which(name):
        return Path(found)
    raise MissingError(f"{name}, a program of Headrace's own, is missing", hint=_REMEDY)


def own_module(module: str, *words: str) -> list[str]:
    """Return the command that runs a module of ours in this Python, as `python -m` does.

    -P: a file in the user's working directory must not be imported in place of a library.
    """
    return [sys.executable, "-P", "-m", module, *words]


def own_code(code: str, *words: str) -> list[str]:
    """Return the command that runs Python code of ours, as `python -c` does, but with -P as above.

    Classes of a module that is run so are known to other processes; those of `__main__` are not.
    """
    return [sys.executable, "-P", "-c", code, *words]


def own_library(name: str) -> Path:
    """Return the absolute path of a shared library of ours, such as `libheadrace_recorder.so`.

    Raises MissingError when it was not built.
    """
    for folder in (_PACKAGED, Path(sysconfig.get_path("data")) / "lib" / "headrace"):
        if (folder / name).is_file():
            return folder / name
    raise MissingError(f"{name}, a library of Headrace's own, is missing", hint=_REMEDY)
