"""A program is run alone and recorded, in a folder of its own, and what it did is compared."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Literal

import pytest

from headrace.profiles.arena import Arena
from headrace.profiles.preloading import preloaded
from headrace.profiles.recorder import record
from headrace.profiles.steps import Recording
from recorded_calls import Traced, calls

# Names and numbers that differ from run to run, with or without a recorder.
_VARY = re.compile(
    r"(?<=</dev/urandom>,).*|tv_n?sec=\d+|/\*20[^*]*\*/|/maps>,.*|f_\w+=\d+|/\.git/t\w{6}"
    r"|(?<=db-journal>,)\"(?:[^\"\\]|\\.)*\"|/tmp/(?:cc|sort|tmp)\w+(?:\.\w)?|/proc/\d+"
    r"|pipe:\[\d+\]|socket:\[\d+\]|(?<=pid=)\d+|\.numbers\.\w{6}|(?<=,data=){[^}]*}|/psm_\w+|/mp-\w+|/pym-\S+?(?=\")"
)


@dataclass(frozen=True)
class Program:
    """A command, and what of it is not the same in two runs even without a recorder.

    `compared` says which calls must be equal:

    - "tasks": all calls, in order, task by task.
    - "files": where threads or workers take what they find, one run's tasks are not those of the
      next. The calls on each file of the program's folder are equal, in order, whichever task
      made them.
    - "unordered": as "files", for workers that use the same file at once: as often, in any order.

    `changing` are files with the time or an identity in them: their contents are not compared,
    their calls are.
    """

    command: Sequence[str]
    compared: Literal["tasks", "files", "unordered"] = "tasks"
    changing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Outcome:
    """What a program leaves behind."""

    exit_code: int
    printed: str
    files: dict[str, bytes]


def furnish(place: Path, sources: Iterable[Path]) -> None:
    """Empty the folder and put the same input there, with the sources' files beside it."""
    subprocess.run(["find", place, "-mindepth", "1", "-delete"], check=True)
    for source in sources:
        shutil.copy2(source, place / source.name)
    (place / "numbers").write_text("".join(f"{n * 7919 % 20011}\n" for n in range(20_000)))


def compare(
    program: Program,
    place: Path,
    sources: Sequence[Path],
    scratch: Path,
    capfd: pytest.CaptureFixture[str],
) -> Recording:
    """Assert that a program does the same recorded and alone; return its recording."""
    furnish(place, sources)
    alone = calls(program.command, {}, scratch / "alone")
    before = _outcome(program, alone.exit_code, capfd.readouterr().out, place)
    assert alone.exit_code == 0
    furnish(place, sources)
    with Arena([scratch]) as arena, preloaded(arena) as environment:
        added = {key: environment[key] for key in ("LD_PRELOAD", "HEADRACE_RECORD")}
        recorded = calls(program.command, added, scratch / "recorded")
    assert _outcome(program, recorded.exit_code, capfd.readouterr().out, place) == before
    _assert_same_calls(_listed(program, recorded, place), _listed(program, alone, place))
    furnish(place, sources)
    found = record(program.command, "job", scratch)
    assert _outcome(program, found.exit_code, capfd.readouterr().out, place) == before
    return found.recording


def _outcome(program: Program, exit_code: int, printed: str, place: Path) -> Outcome:
    files = {
        str(path.relative_to(place)): path for path in sorted(place.rglob("*")) if path.is_file()
    }
    contents = {
        path: b"" if path in program.changing else file.read_bytes() for path, file in files.items()
    }
    return Outcome(exit_code, printed, contents)


def _listed(program: Program, traced: Traced, place: Path) -> dict[str, list[str]]:
    listed = traced.by_task if program.compared == "tasks" else traced.by_file(place)
    assert listed
    found: dict[str, list[str]] = {}
    for name, made in listed.items():
        found.setdefault(_VARY.sub("VARY", name), []).extend(
            _VARY.sub("VARY", call) for call in made
        )
    if program.compared == "unordered":
        return {name: sorted(made) for name, made in found.items()}
    return found


def _assert_same_calls(recorded: dict[str, list[str]], alone: dict[str, list[str]]) -> None:
    differences = [
        f"{name}: {line}"
        for name in sorted({*recorded, *alone})
        for line in unified_diff(
            alone.get(name, []), recorded.get(name, []), "alone", "recorded", n=0
        )
    ]
    assert not differences, "\n".join(differences)
