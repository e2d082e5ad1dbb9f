"""What benchmarks have in common: where they write their figures, and whether to run in small.

Each figure is one line of JSON in the file that `HEADRACE_FIGURES` names: `make bench` sets it and
prints the table of all figures at its end (`table.py`). With `HEADRACE_SMALL` benchmarks run at a
small size, to see that they run (`tests/e2e/test_benchmarks.py`): their figures mean nothing then.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

SMALL = bool(os.environ.get("HEADRACE_SMALL"))
"""Whether to run at a small size."""


def note(row: str, value: float, *, peers: dict[str, float] | None = None) -> None:
    """Write a figure of a row of the table (`table.ROWS`), with those of peers in the same run."""
    file = os.environ.get("HEADRACE_FIGURES")
    if not file:
        return
    figure = {"row": row, "value": value, "peers": peers or {}}
    with Path(file).open("a") as out:
        out.write(json.dumps(figure) + "\n")
