"""Base layer: start processes and identify them safely, by process id and start time."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from headrace.errors import HeadraceError, InterruptedRunError
from headrace.system.identity import is_alive, start_ticks
from headrace.system.requirements import require_program
from headrace.system.waiting import remaining, wait_until

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

MARK = "HEADRACE_PROCESS"
"""Environment variable that marks a process as ours, even if we crash before its id is known."""
_STOP_POLL_S = 0.25


def state(pid: int) -> str:
    """Return the kernel's letter for a process state, or `gone`.

    `D` means that it waits for I/O and cannot be killed.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"


def marked(mark: str) -> list[int]:
    """Return the ids of the processes with this mark in their environment, as far as readable."""
    found: list[int] = []
    wanted = f"{MARK}={mark}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def end(pid: int, ticks: int, *, patience_s: float = 2.0, gently: bool = True) -> bool:
    """End one process: SIGTERM, then SIGKILL after `patience_s`.

    Return False when it survives both.
    """
    for number, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
        if number == signal.SIGTERM and not gently:
            continue
        if not is_alive(pid, ticks):
            return True
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        wait_until(lambda: _is_gone(pid, ticks), wait_s, 0.005)
    return not is_alive(pid, ticks)


def _is_gone(pid: int, ticks: int) -> bool:
    if not is_alive(pid, ticks):
        return True
    # Not an ended child: its exit status belongs to the code that waits for it.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return False


@dataclass
class Started:
    """A process that we started, and the journal entry that ends it."""

    process: subprocess.Popen[bytes]
    start_ticks: int
    journal: Journal
    entry: JournalEntry

    @property
    def mark(self) -> str:
        """The value of `MARK` in its environment and in that of its descendants."""
        return str(self.entry.args["mark"])

    @property
    def pid(self) -> int:
        """Its process id, which is also the id of its session and process group."""
        return self.process.pid

    def stop(self, patience_s: float = 2.0) -> int | None:
        """End it and every process of its session, and close the journal entry. Safe to call twice.

        Return its exit code (negative: the signal that ended it).
        """
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # The group id stays in use while one process of the group lives, so it cannot belong to
            # another group.
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.journal.undo(self.entry)  # also ends daemons that left the session, by their mark
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
    """Start a program in its own session; the journal has its entry before it exists. No shell.

    Unless `outlives_us`, the kernel kills it when the *thread* that called this ends
    (PR_SET_PDEATHSIG): call it from the main thread, or from a thread that lives as long as the
    process should. Raises MissingError when the program is not installed.
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
        ticks = start_ticks(process.pid) or 0
        journal.add(entry, pid=process.pid, start_ticks=ticks)
    except OSError as error:
        journal.undo(entry)
        raise HeadraceError(f"{argv[0]} does not start: {error.strerror}") from error
    except BaseException:
        # Stopped meanwhile: the caller, who cannot know of the process, must find it ended before
        # it undoes what the process could still change.
        journal.undo(entry)
        raise
    return Started(process, ticks, journal, entry)


def run_program(
    journal: Journal,
    argv: Sequence[str],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    stop: Callable[[], bool] | None = None,
    late: str | None = None,
) -> str:
    """Run a program to its end and return its standard output.

    It is in the journal while it runs: after a crash of Headrace, `undo` first ends the program.
    `stop` is called several times per second; when it returns True, the program is ended by
    SIGTERM. Raises MissingError when it is not installed, HeadraceError with its own message when
    it fails or with `late` when it has not ended within `timeout_s`, InterruptedRunError when
    stopped.
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
        said, complaint = _communicate(started.process, timeout_s, stop)
    except subprocess.TimeoutExpired as error:
        started.stop()
        raise HeadraceError(late or f"{argv[0]} did not end within {timeout_s:g} s") from error
    except BaseException:
        started.stop()
        raise
    journal.end(started.entry)
    if started.process.returncode != 0:
        words = (
            " ".join(complaint.decode(errors="replace").split())
            or said.decode(errors="replace").strip()
        )
        raise HeadraceError(
            f"{' '.join(argv)} failed: {words or f'exit code {started.process.returncode}'}"
        )
    return said.decode(errors="replace")


def _communicate(
    process: subprocess.Popen[bytes], timeout_s: float | None, stop: Callable[[], bool] | None
) -> tuple[bytes, bytes]:
    if stop is None:
        return process.communicate(timeout=timeout_s)
    limit_s = math.inf if timeout_s is None else timeout_s
    for left_s in remaining(limit_s):
        try:
            return process.communicate(timeout=min(_STOP_POLL_S, left_s))
        except subprocess.TimeoutExpired:
            if stop():
                raise InterruptedRunError("stopped") from None
    raise subprocess.TimeoutExpired(process.args, limit_s)
