"""One module per comparison: each has a `COMPARISON`."""

from __future__ import annotations

import importlib
import pkgutil

from rows import Comparison


def comparisons() -> dict[str, Comparison]:
    """Return every comparison by its name, in alphabetical order."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").COMPARISON for name in names}
