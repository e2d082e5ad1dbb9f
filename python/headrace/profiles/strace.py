"""Imports `strace -f -ttt` text (better with -T and -y).

The recording has no CPU times, because strace does not show them. Time between two calls of a
thread counts as work. Without -T a call's own time is unknown and counts as work too.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.errors import FileProblem, StudyError
from headrace.profiles.software import is_software
from headrace.profiles.steps import (
    Op,
    RecordedFile,
    Recording,
    columns,
    in_range,
    opened_alone,
    whole_number,
)
from headrace.profiles.unnamed_folders import UnnamedFolders, joined, shown

_LINE = re.compile(
    r"^(?:\[pid\s+(\d{1,10})(?:<[^>]*>)?\]\s+|(\d{1,10})(?:<[^>]*>)?\s+)?(\d{9,10}\.\d+)\s+"
    r"(?:\(\+\s*\d+\.\d+\)\s+)?(?:\[[\s0-9a-f?]+\]\s+)*(.*)$"
)
"""Process (with -Y its name, too), time, with -r the time since the line before, with -n and -i the
call's number and the instruction's address, call."""
_CALL = re.compile(
    r"^(\w+)\((.*)\)\s+=\s+(-?\d{1,19}|0x[0-9a-f]{1,16}|\?)(<[^>]*>)?(.*?)(?:<(\d{1,9}\.\d+)>)?$"
)
_ATTACHED = re.compile(r"strace: Process (\d+) attached$")
"""strace prints this on standard error, in the middle of a line if its trace goes there too."""
_UNFINISHED = re.compile(r"^(\w+\(.*?),?\s*<unfinished \.\.\.>$")
_RESUMED = re.compile(r"^<\.\.\. (\w+) resumed>\s*(.*)$")
_DESCRIPTOR = re.compile(r"^(\d{1,10})(?:<([^>]*)>)?")
_DIRECTORY = re.compile(r"^AT_FDCWD<([^>]*)>")
"""With -y: the working directory."""
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(x[0-9a-f]{2}|[0-7]{1,3}|.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f"}
_GIVEN_OFFSET = re.compile(r"^\[(\d{1,19})\]")

_READS = {"read": False, "readv": False, "pread64": True, "preadv": True, "preadv2": True}
_WRITES = {"write": False, "writev": False, "pwrite64": True, "pwritev": True, "pwritev2": True}
_COPIES = {"sendfile", "copy_file_range", "splice"}
_RENAMES = {"rename", "renameat", "renameat2"}
_OPENS = {"open", "openat", "openat2", "creat"}
_DUPLICATES = {"dup", "dup2", "dup3"}
_CLONES = {"clone", "clone3", "fork", "vfork"}
_PLACES = {"chdir", "fchdir", "getcwd"}
_SIZES = {"ftruncate", "truncate", "fallocate"}
_OTHER_WAYS = {"io_uring_setup": "io_uring", "io_uring_enter": "io_uring", "io_submit": "libaio"}
"""Calls whose reads and writes strace does not show -> the interface's common name."""
_STATS = {"stat", "lstat", "newfstatat", "fstatat64", "statx", "access", "faccessat", "faccessat2"}


@dataclass
class _Open:
    file: int
    at: int = 0
    direct: bool = False
    """With O_DIRECT."""


@dataclass
class _Process:
    """Threads that share descriptors."""

    directory: str
    """Where the process is, of unnamed_folders.py where the trace does not tell it."""
    open: dict[int, _Open] = field(default_factory=dict[int, _Open])
    folders: dict[int, str] = field(default_factory=dict[int, str])
    """Descriptors of directories, to which paths of openat and its kin are relative."""
    closed_by_exec: set[int] = field(default_factory=set[int])

    def forked(self) -> _Process:
        """Return a child's descriptors: it shares the positions in files that were open."""
        return _Process(
            self.directory, dict(self.open), dict(self.folders), set(self.closed_by_exec)
        )

    def drop(self, descriptors: set[int]) -> None:
        """Forget descriptors that are closed, or that name something else from now on."""
        for each in descriptors:
            self.open.pop(each, None)
            self.folders.pop(each, None)
        self.closed_by_exec -= descriptors

    def mark(self, descriptor: int, arguments: str) -> None:
        """Note whether exec closes a descriptor, as the call that made it says."""
        if "CLOEXEC" in arguments:
            self.closed_by_exec.add(descriptor)
        else:
            self.closed_by_exec.discard(descriptor)

    def follow_folder(self, name: str, arguments: str, result: int) -> None:
        """Follow a call on a descriptor that is no file: it may be one of a folder."""
        descriptor = _descriptor(arguments)
        folder = self.folders.get(descriptor)
        if name in _DUPLICATES:
            self.drop({result})
        if folder is not None and name == "close":
            self.drop({descriptor})
        elif folder is not None and (name in _DUPLICATES or "F_DUPFD" in arguments):
            self.folders[result] = folder
            self.mark(result, arguments)


class _Reader:
    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.files: list[RecordedFile] = []
        self._opened: set[int] = set()
        """Files that were opened, not only named by calls such as stat."""
        self._direct: Counter[int] = Counter()
        """Reads and writes of a file past the page cache, less the others."""
        self._numbers: dict[str, int] = {}
        self._same: dict[int, int] = {}
        """Files that turned out to be another one, when the name of their folder was learnt."""
        self._unnamed = UnnamedFolders()
        self._start = self._unnamed.new()
        self._processes: dict[int, _Process] = {}
        self._threads: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._cloning: dict[int, str] = {}
        """Processes in a call that makes a child, which may run before the call returns."""
        self._parents: dict[int, int] = {}
        """Children that ran before -> their parents, as far as those can be told."""
        self.pids: set[int] = set()
        self.strangers = 0
        """Processes whose beginning is not in the trace, besides the first."""
        self.untimed = False
        self.hidden: set[str] = set()
        """I/O interfaces that the job used and strace cannot see into."""
        self.holes = 0
        self.maps = 0
        """Maps of data files: strace does not show what is read and written through them."""

    def file(self, path: str) -> int:
        """Return the number of a file."""
        path = self._unnamed.resolved(path)
        if path not in self._numbers:
            self._numbers[path] = len(self.files)
            self.files.append(RecordedFile(path, 0, software=is_software(shown(path))))
        return self._numbers[path]

    def _open(self, path: str, flags: str, *, created: bool) -> _Open:
        """Return a file that is opened; `flags`: the arguments of the call.

        The first open tells whether the job made it, any of them whether its writes are
        synchronous, and most reads and writes whether it is direct.
        """
        number = self.file(path)
        old = self.files[number]
        created = old.created if number in self._opened else created
        synchronous = old.synchronous or "O_SYNC" in flags or "O_DSYNC" in flags
        self._opened.add(number)
        self.files[number] = replace(old, created=created, synchronous=synchronous)
        return _Open(number, direct="O_DIRECT" in flags)

    def call(self, pid: int, at_ns: int, text: str) -> None:
        """Process one complete call."""
        found = _CALL.match(text)
        if found is None:
            return
        name, arguments, result_text, _, _, took = found.groups()
        if name in _OTHER_WAYS:
            self.hidden.add(_OTHER_WAYS[name])
        if result_text == "?" or result_text.startswith("-"):
            return
        # Not base 0, which refuses the octal 022 of umask.
        result = int(result_text, 10)
        self.pids.add(pid)
        self.untimed |= took is None
        end_ns = at_ns + (round(float(took) * 1e9) if took else 0)
        process = self._process(pid)
        if name in _CLONES:
            self._cloned(pid, result, arguments)
            return
        if name in _RENAMES:
            self._rename(process, arguments)
            return
        if name == "mmap":
            self._count_map(process, arguments)
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
            in_range(offset + length)
            self.rows.append((at_ns, end_ns, thread, int(op), file, offset, length, worked))

    def cloning(self, pid: int, text: str) -> None:
        """Note a call that has begun, if it makes a child."""
        if text.partition("(")[0] in _CLONES:
            self._cloning[pid] = text

    def _process(self, pid: int) -> _Process:
        """Return a process; a new one is the child of the one that makes a child right now."""
        if pid not in self._processes:
            parent = next(iter(self._cloning), None)
            self.strangers += parent is None and bool(self._processes)
            if parent is not None:
                self._parents[pid] = parent
                self._add(parent, pid, self._cloning[parent])
        if pid not in self._processes:
            self._processes[pid] = _Process(self._start)
        return self._processes[pid]

    def _cloned(self, pid: int, child: int, arguments: str) -> None:
        """Add a child, unless it has run as this process's child already."""
        self._cloning.pop(pid, None)
        if self._parents.pop(child, None) != pid:
            self._add(pid, child, arguments)

    def _add(self, parent: int, child: int, arguments: str) -> None:
        process = self._process(parent)
        self._processes[child] = process if "CLONE_FILES" in arguments else process.forked()

    def _is_in(self, process: _Process, directory: str) -> None:
        """Note the absolute name of the directory in which a process is."""
        folder, process.directory = process.directory, directory
        # Processes of which the trace lacks the beginning may be in others.
        if self.strangers or not self._unnamed.learn(folder, directory):
            return
        for path, number in list(self._numbers.items()):
            if (named := self._unnamed.resolved(path)) == path:
                continue
            del self._numbers[path]
            if named in self._numbers:
                self._same[number] = self._numbers[named]
            else:
                self._numbers[named] = number

    def _place(self, process: _Process, name: str, arguments: str) -> None:
        """Follow a process to another directory, or learn the name of that in which it is."""
        if name == "fchdir":
            process.directory = self._folder(process, arguments)
        elif quoted := _QUOTED.search(arguments):
            path = _unescaped(quoted.group(1))
            if name == "chdir":
                process.directory = joined(process.directory, path)
            elif path.startswith("/"):  # not `(unreachable)…`
                self._is_in(process, path)

    def _folder(self, process: _Process, arguments: str) -> str:
        """Return the folder that a call's first descriptor names; without one, that in which the
        process is."""
        found = _DESCRIPTOR.match(arguments)
        if found is None:
            return process.directory
        if (path := _unescaped(found.group(2) or "")).startswith("/"):
            return path  # with -y
        fd = int(found.group(1))
        if fd in process.open:  # opened as a file, without O_DIRECTORY
            return self.files[process.open[fd].file].path
        if fd not in process.folders:
            process.folders[fd] = self._unnamed.new()
        return process.folders[fd]

    def _named(self, process: _Process, arguments: str) -> str:
        """Return the path that a call names; "" if it names none."""
        quoted = _QUOTED.search(arguments)
        if quoted is None or not quoted.group(1):
            return ""
        path = _unescaped(quoted.group(1))
        return joined("/" if path.startswith("/") else self._folder(process, arguments), path)

    def finished(self) -> tuple[list[RecordedFile], list[tuple[int, ...]]]:
        """Return the files, by the names that the whole trace tells, and the steps."""
        for number, other in self._same.items():
            one, two = self.files[other], self.files[number]
            synchronous = one.synchronous or two.synchronous
            size = max(one.bytes, two.bytes)
            self.files[other] = replace(one, bytes=size, synchronous=synchronous)
            self._direct[other] += self._direct[number]
        files = [
            # Direct where most reads and writes went past the page cache.
            replace(
                file,
                path=shown(self._unnamed.resolved(file.path)),
                direct=self._direct[number] > 0,
            )
            for number, file in enumerate(self.files)
        ]
        rows = [(*row[:4], self._same.get(row[4], row[4]), *row[5:]) for row in self.rows]
        return files, rows if self._same else self.rows

    def _rename(self, process: _Process, arguments: str) -> None:
        """Let a file have another name from now on. Its first name is the one that is kept."""
        if here := _DIRECTORY.match(arguments):
            self._is_in(process, _unescaped(here.group(1)))
        named = list(_QUOTED.finditer(arguments))
        if len(named) != 2:
            return
        # Each name of renameat follows the descriptor of its folder.
        ahead = (arguments[: named[0].start()], arguments[named[0].end() : named[1].start()])
        old, new = (
            self._unnamed.resolved(self._named(process, before.lstrip(", ") + found.group(0)))
            for before, found in zip(ahead, named, strict=True)
        )
        changed = (old, new) if "RENAME_EXCHANGE" in arguments else (old,)
        numbers = [self._numbers.pop(path, None) for path in changed]
        for path, number in zip((new, old), numbers, strict=False):
            if number is not None:
                self._numbers[path] = number

    def _count_map(self, process: _Process, arguments: str) -> None:
        fields = arguments.split(",")
        held = self._held(process, fields[-2].strip()) if len(fields) > 1 else None
        self.maps += held is not None and not self.files[held.file].software

    def _moved(
        self, held: _Open, name: str, arguments: str, result: int
    ) -> tuple[Op, int, int, int]:
        """Return a read or a write, at the offset that is given, else at the descriptor's own."""
        placed = _READS.get(name, False) or _WRITES.get(name, False)
        at = held.at
        given = _offset(name, arguments) if placed else None
        if given is None:
            held.at = at + result
        else:
            at = given
        op = Op.READ if name in _READS else Op.WRITE
        self._direct[held.file] += 1 if held.direct else -1
        self._grow(held.file, at + result, op)
        return op, held.file, at, result

    def _copy(
        self, process: _Process, name: str, arguments: str, result: int
    ) -> list[tuple[Op, int, int, int]]:
        """Return a read of one file and a write of the other, at the offsets that are given, else
        at the descriptors' own; descriptors that are no files are omitted."""
        fields = [each.strip() for each in arguments.split(",")]
        if len(fields) < 3:
            return []
        own = "NULL"
        (source, read_at), (target, write_at) = (
            ((fields[1], fields[2]), (fields[0], own))
            if name == "sendfile"
            else ((fields[0], fields[1]), (fields[2], fields[3] if len(fields) > 3 else own))
        )
        found: list[tuple[Op, int, int, int]] = []
        for op, text, offset in ((Op.READ, source, read_at), (Op.WRITE, target, write_at)):
            number = _DESCRIPTOR.match(text)
            held = process.open.get(int(number.group(1))) if number else None
            if held is not None and result:
                given = _GIVEN_OFFSET.match(offset)
                at = held.at if given is None else whole_number(given.group(1))
                found.append((op, held.file, at, result))
                self._grow(held.file, at + result, op)
                if given is None:
                    held.at += result
        return found

    def _grow(self, number: int, end: int, op: Op) -> None:
        """Extend a file to at least the end of what was read from it."""
        old = self.files[number]
        if op == Op.READ and not old.created and end > old.bytes:
            self.files[number] = replace(old, bytes=end)

    def _size(
        self, process: _Process, name: str, arguments: str
    ) -> tuple[Op, int, int, int] | None:
        """Return the size or space that a call gives a file; only count holes and moves of data."""
        fields = [each.strip() for each in arguments.rsplit(",", 1 if name != "fallocate" else 3)]
        if name == "truncate":
            quoted = _QUOTED.search(arguments)
            path = "" if quoted is None else _unescaped(quoted.group(1))
            file = self.file(joined(process.directory, path)) if path else None
        else:
            held = self._held(process, arguments)
            file = None if held is None else held.file
        if file is None:
            return None
        if name != "fallocate":
            return Op.TRUNCATE, file, whole_number(fields[-1]), 0
        if len(fields) < 4:
            raise ValueError("fallocate lacks arguments")
        if fields[1] not in ("0", "FALLOC_FL_KEEP_SIZE"):
            self.holes += 1
            return None
        op = Op.ALLOCATE if fields[1] == "0" else Op.RESERVE
        return op, file, whole_number(fields[2]), whole_number(fields[3])

    def _held(self, process: _Process, arguments: str) -> _Open | None:
        """Return the file of a call's first descriptor; None if it is unknown."""
        found = _DESCRIPTOR.match(arguments)
        if found is None:
            return None
        fd = _descriptor(arguments)
        held = process.open.get(fd)
        if (
            held is None
            and (path := _unescaped(found.group(2) or "")).startswith("/")
            and not path.startswith(("/dev", "/proc", "/sys"))
        ):
            # With -y: a file that was open before the trace began.
            held = process.open[fd] = self._open(path, "", created=False)
        return held

    def _step(
        self, process: _Process, name: str, arguments: str, result: int, result_path: str
    ) -> tuple[Op, int, int, int] | None:
        if here := _DIRECTORY.match(arguments):
            self._is_in(process, _unescaped(here.group(1)))
        if name in ("execve", "execveat"):
            process.drop(set(process.closed_by_exec))
            return None
        if name in _OPENS:
            path = _unescaped(result_path[1:-1]) or self._named(process, arguments)
            process.drop({result})
            process.mark(result, arguments)
            if "O_DIRECTORY" in arguments:
                process.folders[result] = path
                return None
            if not path or path.startswith(("/proc/", "/sys/", "/dev/")):
                return None
            created = "O_TRUNC" in arguments or ("O_CREAT" in arguments and "O_EXCL" in arguments)
            held = self._open(path, arguments, created=created or name == "creat")
            process.open[result] = held
            return Op.OPEN, held.file, 0, 0
        if name in _STATS:
            path = self._named(process, arguments)
            return (Op.STAT, self.file(path), 0, 0) if path else None
        if name in _SIZES:
            return self._size(process, name, arguments)
        if name in _PLACES:
            self._place(process, name, arguments)
            return None
        held = self._held(process, arguments)
        if held is None:
            process.follow_folder(name, arguments, result)
            return None
        if name in _READS or name in _WRITES:
            return self._moved(held, name, arguments, result)
        if name in ("lseek", "_llseek"):
            held.at = result
            return Op.SEEK, held.file, result, 0
        if name == "close":
            process.drop({_descriptor(arguments)})
            return Op.CLOSE, held.file, 0, 0
        if name in ("fsync", "fdatasync", "syncfs") or (
            name == "sync_file_range" and "SYNC_FILE_RANGE_WAIT_AFTER" in arguments
        ):
            return Op.SYNC, held.file, 0, 0
        if name in _DUPLICATES or (name == "fcntl" and "F_DUPFD" in arguments):
            process.open[result] = held
            process.mark(result, arguments)
        return None


def _descriptor(arguments: str) -> int:
    """Return a call's first descriptor; -1 if it has none."""
    found = _DESCRIPTOR.match(arguments)
    return -1 if found is None else int(found.group(1))


def _offset(name: str, arguments: str) -> int | None:
    """Return the offset that a call gives; None if it is -1 (preadv2), the descriptor's own."""
    text = arguments.rsplit("]" if "v" in name else '"', 1)[-1]
    numbers = re.findall(r"-?\d+", text)
    if not numbers or (given := numbers[1] if len(numbers) > 1 else numbers[0]).startswith("-"):
        return None
    return whole_number(given)


def _unescaped(text: str) -> str:
    """Return a name as it is: strace writes all but ASCII as octal numbers of bytes. Raises
    ValueError for a name that no file has."""
    if "\\" not in text:
        return text

    def plain(found: re.Match[str]) -> str:
        code = found.group(1)
        if code[0] == "x" and len(code) == 3:
            return chr(int(code[1:], 16))
        return chr(int(code, 8) & 255) if code[0] in "01234567" else _LETTERS.get(code, code)

    # Each character is a byte now, and the bytes are the name's UTF-8.
    name = os.fsdecode(_ESCAPED.sub(plain, text).encode("latin-1", "replace"))
    if "\0" in name:
        raise ValueError("a name holds the character NUL, which no name can have")
    return name


class _Lines:
    """Joins the lines of a trace to complete calls, and hands them to a reader."""

    def __init__(self) -> None:
        self.reader = _Reader()
        self.count = 0
        self.first_ns = self.last_ns = 0
        self._waiting: dict[int, tuple[int, str]] = {}
        self._children: set[int] = set()
        self._torn = ""

    def read(self, line: str) -> None:
        """Read one line. Raises ValueError if it does not fit the format."""
        if attached := _ATTACHED.search(line):
            self._children.add(int(attached.group(1)))
            self._torn = line[: attached.start()]
            return
        found = _LINE.match(line)
        if found is None and self._torn:
            found, self._torn = _LINE.match(self._torn + line), ""
        if found is None:
            if self.count == 0 and line.strip():
                raise ValueError(
                    "no line of strace -f -ttt: a time in seconds since 1970 is expected"
                )
            return
        self.count += 1
        pid = int(found.group(1) or found.group(2) or 0)
        if found.group(1) and self._children and pid not in self._children:
            pid = 0  # the first process, which strace does not number while it is alone
        seconds, _, fraction = found.group(3).partition(".")
        at_ns = int(seconds) * 1_000_000_000 + int(fraction.ljust(9, "0")[:9])
        self.first_ns = min(self.first_ns or at_ns, at_ns)
        self.last_ns = max(self.last_ns, at_ns)
        self._call(pid, at_ns, found.group(4))

    def _call(self, pid: int, at_ns: int, text: str) -> None:
        if begun := _UNFINISHED.match(text):
            self._waiting[pid] = (at_ns, begun.group(1))
            self.reader.cloning(pid, begun.group(1))
        elif (resumed := _RESUMED.match(text)) and pid in self._waiting:
            begin_ns, call = self._waiting.pop(pid)
            self.reader.call(pid, begin_ns, call + resumed.group(2))
        else:
            self.reader.call(pid, at_ns, text)

    def notes(self, files: tuple[RecordedFile, ...]) -> tuple[str, ...]:
        """Return what the trace does not tell."""
        reader = self.reader
        notes = [
            "imported from strace: time between calls counts as work, since CPU times are not known"
        ]
        if not reader.rows:
            notes.append(
                "no call on a file with a known name: strace -y names files that were open "
                "before; strace-log-merge joins the files of -ff"
            )
        if reader.hidden:
            ways = ", ".join(sorted(reader.hidden))
            notes.append(f"{ways} was used: what was read and written that way is not in the trace")
        if reader.strangers:
            several = reader.strangers > 1
            notes.append(
                f"the start of {reader.strangers} process{'es' if several else ''} is not in the "
                "trace: what was done to files that were open before is missing, unless strace "
                "had -y"
            )
        if unnamed := sum(file.path[:1] != "/" and not file.software for file in files):
            one = unnamed == 1
            notes.append(
                f"{unnamed} file{' has a name' if one else 's have names'} relative to a folder "
                "that the trace does not name: strace -y names it"
            )
        if reader.maps:
            notes.append(
                f"{reader.maps} map{'s' if reader.maps > 1 else ''} of files (mmap): what was "
                "read and written through them is not in the trace"
            )
        if reader.holes:
            notes.append(
                f"{reader.holes} calls of fallocate made holes or zeroes, or moved data: they are "
                "left out"
            )
        if reader.untimed:
            notes.append("traced without -T: how long calls took is not known")
        return tuple(notes)


def read_strace(path: Path, name: str) -> Recording:
    """Return the job of a trace. Raises StudyError that names the first line that does not fit, if
    the file is not a trace."""
    lines = _Lines()
    with path.open(errors="replace") as text:
        for number, line in enumerate(text, 1):
            try:
                lines.read(line.rstrip("\n"))
            except ValueError as error:
                raise StudyError(
                    [FileProblem(path, number, "line", line.strip()[:60], str(error))]
                ) from None
    if not lines.count:
        raise StudyError([FileProblem(path, 0, "", "", "is empty: no call was traced")])
    reader, first = lines.reader, lines.first_ns
    named, rows = reader.finished()
    steps = columns([(start - first, end - first, *rest) for start, end, *rest in rows])
    files = opened_alone(named, steps)
    return Recording(
        name,
        "strace",
        files,
        steps,
        lines.last_ns - first,
        cpu_ns=int(steps.cpu_ns.sum()),
        processes=len(reader.pids),
        notes=lines.notes(files),
    )
