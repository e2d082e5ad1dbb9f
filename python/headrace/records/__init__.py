"""Step 4 of the way: append-only records, one directory a trial, made whole elsewhere and renamed into place.

The room can be called: `headrace.records(results)` is every job of a results folder with its trial's levels, as a DuckDB
relation (`.df()` gives a data frame). Function and room share the name, so the room itself answers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


class _Room(ModuleType):
    def __call__(self, results: str | Path) -> duckdb.DuckDBPyRelation:
        """Raises RefusedError when the folder holds no results."""
        from headrace.records.read import read

        return read(Path(results)).relation()


sys.modules[__name__].__class__ = _Room
