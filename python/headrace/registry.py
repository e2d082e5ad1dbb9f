"""Discover plug-ins: one module each in its package, or an entry point of another distribution.

The plug-in packages are `headrace.targets`, `headrace.protocols`, `headrace.workloads`,
`headrace.probes`, `headrace.faults`, `headrace.launchers` and `headrace.engine`. A plug-in is a
class in one of their modules that inherits the package's base class and defines its own `kind`.
Other distributions add plug-ins by the entry point group of the same name. There is no registration
call.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

Plugin = TypeVar("Plugin")


@cache
def parts(package: str, base: type[Plugin]) -> dict[str, type[Plugin]]:
    """Return every plug-in of a package by kind, in alphabetical order.

    `package` is the dotted package name, `base` the base class of its plug-ins. Raises
    `RuntimeError` when two plug-ins have the same kind: that is a defect, not a user error.
    """
    modules = [
        importlib.import_module(f"{package}.{found.name}")
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__)
    ]
    classes: list[type[Plugin]] = []
    for module in modules:
        for _, item in inspect.getmembers(module, inspect.isclass):
            if (
                issubclass(item, base)
                and item.__module__ == module.__name__
                and "kind" in vars(item)
            ):
                classes.append(item)
    classes.extend(entry.load() for entry in entry_points(group=package))
    found: dict[str, type[Plugin]] = {}
    for item in classes:
        kind = str(vars(item)["kind"])
        if kind in found:
            raise RuntimeError(
                f"two plug-ins of {package} have the kind {kind!r}: {found[kind]} and {item}"
            )
        found[kind] = item
    return dict(sorted(found.items()))


def nearest(word: str, allowed: list[str]) -> str | None:
    """Return the allowed word most similar to `word`, None when none is similar."""
    close = difflib.get_close_matches(word, allowed, n=1, cutoff=0.6)
    return close[0] if close else None
