"""Headrace: a laboratory for the storage of analysis clusters (library: docs/commands.md).

results = headrace.simulate("study.toml")     # or headrace.run: real jobs on real storage
findings, files = headrace.report(results)
headrace.records(results).df()                # one row per job
"""

from __future__ import annotations

import sys
from types import ModuleType

# Without `typing`, which takes half of the time until a command hears Ctrl-C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headrace.errors import HeadraceError as HeadraceError
    from headrace.errors import StudyError as StudyError
    from headrace.library import LoadedStudy as LoadedStudy
    from headrace.library import compare as compare
    from headrace.library import decide as decide
    from headrace.library import gate as gate
    from headrace.library import load_study as load_study
    from headrace.library import records as records
    from headrace.library import report as report
    from headrace.library import resume as resume
    from headrace.library import run as run
    from headrace.library import simulate as simulate
    from headrace.library import sweep as sweep
    from headrace.notebook import WhatIf as WhatIf
    from headrace.notebook import what_if as what_if

    __version__: str

__all__ = [
    "HeadraceError",
    "LoadedStudy",
    "StudyError",
    "WhatIf",
    "__version__",
    "compare",
    "decide",
    "gate",
    "load_study",
    "records",
    "report",
    "resume",
    "run",
    "simulate",
    "sweep",
    "what_if",
]


def __getattr__(name: str) -> Any:
    # Imported on first use: job processes and `headrace --help` need none of it.
    if name == "__version__":
        from importlib.metadata import version

        return version("headrace")
    if name in ("HeadraceError", "StudyError"):
        from headrace import errors

        return getattr(errors, name)
    if name in ("WhatIf", "what_if"):
        from headrace import notebook

        return getattr(notebook, name)
    if name in __all__:
        from headrace import library

        return getattr(library, name)
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "__doc__", "__file__", "__path__"})


class _CallablePackage(ModuleType):
    """A package that shares its name with a library function; calling it calls the function."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        from headrace import library

        return getattr(library, self.__name__.rpartition(".")[2])(*arguments, **named)


class _Headrace(ModuleType):
    """Keep `headrace.records` and `headrace.report` callable after the packages are imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and isinstance(value, ModuleType):
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Headrace
