"""Ground: real file servers that Headrace starts. This file is the contract that all keep: one server, one file beside it.

A server is made with a name and the node of the cluster it runs on, and knows nothing of studies. `start` writes its configuration,
starts it and enters that in the undo journal; `wait_ready` asks it until it serves; `kill`, `pause`, `resume` and `restart` are
what faults do to it; `stop` ends it with everything that it has started.

    server = Ganesha("nas", cluster["nas"], exports=…)
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
from headrace.system.cluster import Node
from headrace.system.identity import is_alive, start_ticks
from headrace.system.journal import Journal
from headrace.system.processes import Started
from headrace.system.requirements import find_program, remedy

_TAIL_BYTES = 4000
_POLL_S = 0.02


@dataclass(frozen=True)
class ServerContext:
    """What a server is given to start."""

    journal: Journal
    work_dir: Path
    """A private folder for configuration, sockets and state; gone after the study."""
    log_dir: Path
    """Where its logs lie."""
    storage: Path
    """What it serves: a directory on the medium."""


class Server(ABC):
    """One daemon (and what it starts) on one node. A subclass says which programs, writes the configuration, knows when it is ready.

    Not for two threads at once, except that a fault may strike it while nobody else touches it.
    """

    kind: ClassVar[str]
    programs: ClassVar[tuple[str, ...]]
    """Programs that it needs on this machine."""
    ports: ClassVar[tuple[int, ...]] = ()
    """TCP ports that it listens on: looked at before it is started."""

    def __init__(self, name: str, node: Node) -> None:
        self.name = name
        self.node = node
        self.context: ServerContext | None = None
        self._started: list[Started] = []

    # -- what a kind of server says -------------------------------------------------------------------------

    @abstractmethod
    def configure(self, context: ServerContext) -> None:
        """Writes its configuration below `context.work_dir`. Called again before a restart: it must keep the server's state."""

    @abstractmethod
    def commands(self, context: ServerContext) -> Sequence[Sequence[str]]:
        """The programs to start, in their order, each in the foreground where it can (else it is found by its mark)."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it serves. Called often; must not block for more than about a second. Raises HeadraceError when it never will."""

    def environment(self, context: ServerContext) -> Mapping[str, str]:
        """Environment variables of its programs, on top of ours."""
        return {}

    def prepare_stop(self) -> None:
        """What has to be said to it before its processes are ended (stop a volume). Must not raise for a dead server."""

    # -- its life -------------------------------------------------------------------------------------------

    @classmethod
    def check(cls, needed_by: str) -> list[Problem]:
        """Programs that this machine lacks for it."""
        return [
            Problem(f"the program {program} is not installed", needed_by, remedy(program))
            for program in cls.programs
            if find_program(program) is None
        ]

    def start(self, context: ServerContext) -> None:
        """Starts it. Raises HeadraceError when a port is taken or a program does not start; nothing runs then."""
        for port in self.ports:
            self.node.check_port_free(port, needed_by=f"{self.kind} server {self.name}")
        context.work_dir.mkdir(parents=True, exist_ok=True)
        context.log_dir.mkdir(parents=True, exist_ok=True)
        self.context = context
        self._launch()

    def _launch(self) -> None:
        context = self._given()
        self.configure(context)
        try:
            for number, argv in enumerate(self.commands(context)):
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

    def _given(self) -> ServerContext:
        """What it was started with."""
        if self.context is None:
            raise RuntimeError(f"server {self.name} was never started")
        return self.context

    def _log(self, number: int) -> Path:
        return self._given().log_dir / f"{self.name}-{number}.log"

    def wait_ready(self, timeout_s: float) -> float:
        """Waits until it serves; the seconds that took. Raises HeadraceError with the end of its log when it does not."""
        begun = time.monotonic()
        while not self.is_ready():
            if not self.pids and not self._detaching():
                raise HeadraceError(f"{self.kind} server {self.name} ended: {self.last_words()}")
            if time.monotonic() - begun > timeout_s:
                raise HeadraceError(
                    f"{self.kind} server {self.name} was not ready within {timeout_s:g} s: {self.last_words()}"
                )
            time.sleep(_POLL_S)
        return time.monotonic() - begun

    def _detaching(self) -> bool:
        """A program that detaches itself may be found by its mark only a moment after its first process has ended."""
        return any(started.process.poll() == 0 for started in self._started)

    @property
    def pids(self) -> list[int]:
        """Its living processes, those that it has started among them."""
        found: set[int] = set()
        for started in self._started:
            if started.process.poll() is None:
                found.add(started.pid)
            found |= set(processes.marked(started.mark))
        return sorted(pid for pid in found if processes.state(pid) not in ("Z", "X", "gone"))

    def last_words(self) -> str:
        """The end of its logs, for messages."""
        if self.context is None:
            return "it never ran"
        lines: list[str] = []
        for file in sorted(self.context.log_dir.rglob("*.log")):
            with file.open("rb") as log:
                log.seek(max(0, file.stat().st_size - _TAIL_BYTES))
                lines += log.read().decode(errors="replace").strip().splitlines()[-4:]
        return " | ".join(line.strip() for line in lines) or "it said nothing"

    def stop(self) -> None:
        """Ends it with everything that it has started; its journal entries are closed. Safe to call twice.

        Raises HeadraceError when a process of it outlives that."""
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
                pid for pid in processes.marked(started.mark) if processes.state(pid) not in ("Z", "gone")
            ]
            if left:
                failures.append(f"process {left[0]} does not end (state {processes.state(left[0])})")
        if failures:
            raise HeadraceError(
                f"{self.kind} server {self.name}: {'; '.join(failures)}", hint="headrace undo"
            )

    # -- what faults do to it -------------------------------------------------------------------------------

    def kill(self) -> list[int]:
        """Kills it at once (SIGKILL), as a crash would; the processes that died. Its journal entries stay until `restart` or `stop`."""
        struck = self._signal(signal.SIGKILL)
        deadline = time.monotonic() + 5.0
        while self.pids and time.monotonic() < deadline:
            time.sleep(0.005)
        return struck

    def pause(self) -> list[int]:
        """Stops it in its tracks (SIGSTOP): connections stay, nothing is answered."""
        return self._signal(signal.SIGSTOP)

    def resume(self) -> list[int]:
        """Lets it go on."""
        return self._signal(signal.SIGCONT)

    def restart(self, timeout_s: float = 30.0) -> float:
        """Starts it anew with the state that it left (killed before when it still runs); seconds until it served."""
        if self.pids:
            self.kill()
        self._end()
        begun = time.monotonic()
        self._launch()
        self.wait_ready(timeout_s)
        return time.monotonic() - begun

    def lose_storage(self) -> int:
        """Empties its drive while it is dead, as a new one would be; bytes of files that were on it. `restart`, then `refill`, follow.

        Raises UnsupportedLevelError for a server that has the only copy of what it serves."""
        raise UnsupportedLevelError(f"{self.kind}: what server {self.name} stores is nowhere else")

    def refill(self) -> None:
        """Has an emptied drive filled from the other servers, where they do not begin by themselves."""

    def _signal(self, number: int) -> list[int]:
        struck: list[int] = []
        for pid in self.pids:
            ticks = start_ticks(pid)
            if ticks is not None and is_alive(pid, ticks):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                    struck.append(pid)
        return struck
