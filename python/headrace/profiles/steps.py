"""A recorded job as columns, one row a step, and the two files that keep it: a TOML table for people, a Parquet file for the steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import tomlkit

from headrace.catalog import entry
from headrace.catalog.tables import PROFILE_VERSION, Profile
from headrace.errors import Fault, HeadraceError, StudyError

Ints = npt.NDArray[np.int64]


class Op(IntEnum):
    """What a step does. The numbers are part of the file format."""

    OPEN = 3
    CLOSE = 4
    READ = 5
    WRITE = 6
    STAT = 7
    SEEK = 8
    SYNC = 9
    MAP = 10
    MAPPED_READ = 11
    UNLINK = 12


@dataclass(frozen=True)
class RecordedFile:
    """A file that the job used."""

    path: str
    bytes: int
    """When it was first opened."""
    created: bool = False
    """The job made it, or emptied it before it wrote."""
    direct: bool = False
    """Opened past the page cache (O_DIRECT)."""
    software: bool = False


@dataclass(frozen=True)
class Steps:
    """Columns of equal length, in order of `start_ns`."""

    start_ns: Ints
    """Since the job's beginning."""
    end_ns: Ints
    thread: Ints
    """0, 1, ... over all processes of the job."""
    op: Ints
    file: Ints
    """Index into the files."""
    offset: Ints
    length: Ints
    """Bytes moved."""
    cpu_ns: Ints
    """CPU time of the thread since its step before."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, chosen: npt.NDArray[Any]) -> Steps:
        """The steps of a mask or of indices."""
        return Steps(*(getattr(self, name)[chosen] for name in COLUMNS))


COLUMNS = ("start_ns", "end_ns", "thread", "op", "file", "offset", "length", "cpu_ns")


@dataclass(frozen=True)
class Recording:
    """A whole recorded job."""

    name: str
    by: str
    files: tuple[RecordedFile, ...]
    steps: Steps
    duration_ns: int
    cpu_ns: int = 0
    """Of all threads."""
    cpu_wait_ns: int = 0
    """How long first threads of processes waited for a CPU that others had: no part of what the job is."""
    memory_bytes: int = 0
    command: tuple[str, ...] = ()
    started_utc: str = ""
    processes: int = 1
    exit: str = ""
    machine: str = ""
    notes: tuple[str, ...] = field(default_factory=tuple)

    def used(self, *, software: bool = False) -> list[int]:
        """Numbers of the files that the job opened, read or wrote; those of software only when asked for."""
        acts = np.isin(self.steps.op, [int(op) for op in (Op.OPEN, Op.READ, Op.WRITE, Op.MAPPED_READ)])
        return [
            number
            for number in np.unique(self.steps.file[acts]).tolist()
            if software or not self.files[number].software
        ]

    def files_of(self, *ops: Op) -> set[int]:
        """Numbers of the files with at least one such step."""
        return set(np.unique(self.steps.file[np.isin(self.steps.op, [int(op) for op in ops])]).tolist())

    def with_data_first(self) -> Recording:
        """The same with data files before software, each in the order of its first step."""
        order = sorted(range(len(self.files)), key=lambda number: (self.files[number].software, number))
        places = np.empty(max(len(order), 1), np.int64)
        places[order] = np.arange(len(order))
        steps = replace(self.steps, file=places[self.steps.file] if len(self.steps) else self.steps.file)
        return replace(self, files=tuple(self.files[number] for number in order), steps=steps)

    def hashed(self) -> Recording:
        """The same with names of data files hashed, their endings kept, and without the command's arguments."""
        files = tuple(
            file if file.software else replace(file, path=_hashed(file.path)) for file in self.files
        )
        return replace(self, files=files, command=self.command[:1])


def _hashed(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:16] + PurePosixPath(path).suffix


def columns(rows: list[tuple[int, ...]]) -> Steps:
    """Rows (as `COLUMNS`) in any order, sorted by start."""
    table = np.array(rows, np.int64).reshape(-1, len(COLUMNS))
    table = table[np.argsort(table[:, 0], kind="stable")]
    return Steps(*(np.ascontiguousarray(table[:, index]) for index in range(len(COLUMNS))))


def opened_alone(files: Sequence[RecordedFile], steps: Steps) -> tuple[RecordedFile, ...]:
    """Files with those that were only asked about (folders, places where nothing lay) counted as software: they hold no data."""
    acts = np.isin(steps.op, [int(op) for op in (Op.OPEN, Op.READ, Op.WRITE, Op.MAP, Op.MAPPED_READ)])
    opened = set(np.unique(steps.file[acts]).tolist())
    return tuple(
        file if number in opened else replace(file, software=True) for number, file in enumerate(files)
    )


def steps_path(profile: Path) -> Path:
    """The steps file of a profile."""
    return profile.with_suffix(".steps.parquet")


def profile_path(given: Path, option: str) -> Path:
    """The table's path: `.toml` is added to a name without an ending. Raises StudyError for another ending, naming the option."""
    if given.suffix not in ("", ".toml"):
        problem = "a profile is a .toml file, and its steps lie beside it"
        raise StudyError([Fault(Path("command line"), 0, option, str(given), problem, f"{given.stem}.toml")])
    return given.with_suffix(".toml")


def save(recording: Recording, path: Path) -> None:
    """Writes both files: steps first, so that a table that is there has its steps. Raises HeadraceError.

    Names of software are many and seldom looked at: they lie with the steps.
    """
    recording = recording.with_data_first()
    data = [file for file in recording.files if not file.software]
    software = [[file.path, file.bytes] for file in recording.files if file.software]
    document = tomlkit.document()
    document["name"] = recording.name
    document["about"] = f"recorded by {recording.by}" + (
        f": {' '.join(recording.command)}" if recording.command else ""
    )
    document["version"] = PROFILE_VERSION
    document["memory_bytes"] = recording.memory_bytes
    document["steps_file"] = steps_path(path).name
    document["recorded"] = {
        "by": recording.by,
        "command": list(recording.command),
        "started_utc": recording.started_utc,
        "duration_s": recording.duration_ns * 1e-9,
        "cpu_s": recording.cpu_ns * 1e-9,
        "cpu_wait_s": recording.cpu_wait_ns * 1e-9,
        "processes": recording.processes,
        "threads": int(recording.steps.thread.max(initial=-1)) + 1,
        "exit": recording.exit,
        "machine": recording.machine,
        "notes": list(recording.notes),
    }
    tables = tomlkit.aot()
    for number, file in enumerate(data):
        table = tomlkit.table()
        table["name"] = f"f{number}"
        table["path"] = file.path
        if file.created:
            table["share"] = "new"
        else:
            table["bytes"] = file.bytes
            table["count"] = 0
        tables.append(table)
    document["files"] = tables
    document["source"] = dict.fromkeys(
        ("memory_bytes", "files", "steps_file", "recorded", "version"), f"recorded by {recording.by}"
    )
    access = np.array([file.direct for file in recording.files] or [False])[recording.steps.file]
    table = pa.table(
        {
            **{name: pa.array(getattr(recording.steps, name)) for name in ("start_ns", "end_ns")},
            **{
                name: pa.array(getattr(recording.steps, name).astype(np.int32)) for name in ("thread", "file")
            },
            "op": pa.array(recording.steps.op.astype(np.int8)),
            **{name: pa.array(getattr(recording.steps, name)) for name in ("offset", "length", "cpu_ns")},
            "direct": pa.array(access),
        },
        metadata={
            "headrace.profile.version": str(PROFILE_VERSION),
            "headrace.profile.software": json.dumps(software),
        },
    )
    numbers = [name for name in table.column_names if name not in ("op", "direct")]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            table,
            steps_path(path),
            compression="zstd",
            use_dictionary=["op"],  # pyright: ignore[reportArgumentType]
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        )
        path.write_text(tomlkit.dumps(document))
    except OSError as error:
        raise HeadraceError(f"{path}: the profile cannot be written: {error.strerror or error}") from error


def profile_table(name: str) -> tuple[Profile, Path]:
    """A profile of the catalog or of a file, and its folder. Raises StudyError."""
    found = entry("profiles", name)
    return found.table, found.file.parent


def load(name: str) -> Recording:
    """A recorded profile. Raises StudyError for what is no profile, HeadraceError for one without recorded steps."""
    table, folder = profile_table(name)
    steps, direct, software = load_steps(table, folder)
    recorded = table.recorded
    files = (
        *(
            RecordedFile(each.path or each.name, each.bytes, each.share == "new", number in direct)
            for number, each in enumerate(table.files)
        ),
        *software,
    )
    duration_s = recorded.duration_s if recorded is not None else int(steps.end_ns.max(initial=0)) * 1e-9
    return Recording(
        name=table.name,
        by=recorded.by if recorded is not None else "unknown",
        files=files,
        steps=steps,
        duration_ns=round(duration_s * 1e9),
        cpu_ns=round((recorded.cpu_s if recorded is not None else 0.0) * 1e9),
        cpu_wait_ns=round((recorded.cpu_wait_s if recorded is not None else 0.0) * 1e9),
        memory_bytes=table.memory_bytes,
        command=tuple(recorded.command) if recorded is not None else (),
        started_utc=recorded.started_utc if recorded is not None else "",
        processes=recorded.processes if recorded is not None else 1,
        exit=recorded.exit if recorded is not None else "",
        machine=recorded.machine if recorded is not None else "",
        notes=tuple(recorded.notes) if recorded is not None else (),
    )


def load_steps(table: Profile, folder: Path) -> tuple[Steps, set[int], tuple[RecordedFile, ...]]:
    """The steps of a profile's steps file, which files were opened past the page cache, and the files of software."""
    if table.steps_file is None:
        raise HeadraceError(
            f"profile {table.name} is described by rules, not recorded: it has no steps file to show",
            hint="headrace record -- COMMAND… records one",
        )
    path = folder / table.steps_file
    try:
        read = pq.read_table(path)
    except FileNotFoundError:
        raise StudyError(
            [Fault(path, 0, "steps_file", "", "the steps of the profile are gone; they lie beside its table")]
        ) from None
    except (OSError, pa.ArrowInvalid) as error:
        raise StudyError([Fault(path, 0, "steps_file", "", f"cannot be read: {error}")]) from None
    version = int((read.schema.metadata or {}).get(b"headrace.profile.version", b"0"))
    missing = [name for name in COLUMNS if name not in read.column_names]
    if version > PROFILE_VERSION or missing:
        problem = (
            f"written by a newer Headrace: version {version}, this one reads up to {PROFILE_VERSION}"
            if version > PROFILE_VERSION
            else f"lacks the columns {', '.join(missing)}"
        )
        raise StudyError([Fault(path, 0, "steps_file", "", problem)])
    steps = Steps(*(read[name].to_numpy().astype(np.int64) for name in COLUMNS))
    software = tuple(
        RecordedFile(str(path), int(size), software=True)
        for path, size in json.loads((read.schema.metadata or {}).get(b"headrace.profile.software", b"[]"))
    )
    highest = int(steps.file.max(initial=-1))
    if highest >= len(table.files) + len(software):
        raise StudyError([Fault(path, 0, "file", str(highest), "no such file in the profile")])
    marked = (
        read["direct"].to_numpy(zero_copy_only=False) if "direct" in read.column_names else np.zeros(0, bool)
    )
    direct = set(np.unique(steps.file[marked.astype(bool)]).tolist()) if len(marked) else set[int]()
    return steps, direct, software
