"""Writing records: a results folder, the plan in it, and one directory a trial by an atomic rename (docs/records.md).

Whatever happens while a trial is written, its directory is there whole or it is not there; what was left half made is
cleared at the next opening.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import HeadraceError, RefusedError
from headrace.records.sums import job_sums

RECORD_SCHEMA = 1

JOB_COLUMNS = pa.schema(
    [
        ("trial", pa.string()),
        ("job", pa.int32()),
        ("slot", pa.int32()),
        ("node", pa.int32()),
        ("file", pa.string()),
        ("exit", pa.string()),
        ("cause", pa.string()),
        ("start_s", pa.float64()),
        ("end_s", pa.float64()),
        ("wall_s", pa.float64()),
        ("user_s", pa.float64()),
        ("system_s", pa.float64()),
        ("on_cpu_s", pa.float64()),
        ("wait_cpu_s", pa.float64()),
        ("wait_block_s", pa.float64()),
        ("wait_network_s", pa.float64()),
        ("other_s", pa.float64()),
        ("residue_s", pa.float64()),
        ("ledger_source", pa.string()),
        ("events", pa.int64()),
        ("bytes_uncompressed", pa.int64()),
        ("bytes_asked", pa.int64()),
        ("bytes_served", pa.int64()),
        ("bytes_device", pa.int64()),
        ("bytes_unique", pa.int64()),
        ("bytes_written", pa.int64()),
        ("read_calls", pa.int64()),
        ("peak_rss_bytes", pa.int64()),
        (
            "phases",
            pa.list_(pa.struct([("name", pa.string()), ("start_s", pa.float64()), ("end_s", pa.float64())])),
        ),
        ("results", pa.string()),
    ]
)
"""Columns of jobs.parquet (docs/records.md)."""


@dataclass(frozen=True)
class ResultsHeader:
    """What a results folder is of: `results.json`."""

    study_hash: str
    title: str
    engine: str
    base: str
    """Folder that relative paths of the study are relative to."""
    created_utc: str
    headrace_version: str
    schema: int = RECORD_SCHEMA


class PartialRecord:
    """A record being made. `keep` and `series` write into its private directory; `commit` puts it into place."""

    def __init__(self, directory: Path, final: Path) -> None:
        self.directory = directory
        self._final = final
        self.sums: dict[str, float] | None = None
        """Sums over the jobs, as they will stand in trial.json; None before `jobs`."""
        (directory / "series").mkdir(parents=True)

    @property
    def keep(self) -> Path:
        """Directory for what a workload or probe wants to keep."""
        return self.directory

    def series(self, kind: str, rows: list[dict[str, Any]]) -> None:
        """Writes `series/KIND.parquet`."""
        if rows:
            pq.write_table(
                pa.Table.from_pylist(rows), self.directory / "series" / f"{kind}.parquet", compression="zstd"
            )

    def jobs(self, rows: list[dict[str, Any]]) -> None:
        """Writes `jobs.parquet`; columns that a row lacks are null. Their sums go into `trial.json`."""
        self.sums = job_sums(rows)
        pq.write_table(
            pa.Table.from_pylist(rows, schema=JOB_COLUMNS),
            self.directory / "jobs.parquet",
            compression="zstd",
        )

    def commit(self, trial: dict[str, Any]) -> Path:
        """Writes `trial.json`, forces everything to the disk and renames the directory into place."""
        values = {**trial, "sums": self.sums}
        (self.directory / "trial.json").write_text(json.dumps(values, indent=1, sort_keys=True, default=str))
        for found in self.directory.rglob("*"):
            if found.is_file():
                _fsync(found)
        _fsync(self.directory)
        os.rename(self.directory, self._final)  # noqa: PTH104 - the one call that makes the record be there
        _fsync(self._final.parent)
        return self._final

    def discard(self) -> None:
        """Forgets it."""
        shutil.rmtree(self.directory, ignore_errors=True)


class ResultStore:
    """One results folder, locked against a second writer while it is open."""

    def __init__(self, root: Path, header: ResultsHeader, lock: IO[str]) -> None:
        self.root = root
        self.header = header
        self._lock = lock
        self._done = {path.name for path in (root / "trials").iterdir()}

    @classmethod
    def create(
        cls,
        root: Path,
        study_text: str,
        header: ResultsHeader,
        plan_table: pa.Table,  # pyright: ignore[reportUnknownParameterType]
        environment: dict[str, Any],
    ) -> ResultStore:
        """Makes a new results folder. Raises RefusedError when something else stands there."""
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            if (root / "results.json").exists():
                raise RefusedError(
                    f"{root} holds results already",
                    hint=f"headrace resume {root} goes on with them; --results names another folder",
                )
            raise RefusedError(f"{root} is not empty", hint="name a new folder with --results")
        with disk_full(root):
            (root / "trials").mkdir(parents=True)
            (root / "study.toml").write_text(study_text)
            pq.write_table(plan_table, root / "plan.parquet")
            _write_json(root / "environment.json", environment)
            # Last: a folder with it is complete.
            _write_json(root / "results.json", header.__dict__)
        return cls.open(root)

    @classmethod
    def open(cls, root: Path) -> ResultStore:
        """Opens a results folder for writing. Raises RefusedError when it is none, of another version, or in use."""
        header = read_header(root)
        lock = (root / ".lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise RefusedError(
                f"another headrace is writing to {root}", hint="wait for it, or stop it first"
            ) from None
        (root / "trials").mkdir(exist_ok=True)
        for left in root.glob(".making-*"):
            shutil.rmtree(left, ignore_errors=True)
        return cls(root, header, lock)

    def close(self) -> None:
        """Lets others write."""
        self._lock.close()

    def has(self, trial_id: str) -> bool:
        """Whether this trial's record is there."""
        return trial_id in self._done

    @property
    def done(self) -> frozenset[str]:
        """Ids of the trials whose records are there."""
        return frozenset(self._done)

    @contextmanager
    def record(self, trial_id: str) -> Generator[PartialRecord]:
        """A record to be filled and committed in the `with` block; gone when the block ends without a commit."""
        with disk_full(self.root):
            making = self.root / f".making-{trial_id}"
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            partial = PartialRecord(making, self.root / "trials" / trial_id)
            try:
                yield partial
            finally:
                if making.exists():
                    partial.discard()
                else:
                    self._done.add(trial_id)


def read_header(root: Path) -> ResultsHeader:
    """What a results folder is of. Raises RefusedError when it is none or was written by another version."""
    path = root / "results.json"
    if not path.exists():
        raise RefusedError(
            f"{root} is no results folder (it has no results.json)", hint="headrace run STUDY makes one"
        )
    try:
        values = json.loads(path.read_text())
        if values.get("schema") != RECORD_SCHEMA:
            raise RefusedError(
                f"{root} was written with record schema {values.get('schema')}; this Headrace reads {RECORD_SCHEMA}",
                hint=f"use Headrace {values.get('headrace_version')}",
            )
        return ResultsHeader(**values)
    except (ValueError, TypeError) as error:
        raise RefusedError(f"{path} is damaged: {error}") from None


@contextmanager
def disk_full(root: Path) -> Generator[None]:
    """Turns a full or read-only disk into one clear message; what was recorded before is safe."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise HeadraceError(
                f"no space left while records were written to {root}; every finished trial is safe",
                hint=f"free some space, then: headrace resume {root}",
            ) from None
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) and str(root) in str(error.filename):
            raise HeadraceError(
                f"records cannot be written to {root}: {error.strerror}", hint="name a folder with --results"
            ) from None
        raise


def _write_json(path: Path, value: Any) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=1, sort_keys=True, default=str))
    _fsync(partial)
    partial.replace(path)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
