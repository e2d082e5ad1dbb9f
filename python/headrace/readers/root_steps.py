"""RDataFrame's steps for columns of the user's own files: one for each type, compiled once.

Compiling one takes about 0.4 s. A workload compiles those for the types of the first file before
its jobs start (`compile_for_file`); a job compiles only those for types that it meets first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable
from typing import Literal

from headrace.datasets.number_types import NUMBERS
from headrace.errors import HeadraceError
from headrace.readers.root_reader import root_frames

Step = Literal["taking", "copying"]
"""Take a column; define a copy of it, for Snapshot."""

ALL_TYPES = tuple(f"{of}{number}" for of in ("", "list of ") for number in NUMBERS)

_compiled: set[tuple[Step, str]] = set()


def compile_steps(types: Collection[str], *, copied: bool) -> None:
    """Compile the steps for columns of these types, those for copies too when `copied`.

    Raises HeadraceError when ROOT refuses.
    """
    steps: tuple[Step, ...] = ("taking", "copying") if copied else ("taking",)
    missing = [
        each
        for step in steps
        for kind in dict.fromkeys(types)
        if (each := (step, kind)) not in _compiled
    ]
    if not missing:
        return
    module = root_frames()
    name = f"compile_steps_{len(_compiled)}"
    lines = (f'steps().{step}["{kind}"] = {step}<{_in_cpp(kind)}>;' for step, kind in missing)
    code = f"namespace headrace {{ inline void {name}() {{ {' '.join(lines)} }} }}"
    if not module.gInterpreter.Declare(f"#pragma cling optimize(2)\n{code}\n"):
        raise HeadraceError(f"ROOT cannot compile the reading of {', '.join(types)}")
    getattr(module.headrace, name)()
    _compiled.update(missing)


def compile_for_file(types_of_file: Callable[[], Iterable[str]], *, copied: bool) -> None:
    """Compile the steps for the types of a file, or for all types when it cannot be read here.

    `types_of_file` runs in a process of its own: ROOT may crash on a damaged file.
    """
    compile_steps(said_in_child(types_of_file) or ALL_TYPES, copied=copied)


def compiled_steps() -> frozenset[tuple[Step, str]]:
    """Return the steps that this process has compiled, with the types of their columns."""
    return frozenset(_compiled)


def said_in_child(types_of_file: Callable[[], Iterable[str]]) -> list[str]:
    """Return what the function returns in a fork of this process; nothing when it fails."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "w") as output:
                json.dump(sorted(set(types_of_file())), output)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as written:
        text = written.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else []


def _in_cpp(kind: str) -> str:
    number = kind.removeprefix("list of ")
    return number if number == kind else f"ROOT::RVec<{number}>"
