"""Ground: processes that Headrace starts, found again by process id and start time, so that no other is ever struck."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headrace.errors import HeadraceError
from headrace.system.identity import is_alive, start_ticks
from headrace.system.journal import Entry, Journal
from headrace.system.requirements import require_program

MARK = "HEADRACE_PROCESS"
"""Environment variable by which a process is known as ours, even when we were killed before we knew its id."""


def state(pid: int) -> str:
    """The kernel's letter for a process's state (`D`: waits for I/O and cannot be ended), or `gone`."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def marked(mark: str) -> list[int]:
    """Ids of the processes that carry this mark in their environment, as far as we may look."""
    found: list[int] = []
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def end(pid: int, ticks: int, *, patience_s: float = 2.0, gently: bool = True) -> bool:
    """Ends one process: SIGTERM, and SIGKILL when it is still there after `patience_s`. False when it outlives even that."""
    for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
        if number == signal.SIGTERM and not gently:
            continue
        if not is_alive(pid, ticks):
            return True
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + wait_s
        while is_alive(pid, ticks) and time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.005)
    return not is_alive(pid, ticks)


@dataclass
class Started:
    """A process that we started, and the journal entry that would end it."""

    process: subprocess.Popen[bytes]
    start_ticks: int
    journal: Journal
    entry: Entry

    @property
    def mark(self) -> str:
        """What its environment, and that of everything it starts, carries as `MARK`."""
        return str(self.entry.args["mark"])

    @property
    def pid(self) -> int:
        """Its process id, which is that of its session and group too."""
        return self.process.pid

    def stop(self, patience_s: float = 2.0) -> int | None:
        """Ends it and every process of its session, and closes the journal entry. Safe to call twice.

        Returns its exit code (negative: the signal that ended it).
        """
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # The group id stays taken as long as one process of it lives, so it cannot be anyone else's.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.journal.undo(self.entry)  # finds those that left the session (daemons) by their mark
        return self.process.returncode


def start_process(
    journal: Journal,
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    output: int | IO[bytes] = subprocess.DEVNULL,
    errors: int | IO[bytes] = subprocess.STDOUT,
    outlives_us: bool = False,
) -> Started:
    """Starts a program in a session of its own, known to the journal before it exists. No shell.

    Unless `outlives_us`, the kernel kills it when the *thread* that called this ends (PR_SET_PDEATHSIG): start from
    the main thread, or from one that lives as long as the process should. Raises MissingError when there is no such
    program.
    """
    command = [require_program(argv[0]), *argv[1:]]
    if not outlives_us:
        command = [require_program("setpriv"), "--pdeathsig", "KILL", "--", *command]
    mark = os.urandom(8).hex()
    entry = journal.begin("end_process", mark=mark)
    try:
        process = subprocess.Popen(
            command,
            env={**os.environ, **(environment or {}), MARK: mark},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
    except OSError as error:
        journal.end(entry)
        raise HeadraceError(f"{argv[0]} does not start: {error.strerror}") from error
    ticks = start_ticks(process.pid) or 0
    journal.add(entry, pid=process.pid, start_ticks=ticks)
    return Started(process, ticks, journal, entry)


def run_program(
    journal: Journal,
    argv: Sequence[str],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> str:
    """Runs a program to its end and returns what it said on standard output.

    It is in the journal while it runs: when Headrace is killed meanwhile, `undo` first makes sure that the program is
    no longer at work. Raises MissingError when it is not installed, HeadraceError with its own words when it fails.
    """
    started = start_process(
        journal,
        argv,
        environment=environment,
        directory=directory,
        output=subprocess.PIPE,
        errors=subprocess.PIPE,
    )
    try:
        said, complaint = started.process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        started.stop()
        raise HeadraceError(f"{argv[0]} did not end within {timeout_s:g} s") from error
    except BaseException:
        started.stop()
        raise
    journal.end(started.entry)
    if started.process.returncode != 0:
        words = " ".join(complaint.decode(errors="replace").split()) or said.decode(errors="replace").strip()
        raise HeadraceError(f"{' '.join(argv)} failed: {words or f'exit code {started.process.returncode}'}")
    return said.decode(errors="replace")
