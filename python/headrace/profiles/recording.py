"""Converts the data that recorded processes wrote to a recording.

Numbers the threads, resolves names, and computes the CPU time between steps.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from headrace.errors import HeadraceError
from headrace.profiles.arena import Fact, Text, Written
from headrace.profiles.images import END, START, Images
from headrace.profiles.software import is_software
from headrace.profiles.steps import Op, RecordedFile, Steps, opened_alone

_TIMED = [int(op) for op in Op]
_WRITABLE_MAP = 1
_NOTES = {
    Fact.FULL: "the place of the recording was full: the profile ends there",
    Fact.UNMAPPED: "a program limits its memory, and the recorder had none: its profile ends there",
    Fact.SANDBOX: "a program forbade itself system calls (seccomp): its profile ends there",
    Fact.STREAMS: (
        "streams of the C library (stdio) could not be observed: what went through them is "
        "not in the profile"
    ),
    Fact.IO_URING: (
        "io_uring was used: reads and writes that went through it are not in the profile"
    ),
    Fact.LIBAIO: "libaio was used: reads and writes that went through it are not in the profile",
    Fact.POSIX_AIO: (
        "POSIX AIO was used: reads and writes that went through it are not in the profile"
    ),
    Fact.MAPS: (
        "more than 512 files were mapped at once: pages of the others are not in the profile"
    ),
    Fact.PAGES: (
        "which pages of maps were touched could not be seen: what was read through them is "
        "not in the profile"
    ),
    Fact.HOLES: (
        "holes were made in files, or data moved within them (fallocate): that is not in the "
        "profile"
    ),
    Fact.DESCRIPTORS: (
        "files had descriptors above 1,048,575: reads and writes through those are not in the "
        "profile"
    ),
    Fact.SYNCS: "sync was called, for all file systems: its time is in the profile as a wait",
}


@dataclass(frozen=True)
class Read:
    """A recording as it was written."""

    files: tuple[RecordedFile, ...]
    steps: Steps
    begin_ns: int
    """First record, on the monotonic clock."""
    end_ns: int
    processes: int
    cpu_ns: int
    """Of images that ended regularly; of others, the CPU time of their threads at their last
    step."""
    cpu_wait_ns: int
    unfinished: tuple[int, ...]
    """Processes without an end record, by id: killed, or still running."""
    read_bytes: int
    """Bytes of the recorded read calls, of files and of anything else, as the kernel counts
    them."""
    written_bytes: int
    notes: tuple[str, ...]


def join(written: Written) -> Read:
    """Merge all images of a recording. Raises HeadraceError if there is none."""
    names = _Names()
    names.take(written.texts)
    names.mark_direct(written.records)
    images = Images()
    images.take(written.texts, names.directories)
    if not images.of and Fact.FULL in written.facts:
        raise HeadraceError(
            "nothing was recorded: the place of the recording was full",
            hint="free some space, or name a place that has some with --out",
        )
    if not images.of:
        raise HeadraceError(
            "nothing was recorded: the program never loaded the recorder's library",
            hint=(
                "it drops LD_PRELOAD, or cannot see /proc; strace -f -ttt and headrace "
                "profile import take such programs"
            ),
        )
    records = written.records[np.lexsort((written.records["start_ns"], written.records["thread"]))]
    threads = _Threads(records)
    _note_images(images, records, threads, names.image_of)
    table = _table(records, threads, names)
    files, steps = _used(table, names.files)
    moved = {
        op: int(records["length"][(records["op"] == op) & (records["failed"] == 0)].sum())
        for op in Op
    }
    notes = [text for fact, text in _NOTES.items() if fact in written.facts]
    return Read(
        files,
        steps,
        int(records["start_ns"].min(initial=np.iinfo(np.uint64).max)) if len(records) else 0,
        int(records["end_ns"].max(initial=0)),
        len({image.pid for image in images.of.values()}),
        images.cpu_ns(),
        images.cpu_wait_ns(),
        # Without room no process could say that it ended.
        () if Fact.FULL in written.facts else images.unfinished(),
        moved[Op.READ] + written.other_read_bytes + images.loader_read_bytes(),
        moved[Op.WRITE] + written.other_written_bytes,
        tuple(dict.fromkeys([*notes, *images.not_recorded()])),
    )


@dataclass
class _Names:
    """Maps the numbers in records to files, directories and images."""

    files: list[RecordedFile] = field(default_factory=list[RecordedFile])
    directories: dict[int, str] = field(default_factory=dict[int, str])
    image_of: dict[int, int] = field(default_factory=dict[int, int])
    """By thread."""
    _file_of: dict[int, int] = field(default_factory=dict[int, int])
    """Number in the recording -> index into the files."""
    _direct: set[int] = field(default_factory=set[int])
    """Numbers in the recording that were opened with O_DIRECT."""
    _by_path: dict[str, int] = field(default_factory=dict[str, int])
    _before: dict[str, list[tuple[int, int]]] = field(
        default_factory=dict[str, list[tuple[int, int]]]
    )
    """By path, the files that it named until a rename: number of the rename, index."""

    def take(self, texts: Iterable[Text]) -> None:
        """Register all names. Opened files come first: only their sizes are known."""
        by_letter: dict[str, list[Text]] = {}
        for text in texts:
            by_letter.setdefault(text.letter, []).append(text)
        for text in by_letter.get("T", []):
            self.image_of[text.number] = int(text.fields[0])
        for text in by_letter.get("C", []):
            self.directories[text.number] = "\t".join(text.fields)
        paths = {text.number: self._path(text) for text in by_letter.get("P", [])}
        renames = by_letter.get("R", [])
        for text in sorted(by_letter.get("F", []) + renames, key=lambda text: text.number):
            if text.letter == "R":
                old, exchanged = int(text.fields[0]), text.fields[1] == "2"
                if old in paths and text.number in paths:
                    self._rename(text.number, paths[old], paths[text.number], exchanged)
                continue
            flags, size = int(text.fields[0]), int(text.fields[1])
            self._file_of[text.number] = self._opened("\t".join(text.fields[2:]), flags, size)
            if flags & os.O_DIRECT:
                self._direct.add(text.number)
        for number, path in paths.items():
            later = (index for rename, index in self._before.get(path, ()) if rename > number)
            index = next(later, None)
            self._file_of[number] = self._file(path) if index is None else index

    def _path(self, text: Text) -> str:
        folder = self.directories.get(int(text.fields[0]), "/")
        path = "\t".join(text.fields[1:])
        return os.path.normpath(f"{folder}/{path}" if path[:1] != "/" else path)

    def _rename(self, number: int, old: str, new: str, exchanged: bool) -> None:
        """Let a file have another name from now on. Its first name is the one that is kept."""
        for path in (old, new):
            if path in self._by_path:
                self._before.setdefault(path, []).append((number, self._by_path[path]))
        moved, replaced = self._by_path.pop(old, None), self._by_path.pop(new, None)
        if moved is not None:
            self._by_path[new] = moved
        if exchanged and replaced is not None:
            self._by_path[old] = replaced

    def _file(self, path: str) -> int:
        if path not in self._by_path:
            self._by_path[path] = len(self.files)
            self.files.append(RecordedFile(path, 0, software=is_software(path)))
        return self._by_path[path]

    def _opened(self, path: str, flags: int, size: int) -> int:
        created = size == 0 and flags & os.O_ACCMODE != os.O_RDONLY
        known = path in self._by_path
        number = self._file(path)
        old = self.files[number]
        if not known or (old.bytes == 0 and size > 0 and not old.created):
            old = replace(old, bytes=size, created=created)
        # Journals of databases are also opened by tools that only read them.
        synchronous = old.synchronous or bool(flags & os.O_DSYNC)
        self.files[number] = replace(old, synchronous=synchronous)
        return number

    def mark_direct(self, records: npt.NDArray[np.void]) -> None:
        """Mark the files of which most reads and writes went past the page cache.

        A program may look at a file, or write it, before it opens it with O_DIRECT.
        """
        moved = np.isin(records["op"], (Op.READ, Op.WRITE)) & (records["failed"] == 0)
        numbers = records["file"][moved].astype(np.int64)
        files = self.index(numbers)
        sign = np.where(np.isin(numbers, list(self._direct)), 1, -1)[files >= 0]
        balance = np.bincount(files[files >= 0], sign, len(self.files))
        for number in np.flatnonzero(balance > 0).tolist():
            self.files[number] = replace(self.files[number], direct=True)

    def index(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the file index of each number; -1 if there is none."""
        order = np.full(max(self._file_of, default=0) + 2, -1, np.int64)
        for number, index in self._file_of.items():
            order[number] = index
        return order[np.minimum(numbers, len(order) - 1)]


class _Threads:
    """Index of records, sorted by thread and time; threads are numbered by their start."""

    def __init__(self, records: npt.NDArray[np.void]) -> None:
        given, self.first = np.unique(records["thread"], return_index=True)
        self.last = np.append(self.first, len(records))[1:]
        self.given = given.astype(np.int64)
        numbers = np.empty(len(given), np.int64)
        numbers[np.argsort(records["start_ns"][self.first], kind="stable")] = np.arange(len(given))
        counts = self.last - self.first
        self.number = np.repeat(numbers, counts)
        self.begin = np.repeat(self.first, counts)

    def __iter__(self) -> Iterator[tuple[int, slice]]:
        return (
            (int(given), slice(int(a), int(b)))
            for given, a, b in zip(self.given, self.first, self.last, strict=True)
        )


def _note_images(
    images: Images, records: npt.NDArray[np.void], threads: _Threads, image_of: dict[int, int]
) -> None:
    for thread, rows in threads:
        image = images.of.get(image_of.get(thread, 0))
        if image is None:
            continue
        own = records[rows]
        cpu = own["cpu_start_ns"] + own["cpu_within_ns"]
        image.last_cpu_ns += int(cpu.max())
        for op, place in ((START, "start"), (END, "end")):
            if (found := own[own["op"] == op]).size:
                setattr(image, place, found[-1])


def _worked(records: npt.NDArray[np.void], threads: _Threads) -> npt.NDArray[np.int64]:
    """Return the CPU time of the thread since its previous record. Its first record counts from the
    thread's start, except after exec and fork, which keep clocks."""
    start = records["cpu_start_ns"].astype(np.int64)
    end = start + records["cpu_within_ns"].astype(np.int64)
    before = np.zeros(len(records), np.int64)
    for _, rows in threads:
        # A child of vfork writes as its parent's thread, but has its own clock.
        before[rows.start + 1 : rows.stop] = np.maximum.accumulate(end[rows])[:-1]
        if records["op"][rows.start] == START:
            before[rows.start] = start[rows.start]
    return np.maximum(start - before, 0)


def _table(
    records: npt.NDArray[np.void], threads: _Threads, names: _Names
) -> npt.NDArray[np.int64]:
    """Return the columns of steps; times count from the first record."""
    files = names.index(records["file"].astype(np.int64))
    op = records["op"].astype(np.int64)
    kept = np.isin(op, _TIMED) & (records["failed"] == 0) & (files >= 0)
    made = np.array([file.created for file in names.files] or [False])
    # A job that created a file wrote the pages of its shared, writable maps.
    op[(op == Op.MAPPED_READ) & (records["flags"] == _WRITABLE_MAP) & made[files]] = Op.WRITE
    at = np.flatnonzero(kept)
    # Work before an omitted step is added to the thread's next kept step.
    sums = np.concatenate([[0], np.cumsum(_worked(records, threads))])
    since = threads.begin[at]
    if len(at):
        since[1:] = np.maximum(since[1:], at[:-1] + 1)
    begin_ns = records["start_ns"].astype(np.int64).min(initial=np.iinfo(np.int64).max)
    table = np.column_stack(
        [
            records["start_ns"][at].astype(np.int64) - begin_ns,
            records["end_ns"][at].astype(np.int64) - begin_ns,
            threads.number[at],
            op[at],
            files[at],
            records["offset"][at].astype(np.int64),
            records["length"][at].astype(np.int64),
            sums[at + 1] - sums[since],
        ]
    )
    return table[np.argsort(table[:, 0], kind="stable")]


def _used(
    table: npt.NDArray[np.int64], files: list[RecordedFile]
) -> tuple[tuple[RecordedFile, ...], Steps]:
    """Drop files that were open but never used (a log that another program writes)."""
    used, table[:, 4] = np.unique(table[:, 4], return_inverse=True)
    steps = Steps(*(np.ascontiguousarray(table[:, index]) for index in range(8)))
    kept = opened_alone([files[int(number)] for number in used], steps)
    filled = np.zeros(len(kept), bool)
    filled[steps.file[np.isin(steps.op, (Op.WRITE, Op.TRUNCATE, Op.ALLOCATE))]] = True
    return tuple(
        file if filled[number] or not file.created else replace(file, created=False)
        for number, file in enumerate(kept)
    ), steps
