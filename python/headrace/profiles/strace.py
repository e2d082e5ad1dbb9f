"""Imports `strace -f -ttt` text (better with -T and -y): a recording without CPU times, since strace does not see them.

What lies between two calls of a thread counts as work. Without -T a call's own time is not known, and counts as work, too.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.errors import Fault, StudyError
from headrace.profiles.recording import is_software
from headrace.profiles.steps import Op, RecordedFile, Recording, columns, opened_alone

_LINE = re.compile(r"^(?:\[pid\s+(\d+)\]\s+|(\d+)\s+)?(\d{9,}\.\d+)\s+(.*)$")
_CALL = re.compile(r"^(\w+)\((.*)\)\s+=\s+(-?\d+|0x[0-9a-f]+|\?)(<[^>]*>)?(.*?)(?:<(\d+\.\d+)>)?$")
_ATTACHED = re.compile(r"strace: Process (\d+) attached$")
"""What strace says on standard error, in the middle of a line when its trace goes there, too."""
_UNFINISHED = re.compile(r"^(\w+\(.*?),?\s*<unfinished \.\.\.>$")
_RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>\s*(.*)$")
_DESCRIPTOR = re.compile(r"^(\d+)(?:<([^>]*)>)?")
_DIRECTORY = re.compile(r"^AT_FDCWD<([^>]*)>")
"""With -y: the working directory."""
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')

_READS = {"read": False, "readv": False, "pread64": True, "preadv": True, "preadv2": True}
_WRITES = {"write": False, "writev": False, "pwrite64": True, "pwritev": True, "pwritev2": True}
_COPIES = {"sendfile", "copy_file_range", "splice"}
_OPENS = {"open", "openat", "openat2", "creat"}
_STATS = {"stat", "lstat", "newfstatat", "fstatat64", "statx", "access", "faccessat", "faccessat2"}


@dataclass
class _Open:
    file: int
    at: int = 0


@dataclass
class _Process:
    """Threads that share descriptors."""

    open: dict[int, _Open] = field(default_factory=dict[int, _Open])
    directory: str = "/"


class _Reader:
    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.files: list[RecordedFile] = []
        self._numbers: dict[str, int] = {}
        self._processes: dict[int, _Process] = {}
        self._threads: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self.pids: set[int] = set()
        self.untimed = False

    def file(self, path: str, *, created: bool = False, direct: bool = False) -> int:
        if path not in self._numbers:
            self._numbers[path] = len(self.files)
            self.files.append(RecordedFile(path, 0, created, direct, is_software(path)))
        return self._numbers[path]

    def call(self, pid: int, at_ns: int, text: str) -> None:
        """One whole call."""
        found = _CALL.match(text)
        if found is None:
            return
        name, arguments, result_text, _, _, took = found.groups()
        if result_text == "?" or result_text.startswith("-"):
            return
        result = int(result_text, 0)
        self.pids.add(pid)
        self.untimed |= took is None
        end_ns = at_ns + (round(float(took) * 1e9) if took else 0)
        process = self._processes.setdefault(pid, _Process())
        if name in ("clone", "clone3", "fork", "vfork"):
            shares = "CLONE_FILES" in arguments
            copied = _Process(
                {fd: _Open(each.file, each.at) for fd, each in process.open.items()}, process.directory
            )
            self._processes[result] = process if shares else copied
            return
        if name in _COPIES:
            steps = self._copy(process, name, arguments, result)
        else:
            step = self._step(process, name, arguments, result, found.group(4) or "")
            steps = [] if step is None else [step]
        for op, file, offset, length in steps:
            thread = self._threads.setdefault(pid, len(self._threads))
            worked = max(0, at_ns - self._ends.get(pid, at_ns))
            self._ends[pid] = end_ns
            self.rows.append((at_ns, end_ns, thread, int(op), file, offset, length, worked))

    def _copy(
        self, process: _Process, name: str, arguments: str, result: int
    ) -> list[tuple[Op, int, int, int]]:
        """A read of the one file and a write of the other, where descriptors are of files and offsets their own."""
        fields = [each.strip() for each in arguments.split(",")]
        source, target = (fields[1], fields[0]) if name == "sendfile" else (fields[0], fields[2])
        found: list[tuple[Op, int, int, int]] = []
        for op, text in ((Op.READ, source), (Op.WRITE, target)):
            number = _DESCRIPTOR.match(text)
            held = process.open.get(int(number.group(1))) if number else None
            if held is not None and result:
                found.append((op, held.file, held.at, result))
                self._grow(held.file, held.at + result, op)
                held.at += result
        return found

    def _grow(self, number: int, end: int, op: Op) -> None:
        """A file is at least as long as was read of it."""
        old = self.files[number]
        if op == Op.READ and not old.created and end > old.bytes:
            self.files[number] = replace(old, bytes=end)

    def _step(
        self, process: _Process, name: str, arguments: str, result: int, result_path: str
    ) -> tuple[Op, int, int, int] | None:
        if here := _DIRECTORY.match(arguments):
            process.directory = here.group(1)
        if name in _OPENS:
            quoted = _QUOTED.search(arguments)
            path = result_path.strip("<>") or (_absolute(process, quoted.group(1)) if quoted else "")
            if not path or path.startswith(("/proc/", "/sys/", "/dev/")) or "O_DIRECTORY" in arguments:
                return None
            created = "O_TRUNC" in arguments or ("O_CREAT" in arguments and "O_EXCL" in arguments)
            file = self.file(path, created=created or name == "creat", direct="O_DIRECT" in arguments)
            process.open[result] = _Open(file)
            return Op.OPEN, file, 0, 0
        if name in _STATS:
            quoted = _QUOTED.search(arguments)
            if quoted is None or not quoted.group(1):
                return None
            return Op.STAT, self.file(_absolute(process, quoted.group(1))), 0, 0
        if name == "chdir":
            if quoted := _QUOTED.search(arguments):
                process.directory = _absolute(process, quoted.group(1))
            return None
        found = _DESCRIPTOR.match(arguments)
        if found is None:
            return None
        fd = int(found.group(1))
        held = process.open.get(fd)
        if (
            held is None
            and (path := found.group(2) or "").startswith("/")
            and not path.startswith(("/dev", "/proc", "/sys"))
        ):
            # With -y: a file that was open before the trace began.
            held = process.open[fd] = _Open(self.file(path))
        if held is None:
            return None
        if name in _READS or name in _WRITES:
            placed = _READS.get(name, False) or _WRITES.get(name, False)
            at = held.at
            if placed and (
                numbers := re.findall(r"\d+", arguments.rsplit("]" if "v" in name else '"', 1)[-1])
            ):
                at = int(numbers[1] if len(numbers) > 1 else numbers[0])
            else:
                held.at = at + result
            op = Op.READ if name in _READS else Op.WRITE
            self._grow(held.file, at + result, op)
            return op, held.file, at, result
        if name in ("lseek", "_llseek"):
            held.at = result
            return Op.SEEK, held.file, result, 0
        if name == "close":
            del process.open[fd]
            return Op.CLOSE, held.file, 0, 0
        if name in ("fsync", "fdatasync"):
            return Op.SYNC, held.file, 0, 0
        if name in ("dup", "dup2", "dup3") or (name == "fcntl" and "F_DUPFD" in arguments):
            process.open[result] = held
        return None


def _absolute(process: _Process, path: str) -> str:
    return os.path.normpath(path if path.startswith("/") else f"{process.directory.rstrip('/')}/{path}")


def read_strace(path: Path, name: str) -> Recording:
    """The job that a trace is of. Raises StudyError for a file that is none, with its first line that does not fit."""
    reader = _Reader()
    waiting: dict[int, tuple[int, str]] = {}
    children: set[int] = set()
    lines = 0
    first = last = 0
    torn = ""
    with path.open(errors="replace") as text:
        for number, line in enumerate(text, 1):
            line = line.rstrip("\n")
            if attached := _ATTACHED.search(line):
                children.add(int(attached.group(1)))
                torn = line[: attached.start()]
                continue
            found = _LINE.match(line)
            if found is None and torn:
                found, torn = _LINE.match(torn + line), ""
            if found is None:
                if lines == 0 and line.strip():
                    problem = "no line of strace -f -ttt: a time in seconds since 1970 is expected"
                    raise StudyError([Fault(path, number, "line", line.strip()[:60], problem)])
                continue
            lines += 1
            pid = int(found.group(1) or found.group(2) or 0)
            if found.group(1) and children and pid not in children:
                pid = 0  # the first process, which has no number as long as it is alone
            seconds, _, fraction = found.group(3).partition(".")
            at_ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])
            first, last = first or at_ns, at_ns
            rest = found.group(4)
            if begun := _UNFINISHED.match(rest):
                waiting[pid] = (at_ns, begun.group(1))
            elif (resumed := _RESUMED.match(rest)) and pid in waiting:
                begin_ns, call = waiting.pop(pid)
                reader.call(pid, begin_ns, call + resumed.group(2))
            else:
                reader.call(pid, at_ns, rest)
    if not lines:
        raise StudyError([Fault(path, 0, "file", "", "is empty: no call was traced")])
    rows = [(start - first, end - first, *rest) for start, end, *rest in reader.rows]
    steps = columns(rows)
    notes = ["imported from strace: time between calls counts as work, since CPU times are not known"]
    if reader.untimed:
        notes.append("traced without -T: how long calls took is not known")
    return Recording(
        name,
        "strace",
        opened_alone(reader.files, steps),
        steps,
        last - first,
        cpu_ns=int(steps.cpu_ns.sum()),
        processes=len(reader.pids),
        notes=tuple(notes),
    )
