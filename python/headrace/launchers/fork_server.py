"""Fork job processes from a warmed process, so that a job starts in milliseconds and unmeasured.

The fork server is a process with one thread. It warms the requested workload, forks a process for
each job, and reports how each job ended, with its resource usage (wait4). It detects an exit
through a pidfd, never through SIGCHLD, which warmed libraries may handle themselves (ROOT does).
The fork server dies with the process that started it, and before that kills its jobs with all
that they started. They die with it (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from headrace.errors import HeadraceError, NoSpaceError
from headrace.launchers import LauncherLostError
from headrace.launchers.channel import Channel
from headrace.system.children import kill_family, signal_name
from headrace.system.ending import end_without_search
from headrace.system.own_programs import own_code
from headrace.system.own_variables import THREAD_COUNTS, one_thread
from headrace.system.signals import dispositions_kept

_PR_SET_PDEATHSIG = 1


def die_with_parent(by: signal.Signals = signal.SIGKILL) -> None:
    """Make the kernel send this process a signal when its parent dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, by, 0, 0, 0)


@dataclass(frozen=True)
class Exit:
    """How a job process ended."""

    pid: int
    status: int | None
    """As from wait(2); None when another wait took it from the fork server."""
    user_s: float
    system_s: float
    peak_rss_bytes: int


class ForkServerDiedError(LauncherLostError):
    """The fork server has died. The jobs it forked died with it."""


class ForkServer:
    """The client of the fork server. `spawn` returns the channel of a new job process.

    The job process waits for its order. The next `warm` restarts a fork server that has died.
    """

    def __init__(self) -> None:
        self.exits: list[Exit] = []
        self._start()

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        # Not `-m`: messages would then contain classes of `__main__`, which other processes do not
        # know.
        command = own_code(
            "from headrace.launchers.fork_server import main; main()", str(theirs.fileno())
        )
        # One thread per job: a numerical library with a thread pool per process would measure
        # itself. The user's own programs do not inherit this (`users_environment`).
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **one_thread(THREAD_COUNTS)},
            start_new_session=True,
        )
        theirs.close()
        self._channel = Channel(ours)
        self.exits = []
        self._loaded = set[str]()

    @property
    def pid(self) -> int:
        """Process id of the fork server."""
        return self._process.pid

    @property
    def channel(self) -> Channel:
        """Channel to the process, for select; another one after it was started anew."""
        return self._channel

    def fileno(self) -> int:
        """File descriptor, for select: readable when an exit is pending."""
        return self._channel.fileno()

    def warm(self, kind: str, name: str, options: dict[str, object]) -> str | None:
        """Import and warm a workload; return its error, or None. Raises ForkServerDiedError."""
        if self._process.poll() is not None:
            self._channel.close()
            self._start()
        return self._ask(("warm", kind, name, options), "warm")

    def spawn(self, schemes: Set[str] = frozenset()) -> tuple[int, Channel]:
        """Fork a job process; return its pid and channel. Raises ForkServerDiedError.

        Raises HeadraceError if it cannot fork: a limit of processes, or no memory.
        `schemes`: those of its URLs. What their clients import before a fork is imported once.
        """
        if new := schemes - self._loaded:
            with self._talking():
                self._channel.send(("load", sorted(new)))
            self._loaded |= new
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                pid, refused = self._ask(("spawn",), "pid", theirs.fileno())
                if refused:
                    words = os.strerror(refused)
                    raise HeadraceError(f"no process can be started for a job: {words}") from (
                        OSError(refused, words)
                    )
                return int(pid), Channel(ours)
        except BaseException:
            ours.close()
            raise

    def _ask(self, question: tuple[Any, ...], wanted: str, descriptor: int | None = None) -> Any:
        with self._talking():
            self._channel.send(question, descriptor)
            while True:
                message, _ = self._channel.receive()
                if message[0] == "exit":
                    self.exits.append(message[1])
                elif message[0] == wanted:
                    return message[1]

    def take_exits(self) -> list[Exit]:
        """Return all exits reported so far, without waiting. Raises ForkServerDiedError."""
        with self._talking():
            while select.select([self._channel], [], [], 0)[0]:
                message, _ = self._channel.receive()
                if message[0] == "exit":
                    self.exits.append(message[1])
        found, self.exits = self.exits, []
        return found

    @contextmanager
    def _talking(self) -> Generator[None]:
        """Wrap every exchange of messages.

        An exchange that is interrupted kills the fork server: later answers would no longer match
        their questions.
        """
        try:
            yield
        except (EOFError, OSError) as error:
            raise self._died() from error
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def _died(self) -> ForkServerDiedError:
        """Kill the remaining process and return the error that says how it ended."""
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            how = "no longer answered"
        else:
            how = (
                f"was killed by {signal_name(-code)}"
                if code < 0
                else f"ended with exit code {code}"
            )
        return ForkServerDiedError(f"the fork server that starts jobs (process {self.pid}) {how}")

    def close(self) -> None:
        """End the fork server and everything it forked."""
        self._channel.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# -- the fork server process --


class _CallerDiedError(BaseException):
    """The process that started this one has died. Nothing that handles errors may stop it."""


def _caller_died(number: int, frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _CallerDiedError


class _Server:
    """Answers one channel and monitors the jobs it forked by their pidfds."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._selector = selectors.DefaultSelector()
        self._selector.register(channel, selectors.EVENT_READ, None)
        self._jobs: dict[int, int] = {}
        """Process id -> pidfd."""

    def serve(self) -> None:
        """Serve until the channel is closed; then kill every job."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # If the caller ignores SIGCHLD, an inherited disposition would make the kernel discard exit
        # statuses.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.data is None:
                        self._answer()
                    else:
                        self._reap(key.data)
        except (EOFError, ConnectionError, _CallerDiedError):
            self._kill_jobs()

    def _kill_jobs(self) -> None:
        """Kill every job with its family, whatever signal arrives meanwhile.

        A caller that dies closes the channel, and a moment later the kernel sends SIGTERM: raised
        within `kill_family`, that would leave processes stopped for ever.
        """
        while True:
            with contextlib.suppress(_CallerDiedError):
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                break
        for pid, pidfd in self._jobs.items():
            kill_family(pid, pidfd)

    def _answer(self) -> None:
        message, descriptor = self._channel.receive()
        if message[0] == "warm":
            self._channel.send(("warm", _warm(*message[1:])))
        elif message[0] == "load":
            _load(message[1])
        elif message[0] == "spawn" and descriptor is not None:
            self._spawn(descriptor)

    def _spawn(self, descriptor: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:  # a limit of processes (`ulimit -u`, pids.max), or no memory
            os.close(descriptor)
            self._channel.send(("pid", (0, error.errno)))
            return
        if pid == 0:
            self._selector.close()
            self._channel.close()
            for pidfd in self._jobs.values():
                os.close(pidfd)
            _become_job(descriptor, parent)
        os.close(descriptor)
        # The process id cannot be reused until `_reap` waits for it.
        self._jobs[pid] = os.pidfd_open(pid)
        self._selector.register(self._jobs[pid], selectors.EVENT_READ, pid)
        self._channel.send(("pid", (pid, 0)))

    def _reap(self, pid: int) -> None:
        pidfd = self._jobs.pop(pid)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        # Processes that the job left behind. Its group id is not another's before `wait4`.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        try:
            _, status, usage = os.wait4(pid, 0)
        except ChildProcessError:  # a library that waits for every child was faster
            self._channel.send(("exit", Exit(pid, None, 0.0, 0.0, 0)))
            return
        end = Exit(pid, status, usage.ru_utime, usage.ru_stime, usage.ru_maxrss * 1024)
        self._channel.send(("exit", end))


_warmed: set[str] = set()


def _warm(kind: str, name: str, options: dict[str, object]) -> str | None:
    from headrace import workloads

    key = f"{kind} {json.dumps(options, sort_keys=True)}"
    if key in _warmed:
        return None
    try:
        with dispositions_kept(), _kept():
            part = workloads.kinds()[kind]
            part(name, part.Options.model_validate(options)).warm()
    except NoSpaceError as error:
        return f"{error.message} ({error.hint})"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    _warmed.add(key)
    return None


def _load(schemes: list[str]) -> None:
    from headrace.protocols import load_clients

    # Each job tries again, and says what fails.
    with contextlib.suppress(Exception), dispositions_kept(), _kept():
        load_clients(schemes, before_fork=True)


@contextmanager
def _kept() -> Generator[None]:
    """Freeze all objects at the end of the block: they live as long as the jobs.

    Garbage collection then does not touch (and thus copy) their pages in every fork. Within the
    block it would search what is imported again and again: a tenth of the time of large libraries.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
    gc.collect()
    gc.freeze()


def _become_job(descriptor: int, parent: int) -> NoReturn:
    from headrace.launchers import job

    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        die_with_parent()
        if os.getppid() == parent:  # else the parent died before the call above
            code = job.serve(Channel(socket.socket(fileno=descriptor)))
    finally:
        os._exit(code)


def _try_ledger() -> None:
    """Take one ledger here, so that no job is the first to import and open what it needs."""
    from headrace.probes.ledger import LedgerMeter

    with contextlib.closing(LedgerMeter(network=False)) as meter:
        meter.begin()
        meter.end()


def main() -> None:
    """Run the fork server process."""
    signal.signal(signal.SIGTERM, _caller_died)
    die_with_parent(signal.SIGTERM)
    end_without_search()
    with contextlib.suppress(_CallerDiedError):
        # What every job needs is imported once, here, and not by each job after its fork.
        importlib.import_module("headrace.launchers.job")
        _try_ledger()
        _Server(Channel(socket.socket(fileno=int(sys.argv[1])))).serve()
