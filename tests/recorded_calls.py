"""What a program asks the kernel of files, by strace, without the calls of the recorder's own.

For comparing a program recorded and not. A call is the recorder's if it was made from within its
library (strace -i gives the place), or if it is the loader's on the library's file, or maps memory
where the library lies. Besides, memory without a file, the number of variables of the environment
and spaces are left out; nothing else is.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LIBRARY = "libheadrace_recorder.so"
TRACED = "%file,%desc,clone,clone3,fork,vfork"
_LINE = re.compile(r"^(\d+)\s+\[([0-9a-f?]+)\] (.*)$")
_UNFINISHED = re.compile(r"^(.*?)\s*<unfinished \.\.\.>$")
_RESUMED = re.compile(r"^<\.\.\. \w+ resumed>(.*)$")
_MAPPED = re.compile(r"^mmap\(NULL, (\d+), .*\)\s+= (0x[0-9a-f]+)$")
_PLACED = re.compile(r"^mmap\((0x[0-9a-f]+), ")
_VARIABLES = re.compile(r"/\* \d+ vars \*/")
_RESULT = re.compile(r"\)\s+= (-?\d+)")
_ADDRESS = re.compile(r"0x[0-9a-f]{5,}")
_NAMED = re.compile(r"<(/[^>]*)>")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"")
_BY_NAME = re.compile(
    r"(?!read|write|pread|pwrite|exec)\w+\((?:\w+<(?P<base>/[^>]*)>,)?\"(?P<name>[^\"]*)\""
)
_DESCRIPTOR = re.compile(r"\b\d+<")
_FORKED = re.compile(r"(?:<\.\.\. )?(?:clone3?|v?fork)(?:\(| resumed>)")


@dataclass
class _Task:
    name: str
    library: tuple[int, int] = (0, 0)
    begun: str = ""
    calls: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Traced:
    """The calls of each task in order, and those of all tasks in the order in which they ended.

    A task is named by the order in which its parents made it.
    """

    exit_code: int
    by_task: dict[str, list[str]]
    in_order: list[str]

    def by_file(self, folder: Path) -> dict[str, list[str]]:
        """Return the calls on each file below `folder`, in order, whichever task made them.

        Each is the call with its numbers and its result, without what differs between two runs of
        a program with threads: the number of the descriptor, addresses, and the bytes moved.
        """
        found: dict[str, list[str]] = {}
        for call in self.in_order:
            if (by_name := _BY_NAME.match(call)) is not None:
                path, plain = str(folder / (by_name["base"] or "") / by_name["name"]), call
            else:
                named = (match.group(1) for match in _NAMED.finditer(call))
                path = next((each for each in named if each.startswith(f"{folder}/")), "")
                plain = _QUOTED.sub('""', call)
            if path.startswith(f"{folder}/"):
                found.setdefault(path, []).append(_DESCRIPTOR.sub("FD<", plain))
        return found


def calls(command: Sequence[str], environment: Mapping[str, str], trace: Path) -> Traced:
    """Run a command under strace and return the calls that it made itself."""
    variables = [part for name, value in environment.items() for part in ("-E", f"{name}={value}")]
    strace = [
        "strace",
        "-f",
        "-i",
        "-y",
        "-qq",
        "-s",
        "48",
        "-e",
        f"trace={TRACED}",
        "-e",
        "signal=none",
    ]
    ended = subprocess.run(
        [*strace, "-o", trace, *variables, *command], check=False, close_fds=False
    )
    return read_trace(trace, ended.returncode)


def _within(library: tuple[int, int], at: int) -> bool:
    return library[0] <= at < library[1]


def _family(lines: list[tuple[str, str, str]]) -> dict[str, tuple[str, int]]:
    """Return of each task which one made it, and how many that one had made before.

    From the results of its parent's calls, which may come long after the first lines of the child:
    a parent that calls vfork goes on when the child has become another program.
    """
    made: dict[str, tuple[str, int]] = {}
    children: dict[str, int] = {}
    for pid, _, text in lines:
        if _FORKED.match(text) and (child := _RESULT.search(text)) and int(child.group(1)) > 0:
            made[child.group(1)] = (pid, children.get(pid, 0))
            children[pid] = children.get(pid, 0) + 1
    return made


def _named(pid: str, family: Mapping[str, tuple[str, int]], first: str) -> str:
    if pid not in family:
        return "0" if pid == first else f"?{pid}"
    parent, number = family[pid]
    return f"{_named(parent, family, first)}.{number}"


def read_trace(trace: Path, exit_code: int) -> Traced:
    """Read what strace wrote of a command that ended with this exit code."""
    found = (_LINE.match(line) for line in trace.read_text(errors="replace").splitlines())
    lines = [(pid, place, text) for pid, place, text in (each.groups() for each in found if each)]
    family = _family(lines)
    tasks: dict[str, _Task] = {}
    in_order: list[str] = []
    for pid, place, text in lines:
        if pid not in tasks:
            parent = tasks.get(family[pid][0]) if pid in family else None
            tasks[pid] = _Task(
                _named(pid, family, lines[0][0]), parent.library if parent is not None else (0, 0)
            )
        if (call := _own_call(tasks[pid], place, text)) is not None:
            tasks[pid].calls.append(call)
            in_order.append(call)
    return Traced(exit_code, {each.name: each.calls for each in tasks.values()}, in_order)


def _own_call(task: _Task, place: str, text: str) -> str | None:
    """Return the call that a line ends, comparable with that of another run.

    None for the recorder's.
    """
    if half := _UNFINISHED.match(text):
        task.begun = half.group(1)
        return None
    if rest := _RESUMED.match(text):
        text, task.begun = task.begun + rest.group(1), ""
    if _FORKED.match(text) and (child := _RESULT.search(text)) and int(child.group(1)) > 0:
        return None
    if text.startswith("execve(") and text.endswith(" = 0"):
        task.library = (0, 0)
    if LIBRARY in text:
        if (mapped := _MAPPED.match(text)) is not None:
            begin = int(mapped.group(2), 16)
            task.library = (begin, begin + int(mapped.group(1)))
        return None
    at = int(place, 16) if "?" not in place else 0
    if (mapped := _PLACED.match(text)) is not None and _within(
        task.library, int(mapped.group(1), 16)
    ):
        return None
    if "MAP_ANONYMOUS" in text or not text or _within(task.library, at):
        return None
    return re.sub(r"\s+", "", _VARIABLES.sub("", _ADDRESS.sub("ADDRESS", text)))
