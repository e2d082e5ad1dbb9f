"""Results of one study over months: values of every cell by run, and what changed. Pure.

Each run is judged against the one before by the gate; beside its verdict stands what differs
between the two: settings of the study, the site, versions, kernel, location of the storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.analysis.compare import (
    JOB_RATE,
    cells_of,
    comparable_rows,
    environment_differences,
    mean_of,
)
from headrace.analysis.environment import study_differences
from headrace.analysis.find import FindOptions
from headrace.analysis.findings import Difference, EnvironmentDifference, Estimate
from headrace.analysis.gate import Gate, GateVerdict, gate
from headrace.analysis.metrics import (
    headline_metric,
    secondary_metrics,
    trial_metrics,
)
from headrace.analysis.read import Records
from headrace.analysis.scatter import spreads_by_cell
from headrace.errors import HeadraceError
from headrace.metrics import metric_of


@dataclass(frozen=True)
class HistoryRun:
    """One results folder of a history."""

    records: Records
    changes: tuple[EnvironmentDifference, ...]
    """What differs from the run before, as A; settings of the study are named `study.…`."""
    gate: Gate | None
    """The run judged against the one before; None for the first one and if it cannot be judged."""
    not_judged: str = ""
    """Why it cannot be judged."""


@dataclass(frozen=True)
class HistoryPoint:
    """The value of a cell in one run."""

    run: int
    """Its position in `StudyHistory.runs`."""
    value: Estimate
    verdict: GateVerdict | None
    """Against the run before; None where one of the two has no value."""


@dataclass(frozen=True)
class CellHistory:
    """One cell over all runs."""

    cell: str
    metric: str
    points: tuple[HistoryPoint, ...]

    @property
    def marked(self) -> int:
        """The number of runs in which it is seen to be worse or better than before."""
        return sum(1 for each in self.points if each.verdict in ("worse", "better"))


@dataclass(frozen=True)
class StudyHistory:
    """Runs of one study, the earliest first."""

    runs: tuple[HistoryRun, ...]
    cells: tuple[CellHistory, ...]
    """Those that changed most often first."""
    metrics: tuple[str, ...]
    """What may be asked for: main and secondary metrics of the runs."""


def history(
    runs: Sequence[Records], *, metric: str | None = None, tolerance: float = 0.05
) -> StudyHistory:
    """Return how every cell went on from run to run, in the order of their creation.

    `metric`: as `[report] metric`; of each run's own study when None.
    """
    ordered = sorted(runs, key=lambda each: each.header.created_utc)
    made = [
        _judged(before, each, metric, tolerance)
        for before, each in zip([None, *ordered], ordered, strict=False)
    ]
    verdicts: dict[tuple[int, str, str], GateVerdict] = {
        (number, cell_of(cell.difference), cell.difference.metric): cell.verdict
        for number, run in enumerate(made)
        if run.gate is not None
        for cell in run.gate.cells
    }
    found: dict[tuple[str, str], list[HistoryPoint]] = {}
    metrics: dict[str, None] = {}
    for number, records in enumerate(ordered):
        for name, cell, value in _values(records, metric, metrics):
            verdict = verdicts.get((number, cell, name))
            found.setdefault((cell, name), []).append(HistoryPoint(number, value, verdict))
    cells = [CellHistory(cell, name, tuple(points)) for (cell, name), points in found.items()]
    cells.sort(key=lambda each: -each.marked)
    return StudyHistory(tuple(made), tuple(cells), tuple(metrics))


def cell_of(difference: Difference) -> str:
    """Return a cell as text, as `cells_of` names it."""
    rows = {
        "target": [difference.target],
        "workload": [difference.workload],
        "slots": [difference.slots],
        "levels": [difference.levels],
    }
    return next(iter(cells_of(rows)))


def _judged(
    before: Records | None, now: Records, metric: str | None, tolerance: float
) -> HistoryRun:
    if before is None:
        return HistoryRun(now, (), None)
    changes = (*study_differences(before.study, now.study), *environment_differences(before, now))
    try:
        found = gate(before, now, metric=metric, tolerance=tolerance)
    except HeadraceError as error:
        return HistoryRun(now, changes, None, error.message)
    return HistoryRun(now, changes, found)


def _values(
    records: Records, wanted: str | None, metrics: dict[str, None]
) -> list[tuple[str, str, Estimate]]:
    """Return metric, cell and value of every cell of a run; add what it has to `metrics`."""
    options = FindOptions.of_records(records)
    if wanted is not None:
        options = replace(options, metric=wanted)
    rows: Any = comparable_rows(records)
    if not len(rows):
        return []
    values: Any = trial_metrics(rows, options.price)
    found: list[tuple[str, str, Estimate]] = []
    cells = cells_of(rows)
    spreads = spreads_by_cell(rows, values, cells)
    for cell, at in cells.items():
        mine = values.iloc[at]
        main = headline_metric(None, mine)
        metrics.update(dict.fromkeys([main, *secondary_metrics(main, mine)] if main else []))
        name = headline_metric(options.metric, mine)
        if records.watched and name == JOB_RATE:
            continue
        if name is None or (wanted is not None and name != wanted):
            continue
        numbers = mine[name].to_numpy()
        keep = numbers > 0
        if keep.any():
            trials = tuple(rows["id"].iloc[at[keep]])
            highest = metric_of(name).highest
            value = mean_of(numbers[keep], trials, options.confidence, highest, spreads[cell][name])
            found.append((name, cell, value))
    return found
