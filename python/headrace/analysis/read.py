"""Read a results folder as data frames and as a DuckDB relation.

Needs no engine, target or workload.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.analysis.trial_row import TrialRow, trial_rows
from headrace.errors import HeadraceError
from headrace.metrics import provenances_of, uncertainties_of, values_of
from headrace.plan.trial import Plan
from headrace.records.energy_basis import basis_of
from headrace.records.meter_errors import MeterErrors, metered_errors, total_errors
from headrace.records.plan_file import read_plan
from headrace.records.store import RETRIED, WATCHED, ResultsHeader, read_header
from headrace.records.sums import SUMMED, WINDOWED
from headrace.records.tables import read_table
from headrace.records.trial_record import PASSING, JsonObject, TrialRecord, decode

if TYPE_CHECKING:
    import duckdb

_DEVICE = [
    "bytes_read",
    "bytes_written",
    "requests_read",
    "requests_write",
    "busy_s",
    "read_latency_s",
    "write_latency_s",
    "flash_host_bytes",
    "flash_written_bytes",
]
_NUMBERS = ("last_done_s", "stonewall_s")
_SUMS = [
    "jobs",
    *SUMMED,
    "open_s",
    "efficiencies",
    "throughput_jobs",
    "window_s",
    *(f"window_{name}" for name in WINDOWED),
]


@dataclass(frozen=True)
class Records:
    """The contents of a results folder.

    Frames of jobs and series are read on demand; nothing is written.
    """

    root: Path
    header: ResultsHeader
    plan: Plan | None
    """None when it cannot be read; `warnings` says why."""
    trials: pd.DataFrame = field(repr=False)
    """One row per trial, in plan order: the fields of trial.json (`levels`, `run`, `location`,
    `results`, `target_options`, `workload_options` as dicts, `reasons` and `warnings` as (code,
    text) pairs, `environment` as an index into `environments`), `device_…` totals, `sums` over its
    jobs, and `metrics` (`headrace.metrics`) by name."""
    environments: tuple[JsonObject, ...] = field(repr=False)
    """Every distinct environment."""
    warnings: tuple[str, ...]
    """One warning per damaged record, and one if the plan cannot be read."""
    damaged: tuple[str, ...] = ()
    """Ids of the trials whose records are damaged."""

    def __len__(self) -> int:
        return len(self.trials)

    @property
    def planned(self) -> int:
        """Number of planned trials; without a plan, of those that have records."""
        return len(self) + len(self.damaged) if self.plan is None else len(self.plan.trials)

    @cached_property
    def retried(self) -> tuple[str, ...]:
        """Names of the records set aside because their trials were run again."""
        folder = self.root / RETRIED
        return tuple(sorted(path.name for path in folder.iterdir())) if folder.is_dir() else ()

    @cached_property
    def rows(self) -> list[TrialRow]:
        """The trials one by one, with the columns that findings read by row."""
        return trial_rows(self.trials)

    @cached_property
    def study(self) -> dict[str, Any]:
        """The study file stored with the records; empty where it cannot be read."""
        try:
            return tomllib.loads((self.root / "study.toml").read_text("utf-8"))
        except (OSError, ValueError):
            return {}

    @cached_property
    def watched(self) -> bool:
        """Whether the trials are windows of a watch: as many jobs as ran then, not as many as a
        study wants."""
        try:
            return (self.root / "study.toml").read_text("utf-8").startswith(WATCHED)
        except (OSError, ValueError):
            return False

    @property
    def invalid(self) -> tuple[str, ...]:
        """Ids of the trials that finished and cannot be trusted."""
        if not len(self):
            return ()
        left: Any = self.trials[
            (self.trials["status"] == "done") & ~self.trials["valid"].astype(bool)
        ]
        return tuple(left["id"])

    @property
    def to_retry(self) -> tuple[str, ...]:
        """Ids of the invalid trials, and of those that failed for a reason that may pass."""
        if not len(self):
            return ()
        failed: Any = self.trials[self.trials["status"] == "failed"]
        passing = [
            str(trial)
            for trial, reasons in zip(failed["id"], failed["reasons"], strict=True)
            if any(code in PASSING for code, _ in reasons)
        ]
        return (*self.invalid, *passing)

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """One row per job (docs/records.md), with the levels of its trial."""
        import duckdb

        relation = self.relation()
        try:
            return relation.df()
        except (duckdb.Error, UnicodeDecodeError) as error:
            raise HeadraceError(f"{self.root}: {_first_line(error)}") from None

    def relation(self) -> duckdb.DuckDBPyRelation:
        """Return every job with its trial's target, workload, levels, repeat, validity and
        provenance, as a DuckDB relation.

        A factor with the name of a job column is renamed to `level_NAME`. Raises HeadraceError when
        there is no job, and when a file of jobs is damaged.
        """
        trials = self.trials[self.trials["jobs"].notna()]
        files = [str(self.root / "trials" / name / "jobs.parquet") for name in trials["id"]]
        if not files:
            raise HeadraceError(f"{self.root} holds no job yet")
        import duckdb

        connection = duckdb.connect()
        try:
            jobs = connection.read_parquet(files, filename=True, hive_partitioning=False)  # pyright: ignore[reportArgumentType, reportCallIssue]
        except (duckdb.Error, UnicodeDecodeError) as error:
            damaged = next((file for file in files if not _is_parquet(file)), str(self.root))
            raise HeadraceError(f"{damaged}: cannot read the jobs: {_first_line(error)}") from None
        own = ("target", "workload", "slots", "cell", "repeat", "valid", "provenance")
        columns: dict[str, object] = {
            "filename": files,
            **{name: list(trials[name]) for name in own},
        }
        for factor in dict.fromkeys(factor for levels in trials["levels"] for factor in levels):
            if factor not in own:
                name = f"level_{factor}" if factor in jobs.columns else factor
                columns[name] = [_plain(levels.get(factor)) for levels in trials["levels"]]
        connection.register("trial_levels", pd.DataFrame(columns))
        jobs.create_view("job_rows")
        return connection.sql(
            "select * exclude (filename) from job_rows join trial_levels using (filename)"
        )

    def trial_record(self, trial: str) -> TrialRecord:
        """Return the whole trial.json. Raises HeadraceError when it cannot be read."""
        path = self.root / "trials" / trial / "trial.json"
        try:
            return decode(path.read_bytes())
        except (OSError, ValueError) as error:
            raise HeadraceError(f"{path}: cannot read the record: {error}") from error

    def trial_jobs(self, trial: str, columns: Sequence[str]) -> pd.DataFrame:
        """Return these columns of a trial's jobs. Raises HeadraceError when the file is damaged."""
        path = self.root / "trials" / trial / "jobs.parquet"
        try:
            return read_table(path, columns).to_pandas(use_threads=False)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise HeadraceError(f"{path}: cannot read the jobs: {error}") from error

    def series(self, trial: str, kind: str) -> pd.DataFrame:
        """Return the samples of a probe: `time_s` since the release, then its columns.

        The frame is empty without samples. Raises HeadraceError when the file is damaged.
        """
        path = self.root / "trials" / trial / "series" / f"{kind}.parquet"
        if not path.exists():
            return pd.DataFrame()
        try:
            return read_table(path).to_pandas(use_threads=False)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise HeadraceError(f"{path}: cannot read the series: {error}") from error


def read(results: Path) -> Records:
    """Return the records of a results folder.

    Raises UsageError when the folder is not a results folder, RefusedError when it has another
    version. Damaged records are skipped and named in `warnings`.
    """
    header = read_header(results)
    warnings: list[str] = []
    plan: Plan | None = None
    try:
        plan = read_plan(results / "plan.parquet")
    except HeadraceError as error:
        warnings.append(error.message)
    rows: list[dict[str, object]] = []
    damaged: list[str] = []
    shared = _Shared()
    trials_path = results / "trials"
    for name in _trial_names(trials_path):
        directory = f"{trials_path}/{name}"
        try:
            record = decode(_contents(f"{directory}/trial.json"))
            row = _row(record, shared)
            if row["jobs"] is not None:
                _check_parquet(f"{directory}/jobs.parquet")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            warnings.append(f"record {name} is damaged and left out: {_cause(error)}")
            damaged.append(name)
            continue
        rows.append({"id": name, **row})
    return Records(
        results,
        header,
        plan,
        _frame(rows),
        tuple(shared.environments),
        tuple(warnings),
        tuple(damaged),
    )


def trials_frame(records: Iterable[TrialRecord]) -> pd.DataFrame:
    """Return records that are not stored in a folder as rows of `Records.trials`."""
    shared = _Shared()
    return _frame([{"id": record.id, **_row(record, shared)} for record in records])


class _Shared:
    """Keeps one copy of values that thousands of trials have in common."""

    def __init__(self) -> None:
        self.environments: list[JsonObject] = []
        self._numbers: dict[bytes, int] = {}
        self._values: dict[bytes, Any] = {}
        self._empty: dict[type, Any] = {}

    def environment(self, values: JsonObject) -> int:
        """Return the index of this environment."""
        text = _key(values)
        if text not in self._numbers:
            self._numbers[text] = len(self.environments)
            self.environments.append(values)
        return self._numbers[text]

    def value(self, value: Any) -> Any:
        """Return the first equal value seen. It is shared: callers must not change it."""
        if not value:
            return None if value is None else self._empty.setdefault(type(value), value)
        return self._values.setdefault(_key(value), value)


def _key(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def _trial_names(trials: Path) -> Iterable[str]:
    if not trials.is_dir():
        return []
    with os.scandir(trials) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


def _row(record: TrialRecord, shared: _Shared) -> dict[str, object]:
    """Return one row of `Records.trials`.

    Raises ValueError for a record with status `done` that has no sums over its jobs.
    """
    sums = record.sums or {}
    if record.status == "done" and not sums:
        raise ValueError("trial.json lacks 'sums'")
    row: dict[str, object] = {
        "cell": record.cell,
        "index": record.index,
        "repeat": record.repeat,
        "whole_plot": record.whole_plot,
        "seed": record.seed,
        "status": record.status,
        "engine": record.engine,
        "study_hash": record.study.hash,
        "provenance": record.provenance,
        "cause": record.cause,
        "valid": record.validity.valid and record.status == "done",
        "reasons": tuple((reason.code, reason.text) for reason in record.validity.reasons),
        "warnings": tuple((warning.code, warning.text) for warning in record.validity.warnings),
        "interference": record.interference,
        "target": record.target.name,
        "target_kind": record.target.kind,
        "target_options": shared.value(record.target.options),
        "workload": record.workload.name,
        "workload_kind": record.workload.kind,
        "workload_options": shared.value(record.workload.options),
        "loads_storage": record.workload.loads_storage,
        "slots": record.slots,
        "nodes": record.nodes,
        "load": record.run.get("load") or "batch",
        "cache": record.run.get("cache"),
        "levels": shared.value(record.levels),
        "run": shared.value(record.run),
        "location": shared.value(record.location),
        "results": shared.value(record.results),
        "faults": shared.value(record.faults),
        "inventory": shared.value(record.inventory),
        "environment": shared.environment(record.environment),
        "cpu_cores": None if record.cpu is None else record.cpu.cores,
        "cpu_busy_s": None if record.cpu is None else record.cpu.busy_s,
        "metrics": values_of(record),
        "metric_provenances": shared.value(provenances_of(record)),
        "metric_uncertainties": uncertainties_of(record),
        "meter_errors": shared.value(_meter_errors(record)),
        "energy_basis": shared.value(basis_of(record.energy)),
        "started_utc": record.started_utc,
        "duration_s": record.duration_s,
        "stonewall_s": record.stonewall_s,
        "last_done_s": record.last_done_s,
    }
    for name in _DEVICE:
        row[f"device_{name}"] = None if record.device is None else getattr(record.device, name)
    for name in _SUMS:
        row[name] = sums.get(name)
    return row


def _meter_errors(record: TrialRecord) -> dict[str, MeterErrors]:
    """Return the errors of the meters of `total` and `metered` energy, where there are any."""
    if not record.energy.channels:
        return {}
    host = str(record.environment.get("hostname") or "")
    found = {
        "total": total_errors(record.energy, host),
        "metered": metered_errors(record.energy, host),
    }
    return {name: errors for name, errors in found.items() if errors is not None}


def _frame(rows: list[dict[str, object]]) -> pd.DataFrame:
    """Return the rows in plan order.

    Text columns have dtype object: callers iterate over single values, which is slow with Arrow's
    strings.
    """
    if not rows:
        return pd.DataFrame(columns=["id", "index", "jobs", "levels"])
    rows = sorted(rows, key=lambda row: (row["index"], row["id"]))
    names, values = list(rows[0]), zip(*(row.values() for row in rows), strict=True)
    return pd.DataFrame(
        {name: _column(name, list(each)) for name, each in zip(names, values, strict=True)}
    )


_FLOATS = frozenset((*_SUMS, *(f"device_{name}" for name in _DEVICE), *_NUMBERS))
"""Columns of numbers that may be missing."""


def _column(name: str, values: list[Any]) -> Any:
    if name in _FLOATS:
        return np.array(values, dtype=np.float64)
    if isinstance(values[0], (str, dict, tuple)):
        return pd.Series(values, dtype=object)
    return values


def _contents(path: str) -> bytes:
    """Return the bytes of a file. For ten thousand, a Path or a Python file costs as much as its
    contents."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        pieces: list[bytes] = []
        while piece := os.read(descriptor, 1 << 20):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def _check_parquet(path: str) -> None:
    """Raise ValueError when the file does not end with the Parquet magic; its content is read on
    demand."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        end = os.fstat(descriptor).st_size
        if os.pread(descriptor, 4, max(0, end - 4)) != b"PAR1":
            raise ValueError("jobs.parquet is truncated")
    finally:
        os.close(descriptor)


def _is_parquet(path: str) -> bool:
    """Return whether the Parquet footer can be read."""
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowException, UnicodeDecodeError):
        return False
    return True


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def _cause(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"trial.json lacks {error}"
    if isinstance(error, FileNotFoundError):
        return f"{Path(str(error.filename)).name} is missing"
    return _first_line(error)


def _plain(level: Any) -> Any:
    return json.dumps(level) if isinstance(level, (dict, list)) else level
