"""What the calls of a trace do to files: steps of a recording."""

from __future__ import annotations

import re

from headrace.profiles.steps import Op, in_range, whole_number
from headrace.profiles.strace.arguments import (
    DESCRIPTOR,
    DIRECTORY,
    GIVEN_OFFSET,
    QUOTED,
    descriptor,
    offset_given,
    unescaped,
)
from headrace.profiles.strace.calls import (
    CLONES,
    COPIES,
    DUPLICATES,
    OPENS,
    OTHER_WAYS,
    PLACES,
    READS,
    RENAMES,
    SIZES,
    STATS,
    WRITES,
)
from headrace.profiles.strace.files import TracedFiles
from headrace.profiles.strace.process import HeldFile, TracedProcess
from headrace.profiles.unnamed_folders import joined

_CALL = re.compile(
    r"^(\w+)\((.*)\)\s+=\s+(-?\d{1,19}|0x[0-9a-f]{1,16}|\?)(<[^>]*>)?(.*?)(?:<(\d{1,9}\.\d+)>)?$"
)


class Reader:
    """Follows processes, their descriptors and directories from call to call."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self.files = TracedFiles()
        self._processes: dict[int, TracedProcess] = {}
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

    def call(self, pid: int, at_ns: int, text: str) -> None:
        """TracedProcess one complete call."""
        found = _CALL.match(text)
        if found is None:
            return
        name, arguments, result_text, _, _, took = found.groups()
        if name in OTHER_WAYS:
            self.hidden.add(OTHER_WAYS[name])
        if result_text == "?" or result_text.startswith("-"):
            return
        # Not base 0, which refuses the octal 022 of umask.
        result = int(result_text, 10)
        self.pids.add(pid)
        self.untimed |= took is None
        end_ns = at_ns + (round(float(took) * 1e9) if took else 0)
        process = self._process(pid)
        if name in CLONES:
            self._cloned(pid, result, arguments)
            return
        if name in RENAMES:
            self._rename(process, arguments)
            return
        if name == "mmap":
            self._count_map(process, arguments)
            return
        if name in COPIES:
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
        if text.partition("(")[0] in CLONES:
            self._cloning[pid] = text

    def _process(self, pid: int) -> TracedProcess:
        """Return a process; a new one is the child of the one that makes a child right now."""
        if pid not in self._processes:
            parent = next(iter(self._cloning), None)
            self.strangers += parent is None and bool(self._processes)
            if parent is not None:
                self._parents[pid] = parent
                self._add(parent, pid, self._cloning[parent])
        if pid not in self._processes:
            self._processes[pid] = TracedProcess(self.files.start)
        return self._processes[pid]

    def _cloned(self, pid: int, child: int, arguments: str) -> None:
        """Add a child, unless it has run as this process's child already."""
        self._cloning.pop(pid, None)
        if self._parents.pop(child, None) != pid:
            self._add(pid, child, arguments)

    def _add(self, parent: int, child: int, arguments: str) -> None:
        process = self._process(parent)
        self._processes[child] = process if "CLONE_FILES" in arguments else process.forked()

    def _is_in(self, process: TracedProcess, directory: str) -> None:
        """Note the absolute name of the directory in which a process is."""
        folder, process.directory = process.directory, directory
        # Processes of which the trace lacks the beginning may be in others.
        if not self.strangers:
            self.files.learn(folder, directory)

    def _place(self, process: TracedProcess, name: str, arguments: str) -> None:
        """Follow a process to another directory, or learn the name of that in which it is."""
        if name == "fchdir":
            process.directory = self._folder(process, arguments)
        elif quoted := QUOTED.search(arguments):
            path = unescaped(quoted.group(1))
            if name == "chdir":
                process.directory = joined(process.directory, path)
            elif path.startswith("/"):  # not `(unreachable)…`
                self._is_in(process, path)

    def _folder(self, process: TracedProcess, arguments: str) -> str:
        """Return the folder that a call's first descriptor names; without one, that in which the
        process is."""
        found = DESCRIPTOR.match(arguments)
        if found is None:
            return process.directory
        if (path := unescaped(found.group(2) or "")).startswith("/"):
            return path  # with -y
        fd = int(found.group(1))
        if fd in process.open:  # opened as a file, without O_DIRECTORY
            return self.files.files[process.open[fd].file].path
        if fd not in process.folders:
            process.folders[fd] = self.files.unnamed.new()
        return process.folders[fd]

    def _named(self, process: TracedProcess, arguments: str) -> str:
        """Return the path that a call names; "" if it names none."""
        quoted = QUOTED.search(arguments)
        if quoted is None or not quoted.group(1):
            return ""
        path = unescaped(quoted.group(1))
        return joined("/" if path.startswith("/") else self._folder(process, arguments), path)

    def _rename(self, process: TracedProcess, arguments: str) -> None:
        if here := DIRECTORY.match(arguments):
            self._is_in(process, unescaped(here.group(1)))
        named = list(QUOTED.finditer(arguments))
        if len(named) != 2:
            return
        # Each name of renameat follows the descriptor of its folder.
        ahead = (arguments[: named[0].start()], arguments[named[0].end() : named[1].start()])
        old, new = (
            self._named(process, before.lstrip(", ") + found.group(0))
            for before, found in zip(ahead, named, strict=True)
        )
        self.files.rename(old, new, exchange="RENAME_EXCHANGE" in arguments)

    def _count_map(self, process: TracedProcess, arguments: str) -> None:
        fields = arguments.split(",")
        held = self._held(process, fields[-2].strip()) if len(fields) > 1 else None
        self.maps += held is not None and not self.files.files[held.file].software

    def _moved(
        self, held: HeldFile, name: str, arguments: str, result: int
    ) -> tuple[Op, int, int, int]:
        """Return a read or a write, at the offset that is given, else at the descriptor's own."""
        placed = READS.get(name, False) or WRITES.get(name, False)
        at = held.at
        given = offset_given(name, arguments) if placed else None
        if given is None:
            held.at = at + result
        else:
            at = given
        op = Op.READ if name in READS else Op.WRITE
        self.files.count_transfer(held)
        self.files.grow(held.file, at + result, op)
        return op, held.file, at, result

    def _copy(
        self, process: TracedProcess, name: str, arguments: str, result: int
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
            number = DESCRIPTOR.match(text)
            held = process.open.get(int(number.group(1))) if number else None
            if held is not None and result:
                given = GIVEN_OFFSET.match(offset)
                at = held.at if given is None else whole_number(given.group(1))
                found.append((op, held.file, at, result))
                self.files.grow(held.file, at + result, op)
                if given is None:
                    held.at += result
        return found

    def _size(
        self, process: TracedProcess, name: str, arguments: str
    ) -> tuple[Op, int, int, int] | None:
        """Return the size or space that a call gives a file; only count holes and moves of data."""
        fields = [each.strip() for each in arguments.rsplit(",", 1 if name != "fallocate" else 3)]
        if name == "truncate":
            quoted = QUOTED.search(arguments)
            path = "" if quoted is None else unescaped(quoted.group(1))
            file = self.files.number(joined(process.directory, path)) if path else None
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

    def _held(self, process: TracedProcess, arguments: str) -> HeldFile | None:
        """Return the file of a call's first descriptor; None if it is unknown."""
        found = DESCRIPTOR.match(arguments)
        if found is None:
            return None
        fd = descriptor(arguments)
        held = process.open.get(fd)
        if (
            held is None
            and (path := unescaped(found.group(2) or "")).startswith("/")
            and not path.startswith(("/dev", "/proc", "/sys"))
        ):
            # With -y: a file that was open before the trace began.
            held = process.open[fd] = self.files.open(path, "", created=False)
        return held

    def _step(
        self, process: TracedProcess, name: str, arguments: str, result: int, result_path: str
    ) -> tuple[Op, int, int, int] | None:
        if here := DIRECTORY.match(arguments):
            self._is_in(process, unescaped(here.group(1)))
        if name in ("execve", "execveat"):
            process.drop(set(process.closed_by_exec))
            return None
        if name in OPENS:
            path = unescaped(result_path[1:-1]) or self._named(process, arguments)
            process.drop({result})
            process.mark(result, arguments)
            if "O_DIRECTORY" in arguments:
                process.folders[result] = path
                return None
            if not path or path.startswith(("/proc/", "/sys/", "/dev/")):
                return None
            created = "O_TRUNC" in arguments or ("O_CREAT" in arguments and "O_EXCL" in arguments)
            held = self.files.open(path, arguments, created=created or name == "creat")
            process.open[result] = held
            return Op.OPEN, held.file, 0, 0
        if name in STATS:
            path = self._named(process, arguments)
            return (Op.STAT, self.files.number(path), 0, 0) if path else None
        if name in SIZES:
            return self._size(process, name, arguments)
        if name in PLACES:
            self._place(process, name, arguments)
            return None
        held = self._held(process, arguments)
        if held is None:
            process.follow_folder(name, arguments, result)
            return None
        if name in READS or name in WRITES:
            return self._moved(held, name, arguments, result)
        if name in ("lseek", "_llseek"):
            held.at = result
            return Op.SEEK, held.file, result, 0
        if name == "close":
            process.drop({descriptor(arguments)})
            return Op.CLOSE, held.file, 0, 0
        if name in ("fsync", "fdatasync", "syncfs") or (
            name == "sync_file_range" and "SYNC_FILE_RANGE_WAIT_AFTER" in arguments
        ):
            return Op.SYNC, held.file, 0, 0
        if name in DUPLICATES or (name == "fcntl" and "F_DUPFD" in arguments):
            process.open[result] = held
            process.mark(result, arguments)
        return None
