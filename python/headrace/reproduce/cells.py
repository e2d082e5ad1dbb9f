"""Reproduction: simulate and analyse the cells of study files; records stay in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace.analysis.findings import Point
from headrace.analysis.metrics import trial_metrics
from headrace.analysis.points import PointOptions, make_points
from headrace.analysis.read import trials_frame
from headrace.engine.simulate.simulator import Cores, ScenarioRefusal, Simulator
from headrace.engine.simulate.trials import PreparedTrial, SimulatedTrial
from headrace.errors import HeadraceError, InterruptedRunError
from headrace.plan.order import make_plan
from headrace.records.trial_record import TrialRecord
from headrace.study import load_study

_POINTS = PointOptions(confidence=0.95, statistic="mean", efficiency=0.9, provenance={})


@dataclass(frozen=True)
class StudyCell:
    """Identity of a cell of a study file."""

    file: str
    target: str
    workload: str
    levels: dict[str, object]

    def has(self, name: str, wanted: Any) -> bool:
        """Return whether `target`, `workload` or a factor has this level."""
        own = {"target": self.target, "workload": self.workload}
        return own.get(name, self.levels.get(name)) == wanted


@dataclass(frozen=True)
class ObtainedCell(StudyCell):
    """Results of a cell, over all its repeats."""

    point: Point
    """The cell's point from the analysis."""
    records: tuple[TrialRecord, ...]

    def metric(self, name: str) -> float:
        """Return a metric of the analysis (`analysis/metrics.py`), mean over the repeats; NaN
        where the cell has none."""
        found = self.point.metrics.get(name)
        return math.nan if found is None else found.value

    def per_job(self, name: str) -> float:
        """Return a sum over the jobs of all repeats (`records/sums.py`), per job."""
        sums = [record.sums or {} for record in self.records]
        return sum(each[name] for each in sums) / sum(each["jobs"] for each in sums)


class ObtainedCells:
    """Cells of a study, found by their levels."""

    def __init__(self, cells: Sequence[ObtainedCell]) -> None:
        self._cells = cells

    def __iter__(self) -> Iterator[ObtainedCell]:
        return iter(self._cells)

    def find(self, file: str, **wanted: Any) -> ObtainedCell:
        """Return the one cell of a study file with these levels: `target`, `workload` and factors.

        A dot in a factor is written as `__`. Raises KeyError unless exactly one cell matches.
        """
        found = self.all(file, **wanted)
        if len(found) != 1:
            raise KeyError(f"{len(found)} cells of {file} have {wanted}")
        return found[0]

    def all(self, file: str, **wanted: Any) -> list[ObtainedCell]:
        """Return all cells of a study file with these levels."""
        plain = {name.replace("__", "."): value for name, value in wanted.items()}
        return [
            cell
            for cell in self._cells
            if cell.file == file and all(cell.has(name, value) for name, value in plain.items())
        ]


def run_cells(
    files: Sequence[Path],
    *,
    simulator: Simulator | None = None,
    only: Callable[[StudyCell], bool] | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> ObtainedCells:
    """Simulate every cell of the study files; `only` selects cells to run.

    Cells that are the same scenario, seed included, are simulated once.

    `simulator`: where; None: on all cores.

    Raises HeadraceError when a trial fails, cannot be trusted or leaves jobs unfinished,
    InterruptedRunError when stopped.
    """
    planned = [each for file in files for each in _planned(file, only)]
    found: dict[int, TrialRecord] = {}
    broken: list[str] = []

    equal: dict[str, list[int]] = {}
    for index, (_, prepared) in enumerate(planned):
        equal.setdefault(prepared.scenario(series=False), []).append(index)
    alike = list(equal.values())

    def finished(number: int, outcome: str | None, refusal: ScenarioRefusal | None) -> bool:
        return all(recorded(index, outcome, refusal) for index in alike[number])

    def recorded(index: int, outcome: str | None, refusal: ScenarioRefusal | None) -> bool:
        setting, prepared = planned[index]
        made = prepared.simulated(outcome, refusal)
        problem = _problem(made)
        if problem is not None:
            levels = prepared.trial.levels
            broken.append(
                f"{setting.file}: {setting.target} {setting.workload} {levels}: {problem}"
            )
            return False
        found[index] = made.record.with_jobs(made.jobs)
        if progress is not None:
            progress(len(found), len(planned))
        return True

    (simulator or Cores()).run(list(equal), finished, cancelled)
    if broken:
        raise HeadraceError(broken[0])
    if len(found) < len(planned):
        raise InterruptedRunError("stopped")
    cells: list[ObtainedCell] = []
    for file in dict.fromkeys(setting.file for setting, _ in planned):
        own = [index for index, (setting, _) in enumerate(planned) if setting.file == file]
        cells += _cells([planned[index][0] for index in own], [found[index] for index in own])
    return ObtainedCells(cells)


def _planned(
    file: Path, only: Callable[[StudyCell], bool] | None
) -> Iterator[tuple[StudyCell, PreparedTrial]]:
    study = load_study(file)
    for trial in make_plan(study).trials:
        setting = StudyCell(file.stem, trial.target, trial.workload, trial.levels)
        if only is None or only(setting):
            # Common random numbers: cells differ only in the levels compared, not in random draws.
            common = replace(trial, seed=study.plan_options.seed + trial.repeat)
            yield setting, PreparedTrial.of(study, common)


def _problem(made: SimulatedTrial) -> str | None:
    """Return why no number may use a trial; None when it may."""
    left = sum(row["exit"] != "ok" for row in made.jobs)
    if left:
        why = "; ".join(made.record.why) or "the run was over before them"
        return f"{left} jobs did not end: {why}"
    return None if made.record.verdict == "done" else "; ".join(made.record.why)


def _cells(settings: Sequence[StudyCell], records: Sequence[TrialRecord]) -> list[ObtainedCell]:
    """Return the cells of one study file from its records, in plan order."""
    frame = trials_frame(records)
    points = {point.cell: point for point in make_points(frame, trial_metrics(frame), {}, _POINTS)}
    repeats: dict[str, list[TrialRecord]] = {}
    for record in records:
        repeats.setdefault(record.cell, []).append(record)
    which = {record.cell: setting for setting, record in zip(settings, records, strict=True)}
    return [
        ObtainedCell(
            each.file, each.target, each.workload, each.levels, points[cell], tuple(repeats[cell])
        )
        for cell, each in which.items()
    ]
