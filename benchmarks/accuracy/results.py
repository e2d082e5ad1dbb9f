"""Results of comparisons: one JSON file each, kept until the comparison is run again."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import headrace
from rows import Comparison, Row

FOLDER = Path(__file__).parent / "results"
DIGITS = 5


@dataclass(frozen=True)
class Result:
    """A comparison as it came out once."""

    name: str
    title: str
    model: str
    source: str
    null: str
    command: str
    notes: tuple[str, ...]
    date: str
    machine: str
    version: str
    rows: tuple[Row, ...]


def result_of(name: str, comparison: Comparison, rows: list[Row]) -> Result:
    """Return the result of a comparison that was run now, on this machine."""
    return Result(
        name,
        comparison.title,
        comparison.model,
        comparison.source,
        comparison.null,
        command_of(name, comparison),
        comparison.notes,
        date.today().isoformat(),
        machine(),
        headrace.__version__,
        tuple(rows),
    )


def command_of(name: str, comparison: Comparison) -> str:
    """Return the command that runs a comparison."""
    return comparison.command or f"make accuracy ONLY={name}"


def save(result: Result) -> None:
    """Write the result over the one before."""
    table = asdict(result)
    table["rows"] = [_rounded(row) for row in table["rows"]]
    (FOLDER / f"{result.name}.json").write_text(json.dumps(table, indent=1) + "\n")


def load() -> list[Result]:
    """Return all kept results, by name."""
    found: list[Result] = []
    for file in sorted(FOLDER.glob("*.json")):
        table = json.loads(file.read_text())
        rows = tuple(Row(**row) for row in table.pop("rows"))
        found.append(Result(**{**table, "notes": tuple(table["notes"]), "rows": rows}))
    return found


def machine() -> str:
    """Return the CPUs, their number, and the kernel."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model}, {os.cpu_count()} CPUs, Linux {platform.release().partition('-')[0]}"


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """So that a change of a result is seen in the file, and noise of the last digit is not."""
    return {
        key: float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
        for key, value in row.items()
    }
