"""A recorded job as columns, one row per step, and its files.

A profile has two files: a TOML table to read, and a Parquet file for the steps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.catalog import entry
from headrace.catalog.tables import PROFILE_VERSION, CatalogProfile
from headrace.errors import FileProblem, HeadraceError, StudyError, system_words
from headrace.whole_file import whole

Ints = npt.NDArray[np.int64]
MOST_NUMBER = 1 << 61
"""Upper bound of offsets, sizes and times, so that sums of a few fit into 64 bits."""
MOST_THREADS = 1 << 31
"""Upper bound of thread and file numbers, which are stored in 32 bits."""
_LONGEST_SHOWN = 120


def whole_number(text: str, end: int = MOST_NUMBER) -> int:
    """Return the number in a field of a recording.

    Raises ValueError if it is not a number, negative, or not below `end`.
    """
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number < end:
        raise ValueError(f"no whole number from 0 to 2^{end.bit_length() - 1}: {text[:40]}")
    return number


def nanoseconds(text: str) -> int:
    """Return a time given in seconds. Raises ValueError like `whole_number`."""
    try:
        return in_range(round(float(text) * 1e9))
    except (ValueError, OverflowError):
        raise ValueError(f"no time in seconds: {text[:40]}") from None


def in_range(number: int) -> int:
    """Return the number. Raises ValueError if it is negative or not below `MOST_NUMBER`."""
    if not 0 <= number < MOST_NUMBER:
        raise ValueError(f"a number is negative or not below 2^61: {str(number)[:40]}")
    return number


class Op(IntEnum):
    """Operation of a step. The numbers are part of the file format."""

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
    TRUNCATE = 13
    """`offset` is the file's new size."""
    ALLOCATE = 14
    """Allocate a range; the file becomes at least that long (fallocate)."""
    RESERVE = 15
    """Allocate a range; the file keeps its size (FALLOC_FL_KEEP_SIZE)."""


@dataclass(frozen=True)
class RecordedFile:
    """A file that the job used."""

    path: str
    bytes: int
    """Size when it was first opened."""
    created: bool = False
    """The job created it, or truncated it before writing."""
    direct: bool = False
    """Most of its reads and writes went through descriptors opened with O_DIRECT, which bypass the
    page cache."""
    software: bool = False
    synchronous: bool = False
    """Opened with O_SYNC or O_DSYNC: each write waits until its data is on stable storage."""


@dataclass(frozen=True)
class Steps:
    """Columns of equal length, ordered by `start_ns`."""

    start_ns: Ints
    """Since the start of the job."""
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
    """CPU time of the thread since its previous step."""

    def __len__(self) -> int:
        return len(self.start_ns)

    def take(self, chosen: npt.NDArray[Any]) -> Steps:
        """Return the steps selected by a mask or indices."""
        return Steps(*(getattr(self, name)[chosen] for name in COLUMNS))

    def shifted(self, by_ns: int) -> Steps:
        """Return the same steps, shifted by `by_ns`."""
        return replace(self, start_ns=self.start_ns + by_ns, end_ns=self.end_ns + by_ns)


COLUMNS = ("start_ns", "end_ns", "thread", "op", "file", "offset", "length", "cpu_ns")


@dataclass(frozen=True)
class Unseen:
    """Bytes of read and write calls that the kernel counted for the job, and how many of them no
    step or count covers."""

    read_bytes: int
    written_bytes: int
    kernel_read_bytes: int
    kernel_written_bytes: int


@dataclass(frozen=True)
class Recording:
    """A complete recorded job."""

    name: str
    by: str
    files: tuple[RecordedFile, ...]
    steps: Steps
    duration_ns: int
    cpu_ns: int = 0
    """CPU time of all threads."""
    cpu_wait_ns: int = 0
    """How long the first threads of processes waited for a CPU in use by others: no property of the
    job."""
    memory_bytes: int = 0
    command: tuple[str, ...] = ()
    started_utc: str = ""
    processes: int = 1
    exit: str = ""
    machine: str = ""
    unseen: Unseen | None = None
    """None if nothing was counted."""
    notes: tuple[str, ...] = field(default_factory=tuple)

    def used(self, *, software: bool = False) -> list[int]:
        """Return the numbers of the files that the job opened, read or wrote; software only if
        requested."""
        acts = np.isin(
            self.steps.op, [int(op) for op in (Op.OPEN, Op.READ, Op.WRITE, Op.MAPPED_READ)]
        )
        return [
            number
            for number in np.unique(self.steps.file[acts]).tolist()
            if software or not self.files[number].software
        ]

    def files_of(self, *ops: Op) -> set[int]:
        """Return the numbers of the files with at least one such step."""
        return set(
            np.unique(self.steps.file[np.isin(self.steps.op, [int(op) for op in ops])]).tolist()
        )

    def with_data_first(self) -> Recording:
        """Return the same recording with data files before software, each in the order of its first
        step."""
        order = sorted(
            range(len(self.files)), key=lambda number: (self.files[number].software, number)
        )
        places = np.empty(max(len(order), 1), np.int64)
        places[order] = np.arange(len(order))
        steps = replace(
            self.steps, file=places[self.steps.file] if len(self.steps) else self.steps.file
        )
        return replace(self, files=tuple(self.files[number] for number in order), steps=steps)

    def hashed(self) -> Recording:
        """Return the same recording with names of data files hashed (suffixes kept) and without the
        command's arguments."""
        files = tuple(
            file if file.software else replace(file, path=_hashed(file.path)) for file in self.files
        )
        return replace(self, files=files, command=self.command[:1])


def _hashed(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:16] + PurePosixPath(path).suffix


def columns(rows: list[tuple[int, ...]]) -> Steps:
    """Return unordered rows (as in `COLUMNS`) as steps sorted by start."""
    table = np.array(rows, np.int64).reshape(-1, len(COLUMNS))
    table = table[np.argsort(table[:, 0], kind="stable")]
    return Steps(*(np.ascontiguousarray(table[:, index]) for index in range(len(COLUMNS))))


def opened_alone(files: Sequence[RecordedFile], steps: Steps) -> tuple[RecordedFile, ...]:
    """Mark files that were only queried (folders, missing paths) as software: they hold no data."""
    acts = np.isin(
        steps.op, [int(op) for op in (Op.OPEN, Op.READ, Op.WRITE, Op.MAP, Op.MAPPED_READ)]
    )
    opened = set(np.unique(steps.file[acts]).tolist())
    return tuple(
        file if number in opened else replace(file, software=True)
        for number, file in enumerate(files)
    )


def steps_path(profile: Path) -> Path:
    """Return the path of a profile's steps file."""
    return profile.with_suffix(".steps.parquet")


def is_steps_file(file: Path) -> bool:
    """Return whether a file has the steps of a profile."""
    if not file.is_file():  # a pipe would be waited for
        return False
    try:
        return {"start_ns", "op", "offset", "length"} <= set(pq.read_schema(file).names)
    except (OSError, pa.ArrowException):
        return False


def profile_path(given: Path, option: str) -> Path:
    """Return the table's path: `.toml` is added to a name without suffix. Raises StudyError that
    names the option for another suffix, a folder, or a name that is too long."""
    if given.name in ("", ".."):
        raise _bad_path(given, option, "is a folder, not a profile", "NAME.toml")
    if given.suffix not in ("", ".toml"):
        problem = "a profile is a .toml file, with a file of its steps next to it"
        raise _bad_path(given, option, problem, f"{given.stem}.toml")
    path = given.with_suffix(".toml")
    with path_errors(given, option):
        steps_path(path).exists()  # its name is the longer one
    return path


def _bad_path(given: Path, option: str, problem: str, allowed: str = "") -> StudyError:
    shown = str(given)
    shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
    return StudyError([FileProblem(Path("command line"), 0, option, shown, problem, allowed)])


@contextmanager
def path_errors(given: Path, option: str) -> Generator[None]:
    """Turn an error of the operating system on a path into a StudyError that names the option."""
    try:
        yield
    except OSError as error:
        raise _bad_path(given, option, f"cannot be used: {error.strerror}") from None


def existing_profile(given: Path, option: str) -> Path:
    """As `profile_path`, of a profile to read: a folder that `headrace why --keep` wrote will do.

    Raises StudyError.
    """
    kept = given / "profile.toml"
    with path_errors(given, option):
        if kept.is_file() and not (given.name and given.with_suffix(".toml").exists()):
            return kept
    return profile_path(given, option)


def save(recording: Recording, path: Path) -> None:
    """Write both files whole or not at all: an earlier profile stays when there is no room. Steps
    are first, so that an existing table always has its steps. Raises HeadraceError.

    Software has many names that are rarely read: they are stored with the steps.
    """
    recording = recording.with_data_first()
    text = _table_text(recording, path)
    table = _steps_table(recording)
    others = ("op", "direct", "synchronous")
    numbers = [name for name in table.column_names if name not in others]

    def write_steps(part: Path) -> None:
        pq.write_table(
            table,
            part,
            compression="zstd",
            use_dictionary=["op"],  # pyright: ignore[reportArgumentType]
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        )

    def write_both(part: Path) -> None:
        # A name that is not UTF-8 has a `?` for each such byte.
        part.write_text(text, encoding="utf-8", errors="replace")
        whole(steps_path(path), write_steps)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole(path, write_both)
    except OSError as error:
        raise HeadraceError(
            f"{path}: the profile cannot be written: {system_words(error)}"
        ) from error


def _table_text(recording: Recording, path: Path) -> str:
    """Return the table of a profile, with its data files, as TOML."""
    import tomlkit

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
        **({"unseen": asdict(recording.unseen)} if recording.unseen is not None else {}),
        "notes": list(recording.notes),
    }
    tables = tomlkit.aot()
    data = (file for file in recording.files if not file.software)
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
        ("memory_bytes", "files", "steps_file", "recorded", "version"),
        f"recorded by {recording.by}",
    )
    return tomlkit.dumps(document)


def _steps_table(recording: Recording) -> Any:
    """Return the steps, and in the metadata the files of software."""
    steps = recording.steps
    software = [[file.path, file.bytes] for file in recording.files if file.software]
    direct = np.array([file.direct for file in recording.files] or [False])[steps.file]
    synchronous = np.array([file.synchronous for file in recording.files] or [False])[steps.file]
    return pa.table(
        {
            **{name: pa.array(getattr(steps, name)) for name in ("start_ns", "end_ns")},
            **{
                name: pa.array(getattr(steps, name).astype(np.int32)) for name in ("thread", "file")
            },
            "op": pa.array(steps.op.astype(np.int8)),
            **{name: pa.array(getattr(steps, name)) for name in ("offset", "length", "cpu_ns")},
            "direct": pa.array(direct),
            "synchronous": pa.array(synchronous),
        },
        metadata={
            "headrace.profile.version": str(PROFILE_VERSION),
            "headrace.profile.software": json.dumps(software),
        },
    )


def profile_table(name: str) -> tuple[CatalogProfile, Path]:
    """Return a profile of the catalog or of a file, and its folder. Raises StudyError."""
    found = entry("profiles", name)
    return found.table, found.file.parent


def load(name: str) -> Recording:
    """Return a recorded profile. Raises StudyError if it is no profile, HeadraceError if it has no
    recorded steps."""
    table, folder = profile_table(name)
    steps, opened, software = load_steps(table, folder)
    recorded = table.recorded
    files = (
        *(
            RecordedFile(
                each.path or each.name,
                each.bytes,
                each.share == "new",
                direct=number in opened.direct,
                synchronous=number in opened.synchronous,
            )
            for number, each in enumerate(table.files)
        ),
        *software,
    )
    duration_s = (
        recorded.duration_s if recorded is not None else int(steps.end_ns.max(initial=0)) * 1e-9
    )
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
        unseen=Unseen(**dict(recorded.unseen))
        if recorded is not None and recorded.unseen is not None
        else None,
        notes=tuple(recorded.notes) if recorded is not None else (),
    )


@dataclass(frozen=True)
class OpenedWith:
    """Numbers of the files that were opened with a flag."""

    direct: frozenset[int]
    """O_DIRECT."""
    synchronous: frozenset[int]
    """O_SYNC or O_DSYNC."""


def load_steps(
    table: CatalogProfile, folder: Path
) -> tuple[Steps, OpenedWith, tuple[RecordedFile, ...]]:
    """Return the steps in a profile's steps file, how files were opened, and the files of
    software."""
    if table.steps_file is None:
        raise HeadraceError(
            f"profile {table.name} is described by rules, not recorded: it has no steps file "
            "to show",
            hint="headrace record -- COMMAND… records one",
        )
    path = folder / table.steps_file
    try:
        if not path.is_file():
            raise _wrong(
                path,
                "steps_file",
                "the file with the profile's steps is missing; it belongs next to the .toml file",
            )
        read = pq.ParquetFile(path).read(use_threads=False)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        told = str(error).splitlines()[0][:200]
        raise StudyError(
            [FileProblem(path, 0, "steps_file", "", f"cannot be read: {told}")]
        ) from None
    metadata = read.schema.metadata or {}
    version = _version(metadata.get(b"headrace.profile.version", b"0"))
    missing = [name for name in COLUMNS if name not in read.column_names]
    if version > PROFILE_VERSION or missing:
        problem = (
            f"written by a newer Headrace: version {version}, this one reads up to "
            f"{PROFILE_VERSION}"
            if version > PROFILE_VERSION
            else f"lacks the columns {', '.join(missing)}"
        )
        raise _wrong(path, "steps_file", problem)
    steps = Steps(*(_column(path, read, name) for name in COLUMNS))
    software = _software(path, metadata.get(b"headrace.profile.software", b"[]"))
    _check(path, steps, len(table.files) + len(software))
    opened = OpenedWith(
        *(_marked(path, read, name, steps.file) for name in ("direct", "synchronous"))
    )
    return steps, opened, software


def _wrong(path: Path, field: str, problem: str, given: str = "") -> StudyError:
    return StudyError([FileProblem(path, 0, field, given, problem)])


def _version(text: bytes) -> int:
    """Return the version of a steps file; a newer one than any if it is no number."""
    return int(text) if text.isdigit() and len(text) < 9 else PROFILE_VERSION + 1


def _marked(path: Path, table: pa.Table, name: str, files: Ints) -> frozenset[int]:  # pyright: ignore[reportUnknownParameterType]
    """Return the files whose steps a column marks; none without the column. Raises StudyError for
    a column of another type, or with missing values."""
    if name not in table.column_names:
        return frozenset()
    column = table[name]
    if not pa.types.is_boolean(column.type) or column.null_count:
        raise _wrong(path, name, "must hold true or false in every row")
    chosen = np.asarray(column.to_numpy(zero_copy_only=False), bool)
    return frozenset(np.unique(files[chosen]).tolist())


def _column(path: Path, table: pa.Table, name: str) -> Ints:  # pyright: ignore[reportUnknownParameterType]
    """Return a column as whole numbers. Raises StudyError for other types, missing values, or
    values out of range."""
    column = table[name]
    if not pa.types.is_integer(column.type) or column.null_count:
        raise _wrong(path, name, "must hold a whole number in every row", str(column.type))
    numbers = column.to_numpy()
    if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= MOST_NUMBER):
        given = str(int(numbers.min()) if int(numbers.min()) < 0 else int(numbers.max()))
        raise _wrong(path, name, "a number is negative or not below 2^61", given)
    return numbers.astype(np.int64)


def _software(path: Path, text: bytes) -> tuple[RecordedFile, ...]:
    """Return the files of software that a steps file names. Raises StudyError."""
    try:
        pairs = json.loads(text)
        return tuple(
            RecordedFile(str(name), in_range(int(size)), software=True) for name, size in pairs
        )
    except (ValueError, TypeError, OverflowError, RecursionError):
        raise _wrong(
            path, "headrace.profile.software", "must be a list of names and sizes"
        ) from None


def _check(path: Path, steps: Steps, files: int) -> None:
    """Raise StudyError for a step of an unknown operation or file, or one that ends before it
    starts."""
    highest = int(steps.file.max(initial=-1))
    if highest >= files:
        raise _wrong(path, "file", "no such file in the profile", str(highest))
    unknown = np.setdiff1d(steps.op, [int(op) for op in Op])
    if len(unknown):
        raise _wrong(path, "op", "no operation of a profile has this number", str(int(unknown[0])))
    if (steps.end_ns < steps.start_ns).any():
        raise _wrong(path, "end_ns", "a step ends before it starts")
