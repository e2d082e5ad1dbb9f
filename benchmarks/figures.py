"""What benchmarks have in common: where they write their figures, and whether to run in small.

Each figure is one line of JSON in the file that `HEADRACE_FIGURES` names: `python benchmarks` sets
it and prints the table of all figures at its end. With `HEADRACE_SMALL` some run at a small size,
to see that they run (`tests/e2e/test_benchmarks.py`): their figures mean nothing then.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

SMALL = bool(os.environ.get("HEADRACE_SMALL"))
"""Whether to run at a small size."""


@dataclass(frozen=True)
class Figure:
    """What was measured for one row of the table."""

    row: str
    """A key of `table.ROWS`, or of no row: such figures are not in the table."""
    value: float
    peers: dict[str, float] = field(default_factory=dict[str, float])
    """Figures of peers in the same run, by name."""


def note(row: str, value: float, peers: dict[str, float] | None = None) -> None:
    """Write a figure, unless the benchmark runs by itself."""
    file = os.environ.get("HEADRACE_FIGURES")
    if file:
        with Path(file).open("a") as out:
            out.write(json.dumps(asdict(Figure(row, value, peers or {}))) + "\n")


def read(file: Path) -> dict[str, Figure]:
    """Return the figures of a file by row."""
    lines = file.read_text().splitlines() if file.exists() else []
    figures = [Figure(**json.loads(line)) for line in lines]
    return {figure.row: figure for figure in figures}
