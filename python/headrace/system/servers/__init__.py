"""Base layer: real file servers that Headrace starts. This module defines their interface.

Each kind of server is one module of this package. A server is created with a name and a cluster
node, and does not depend on studies. `start` writes its configuration, starts it and records it in
the undo journal; `wait_ready` polls it until it serves; faults use `kill`, `pause`, `resume` and
`restart`; `stop` ends it with all its processes.

    server = Ganesha("nas", cluster["nas"], GaneshaSettings())
    server.start(ServerContext(journal, work_dir, log_dir, storage))
    server.wait_ready(10)
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from headrace.errors import HeadraceError, Problem, UnsupportedLevelError
from headrace.system import processes
from headrace.system.children import signal_name
from headrace.system.cluster import Node
from headrace.system.identity import is_alive, start_ticks
from headrace.system.journal import Journal
from headrace.system.processes import Started
from headrace.system.requirements import find_program, remedy
from headrace.system.waiting import wait_until

_TAIL_BYTES = 4000
_POLL_S = 0.02
CONTINUE_S = 30.0
"""How long one program of a server may take until the next can start."""
_CRASHES = (signal.SIGSEGV, signal.SIGBUS)


class ServerCrashedError(HeadraceError):
    """A program of a server crashed before the server served."""


@dataclass(frozen=True)
class ServerContext:
    """What a server needs to start."""

    journal: Journal
    work_dir: Path
    """A private directory for configuration, sockets and state; removed after the study."""
    log_dir: Path
    """The directory of its logs."""
    storage: Path
    """The directory on the medium that it serves."""


def ended(started: Started | None) -> str:
    """Return how a process of a server or client ended, in words; empty while it runs."""
    code = started.process.poll() if started is not None else None
    if code is None:
        return ""
    if code == 0:
        return "ended"
    return f"ended ({f'killed by {signal_name(-code)}' if code < 0 else f'status {code}'})"


class Server(ABC):
    """One daemon (and its child processes) on one node.

    A subclass names its programs, writes the configuration and detects readiness. Not thread-safe,
    except that a fault may affect it while no other thread uses it.
    """

    kind: ClassVar[str]
    programs: ClassVar[tuple[str, ...]]
    """Programs that it needs on this machine."""
    ports: ClassVar[tuple[int, ...]] = ()
    """TCP ports that it listens on; checked before it starts."""

    def __init__(self, name: str, node: Node) -> None:
        self.name = name
        self.node = node
        self.context: ServerContext | None = None
        self._started: list[Started] = []

    # -- implemented by each kind of server --

    @abstractmethod
    def configure(self, context: ServerContext) -> None:
        """Write its configuration below `context.work_dir`.

        It is called again before a restart and must keep the server's state.
        """

    @abstractmethod
    def commands(self, context: ServerContext) -> Sequence[Sequence[str]]:
        """Return the programs to start, in order, in the foreground where possible.

        Programs that detach themselves are found by their mark.
        """

    def may_continue(self) -> bool:
        """Return whether the programs started so far allow the next one of `commands` to start.

        Called often before each but the first.
        """
        return True

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether it serves. Raises HeadraceError when it never will.

        It is called often and must not block for more than about one second.
        """

    def environment(self, context: ServerContext) -> Mapping[str, str]:
        """Return environment variables of its programs, in addition to ours."""
        return {}

    def prepare_stop(self) -> None:
        """Prepare the end of its processes (stop a volume). Must not raise for a dead server."""

    # -- life cycle --

    @classmethod
    def check(cls, needed_by: str) -> list[Problem]:
        """Return the programs that this machine lacks for it."""
        return [
            Problem(f"the program {program} is not installed", needed_by, remedy(program))
            for program in cls.programs
            if find_program(program) is None
        ]

    def start(self, context: ServerContext) -> None:
        """Start it.

        Raises HeadraceError when a port is in use or a program fails; nothing runs then.
        """
        for port in self.ports:
            self.node.check_port_free(port, needed_by=f"{self.kind} server {self.name}")
        context.work_dir.mkdir(parents=True, exist_ok=True)
        context.log_dir.mkdir(parents=True, exist_ok=True)
        self.context = context
        self._launch()

    def _launch(self) -> None:
        try:
            self._launch_once()
        except ServerCrashedError as error:
            self._note_crash(error)
            self._launch_once()

    def _note_crash(self, error: ServerCrashedError) -> None:
        """Note in its log that it is started once more.

        XRootD 5 reads its environment in one thread while another one sets it, and seldom crashes
        by that when it starts.
        """
        with self._log(0).open("ab") as log:
            log.write(f"headrace: {error.message}; it is started once more\n".encode())

    def _launch_once(self) -> None:
        context = self._given()
        self.configure(context)
        try:
            for number, argv in enumerate(self.commands(context)):
                if number and not wait_until(self._may_continue, CONTINUE_S, _POLL_S):
                    raise HeadraceError(
                        f"{self.kind} server {self.name} did not start within {CONTINUE_S:g} s: "
                        f"{self.last_words()}"
                    )
                with self._log(number).open("ab") as log:
                    self._started.append(
                        self.node.start(
                            context.journal,
                            argv,
                            environment=self.environment(context),
                            directory=context.work_dir,
                            output=log,
                        )
                    )
        except BaseException:
            self._end()
            raise

    def _may_continue(self) -> bool:
        self._check_alive()
        return self.may_continue()

    def _check_alive(self) -> None:
        """Raise HeadraceError when one of its programs failed, ServerCrashedError for a crash."""
        for started in self._started:
            if started.process.poll():
                status = started.process.returncode
                kind = ServerCrashedError if -status in _CRASHES else HeadraceError
                raise kind(
                    f"{self.kind} server {self.name}: a program of it ended with status "
                    f"{status}: {self.last_words()}"
                )

    def _given(self) -> ServerContext:
        """Return the context it was started with."""
        if self.context is None:
            raise RuntimeError(f"server {self.name} was never started")
        return self.context

    def _log(self, number: int) -> Path:
        return self._given().log_dir / f"{self.name}-{number}.log"

    def wait_ready(self, timeout_s: float) -> float:
        """Wait until it serves; return the seconds that took.

        A server that crashes before it serves is started once more. Raises HeadraceError with the
        end of its log when it does not serve.
        """
        begun = time.monotonic()
        try:
            self._become_ready(timeout_s)
        except ServerCrashedError as error:
            self._end()
            self._note_crash(error)
            self._launch_once()
            self._become_ready(timeout_s)
        return time.monotonic() - begun

    def _become_ready(self, timeout_s: float) -> None:

        def ready() -> bool:
            if self.is_ready():
                return True
            self._check_alive()
            if not self.pids and not self._detaching():
                raise HeadraceError(f"{self.kind} server {self.name} ended: {self.last_words()}")
            return False

        if not wait_until(ready, timeout_s, _POLL_S):
            raise HeadraceError(
                f"{self.kind} server {self.name} was not ready within {timeout_s:g} s: "
                f"{self.last_words()}"
            )

    def _detaching(self) -> bool:
        """Return whether a program may have detached.

        Its mark can become visible shortly after its first process has ended.
        """
        return any(started.process.poll() == 0 for started in self._started)

    @property
    def pids(self) -> list[int]:
        """Ids of its living processes, descendants included."""
        found: set[int] = set()
        for started in self._started:
            if started.process.poll() is None:
                found.add(started.pid)
            found |= set(processes.marked(started.mark))
        return sorted(pid for pid in found if processes.state(pid) not in ("Z", "X", "gone"))

    def ended(self) -> str:
        """Return how it ended, in words; empty while it runs."""
        for started in self._started:
            if started.process.poll() and (how := ended(started)):
                return how
        return "ended" if self._started and not self.pids else ""

    def last_words(self) -> str:
        """Return the end of its logs, for messages."""
        if self.context is None:
            return "it never ran"
        lines: list[str] = []
        for file in sorted(self.context.log_dir.rglob("*.log")):
            with file.open("rb") as log:
                log.seek(max(0, file.stat().st_size - _TAIL_BYTES))
                lines += log.read().decode(errors="replace").strip().splitlines()[-4:]
        return " | ".join(line.strip() for line in lines) or "it said nothing"

    def stop(self) -> None:
        """End it with all its processes and close its journal entries. Safe to call twice.

        Raises HeadraceError when one of its processes survives.
        """
        if self._started:
            self.resume()
            self.prepare_stop()
        self._end()

    def _end(self) -> None:
        failures: list[str] = []
        while self._started:
            started = self._started.pop()
            started.stop()
            left = [
                pid
                for pid in processes.marked(started.mark)
                if processes.state(pid) not in ("Z", "gone")
            ]
            if left:
                failures.append(
                    f"process {left[0]} does not end (state {processes.state(left[0])})"
                )
        if failures:
            raise HeadraceError(
                f"{self.kind} server {self.name}: {'; '.join(failures)}", hint="headrace undo"
            )

    # -- used by faults --

    def kill(self) -> list[int]:
        """Kill it at once (SIGKILL), as a crash would; return the killed processes.

        Its journal entries stay until `restart` or `stop`.
        """
        signalled = self._signal(signal.SIGKILL)
        wait_until(lambda: not self.pids, 5.0, 0.005)
        return signalled

    def pause(self) -> list[int]:
        """Suspend it (SIGSTOP): connections stay open, requests get no response."""
        return self._signal(signal.SIGSTOP)

    def resume(self) -> list[int]:
        """Continue it (SIGCONT)."""
        return self._signal(signal.SIGCONT)

    def restart(self, timeout_s: float = 30.0) -> float:
        """Start it again with its state; return the seconds until it serves.

        It is killed first when it still runs.
        """
        if self.pids:
            self.kill()
        self._end()
        begun = time.monotonic()
        self._launch()
        self.wait_ready(timeout_s)
        return time.monotonic() - begun

    def lose_storage(self) -> int:
        """Empty the drive of the dead server, as if it were replaced; return the lost file bytes.

        `restart`, then `refill`, follow. Raises UnsupportedLevelError for a server that has the
        only copy of its data.
        """
        raise UnsupportedLevelError(f"{self.kind}: what server {self.name} stores is nowhere else")

    def refill(self) -> None:
        """Start refilling an emptied drive, when the other servers do not start that themselves."""

    def _signal(self, number: int) -> list[int]:
        signalled: list[int] = []
        for pid in self.pids:
            ticks = start_ticks(pid)
            if ticks is not None and is_alive(pid, ticks):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                    signalled.append(pid)
        return signalled
