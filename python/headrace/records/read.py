"""Reading records: a results folder as data frames and as a DuckDB relation. Needs no engine, target or workload."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import HeadraceError
from headrace.plan.table import read_plan
from headrace.plan.trial import Plan
from headrace.records.store import RECORD_SCHEMA, ResultsHeader, read_header
from headrace.records.sums import SUMMED, WINDOWED

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
]
_SUMS = ["jobs", *SUMMED, "throughput_jobs", "window_s", *(f"window_{name}" for name in WINDOWED)]


@dataclass(frozen=True)
class Records:
    """Everything that a results folder holds. Frames of jobs and series are made when asked for; nothing is written."""

    root: Path
    header: ResultsHeader
    plan: Plan | None
    """None when it cannot be read; `warnings` says why."""
    trials: pd.DataFrame = field(repr=False)
    """A row a trial by its place in the plan: fields of trial.json (`levels`, `run`, `location`, `results` as dicts, `reasons` as
    (code, text) pairs, `environment` as its number in `environments`), `device_…` totals, and `sums` over its jobs."""
    environments: tuple[dict[str, Any], ...] = field(repr=False)
    """Every environment that occurs."""
    warnings: tuple[str, ...]
    """Damaged records, each named."""

    def __len__(self) -> int:
        return len(self.trials)

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """A row a job (docs/records.md), with its trial's levels."""
        return self.relation().df()

    def relation(self) -> duckdb.DuckDBPyRelation:
        """Every job with its trial's target, workload, levels, repeat, validity and provenance, as a DuckDB relation.

        A factor whose name is that of a job column stands there as `level_NAME`. Raises HeadraceError without any job.
        """
        trials = self.trials[self.trials["jobs"].notna()]
        files = [str(self.root / "trials" / name / "jobs.parquet") for name in trials["id"]]
        if not files:
            raise HeadraceError(f"{self.root} holds no job yet")
        import duckdb

        connection = duckdb.connect()
        jobs = connection.read_parquet(files, filename=True, hive_partitioning=False)  # pyright: ignore[reportArgumentType, reportCallIssue]
        own = ("target", "workload", "slots", "cell", "repeat", "valid", "provenance")
        columns: dict[str, Any] = {"filename": files, **{name: list(trials[name]) for name in own}}
        for factor in dict.fromkeys(factor for levels in trials["levels"] for factor in levels):
            if factor not in own:
                name = f"level_{factor}" if factor in jobs.columns else factor
                columns[name] = [_plain(levels.get(factor)) for levels in trials["levels"]]
        connection.register("trial_levels", pd.DataFrame(columns))
        jobs.create_view("job_rows")
        return connection.sql("select * exclude (filename) from job_rows join trial_levels using (filename)")

    def trial_record(self, trial: str) -> dict[str, Any]:
        """The whole trial.json. Raises HeadraceError when there is none."""
        path = self.root / "trials" / trial / "trial.json"
        try:
            return json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise HeadraceError(f"{path}: cannot read the record: {error}") from error

    def trial_jobs(self, trial: str, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of a trial's jobs. Raises HeadraceError when the file is damaged."""
        path = self.root / "trials" / trial / "jobs.parquet"
        try:
            return pq.read_table(path, columns=list(columns)).to_pandas()
        except (OSError, pa.ArrowException) as error:
            raise HeadraceError(f"{path}: cannot read the jobs: {error}") from error

    def series_kinds(self, trial: str) -> tuple[str, ...]:
        """Probes that left a series of this trial."""
        return tuple(
            sorted(file.stem for file in (self.root / "trials" / trial / "series").glob("*.parquet"))
        )

    def series(self, trial: str, kind: str) -> pd.DataFrame:
        """What a probe saw over time: `time_s` since the release, then its columns; empty when it left nothing.

        Raises HeadraceError when the file is damaged.
        """
        path = self.root / "trials" / trial / "series" / f"{kind}.parquet"
        if not path.exists():
            return pd.DataFrame()
        try:
            return pq.read_table(path).to_pandas()
        except (OSError, pa.ArrowException) as error:
            raise HeadraceError(f"{path}: cannot read the series: {error}") from error


def read(results: Path) -> Records:
    """The records of a results folder.

    Raises RefusedError when it is no results folder or of another version. Damaged records are skipped and named in `warnings`.
    """
    header = read_header(results)
    warnings: list[str] = []
    plan: Plan | None = None
    try:
        plan = read_plan(results / "plan.parquet")
    except HeadraceError as error:
        warnings.append(error.message)
    rows: list[dict[str, Any]] = []
    shared = _Shared()
    trials_path = results / "trials"
    for name in _trial_names(trials_path):
        directory = f"{trials_path}/{name}"
        try:
            with open(f"{directory}/trial.json", "rb") as file:  # noqa: PTH123 - ten thousand times, a Path costs as much as the file
                values = json.load(file)
            row = _row(values, shared)
            if row["jobs"] is not None:
                _check_parquet(f"{directory}/jobs.parquet")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            warnings.append(f"record {name} is damaged and left out: {_cause(error)}")
            continue
        rows.append({"id": name, **row})
    rows.sort(key=lambda row: (row["index"], row["id"]))
    trials = _frame(rows)
    for name in (*_SUMS, *(f"device_{name}" for name in _DEVICE), "last_done_s", "stonewall_s", "energy_j"):
        if name in trials:
            trials[name] = trials[name].astype("float64")
    return Records(results, header, plan, trials, tuple(shared.environments), tuple(warnings))


class _Shared:
    """Keeps one copy of what thousands of trials have in common."""

    def __init__(self) -> None:
        self.environments: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}
        self._values: dict[str, Any] = {}

    def environment(self, values: dict[str, Any]) -> int:
        """Its number."""
        text = json.dumps(values, sort_keys=True)
        if text not in self._numbers:
            self._numbers[text] = len(self.environments)
            self.environments.append(values)
        return self._numbers[text]

    def value(self, value: Any) -> Any:
        """The first equal value seen. Whoever reads it leaves it as it is."""
        return self._values.setdefault(json.dumps(value, sort_keys=True), value)


def _trial_names(trials: Path) -> Iterable[str]:
    if not trials.is_dir():
        return []
    with os.scandir(trials) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir())


def _row(values: dict[str, Any], shared: _Shared) -> dict[str, Any]:
    """One row of `Records.trials`. Raises KeyError or ValueError for a record that lacks what every record has."""
    if values["schema"] != RECORD_SCHEMA:
        raise ValueError(f"it has record schema {values['schema']}, this Headrace reads {RECORD_SCHEMA}")
    if values["status"] not in ("done", "failed", "unsupported"):
        raise ValueError(f"status {values['status']!r}")
    run, device, cpu = values.get("run") or {}, values.get("device") or {}, values.get("cpu") or {}
    sums = values.get("sums") or {}
    if values["status"] == "done" and not sums:
        raise KeyError("sums")
    row: dict[str, Any] = {
        name: values[name] for name in ("cell", "index", "repeat", "whole_plot", "seed", "status", "engine")
    }
    row |= {
        "study_hash": values["study"]["hash"],
        "provenance": values.get("provenance") or "measured",
        "cause": values.get("cause"),
        "valid": bool(values["validity"]["valid"]) and values["status"] == "done",
        "reasons": tuple((reason["code"], reason["text"]) for reason in values["validity"]["reasons"]),
        "target": values["target"]["name"],
        "target_kind": values["target"]["kind"],
        "workload": values["workload"]["name"],
        "workload_kind": values["workload"]["kind"],
        "loads_storage": bool(values["workload"].get("loads_storage")),
        "slots": int(run.get("slots") or values["levels"].get("slots") or 1),
        "nodes": int(run.get("nodes") or 1),
        "load": run.get("load") or "batch",
        "cache": run.get("cache"),
        "levels": shared.value(values["levels"]),
        "run": shared.value(run),
        "location": shared.value(values.get("location") or {}),
        "results": shared.value(values.get("results") or {}),
        "faults": shared.value(values.get("faults") or []),
        "environment": shared.environment(values.get("environment") or {}),
        "cpu_cores": cpu.get("cores"),
        "cpu_busy_s": cpu.get("busy_s"),
        "network_bytes": _network_bytes((values.get("probes") or {}).get("network") or {}),
        "energy_j": ((values.get("probes") or {}).get("power") or {}).get("energy_j"),
    }
    for name in ("started_utc", "duration_s", "stonewall_s", "last_done_s"):
        row[name] = values.get(name)
    for name in _DEVICE:
        row[f"device_{name}"] = device.get(name)
    for name in _SUMS:
        row[name] = sums.get(name)
    return row


def _network_bytes(network: dict[str, Any]) -> int | None:
    """Bytes that the nodes which run jobs sent and received; None where none was watched."""
    nodes = [counts for name, counts in network.items() if name.startswith("node-")]
    return sum(counts["bytes_sent"] + counts["bytes_received"] for counts in nodes) if nodes else None


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Texts as plain objects: what reads them goes through them one by one, and Arrow's strings are slow at that."""
    if not rows:
        return pd.DataFrame(columns=["id", "index", "jobs", "levels"])
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return pd.DataFrame(
        {
            name: pd.Series(values, dtype=object) if isinstance(values[0], (str, dict, tuple)) else values
            for name, values in columns.items()
        }
    )


def _check_parquet(path: str) -> None:
    """Raises ValueError when the file does not end as a Parquet file does; what is in it is read only when asked for."""
    with open(path, "rb") as file:  # noqa: PTH123 - as above
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4))
        if file.read() != b"PAR1":
            raise ValueError("jobs.parquet is truncated")


def _cause(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"trial.json lacks {error}"
    if isinstance(error, FileNotFoundError):
        return f"{Path(str(error.filename)).name} is missing"
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def _plain(level: Any) -> Any:
    return json.dumps(level) if isinstance(level, (dict, list)) else level
