"""Discover plug-ins: one module each in its package, or an entry point of another distribution.

The plug-in packages are `headrace.targets`, `headrace.protocols`, `headrace.workloads`,
`headrace.probes`, `headrace.faults`, `headrace.launchers`, `headrace.meters` and `headrace.engine`.
A plug-in is a class in one of their modules that inherits the package's base class and defines its
own `kind`. Other distributions add plug-ins by the entry point group of the same name. There is no
registration call.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from importlib.metadata import EntryPoints, entry_points
from typing import Generic, TypeVar

Plugin = TypeVar("Plugin")


class Plugins(Mapping[str, type[Plugin]], Generic[Plugin]):
    """The plug-ins of a package by kind, in alphabetical order.

    To look up a kind imports only the module of its name (`disk_full.py` for `disk-full`), so that
    a command does not import the plug-ins that it has no use for. All are imported when no module
    has the name, when they are listed, and where another distribution adds plug-ins.
    """

    def __init__(self, package: str, base: type[Plugin]) -> None:
        self.package = package
        self.base = base
        self._modules = [
            found.name for found in pkgutil.iter_modules(importlib.import_module(package).__path__)
        ]
        self._added = tuple(_added(tuple(sys.path))(group=package))
        self._alone: dict[str, type[Plugin]] = {}

    def __getitem__(self, kind: str) -> type[Plugin]:
        """Return the class of a kind. Raises KeyError, and RuntimeError as `_all` does."""
        if "_all" in vars(self) or self._added:
            return self._all[kind]
        if kind not in self._alone:
            module = kind.replace("-", "_")
            classes = self._classes(module) if module in self._modules else []
            named = [item for item in classes if _kind(item) == kind]
            self._alone[kind] = named[0] if named else self._all[kind]
        return self._alone[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def _all(self) -> dict[str, type[Plugin]]:
        """Every class by kind.

        Raises `RuntimeError` when two have the same kind: that is a defect, not a user error.
        """
        classes = [item for module in self._modules for item in self._classes(module)]
        classes.extend(entry.load() for entry in self._added)
        found: dict[str, type[Plugin]] = {}
        for item in classes:
            if found.setdefault(_kind(item), item) is not item:
                raise RuntimeError(
                    f"two plug-ins of {self.package} have the kind {_kind(item)!r}: "
                    f"{found[_kind(item)]} and {item}"
                )
        return dict(sorted(found.items()))

    def _classes(self, name: str) -> list[type[Plugin]]:
        module = importlib.import_module(f"{self.package}.{name}")
        return [
            item
            for _, item in inspect.getmembers(module, inspect.isclass)
            if issubclass(item, self.base)
            and item.__module__ == module.__name__
            and "kind" in vars(item)
        ]


@cache
def parts(package: str, base: type[Plugin]) -> Plugins[Plugin]:
    """Return the plug-ins of a package by kind.

    `package` is the dotted package name, `base` the base class of its plug-ins.
    """
    return Plugins(package, base)


def _kind(plugin: type[object]) -> str:
    return str(vars(plugin)["kind"])


@cache
def _added(path: tuple[str, ...]) -> Callable[..., EntryPoints]:
    """Return the selection from the entry points of all distributions; their files are read once
    for a path.
    """
    return entry_points().select


def nearest(word: str, allowed: list[str]) -> str | None:
    """Return the allowed word most similar to `word`, None when none is similar."""
    close = difflib.get_close_matches(word, allowed, n=1, cutoff=0.6)
    return close[0] if close else None
