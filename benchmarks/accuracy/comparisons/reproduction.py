"""The four source studies, simulated, against what they published."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, median

from headrace.reproduce import MODULES, reproduce
from headrace.reproduce.published import Number
from rows import Comparison, Row

OF_TABLE = "median size of {} errors"


def _row(study: str, table: str, numbers: list[Number]) -> Row:
    """Return the numbers of one table with one unit and one role."""
    nulls = [abs(each.null_error) for each in numbers if each.null_error is not None]
    points = numbers[0].error_in == "points"
    scale = 100.0 if points else 1.0
    unit = numbers[0].unit
    return Row(
        compared=f"{study}, {table}, {unit or 'share'}",
        unit=unit,
        predicted=fmean(each.obtained for each in numbers),
        measured=fmean(sum(each.target) / 2 for each in numbers),
        error=median(abs(each.error) for each in numbers) * scale,
        null_error=median(nulls) * scale if nulls else None,
        kind="fitted" if numbers[0].role == "calibrate" else "assumption",
        error_unit="points" if points else "%",
        note=OF_TABLE.format(len(numbers)),
    )


def _is_one(number: Number) -> bool:
    """Return whether a number is compared with a value, and not with a bound."""
    return all(abs(end) != float("inf") for end in number.target)


def rows(_: Path | None) -> list[Row]:
    """Simulate the studies; needs a clone, and two minutes of CPU time."""
    found: list[Row] = []
    for study, module in MODULES.items():
        groups: dict[tuple[str, ...], list[Number]] = {}
        for number in filter(_is_one, reproduce(module).numbers):
            key = (number.table, number.unit, number.role, number.error_in)
            groups.setdefault(key, []).append(number)
        found += [_row(study, key[0], numbers) for key, numbers in groups.items()]
    return found


COMPARISON = Comparison(
    title="Four published studies",
    model="jobs on drives, file systems, schedulers and servers (the whole simulator)",
    source="the four studies that Headrace reproduces: PROOF on SSDs, worker nodes with SSDs, "
    "energy of a cluster, storage options; their tables are in python/headrace/published. A row "
    "is the numbers of one table with one unit: their means, and the median size of their errors. "
    "Numbers that were published as a bound only are left out.",
    null="of each study one sentence, such as “as many workers as one worker's 12.5 MB/s, on every "
    "drive”; `headrace reproduce` prints it.",
    rows=rows,
    notes=(
        "Every study has values or mechanisms that were chosen when predicted rows were known. "
        "Which numbers they reach cannot be told apart, so no row here counts as predicted. What "
        "each finding depends on, and the skill of each study, is in [reproduce](reproduce.md).",
    ),
)
