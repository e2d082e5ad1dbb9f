"""Strikes the faults of a measured trial at their times, in a thread of its own, and lifts them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from headrace import faults as fault_room
from headrace.errors import HeadraceError
from headrace.system.journal import Journal
from headrace.targets import Location


class Striking:
    """The faults of one trial, from the release of its jobs to what is found when they are done."""

    def __init__(self, options: Sequence[Any], location: Location, journal: Journal) -> None:
        kinds = fault_room.kinds()
        self._faults = [kinds[each.what](each) for each in options]
        self._location = location
        self._journal = journal
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._errors: dict[int, str] = {}
        self._struck_s: dict[int, float] = {}
        self._lifted_s: dict[int, float] = {}
        self._begin = 0.0

    def start(self) -> None:
        """At the release of the jobs."""
        if not self._faults:
            return
        self._begin = time.monotonic()
        for index, fault in enumerate(self._faults):
            try:
                fault.begin(self._location, self._journal)
            except (HeadraceError, OSError) as error:
                self._errors[index] = str(error)
        self._thread = threading.Thread(target=self._loop, name="headrace-faults", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        due: list[tuple[float, int, bool]] = []
        for index, fault in enumerate(self._faults):
            due.append((fault.options.at, index, True))
            if fault.options.duration is not None:
                due.append((fault.options.at + fault.options.duration, index, False))
        for at, index, strikes in sorted(due):
            if self._stop.wait(max(0.0, at - (time.monotonic() - self._begin))):
                return
            try:
                if strikes:
                    self._faults[index].strike(self._location, self._journal)
                    self._struck_s[index] = time.monotonic() - self._begin
                else:
                    self._lift(index)
            except HeadraceError as error:
                self._errors[index] = error.message

    def _lift(self, index: int) -> None:
        self._faults[index].lift()
        if index in self._struck_s:
            self._lifted_s.setdefault(index, time.monotonic() - self._begin)

    def finish(self) -> list[dict[str, Any]]:
        """Lifts all, looks what is left; what each did, as it stands in the record."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for index in range(len(self._faults)):
            self._lift(index)
        if self._thread is not None:
            for index, fault in enumerate(self._faults):
                try:
                    fault.end(self._location, self._journal)
                except (HeadraceError, OSError) as error:
                    self._errors.setdefault(index, str(error))
        return [
            {
                "what": type(fault).kind,
                "name": fault.options.label,
                "at_s": fault.options.at,
                "duration_s": fault.options.duration,
                "struck_s": self._struck_s.get(index),
                "lifted_s": self._lifted_s.get(index),
                "fired": fault.fired,
                "error": self._errors.get(index),
                "seen": fault.seen,
            }
            for index, fault in enumerate(self._faults)
        ]
