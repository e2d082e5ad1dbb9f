"""Errors of a simulation: one study, measured and simulated, cell by cell. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd

from headrace.analysis.compare import cells_of, mean_of, on_studies
from headrace.analysis.findings import Estimate
from headrace.analysis.metrics import valid_trials
from headrace.analysis.read import Records
from headrace.analysis.scatter import spreads_by_cell
from headrace.analysis.trial_row import TrialRow
from headrace.errors import RefusedError

SIMULATED = "simulated"
CONFIDENCE = 0.95
WAITS = ("wait_block_s", "wait_network_s", "other_s")


@dataclass(frozen=True)
class CellError:
    """One cell of both result sets."""

    target: str
    workload: str
    levels: dict[str, object]
    """Levels of all factors but target and workload; includes `slots`."""
    provenance: str
    """Provenance of the real trials: measured or emulated."""
    real_s: Estimate
    """Time from the release to the end of the last job."""
    simulated_s: Estimate
    """The same in virtual time, for the work that the real jobs did."""
    error: float
    """simulated / real - 1."""
    of_cpu: float
    """The part of `error` that is CPU time of the jobs, as a share of their measured time."""
    of_waits: float
    """The same of waits for storage and network; the rest are waits for a CPU."""
    seen: bool
    """False when the simulated time is within the interval of the measured one."""


@dataclass(frozen=True)
class ModelErrors:
    """Every common cell, and the cells without a counterpart."""

    title: str
    cells: tuple[CellError, ...]
    only_real: tuple[str, ...]
    only_simulated: tuple[str, ...]
    warnings: tuple[str, ...]

    def quantile(self, share: float) -> float:
        """Return the absolute error that this share of the cells does not exceed."""
        return float(np.quantile([abs(cell.error) for cell in self.cells], share))


def model_errors(a: Records, b: Records) -> ModelErrors:
    """Compare times in virtual time with real ones. Arguments may be in either order.

    Jobs that run for a set time do different amounts of work in the two. Their times are scaled to
    equal work: events, or bytes requested and written where there are none. Raises RefusedError
    unless exactly one result set is simulated, and when no cell is in both.
    """
    found = {
        is_simulated: records
        for records in (a, b)
        if (is_simulated := _is_simulated(records)) is not None
    }
    if len(found) < 2:
        raise RefusedError(
            f"{a.root} and {b.root} are not one measured and one simulated result set",
            hint="headrace run STUDY and headrace simulate STUDY make them",
        )
    real, simulated = found[False], found[True]
    rows_real, rows_simulated = valid_trials(real), valid_trials(simulated)
    cells_real, cells_simulated = cells_of(rows_real), cells_of(rows_simulated)
    spreads = _spreads(rows_real, cells_real), _spreads(rows_simulated, cells_simulated)
    cells = [
        _cell(
            rows_real.iloc[cells_real[name]],
            rows_simulated.iloc[cells_simulated[name]],
            (spreads[0][name], spreads[1][name]),
        )
        for name in cells_real
        if name in cells_simulated
    ]
    if not cells:
        raise RefusedError(
            f"{real.root} and {simulated.root} have no cell in common: "
            f"{next(iter(cells_real))} is only in the first",
            hint="simulate the study that was measured",
        )
    warnings: list[str] = []
    if real.header.study_hash != simulated.header.study_hash:
        warnings.append(on_studies(real, simulated))
    left_out = sum(1 for valid in real.trials["valid"] if not valid)
    if left_out:
        trials = "1 measured trial" if left_out == 1 else f"{left_out} measured trials"
        warnings.append(f"left out: {trials} that cannot be trusted")
    return ModelErrors(
        real.header.title,
        tuple(cells),
        tuple(name for name in cells_real if name not in cells_simulated),
        tuple(name for name in cells_simulated if name not in cells_real),
        tuple(warnings),
    )


def _is_simulated(records: Records) -> bool | None:
    """Return whether all valid trials are simulated; None when only some are.

    Raises RefusedError without a valid trial.
    """
    rows = valid_trials(records)
    if not len(rows):
        raise RefusedError(f"{records.root} has no valid trial to compare")
    kinds = {provenance == SIMULATED for provenance in rows["provenance"]}
    return kinds.pop() if len(kinds) == 1 else None


def _spreads(rows: Any, cells: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the scatter of the times of each cell's storage between repeats (`pooled_spreads`)."""
    times = pd.DataFrame({"time_s": _times_s(rows)})
    return {cell: each["time_s"] for cell, each in spreads_by_cell(rows, times, cells).items()}


def _cell(real: Any, simulated: Any, spreads: tuple[float, float]) -> CellError:
    """Return the error of a cell. `spreads`: of the real and of the simulated times."""
    first = cast("TrialRow", real.head(1).to_dict("records")[0])
    real_s, simulated_s = _times_s(real), _times_s(simulated)
    work, simulated_work = _work(real), _work(simulated)
    # Jobs of a set time: scale the virtual time to the work that the real jobs did.
    scale = work / simulated_work if work and simulated_work else 1.0
    simulated_s = simulated_s * scale
    measured = mean_of(real_s, tuple(real["id"]), CONFIDENCE, spread=spreads[0])
    modelled = mean_of(simulated_s, tuple(simulated["id"]), CONFIDENCE, spread=spreads[1])
    low, high = measured.low, measured.high
    return CellError(
        target=first["target"],
        workload=first["workload"],
        levels={
            **{
                name: level
                for name, level in first["levels"].items()
                if name not in ("target", "workload")
            },
            "slots": int(first["slots"]),
        },
        provenance=first["provenance"],
        real_s=measured,
        simulated_s=modelled,
        error=modelled.value / measured.value - 1,
        of_cpu=_part(real, simulated, scale, ("on_cpu_s",)),
        of_waits=_part(real, simulated, scale, WAITS),
        seen=low is None or high is None or not low <= modelled.value <= high,
    )


def _times_s(rows: Any) -> np.ndarray:
    sustained = (rows["load"] == "sustained") & (rows["window_s"] > 0)
    return rows["window_s"].where(sustained, rows["last_done_s"]).to_numpy(float)


def _part(real: Any, simulated: Any, scale: float, columns: tuple[str, ...]) -> float:
    """Return simulated less measured time of the jobs in these columns, as a share of their
    measured time."""

    def spent(rows: Any) -> float:
        return sum(float(rows[name].mean()) for name in columns)

    return (scale * spent(simulated) - spent(real)) / float(real["wall_s"].mean())


def _work(rows: Any) -> float:
    """Return the mean work of a trial: events; bytes where there are none; 0 where neither is
    counted."""
    sustained = (rows["load"] == "sustained") & (rows["window_s"] > 0)

    def done(name: str) -> float:
        return float(rows[f"window_{name}"].where(sustained, rows[name]).mean())

    return done("events") or done("bytes_asked") + done("bytes_written")


def as_json(errors: ModelErrors) -> str:
    """Return all errors as JSON, for `--json`."""
    cells = [
        {
            "target": cell.target,
            "workload": cell.workload,
            "levels": cell.levels,
            "provenance": cell.provenance,
            "real_s": cell.real_s.value,
            "real_s_low": cell.real_s.low,
            "real_s_high": cell.real_s.high,
            "simulated_s": cell.simulated_s.value,
            "error": cell.error,
            "error_of_cpu": cell.of_cpu,
            "error_of_waits": cell.of_waits,
        }
        for cell in errors.cells
    ]
    return json.dumps(
        {"title": errors.title, "cells": cells, "warnings": list(errors.warnings)}, indent=1
    )
