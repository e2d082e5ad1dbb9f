"""Studies that are started from the browser: each a `headrace run` or `simulate` of its own.

A run goes on when the server ends: hours of measuring must not hang on it. It is stopped by its
process id, as Ctrl-C would stop it.
"""

from __future__ import annotations

import datetime
import itertools
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

from headrace.errors import UsageError
from headrace.serving.files import files_below
from headrace.serving.folders import inside
from headrace.system.own_programs import own_module

COMMANDS = {"run": "with real jobs", "simulate": "in virtual time"}
STUDIES_AT_MOST = 200
_HEAD = 8192
"""Bytes of a file in which the field `headrace` is looked for."""
_LOG_AT_MOST = 4000
_VERSION_FIELD = re.compile(rb"^\s*[\"']?headrace[\"']?\s*=", re.MULTILINE)
"""The field that every study file has, in any spelling of TOML."""
_STOPPED = dict.fromkeys((129, 130, 143, -signal.SIGTERM), "stopped")
"""Exit codes of a run that a signal stopped (docs/commands.md), also before it could handle one."""


@dataclass(frozen=True)
class StartedRun:
    """A run that this server started."""

    number: int
    study: str
    command: str
    results: str
    """Name of its results folder, which is there once the run has begun."""
    log: Path
    process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def state(self) -> str:
        """Running, finished, or how it ended."""
        code = self.process.poll()
        if code is None:
            return "running"
        ends = {0: "finished", 5: "finished, with trials that are not valid", **_STOPPED}
        if code < 0 and code not in ends:
            return f"killed ({signal.Signals(-code).name})"
        return ends.get(code, f"ended with exit code {code}")

    @property
    def can_resume(self) -> bool:
        """Whether it was stopped or killed after it had written its plan."""
        code = self.process.poll()
        planned = (self.log.with_name(self.results) / "plan.parquet").exists()
        return code is not None and (code < 0 or code in _STOPPED) and planned

    @property
    def said(self) -> str:
        """The last lines that it printed."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")[-_LOG_AT_MOST:].strip()
        except OSError:
            return ""


class Runs:
    """The runs of one server, by their numbers."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.started: dict[int, StartedRun] = {}

    def start(self, study: str, command: str) -> StartedRun:
        """Start a study below the folder; its records go into a new folder there.

        Raises UsageError for a file or command that is not offered.
        """
        if command not in COMMANDS:
            raise UsageError(f"{command}: allowed: {', '.join(COMMANDS)}")
        file = inside(self._root, study)
        if not is_study(file):
            raise UsageError(
                f"{study} is not a study file below this folder, or it no longer exists"
            )
        with self._lock:
            name = self._new_name(file.stem)
            log = self._root / f"{name}.log"
            with log.open("xb") as output:
                words = [command, str(file), "--results", str(self._root / name)]
                process = self._process(words, output)
            run = StartedRun(next(self._numbers), study, command, name, log, process)
            self.started[run.number] = run
            return run

    def stop(self, number: int) -> StartedRun:
        """Ask a run to end; it restores all changes of the machine. Raises UsageError for a run
        that this server did not start."""
        run = self._of(number)
        if run.process.poll() is None:
            run.process.send_signal(signal.SIGTERM)
        return run

    def resume(self, number: int) -> StartedRun:
        """Continue a run that was stopped or killed; any other is left as it is.

        It keeps its number, its results folder and its log. Raises UsageError for a run that this
        server did not start.
        """
        with self._lock:
            run = self._of(number)
            if not run.can_resume:
                return run
            with run.log.open("ab") as output:
                process = self._process(["resume", str(self._root / run.results)], output)
            self.started[number] = replace(run, process=process)
            return self.started[number]

    def _process(self, words: list[str], output: BinaryIO) -> subprocess.Popen[bytes]:
        """Start `headrace` in the folder, in a session of its own."""
        return subprocess.Popen(
            own_module("headrace", *words), cwd=self._root, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "COLUMNS": "100"},
        )  # fmt: skip

    def _of(self, number: int) -> StartedRun:
        run = self.started.get(number)
        if run is None:
            raise UsageError(
                f"run {number} was not started by this server",
                hint="a run of another server or terminal is stopped there, or with kill",
            )
        return run

    def _new_name(self, stem: str) -> str:
        now = datetime.datetime.now(datetime.UTC)
        first = f"{stem}-{now:%Y%m%d-%H%M%S}"
        for name in itertools.chain([first], (f"{first}-{n}" for n in itertools.count(2))):
            if not (self._root / name).exists() and not (self._root / f"{name}.log").exists():
                return name
        raise AssertionError("the numbers do not end")


def is_study(file: Path) -> bool:
    """Return whether a file begins as a study file does."""
    try:
        # To open a pipe would wait for its writer.
        if file.suffix != ".toml" or not file.is_file():
            return False
        with file.open("rb") as opened:
            return _VERSION_FIELD.search(opened.read(_HEAD)) is not None
    except OSError:
        return False


def study_files(root: Path) -> Iterator[str]:
    """Yield the study files below a folder, without the copies in results folders."""
    return (
        name
        for name, file in files_below(root)
        if not (file.parent / "results.json").exists() and is_study(file)
    )
