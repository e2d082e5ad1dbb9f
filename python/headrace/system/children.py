"""Base layer: run a program inside a job and wait for it and its descendants (fio, `command` jobs).

Unlike the daemons of `processes.py`, which a journal must end, a child here is part of a job's
process: it has the same process group, and the kernel kills it when the job's process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from headrace.errors import HeadraceError, MissingError
from headrace.system.accounting import Times, descendants, possible, thread_times
from headrace.system.memory_kills import MemoryKills
from headrace.system.taskstats import listening_socket
from headrace.system.waiting import wait_until

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.05
"""Polling interval of a process tree, when the kernel does not report ended processes."""
_FIRST_LOOK_S = 0.02
_LONGEST_LOOK_S = 1.0
"""Time between looks at its control groups: half of its age, between these."""
_TAIL_BYTES = 2000


class ChildFailedError(HeadraceError):
    """A program that a job ran failed. `exit` is the word in the record (docs/records.md)."""

    exit: str = "failed"


class ChildKilledError(ChildFailedError):
    """A signal ended it."""

    exit = "killed"


class ChildOutOfMemoryError(ChildFailedError):
    """The kernel killed it because memory ran out."""

    exit = "out-of-memory"


@dataclass(frozen=True)
class ChildEnd:
    """How a program ended."""

    program: str
    exit_code: int
    """Negative: the number of the signal that ended it, as in `subprocess`."""
    killed_for_memory: bool
    left_running: int
    """Processes that it started and left behind; they have been killed."""
    last_words: str
    """The end of its standard error, or of its standard output when that is empty."""

    def check(self) -> None:
        """Raise the matching error unless the program ended with exit code 0."""
        said = f": {self.last_words}" if self.last_words else ""
        if self.killed_for_memory:
            raise ChildOutOfMemoryError(
                f"{self.program} was killed by the kernel because memory ran out",
                hint="fewer slots, a higher memory_limit or job_memory_limit, or smaller jobs",
            )
        if self.exit_code < 0:
            raise ChildKilledError(
                f"{self.program} was ended by {signal_name(-self.exit_code)}{said}"
            )
        if self.exit_code > 0:
            raise ChildFailedError(f"{self.program} ended with exit code {self.exit_code}{said}")


@dataclass(frozen=True)
class Polled:
    """What all process trees that `run` has polled ran and waited; grows like RUSAGE_CHILDREN."""

    times: Times = field(default_factory=Times)
    implausible: int = 0
    """Threads with an impossible wait for block I/O (`accounting.possible`), counted as 0."""

    def plus(self, threads: Iterable[Times], lived_ns: int) -> Polled:
        """Add threads that lived no longer than `lived_ns`, each corrected to what is possible."""
        times, implausible = self.times, self.implausible
        for thread in threads:
            true, plausible = possible(thread, lived_ns)
            times += true
            implausible += not plausible
        return Polled(times, implausible)


_polled = Polled()


def polled_times() -> Polled:
    """Return the times so far of all children that `run` has polled in this process."""
    return _polled


def run(
    argv: Sequence[str],
    *,
    directory: Path,
    stdout: Path,
    stderr: Path,
    environment: Mapping[str, str] | None = None,
) -> ChildEnd:
    """Run a program to its end and kill every process it left behind. No shell; empty stdin.

    When the kernel does not report ended processes (taskstats, root), its process tree is polled
    every 50 ms for the ledger (`polled_times`). Raises MissingError when the program does not
    exist, HeadraceError when it does not start.
    """
    told = listening_socket()
    if told is not None:
        told.close()
    with orphans_adopted() as orphans:
        started_ns = time.monotonic_ns()
        child = Child(
            argv, directory=directory, stdout=stdout, stderr=stderr, environment=environment
        )
        if told is None:
            _wait_polling(child, started_ns)
        end = child.wait()
    return replace(end, left_running=len(orphans))


class Child:
    """A program beside a job, in the job's process group; it ends with the job at the latest."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        directory: Path,
        stdout: Path,
        stderr: Path,
        environment: Mapping[str, str] | None = None,
        keep_open: Sequence[int] = (),
    ) -> None:
        """Start it: no shell, empty stdin. `keep_open`: descriptors that it receives.

        Raises MissingError when the program does not exist, HeadraceError when it does not start.
        """
        program = shutil.which(argv[0], path=(environment or os.environ).get("PATH"))
        if program is None:
            raise MissingError(
                f"the program {argv[0]} is not there",
                hint=f"install {argv[0]}, or give its full path",
            )
        command = [program, *argv[1:]]
        if setpriv := shutil.which("setpriv"):
            command = [setpriv, "--pdeathsig", "KILL", "--", *command]
        self._name, self._outputs = argv[0], (stderr, stdout)
        self._kills, self._killed = MemoryKills(), False
        self._next_look_s = _FIRST_LOOK_S
        same = stdout == stderr
        with stdout.open("wb") as out, Path(os.devnull if same else stderr).open("wb") as err:
            try:
                self._process = subprocess.Popen(
                    command,
                    cwd=directory,
                    env=None if environment is None else dict(environment),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT if same else err,
                    pass_fds=keep_open,
                )
            except OSError as error:
                raise HeadraceError(f"{argv[0]} does not start: {error.strerror}") from error
        self._began_s = time.monotonic()

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        if self._process.returncode is None:
            self.look()
            if self._end_seen(os.WNOHANG):
                self._process.poll()
        return self._process.returncode is None

    def kill(self) -> None:
        """Kill it. Does not wait."""
        self._process.kill()

    def look(self) -> None:
        """Note its control groups, if they are known only while it runs and a look is due."""
        if not self._kills.by_looks or self._process.returncode is not None:
            return
        age_s = time.monotonic() - self._began_s
        if age_s >= self._next_look_s:
            self._kills.look(self.pid)
            self._next_look_s = age_s + min(_LONGEST_LOOK_S, max(_FIRST_LOOK_S, age_s / 2))

    def wait(self) -> ChildEnd:
        """Wait for its end, and return it."""
        if self._kills.by_looks:
            self._wait_looking()
        if self._process.returncode is None:
            self._end_seen()
        exit_code = self._process.wait()
        last_words = next((said for output in self._outputs if (said := _tail(output))), "")
        return ChildEnd(self._name, exit_code, self._killed, 0, last_words)

    def _until_look_ms(self) -> float:
        return max(0.0, self._began_s + self._next_look_s - time.monotonic()) * 1000 + 1

    def _wait_looking(self) -> None:
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:  # it was waited for, or the kernel has no such descriptors
            return
        try:
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            while not ended.poll(self._until_look_ms()):
                self.look()
        finally:
            os.close(descriptor)

    def _end_seen(self, *options: int) -> bool:
        """Wait for its end, leave it a zombie, whose group may still be known, and note whether it
        was killed for memory. Return whether it has ended."""
        try:
            found = os.waitid(os.P_PID, self.pid, sum(options, os.WEXITED | os.WNOWAIT))
        except ChildProcessError:  # someone else waited for it
            return True
        if found is not None and not self._killed:
            by_signal = found.si_code in (os.CLD_KILLED, os.CLD_DUMPED)
            signalled = found.si_status == (signal.SIGKILL if by_signal else 128 + signal.SIGKILL)
            self._killed = signalled and self._kills.any_of(self.pid)
        return found is not None


@contextmanager
def orphans_adopted() -> Generator[set[int]]:
    """Adopt (in place of init) and finally kill orphans of processes started in the block.

    Adopting counts their times. Yields a set that holds, after the block, the processes that had to
    be killed.
    """
    prctl = ctypes.CDLL(None).prctl
    before = set(descendants(os.getpid()))
    orphans: set[int] = set()
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield orphans
    finally:
        orphans |= set(descendants(os.getpid())) - before
        _end_all(orphans)
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _wait_polling(child: Child, started_ns: int) -> None:
    global _polled
    root = child.pid
    seen: dict[tuple[int, int], Times] = {}

    def ended() -> bool:
        # WNOWAIT keeps the ended program a zombie, whose exact times can be read one last time.
        found = os.waitid(os.P_PID, root, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        child.look()
        for pid in (root, *descendants(root)):
            for thread, times in thread_times(pid).items():
                seen[pid, thread] = times
        return found is not None

    wait_until(ended, math.inf, _POLL_S)
    _polled = _polled.plus(seen.values(), time.monotonic_ns() - started_ns)


def _end_all(pids: set[int]) -> None:
    """Kill and reap descendants of ours."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    waiting = set(pids)

    def all_reaped() -> bool:
        for pid in tuple(waiting):
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    waiting.discard(pid)
            except ChildProcessError:
                # Not our child (yet): it is reparented to us when its parent dies.
                if not Path(f"/proc/{pid}").exists():
                    waiting.discard(pid)
        return not waiting

    wait_until(all_reaped, 5, 0.002)


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").strip().splitlines()
    return " | ".join(line.strip() for line in lines[-3:])


def signal_name(number: int) -> str:
    """Return `SIGKILL`, or `signal 35` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def kill_family(pid: int, process: int) -> None:
    """Kill the leader of a process group, given its pidfd (-1: it is known to have ended), the
    group, and its descendants in groups and sessions of their own. Does not wait.
    """
    below = _stopped_family(pid, process) if process >= 0 else []
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process >= 0:
            signal.pidfd_send_signal(process, signal.SIGKILL)
    # The process group may not exist yet.
    for kill, each in ((os.killpg, pid), *((os.kill, each) for each in below)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(each, signal.SIGKILL)


def _stopped_family(pid: int, process: int) -> list[int]:
    """Stop a process and its descendants, so that they start nothing; return these.

    When it has ended, nothing leads to them. None of their ids can become another's meanwhile: the
    processes that would wait for them are stopped.
    """
    found: dict[int, None] = {}
    try:
        signal.pidfd_send_signal(process, signal.SIGSTOP)
    except (ProcessLookupError, PermissionError):
        return []
    while new := [each for each in descendants(pid) if each not in found]:
        for each in new:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGSTOP)
        found.update(dict.fromkeys(new))
    return list(found)
