"""Fits a drive's free parameters to measurements of the real drive: fio results, and traces.

Reports the parameters that the data cannot determine. Least squares on the logarithm of
model/measured, and on differences of quantiles of response times of traces divided by their mean
(scipy, trust region), over parameters scaled to their bounds, in stages: rates from
sequential loads, seek and overhead from random reads at queue depth 1 (with the data sheet as a
prior), reordering from queues. A parameter is not determined if it changes no result by more than
`LEAST_EFFECT` over its whole range, or if its standard error stays above `MOST_ERROR` of its range:
it keeps the value of the drive's table and is reported.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from headrace.catalog import CatalogEntry
from headrace.drives.evidence import Evidence, read_evidence
from headrace.drives.fio import Observed
from headrace.drives.free_parameters import FREE, STAGES, UNSTATED, Parameter
from headrace.drives.kept_values import Kept, kept_values
from headrace.drives.observed_traces import ObservedTrace, TraceReplay
from headrace.drives.running import run_drive
from headrace.errors import FileProblem, StudyError
from headrace.scenario import Table

LEAST_EFFECT = 0.01
"""Least effect on the logarithm of a result, over a parameter's whole range."""
MOST_ERROR = 0.25
"""Standard error divided by range; above it a value would be a guess."""
MOST_STEP_MS = 4.0
"""Seek to the next cylinder; longer ones belong to no disk since 1990 (HP 97560: 3.6 ms)."""
NOISE = 0.01
"""Least relative uncertainty of a fio result; runs of one minute repeat about this well."""
INNER_TO_OUTER = (0.35, 1.0)
"""Rate of the inner zone divided by that of the outer one: the ratio of their radii, which the hub
and the size of the platter bound. Disks of the catalog lie between 0.45 and 0.68, one with a single
zone at 1; 0.35 is an assumption."""
STEP = 0.08
"""Share of a parameter's range, for finite differences: large enough to exceed the noise of a short
run."""

UNTOUCHED = "no result given depends on it"
TOO_VAGUE = (
    "its standard error is above a quarter of its range: the results given hardly tell it, or not "
    "from the other parameters"
)
NO_GAIN = "other values of it bring the model hardly nearer to the results given"
TOO_FEW = "the results given are too few for more parameters"


@dataclass(frozen=True)
class Fitted:
    """One parameter after the fit."""

    name: str
    before: float
    value: float
    error: float | None
    """Standard error; None if it was not fitted."""
    determined: bool
    why: str = ""


@dataclass(frozen=True)
class Residual:
    """One measured result and the model's results."""

    job: str
    quantity: str
    measured: float
    before: float
    fitted: float
    left_out: float | None
    """The model's result if fitted without this file (cross-validation); None with a single
    file."""


@dataclass(frozen=True)
class Demerit:
    """One trace: root mean square distance of the distributions of response times."""

    trace: str
    requests: int
    mean_ns: float
    """Measured mean."""
    before: float
    """Divided by the mean, as are the others."""
    fitted: float
    left_out: float | None = None
    """If fitted without this file (cross-validation); None with a single file."""


@dataclass(frozen=True)
class Fit:
    """A fitted drive and its evidence."""

    table: Table
    parameters: list[Fitted]
    residuals: list[Residual]

    demerits: list[Demerit] = field(default_factory=list["Demerit"])
    kept: list[Kept] = field(default_factory=list["Kept"])
    """Values that no fit changes, with what the results make of them."""

    @property
    def rms_error(self) -> float:
        """Root mean square of log(model/measured) of fio results, and of the demerits of traces
        divided by their means."""
        logs = [math.log(each.fitted / each.measured) for each in self._of_fio()]
        return _rms([*logs, *(each.fitted for each in self.demerits)])

    @property
    def cross_error(self) -> float | None:
        """The same in cross-validation; None with a single file."""
        left = [math.log(each.left_out / each.measured) for each in self._of_fio() if each.left_out]
        left += [each.left_out for each in self.demerits if each.left_out is not None]
        return _rms(left) if left else None

    def _of_fio(self) -> list[Residual]:
        traces = {each.trace for each in self.demerits}
        return [each for each in self.residuals if each.job not in traces]


def _silent(text: str) -> None:
    """Ignore a progress message."""


def _rms(values: Sequence[float]) -> float:
    return math.sqrt(sum(value * value for value in values) / len(values))


def fit_drive(
    entry: CatalogEntry,
    files: Sequence[Path],
    *,
    runtime_s: float | None = None,
    replay: TraceReplay | None = None,
    progress: Callable[[str], None] | None = None,
) -> Fit:
    """Fit a drive to fio results and traces, with leave-one-file-out cross-validation if there are
    several files.

    `runtime_s` is the virtual run time of each load (None: of a disk as long as fio measured, up
    to a minute, of an SSD a few seconds), `replay` how traces are replayed. Raises StudyError
    if the drive has no free parameter or a file is neither.
    """
    observed, owner = read_evidence(entry, files, runtime_s, replay or TraceReplay())
    kind = str(entry.table["kind"])
    stated = _with_unstated(entry.table, observed)
    free = [
        each for each in FREE.get(kind, ()) if isinstance(_get(stated, each.path), (int, float))
    ]
    if not free:
        raise StudyError(
            [FileProblem(entry.file, 0, "kind", kind, "has no parameter that could be fitted")]
        )
    say = progress or _silent
    files_of = ", ".join(dict.fromkeys(owner))
    say(f"fitting {entry.name} to {files_of}: {len(free)} free parameters")
    table, parameters = _fit(stated, free, observed, say)
    without = _cross(stated, free, observed, owner, say)
    left_out = [without.get(of) for of in owner]
    residuals = _residuals(entry.table, table, observed, left_out)
    demerits = _demerits(entry.table, table, observed, left_out)
    say("values that are not fitted: whether the results depend on them")
    kept = kept_values(table, lambda changed: _safe(changed, observed, [], np.asarray([])))
    return Fit(table, parameters, residuals, demerits, kept)


def _residuals(
    before: Table, after: Table, observed: Sequence[Evidence], left_out: Sequence[Table | None]
) -> list[Residual]:
    """Return what was measured beside the drive before and after the fit, and beside that fitted
    without the file of each measurement."""
    found: list[Residual] = []
    for job, without in zip(observed, left_out, strict=True):
        first, last = _model(before, job), _model(after, job)
        crossed = {} if without is None else _model(without, job)
        found += [
            Residual(job.name, name, measured, first[name], last[name], crossed.get(name))
            for name, measured in job.values.items()
            if name in last and name in first
        ]
    return found


def _demerits(
    before: Table, after: Table, observed: Sequence[Evidence], left_out: Sequence[Table | None]
) -> list[Demerit]:
    """Return the same for the distributions of traces."""
    return [
        Demerit(
            job.name,
            len(job.trace),
            job.mean_ns,
            job.demerit(before),
            job.demerit(after),
            None if without is None else job.demerit(without),
        )
        for job, without in zip(observed, left_out, strict=True)
        if isinstance(job, ObservedTrace)
    ]


def _with_unstated(table: Table, observed: Sequence[Evidence]) -> Table:
    """Return the table with the defaults of fields that the results tell and it does not have."""
    found = copy.deepcopy(table)
    loads = [job.load for job in observed if isinstance(job, Observed)]
    for path, default, told_by in UNSTATED.get(str(table["kind"]), ()):
        if _get(table, path) is None and any(map(told_by, loads)):
            cast("dict[str, Any]", found).setdefault(path[0], {})[path[1]] = default
    return found


def _get(table: Table, path: tuple[str, ...]) -> Any:
    value: Any = table
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _put(table: Table, path: tuple[str, ...], value: float) -> None:
    for key in path[:-1]:
        table = cast("Table", table[key])
    table[path[-1]] = value


def _with(table: Table, free: Sequence[Parameter], scaled: npt.NDArray[np.float64]) -> Table:
    changed = copy.deepcopy(table)
    for parameter, at in zip(free, scaled, strict=True):
        _put(changed, parameter.path, parameter.value(float(at)))
    return changed


def _model(table: Table, job: Evidence) -> dict[str, float]:
    if isinstance(job, ObservedTrace):
        return job.model(table)
    result = run_drive(table, job.load)
    found: dict[str, float] = {}
    for direction, part in (("read", result["read"]), ("write", result["write"])):
        if part["requests"] > 0:
            found[f"{direction}.iops"] = part["iops"]
            found[f"{direction}.latency_ns_mean"] = part["latency_ns_mean"]
    return found


def _logs(table: Table, observed: Sequence[Evidence]) -> npt.NDArray[np.float64]:
    """Return log(model/measured) of every IOPS, and the misfit of every trace. Latencies at a fixed
    queue depth carry the same information (Little's law)."""
    logs: list[float] = []
    for job in observed:
        if isinstance(job, ObservedTrace):
            logs += job.misfit(table).tolist()
            continue
        model = _model(table, job)
        logs += [
            math.log(max(model.get(quantity, 1e-9), 1e-9) / measured)
            for quantity, measured in job.values.items()
            if quantity.endswith(".iops")
        ]
    return np.asarray(logs)


def possible(table: Table) -> bool:
    """Return whether the rates are those of one platter, and the arm can be as slow."""
    seek = table.get("seek")
    if isinstance(seek, dict):
        step_ms = [cast("Table", seek).get(name) for name in ("short_base_ms", "short_root_ms")]
        given = all(isinstance(each, float) for each in step_ms)
        if given and sum(cast("list[float]", step_ms)) >= MOST_STEP_MS:
            return False
    outer, inner = (
        _get(table, ("rates", name)) for name in ("outer_bytes_per_s", "inner_bytes_per_s")
    )
    if not isinstance(outer, (int, float)) or not isinstance(inner, (int, float)):
        return True
    low, high = INNER_TO_OUTER
    return low <= inner / outer <= high


def _safe(
    table: Table,
    observed: Sequence[Evidence],
    free: Sequence[Parameter],
    at: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64] | None:
    tried = _with(table, free, at)
    if not possible(tried) and possible(table):
        return None
    try:
        return _logs(tried, observed)
    except StudyError:  # an impossible combination, such as track-to-track above average seek
        return None


def _fit(
    table: Table,
    free: Sequence[Parameter],
    observed: Sequence[Evidence],
    say: Callable[[str], None],
) -> tuple[Table, list[Fitted]]:
    start = {each.name: each.scaled(float(_get(table, each.path))) for each in free}
    why: dict[str, str] = {}
    base = _logs(table, observed)
    left: list[Parameter] = []
    for each in free:
        # More than the two ends: an impossible drive (outer rate below the inner one, or above the
        # link) gives no information.
        ends = [
            _safe(table, observed, [each], np.asarray([end])) for end in (0.02, 0.35, 0.65, 0.98)
        ]
        effect = max(
            (float(np.max(np.abs(end - base))) for end in ends if end is not None), default=0.0
        )
        if effect < LEAST_EFFECT:
            why[each.name] = UNTOUCHED
        else:
            left.append(each)
    fitted, errors = copy.deepcopy(table), dict[str, float]()
    rest = ("the rest", None, None)
    for _, belongs, names in (*STAGES.get(str(table["kind"]), ()), rest):
        wanted = [
            each
            for each in left
            if each.name not in errors and (names is None or each.name in names)
        ]
        jobs = [
            job
            for job in observed
            if belongs is None or (isinstance(job, Observed) and belongs(job.load))
        ]
        if wanted and jobs and len(errors) < len(base):
            taken, at, found, passed_over = _chosen(
                fitted, wanted, start, jobs, _logs(fitted, jobs), say
            )
            fitted = _with(fitted, taken, at)
            errors |= found
            why |= passed_over
    why = {each.name: why.get(each.name, TOO_FEW) for each in free if each.name not in errors}
    parameters: list[Fitted] = []
    for each in free:
        before, value = float(_get(table, each.path)), float(_get(fitted, each.path))
        error = None
        if each.name in errors:
            centre, width = each.scaled(value), errors[each.name]
            error = abs(each.value(centre + width) - each.value(centre - width)) / 2
        parameters.append(
            Fitted(each.name, before, value, error, error is not None, why.get(each.name, ""))
        )
    return fitted, parameters


def _chosen(
    table: Table,
    candidates: Sequence[Parameter],
    start: dict[str, float],
    observed: Sequence[Evidence],
    base: npt.NDArray[np.float64],
    say: Callable[[str], None],
) -> tuple[list[Parameter], npt.NDArray[np.float64], dict[str, float], dict[str, str]]:
    """Add one parameter at a time, each time the one that helps most, while the results determine
    all parameters and another one still helps. Never use more parameters than results. Return
    them, their values and errors, and why the others are not among them."""
    taken: list[Parameter] = []
    at = np.asarray([], np.float64)
    errors: dict[str, float] = {}
    why = {each.name: TOO_FEW for each in candidates}
    left_over = float(np.sqrt(np.mean(base * base)))
    while len(taken) < len(base):
        best: (
            tuple[float, list[Parameter], npt.NDArray[np.float64], npt.NDArray[np.float64]] | None
        ) = None
        for each in candidates:
            if each in taken:
                continue
            tried = [*taken, each]
            say(f"fitting {', '.join(one.name for one in tried)}")
            found = _least(table, tried, observed, _begin(table, tried, observed, at, start), start)
            logs, spread = (
                _safe(table, observed, tried, found),
                _errors(table, tried, observed, found),
            )
            if logs is None or float(np.max(spread)) > MOST_ERROR:
                why[each.name] = TOO_VAGUE
                continue
            why[each.name] = NO_GAIN
            rest = float(
                np.sqrt(np.mean(logs * logs) + np.sum(_pull(tried, start, found) ** 2) / len(logs))
            )
            if best is None or rest < best[0]:
                best = (rest, tried, found, spread)
        if best is None or left_over - best[0] < NOISE / 2:
            break
        left_over, taken, at = best[0], best[1], best[2]
        errors = {each.name: float(error) for each, error in zip(taken, best[3], strict=True)}
        why |= {each.name: TOO_FEW for each in candidates}
    left = {name: reason for name, reason in why.items() if name not in errors}
    return taken, at, errors, left


def _begin(
    table: Table,
    free: Sequence[Parameter],
    observed: Sequence[Evidence],
    at: npt.NDArray[np.float64],
    stated: dict[str, float],
) -> npt.NDArray[np.float64]:
    """Return the start point for one more parameter: the best of several values. Some act in steps,
    which have no slope."""
    tries = [np.append(at, value) for value in (stated[free[-1].name], 0.1, 0.3, 0.5, 0.7, 0.9)]
    logs = [_safe(table, observed, free, each) for each in tries]
    rests = [math.inf if log is None else float(np.sum(log * log)) for log in logs]
    return tries[int(np.argmin(rests))]


def _pull(
    free: Sequence[Parameter], stated: dict[str, float], at: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the residuals of the prior: distance from the table's values, in units of `doubt`,
    each weighted like a fio result."""
    return np.asarray(
        [
            NOISE * (here - stated[each.name]) / each.doubt()
            for each, here in zip(free, at, strict=True)
        ]
    )


def _least(
    table: Table,
    free: Sequence[Parameter],
    observed: Sequence[Evidence],
    start: npt.NDArray[np.float64],
    stated: dict[str, float],
) -> npt.NDArray[np.float64]:
    def residual(at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        logs = _safe(table, observed, free, at)
        if logs is None:
            return np.full(count, 10.0)
        return np.append(logs, _pull(free, stated, at))

    from scipy.optimize import least_squares  # a quarter of a second, for fits alone

    count = len(_logs(table, observed)) + len(free)
    inside = np.clip(start, 0.01, 0.99)
    found = least_squares(
        residual,
        inside,
        bounds=(0.0, 1.0),
        diff_step=STEP,
        x_scale=0.2,
        xtol=1e-3,
        ftol=1e-3,
        max_nfev=40,
    )
    return np.asarray(found.x, np.float64)


def _errors(
    table: Table,
    free: Sequence[Parameter],
    observed: Sequence[Evidence],
    at: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return the standard errors of the scaled parameters from the curvature at the optimum;
    infinite in directions without curvature."""
    columns: list[npt.NDArray[np.float64]] = []
    here = _safe(table, observed, free, at)
    for index in range(len(free)):
        step = STEP if at[index] < 0.5 else -STEP
        there = at.copy()
        there[index] += step
        moved = _safe(table, observed, free, there)
        columns.append(
            (moved - here) / step if moved is not None and here is not None else np.zeros(1)
        )
    jacobian = np.stack(columns, axis=1)
    left = 0.0 if here is None else float(np.sum(here * here)) / max(1, len(here) - len(free))
    spread = max(NOISE, math.sqrt(left))
    values, vectors = np.linalg.eigh(jacobian.T @ jacobian)
    inverse = np.where(values > 1e-6, 1.0 / np.maximum(values, 1e-12), 1e6)
    return spread * np.sqrt((vectors * vectors) @ inverse)


def _cross(
    table: Table,
    free: Sequence[Parameter],
    observed: Sequence[Evidence],
    owner: Sequence[str],
    say: Callable[[str], None],
) -> dict[str, Table]:
    """Return the drive fitted without each file, by the file's name; none with a single file."""
    files = list(dict.fromkeys(owner))
    without: dict[str, Table] = {}
    for file in files if len(files) > 1 else ():
        say(f"cross-validation without {file}")
        kept = [job for job, of in zip(observed, owner, strict=True) if of != file]
        without[file], _ = _fit(table, free, kept, _silent)
    return without
