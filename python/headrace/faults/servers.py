"""Base of server and link faults: which server, and how their effect is observed.

During the jobs a process on the first node that runs jobs writes a small file at short intervals,
each forced to the storage (faults/pulse.py). Its longest wait is the stall; after the fault it
shows when the storage serves again; at the end all files acknowledged to it are read back.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from headrace.errors import HeadraceError, Problem, UnsupportedLevelError
from headrace.faults import FaultOptions, InjectedFault
from headrace.system.own_programs import own_module
from headrace.system.processes import Started, run_program, start_process
from headrace.system.servers import Server
from headrace.system.waiting import wait_until
from headrace.targets import Location
from headrace.targets.exports import ServedOptions
from headrace.units import Seconds

if TYPE_CHECKING:
    from headrace.system.journal import Journal

_VERIFY_PATIENCE_S = 60.0
_LOOK_S = 0.2
_FIRST_LOOK_S = 0.02


class ServerFaultOptions(FaultOptions):
    """Options of every fault of a server or its link."""

    server: str | int | None = Field(
        None,
        description=(
            "name or number (from 0) of the server that is affected; the last one when not given"
        ),
    )
    pulse: Seconds | None = Field(
        0.1,
        gt=0,
        description="time between two small files whose writing shows stall, recovery and loss",
    )
    patience: Seconds = Field(
        60.0, gt=0, description="how long recovery is waited for when the jobs are done"
    )


class ServerFault(InjectedFault):
    """A fault of a server that was started for the study."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.injected_at: float | None = None
        """Time (time.monotonic()) at which it took effect."""
        self.lifted_at: float | None = None
        self._pulse: Started | None = None
        self._log: Path | None = None
        self._place = ""

    # -- for subclasses --------------------------------------------------------------------------

    @abstractmethod
    def inject_server(self, server: Server, location: Location, journal: Journal) -> None:
        """Inject the fault into `server`."""

    @abstractmethod
    def lift_server(self) -> None:
        """End the fault; called once, and only after it took effect."""

    # -- InjectedFault ---------------------------------------------------------------------------

    def check(self) -> list[Problem]:
        return []

    def check_on(self, target: str, options: Any) -> list[Problem]:
        given = isinstance(options, ServedOptions) and options.address is None
        if given and getattr(options, "endpoint", None) is None:
            return []
        what = (
            f"fault {self.kind} affects servers that are started for the study, and target "
            f"{target} has none"
        )
        return [Problem(what, f"fault {self.options.label}", "name another target by `target`")]

    def inject(self, location: Location, journal: Journal) -> None:
        self.inject_server(self.chosen(location), location, journal)
        self.injected_at = time.monotonic()
        self.fired += 1

    def lift(self) -> None:
        if self.injected_at is None or self.lifted_at is not None:
            return
        self.lift_server()
        self.lifted_at = time.monotonic()

    def chosen(self, location: Location) -> Server:
        """Return the affected server. Raises UnsupportedLevelError if it does not exist."""
        names = list(location.servers)
        wanted = self.options.server
        if not names:
            raise UnsupportedLevelError(
                f"{self.kind}: no server was started for {location.directory or location.url}"
            )
        if wanted is None:
            wanted = len(names) - 1
        if isinstance(wanted, int) and 0 <= wanted < len(names):
            wanted = names[wanted]
        if wanted not in location.servers:
            raise UnsupportedLevelError(
                f"{self.kind}: there is no server {wanted!r}; there are: {', '.join(names)}"
            )
        self.seen["server"] = wanted
        return location.servers[str(wanted)]

    # -- observation -----------------------------------------------------------------------------

    def begin(self, location: Location, journal: Journal) -> None:
        if self.options.pulse is None:
            return
        name = f".headrace-pulse-{os.urandom(4).hex()}"
        self._place = (
            f"{location.directory}/{name}" if location.directory else f"{location.url}/{name}"
        )
        server = self.chosen(location)
        if server.context is None:
            raise RuntimeError("a server of a target that is there was never started")
        self._log = server.context.log_dir / f"{name[1:]}.jsonl"
        argv = self._command("write", location, f"{self.options.pulse:g}")
        with self._log.open("wb") as log:
            self._pulse = start_process(journal, argv, environment=location.environment, output=log)
        # The pulse must run before the injection to observe it.
        if not wait_until(self._lines, self.options.patience, _FIRST_LOOK_S):
            raise HeadraceError(
                f"{self.kind}: no small file could be written before it was injected"
            )

    def _command(self, task: str, location: Location, value: str) -> list[str]:
        argv = own_module("headrace.faults.pulse", task, self._place, value)
        if location.cluster is None:
            return argv
        return next(iter(location.cluster)).command(argv)

    def end(self, location: Location, journal: Journal) -> None:
        """Wait until the storage is whole again and read back what was acknowledged. Fills
        `seen`."""
        if self.injected_at is None:
            self._stop_pulse()
            return
        since = self.lifted_at or self.injected_at
        deadline = time.monotonic() + self.options.patience
        served = self._wait_for_service(since, deadline)
        lacking = self._wait_until_whole(location, deadline)
        whole_at = time.monotonic()
        self._stop_pulse()
        if self._pulse is not None:
            self._judge(location, journal)
            if served is None:
                self.seen["recovered_s"] = None
                self.seen["not_recovered"] = f"did not serve within {self.options.patience:g} s"
            else:
                self.seen["served_s"] = served - since
                self.seen["recovered_s"] = served - since
        if location.lacking is not None:
            self.seen["lacking"] = lacking
            if lacking:
                self.seen["recovered_s"] = None
                self.seen["not_recovered"] = f"after {self.options.patience:g} s: {lacking}"
            elif self.seen.get("recovered_s") is not None or self._pulse is None:
                self.seen["recovered_s"] = max(
                    whole_at - since, self.seen.get("recovered_s") or 0.0
                )

    def abandon(self) -> None:
        self._stop_pulse()

    def _lines(self) -> list[dict[str, Any]]:
        if self._log is None or not self._log.exists():
            return []
        # The last line may be incomplete.
        return [json.loads(line) for line in self._log.read_text().split("\n")[:-1] if line]

    def _wait_for_service(self, since: float, deadline: float) -> float | None:
        """Return when the first small file after `since` was acknowledged; None if none was before
        `deadline`."""

        def served() -> list[float]:
            return [
                line["at"] for line in self._lines() if "number" in line and line["at"] >= since
            ]

        if self._pulse is None or not wait_until(served, deadline - time.monotonic(), _LOOK_S):
            return None
        return float(served()[0])

    def _wait_until_whole(self, location: Location, deadline: float) -> str:
        """Return what replicas still lack at the deadline; empty if nothing."""
        if (lacking_of := location.lacking) is None:
            return ""
        lacking = ""

        def whole() -> bool:
            nonlocal lacking
            try:
                lacking = lacking_of()
            except HeadraceError as error:
                lacking = error.message
            return not lacking

        wait_until(whole, deadline - time.monotonic(), _LOOK_S)
        return lacking

    def _stop_pulse(self) -> None:
        if self._pulse is not None:
            self._pulse.stop()

    def _judge(self, location: Location, journal: Journal) -> None:
        lines = self._lines()
        acknowledged = [line for line in lines if "number" in line]
        refused = [line for line in lines if "refused" in line]
        begin = float(lines[0]["at"]) if lines else 0.0
        times = [float(line["at"]) for line in acknowledged]
        gaps = [
            late - early
            for early, late in itertools.pairwise([begin, *times])
            if late >= (self.injected_at or 0.0)
        ]
        self.seen["stall_s"] = max(0.0, max(gaps, default=0.0) - float(self.options.pulse or 0.0))
        self.seen["acknowledged_writes"] = len(acknowledged)
        self.seen["refused_writes"] = len(refused)
        if refused:
            self.seen["refusal"] = refused[0]["refused"]
        try:
            said = run_program(
                journal,
                self._command("verify", location, str(len(acknowledged))),
                environment=location.environment,
                timeout_s=_VERIFY_PATIENCE_S,
            )
        except HeadraceError as error:
            self.seen["lost_writes"] = None
            self.seen["verification"] = error.message[:300]
            return
        verdict: dict[str, Any] = json.loads(said)
        self.seen["lost_writes"] = len(verdict["lost"])
        if verdict["lost"]:
            self.seen["first_lost"] = verdict["lost"][0]
            self.seen["verification"] = verdict["why"] or "contents differ"
