"""Typer's help without Markdown and tracebacks of rich, which it imports and does not use here.

Markdown brings a parser and a traceback a highlighter of source text: half of the time of
`headrace --help`. Typer uses them for help in Markdown and for its own display of exceptions; the
command line has neither (`make_app`). Where something uses them all the same, they are imported.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_UNUSED = ("rich.markdown", "rich.traceback")


class _Deferred(type):
    """The class of classes that stand for one of the same name, which is imported on use."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return cls._real()(*arguments, **named)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._real(), name)

    def _real(cls) -> Any:
        return getattr(importlib.import_module(cls.__module__), cls.__name__)


class _Placeholder(ModuleType):
    """A module whose names are all deferred classes."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Deferred(name, (), {"__module__": self.__name__})


def import_help() -> None:
    """Import what typer shows help with. Afterwards the modules left out can be imported."""
    placed = [name for name in _UNUSED if name not in sys.modules]
    sys.modules.update({name: _Placeholder(name) for name in placed})
    try:
        importlib.import_module("typer.rich_utils")
    finally:
        for name in placed:
            del sys.modules[name]
