"""Write records: a results folder with its plan, and one directory per trial (docs/records.md).

A trial's directory is renamed into place atomically: it exists complete or not at all. Incomplete
directories are removed when the folder is next opened.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec

from headrace.errors import (
    NO_SPACE,
    CannotRecordError,
    RefusedError,
    UsageError,
    as_word,
    system_words,
)
from headrace.plan.trial import Plan
from headrace.records.sums import job_sums
from headrace.records.trial_record import RECORD_SCHEMA, SCHEMAS_READ, TrialRecord, encode
from headrace.system.claims import in_use

RETRIED = "retried"
"""Subfolder of a results folder with the records of trials that were run again."""
WATCHED = "# Written by headrace watch"
"""How the study of a watch begins."""


@dataclass(frozen=True)
class ResultsHeader:
    """Header of a results folder: `results.json`."""

    study_hash: str
    title: str
    engine: str
    base: str
    """Directory that relative paths of the study refer to."""
    created_utc: str
    headrace_version: str
    schema: int = RECORD_SCHEMA


class PartialRecord:
    """A record in progress: written in a private directory, then put into place by `commit`.

    Every method raises CannotRecordError when the disk is full.
    """

    def __init__(self, directory: Path, final: Path) -> None:
        self.directory = directory
        self._final = final
        self._root = directory.parent
        self.sums: dict[str, float] | None = None
        """Sums over the jobs; None before `jobs`."""
        (directory / "series").mkdir(parents=True)

    @property
    def keep(self) -> Path:
        """Directory for files that a workload or probe keeps."""
        return self.directory

    def series(self, kind: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Write `series/KIND.parquet`."""
        if rows:
            from headrace.records.tables import write_series

            with recording(self._root):
                write_series(rows, self.directory / "series" / f"{kind}.parquet")

    def jobs(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Write `jobs.parquet` and keep the sums over the jobs for `trial.json`.

        Columns missing from a row are null.
        """
        from headrace.records.tables import write_jobs

        self.sums = job_sums(rows)
        with recording(self._root):
            write_jobs(rows, self.directory / "jobs.parquet")

    def text(self, name: str, text: str) -> None:
        """Write a text file into the record."""
        with recording(self._root):
            (self.directory / name).write_text(text, "utf-8")

    def commit(self, trial: TrialRecord) -> TrialRecord:
        """Write `trial.json`, sync everything to disk and rename the directory into place.

        Returns the record as written: with the sums over the jobs.
        """
        made = msgspec.structs.replace(trial, sums=self.sums)
        with recording(self._root):
            (self.directory / "trial.json").write_bytes(encode(made))
            for found in self.directory.rglob("*"):
                if found.is_file():
                    _fsync(found)
            _fsync(self.directory)
            os.rename(self.directory, self._final)  # # noqa: PTH104 - the one call that publishes the record
            _fsync(self._final.parent)
        return made

    def discard(self) -> None:
        """Remove the directory."""
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
        plan: Plan,
        environment: dict[str, object],
    ) -> ResultStore:
        """Create a new results folder, or continue one whose creation was interrupted.

        Raises RefusedError when the folder holds something else.
        """
        check_new_results(root)
        with recording(root):
            (root / "trials").mkdir(parents=True, exist_ok=True)
            (root / "study.toml").write_text(study_text, "utf-8")
            _write_plan(plan, root)
            _write_json(root / "environment.json", environment)
            # Last: a folder with this file is complete.
            _write_json(root / "results.json", header.__dict__)
        return cls.open(root)

    @classmethod
    def open(cls, root: Path) -> ResultStore:
        """Open a results folder for writing.

        Raises UsageError when the folder holds no results or is not writable, RefusedError when it
        is of another version or in use, CannotRecordError when the disk is full.
        """
        header = read_header(root)
        with recording(root):
            lock = _lock_of(root)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                process = lock.read(20) or "that is just beginning"
                lock.close()
                raise in_use(f"the results folder ({root})", process) from None
            _write_process_id(lock)
            (root / "trials").mkdir(exist_ok=True)
        for left in root.glob(".making-*"):
            shutil.rmtree(left, ignore_errors=True)
        return cls(root, header, lock)

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def restore_plan(self, plan: Plan) -> None:
        """Write the plan again, which was lost or damaged."""
        with recording(self.root):
            _write_plan(plan, self.root)

    def has(self, trial_id: str) -> bool:
        """Return whether this trial has a record."""
        return trial_id in self._done

    @property
    def done(self) -> frozenset[str]:
        """Ids of the trials that have records."""
        return frozenset(self._done)

    def set_aside(self, trial_id: str) -> Path:
        """Move a record to `retried/ID.N` (N from 1) and return its path.

        The trial then counts as not run. Nothing is lost: a crash leaves the record in one of the
        two places. Raises CannotRecordError when it cannot be moved.
        """
        with recording(self.root):
            folder = self.root / RETRIED
            folder.mkdir(exist_ok=True)
            names = (folder / f"{trial_id}.{number}" for number in itertools.count(1))
            place = next(name for name in names if not name.exists())
            (self.root / "trials" / trial_id).rename(place)
            _fsync(folder)
            _fsync(self.root / "trials")
        self._done.discard(trial_id)
        return place

    @contextmanager
    def record(self, trial_id: str) -> Generator[PartialRecord]:
        """Yield a record to fill and commit in the `with` block; it is discarded without a commit.

        Raises CannotRecordError when the record cannot be created; errors of the block pass
        through.
        """
        making = self.root / f".making-{trial_id}"
        with recording(self.root):
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


def check_new_results(root: Path) -> None:
    """Raise RefusedError when a folder holds something else than results that were just begun."""
    if not root.exists() or _only_begun(root):
        return
    if (root / "results.json").exists():
        raise RefusedError(
            f"{root} holds results already",
            hint=f"headrace resume {as_word(root)} goes on with them; --results names "
            f"another folder",
        )
    raise RefusedError(f"{root} is not empty", hint="name a new folder with --results")


def _lock_of(root: Path) -> IO[str]:
    """Open the lock of a results folder. Raises UsageError when the folder is not writable."""
    try:
        return (root / ".lock").open("a+")
    except OSError as error:
        if error.errno in NO_SPACE:
            raise
        hint = "give yourself permission: records are added to it"
        if error.errno == errno.EROFS:
            hint = "mount its file system writable, or resume a copy of the folder"
        problem = f"{root} cannot be written to: {error.strerror}"
        raise UsageError(problem, hint=hint) from None


def _write_process_id(lock: IO[str]) -> None:
    try:
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
    except OSError:
        with contextlib.suppress(OSError):  # closing writes what is buffered, and fails as well
            lock.close()
        raise


def read_header(root: Path) -> ResultsHeader:
    """Return the header of a results folder.

    Raises UsageError when the folder holds no results, RefusedError for an unknown version.
    """
    path = root / "results.json"
    try:
        if not path.exists():
            raise UsageError(f"{root} {_what_else(root)}", hint=_where_else(root))
        values = json.loads(path.read_text("utf-8"))
        if not isinstance(values, dict):
            raise ValueError("it is no JSON object")
        if values.get("schema") not in SCHEMAS_READ:
            raise RefusedError(
                f"{root} was written with record schema {values.get('schema')};"
                f" this Headrace reads {SCHEMAS_READ[0]} to {SCHEMAS_READ[-1]}",
                hint=f"use Headrace {values.get('headrace_version')}",
            )
        return msgspec.convert(values, ResultsHeader)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise RefusedError(
            f"{path} is damaged: {error}",
            hint=f"run the study again with --results and a new folder: {as_word(root)} cannot be "
            f"resumed; its records are whole, in {as_word(root / 'trials')}",
        ) from None


_BEGUN = {
    "trials",
    "study.toml",
    "plan.parquet",
    "environment.json",
    "environment.partial",
    "results.partial",
}


def _only_begun(root: Path) -> bool:
    """Return whether a folder is empty or holds only what an interrupted `create` writes.

    `create` makes `trials` first: a folder with only a `study.toml` is the user's.
    """
    if not root.is_dir():
        return False
    names = {found.name for found in root.iterdir()}
    trials = root / "trials"
    begun = trials.is_dir() and names <= _BEGUN and not any(trials.iterdir())
    return begun or not names


def _what_else(root: Path) -> str:
    if not root.exists():
        return "is not there"
    if root.is_dir() and (root / "study.toml").exists() and _only_begun(root):
        return f"was begun and holds no records: run its study again with --results {as_word(root)}"
    return (
        "is not a results folder (it has no results.json)" if root.is_dir() else "is not a folder"
    )


def _where_else(root: Path) -> str:
    """Return a hint with results folders in, next to or in `results/` near the given folder."""
    places = [root, root.parent, Path("results")]
    found = [file.parent for place in places for file in sorted(place.glob("*/results.json"))]
    if not found:
        return "headrace run STUDY makes one"
    names = ", ".join(str(each) for each in list(dict.fromkeys(found))[-4:])
    return f"results folders here: {names}"


@contextmanager
def recording(root: Path) -> Generator[None]:
    """Turn an error that prevents writing records below `root` into CannotRecordError.

    Examples: a full disk, a folder that was removed. Records written before are safe.
    """
    try:
        yield
    except OSError as error:
        begun = (root / "results.json").exists()
        again = f"headrace resume {as_word(root)}" if begun else "run the study again"
        if error.errno in NO_SPACE:
            raise CannotRecordError(
                f"no space left while records were written to {root}; "
                + ("every finished trial is safe" if begun else "no trial was begun"),
                hint=f"free some space, then: {again}",
            ) from None
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise CannotRecordError(
                f"records cannot be written to {root}: {system_words(error)}",
                hint="name a folder with --results",
            ) from None
        if error.errno == errno.EFBIG:
            raise CannotRecordError(
                f"records cannot be written to {root}: {system_words(error)}",
                hint=f"raise the limit for the size of files (ulimit -f), then: {again}",
            ) from None
        raise CannotRecordError(
            f"records cannot be written to {root}: {error}",
            hint=f"when it can be written to again: {again}",
        ) from None


def _write_plan(plan: Plan, root: Path) -> None:
    from headrace.records.plan_file import write_plan

    write_plan(plan, root / "plan.parquet")


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
