"""Finds the parts: one file each in its room, or an entry point of another package. Nothing registers itself twice.

A room is a package (`headrace.targets`, `headrace.workloads`, `headrace.probes`, `headrace.faults`,
`headrace.engine`); a part is a class in one of its modules that has the room's base class and a `kind` of its own.
Packages outside Headrace add parts by the entry point group of the same name.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import pkgutil
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

Part = TypeVar("Part")


@cache
def parts(room: str, base: type[Part]) -> dict[str, type[Part]]:
    """Every part of a room, by kind, in alphabetical order.

    `room` is the dotted package name, `base` the class that all its parts have. Raises `RuntimeError` when two
    parts claim one kind: that is a defect, not a user's mistake.
    """
    package = importlib.import_module(room)
    modules = [
        importlib.import_module(f"{room}.{found.name}") for found in pkgutil.iter_modules(package.__path__)
    ]
    classes: list[type[Part]] = []
    for module in modules:
        for _, item in inspect.getmembers(module, inspect.isclass):
            if issubclass(item, base) and item.__module__ == module.__name__ and "kind" in vars(item):
                classes.append(item)
    classes.extend(entry.load() for entry in entry_points(group=room))
    found: dict[str, type[Part]] = {}
    for item in classes:
        kind = str(vars(item)["kind"])
        if kind in found:
            raise RuntimeError(f"two parts of {room} claim the kind {kind!r}: {found[kind]} and {item}")
        found[kind] = item
    return dict(sorted(found.items()))


def nearest(word: str, allowed: list[str]) -> str | None:
    """The allowed word that `word` most likely means, or None when nothing is near."""
    close = difflib.get_close_matches(word, allowed, n=1, cutoff=0.6)
    return close[0] if close else None
