"""What the preloaded library wrote (crates/recorder) -> a recording: processes and threads numbered, names joined, CPU time between steps."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace.errors import HeadraceError
from headrace.profiles.programs import why_not_recorded
from headrace.profiles.steps import Op, RecordedFile, Steps, opened_alone

SEGMENT_BYTES = 64 << 10
_HEADER = np.dtype([("magic", "S8"), ("pid", "<u4"), ("tid", "<u4"), ("count", "<u8"), ("spare", "V40")])
_RECORD = np.dtype(
    [
        ("start_ns", "<u8"), ("end_ns", "<u8"), ("cpu_start_ns", "<u8"), ("cpu_within_ns", "<u4"), ("op", "u1"),
        ("failed", "u1"), ("spare", "<u2"), ("file", "<u4"), ("more", "<u4"), ("offset", "<u8"), ("length", "<u8"),
        ("asked", "<u8"),
    ]
)  # fmt: skip
_MAGIC = b"HRREC\0\0\x01".rstrip(b"\0")
_START, _END = 1, 2
_TIMED = (int(Op.OPEN), int(Op.CLOSE), int(Op.READ), int(Op.WRITE), int(Op.STAT), int(Op.SEEK), int(Op.SYNC), int(Op.MAP),
          int(Op.MAPPED_READ), int(Op.UNLINK))  # fmt: skip

_SOFTWARE_PLACES = (
    "/usr/", "/lib", "/bin/", "/sbin/", "/etc/", "/opt/", "/nix/", "/cvmfs/", "/snap/", "/var/lib/", "/dev/", "/run/",
)  # fmt: skip
_SOFTWARE_NAMES = re.compile(
    r"pyvenv\.cfg$|/lib/python\d|\.(?:py|pyc|pyi|so(?:\.[\d.]+)?|pth|pcm|rootmap|h|hh|hpp|hxx|sh|json\.lock)$|/site-packages/|/__pycache__/|/\.pyenv/|/dist-info/"
)


def is_software(path: str) -> bool:
    """True for programs, libraries and their settings, by place and ending."""
    return path.startswith(_SOFTWARE_PLACES) or _SOFTWARE_NAMES.search(path) is not None


@dataclass
class _Names:
    """The entries of one names file."""

    files: dict[int, tuple[str, int, int]] = field(default_factory=dict[int, tuple[str, int, int]])
    """Number -> path, open flags, bytes."""
    image: str = ""
    directory: str = ""
    notes: list[str] = field(default_factory=list[str])
    executed: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Read:
    """What lay in a recorder's directory."""

    files: tuple[RecordedFile, ...]
    steps: Steps
    begin_ns: int
    """Of the monotonic clock: the start of the first image."""
    end_ns: int
    processes: int
    cpu_ns: int
    """Of images that ended by themselves; of others, what their threads had used at their last step."""
    cpu_wait_ns: int
    unfinished: int
    """Images without an end: killed, or still running."""
    notes: tuple[str, ...]


def read_directory(directory: Path) -> Read:
    """All images that wrote into a directory. Raises HeadraceError when there is none."""
    images = sorted(directory.glob("*.rec"))
    if not images:
        raise HeadraceError(
            f"{directory}: nothing was recorded: the program never loaded the recorder's library",
            hint="it is static, set-uid, or drops LD_PRELOAD; strace -f -ttt and headrace profile import take such programs",
        )
    collected = _Collected()
    for image in images:
        names = _read_names(image.with_suffix(".names"))
        collected.add(names, list(_segments(image)))
    return collected.result()


def _segments(path: Path) -> Iterator[tuple[int, int, npt.NDArray[np.void]]]:
    """(pid, tid, records) of each segment; one that is not whole ends the file."""
    with path.open("rb") as file:
        while len(block := file.read(SEGMENT_BYTES)) >= _HEADER.itemsize:
            header = np.frombuffer(block, _HEADER, 1)[0]
            if bytes(header["magic"]) != _MAGIC and not bytes(header["magic"]).startswith(b"HRREC"):
                return
            room = (len(block) - _HEADER.itemsize) // _RECORD.itemsize
            count = min(int(header["count"]), room)
            yield (
                int(header["pid"]),
                int(header["tid"]),
                np.frombuffer(block, _RECORD, count, _HEADER.itemsize),
            )


def _read_names(path: Path) -> _Names:
    names = _Names()
    text = path.read_bytes() if path.exists() else b""
    # The last entry is whole or not there: what stands behind the last NUL is a torn one.
    for raw in text.split(b"\0")[:-1]:
        letter, *fields = raw.decode(errors="surrogateescape").split("\t")
        if letter == "F" and len(fields) >= 4:
            names.files[int(fields[0])] = ("\t".join(fields[3:]), int(fields[1]), int(fields[2]))
        elif letter == "P" and len(fields) >= 2:
            path_text = "\t".join(fields[1:])
            if not path_text.startswith("/"):
                path_text = os.path.normpath(f"{names.directory or '/'}/{path_text}")
            names.files[int(fields[0])] = (path_text, -1, -1)
        elif letter == "X" and len(fields) >= 2:
            names.executed.append("\t".join(fields[1:]))
        elif letter == "N" and fields:
            names.notes.append(fields[0])
        elif letter == "I" and fields:
            names.image = "\t".join(fields)
        elif letter == "C" and fields:
            names.directory = "\t".join(fields)
    return names


_NOTES = {
    "io_uring": "io_uring was used: reads and writes that went through it are not in the profile",
    "libaio": "libaio was used: reads and writes that went through it are not in the profile",
    "aio": "POSIX AIO was used: reads and writes that went through it are not in the profile",
    "full": "the place of the recording was full: the profile ends there",
    "unmapped": "the recording could not be mapped: the profile ends there",
    "too-many-maps": "more than 512 files were mapped at once: pages of the others are not in the profile",
}


class _Collected:
    """Images, joined."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._files: list[RecordedFile] = []
        self._parts: list[npt.NDArray[np.int64]] = []
        self._threads: dict[tuple[int, int, int], int] = {}
        self._notes: dict[str, None] = {}
        self._begin_ns: int | None = None
        self._end_ns = 0
        self._pids: set[int] = set()
        self._cpu_ns = 0
        self._cpu_wait_ns = 0
        self._unfinished = 0
        self._images = 0

    def _file(self, path: str, flags: int, size: int) -> int:
        number = self._numbers.get(path)
        opened = flags >= 0
        created = opened and size == 0 and flags & os.O_ACCMODE != os.O_RDONLY
        direct = opened and bool(flags & os.O_DIRECT)
        if number is None:
            number = self._numbers[path] = len(self._files)
            self._files.append(RecordedFile(path, max(size, 0), created, direct, is_software(path)))
        elif opened and self._files[number].bytes == 0 and size > 0 and not self._files[number].created:
            old = self._files[number]
            self._files[number] = RecordedFile(path, size, created, direct or old.direct, old.software)
        return number

    def add(self, names: _Names, segments: list[tuple[int, int, npt.NDArray[np.void]]]) -> None:
        """One image."""
        self._images += 1
        for note in names.notes:
            self._notes[_NOTES.get(note, note)] = None
        for program in names.executed:
            if (why := why_not_recorded(program)) is not None:
                self._notes[f"{program} was started and is not in the profile: it is {why}"] = None
        order = np.full(max(names.files, default=0) + 1, -1, np.int64)
        for number, (path, flags, size) in names.files.items():
            order[number] = self._file(path, flags, size)
        by_thread: dict[int, list[npt.NDArray[np.void]]] = {}
        for pid, tid, records in segments:
            self._pids.add(pid)
            by_thread.setdefault(tid, []).append(records)
        ended, last_cpu_ns, process_cpu_ns, earlier_cpu_ns = False, 0, 0, 0
        cpu_wait_ns = earlier_wait_ns = 0
        for tid, blocks in by_thread.items():
            records = np.concatenate(blocks)
            records = records[np.argsort(records["start_ns"], kind="stable")]
            if not len(records):
                continue
            starts, ends = records["start_ns"].astype(np.int64), records["end_ns"].astype(np.int64)
            self._begin_ns = min(
                int(starts[0]), self._begin_ns if self._begin_ns is not None else int(starts[0])
            )
            self._end_ns = max(self._end_ns, int(ends.max()))
            cpu_end = records["cpu_start_ns"].astype(np.int64) + records["cpu_within_ns"].astype(np.int64)
            last_cpu_ns += int(cpu_end[-1])
            if (finished := records[records["op"] == _END]).size:
                ended, process_cpu_ns = True, int(finished["offset"][-1])
                cpu_wait_ns = int(finished["length"][-1])
            if records["op"][0] == _START and records["file"][0] == 0:
                # exec keeps the clocks of what was there before: that has been counted.
                earlier_cpu_ns = int(records["cpu_start_ns"][0])
                earlier_wait_ns = int(records["length"][0])
            # What a thread had worked before its first step is its own (exec keeps the clock: an image begins with START).
            before = np.concatenate([[0], cpu_end[:-1]])
            if records["op"][0] == _START:
                before[0] = int(records["cpu_start_ns"][0])
            worked = np.maximum(records["cpu_start_ns"].astype(np.int64) - before, 0)
            thread = self._threads.setdefault((self._images, tid, 0), len(self._threads))
            kept = np.isin(records["op"], _TIMED) & (records["failed"] == 0)
            numbers = records["file"].astype(np.int64)
            kept &= (numbers < len(order)) & (order[np.minimum(numbers, len(order) - 1)] >= 0)
            # Work before a step that is left out goes to the next that stays.
            sums = np.concatenate([[0], np.cumsum(worked)])
            at = np.flatnonzero(kept)
            since = np.concatenate([[0], at[:-1] + 1]) if len(at) else at
            self._parts.append(
                np.column_stack(
                    [
                        starts[at],
                        ends[at],
                        np.full(len(at), thread),
                        records["op"][at].astype(np.int64),
                        order[numbers[at]],
                        records["offset"][at].astype(np.int64),
                        records["length"][at].astype(np.int64),
                        sums[at + 1] - sums[since],
                    ]
                ).astype(np.int64)
            )
        self._cpu_ns += max((process_cpu_ns if ended else last_cpu_ns) - earlier_cpu_ns, 0)
        self._cpu_wait_ns += max(cpu_wait_ns - earlier_wait_ns, 0)
        self._unfinished += not ended

    def result(self) -> Read:
        """Everything, by time since the first image began."""
        begin_ns = self._begin_ns or 0
        table = np.concatenate(self._parts) if self._parts else np.zeros((0, 8), np.int64)
        table = table[np.argsort(table[:, 0], kind="stable")]
        table[:, 0] -= begin_ns
        table[:, 1] -= begin_ns
        # Files that were open and never used (a log that another writes) are no part of it.
        used, table[:, 4] = np.unique(table[:, 4], return_inverse=True)
        self._files = [self._files[int(number)] for number in used]
        steps = Steps(*(np.ascontiguousarray(table[:, index]) for index in range(8)))
        self._files = list(opened_alone(self._files, steps))
        written = np.zeros(len(self._files), bool)
        written[steps.file[steps.op == Op.WRITE]] = True
        files = tuple(
            file if written[number] or not file.created else replace(file, created=False)
            for number, file in enumerate(self._files)
        )  # fmt: skip
        return Read(
            files,
            steps,
            begin_ns,
            self._end_ns,
            len(self._pids),
            self._cpu_ns,
            self._cpu_wait_ns,
            self._unfinished,
            tuple(self._notes),
        )


def is_regular(path: Path) -> bool:
    """True for a file that is there."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False
