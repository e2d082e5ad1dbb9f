"""Inject and lift the faults of a measured trial at their times, in a separate thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from headrace import faults as fault_package
from headrace.errors import HeadraceError, describe
from headrace.faults import InjectedFault
from headrace.records.trial_record import FaultRecord
from headrace.system.journal import Journal
from headrace.targets import Location

_THREAD_PATIENCE_S = 300.0
"""Time limit for an injection in progress (a server restart); then its thread is abandoned."""


class FaultInjector:
    """The faults of one trial, from the release of its jobs to the checks after the last one.

    An error of one fault never prevents another from being injected or lifted; it is written to the
    record.
    """

    def __init__(self, options: Sequence[Any], location: Location, journal: Journal) -> None:
        kinds = fault_package.kinds()
        self._faults = [kinds[each.what](each) for each in options]
        self._location = location
        self._journal = journal
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._errors: dict[int, str] = {}
        self._not_lifted: dict[int, str] = {}
        self._injected_s: dict[int, float] = {}
        self._lifted_s: dict[int, float] = {}
        self._begun: list[int] = []
        self._begin = 0.0
        self._found: list[FaultRecord] | None = None

    def start(self) -> None:
        """Start observing and injecting; called right before the jobs are released."""
        if not self._faults:
            return
        self._begin = time.monotonic()
        for index, fault in enumerate(self._faults):
            self._begun.append(index)
            try:
                fault.begin(self._location, self._journal)
            except Exception as error:
                self._errors[index] = describe(error)
        self._thread = threading.Thread(target=self._run, name="headrace-faults", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            for index in range(len(self._faults)):
                self._errors.setdefault(index, describe(error))

    def _loop(self) -> None:
        due: list[tuple[float, int, bool]] = []
        for index, fault in enumerate(self._faults):
            due.append((fault.options.at, index, True))
            if fault.options.duration is not None:
                due.append((fault.options.at + fault.options.duration, index, False))
        for at, index, begins in sorted(due):
            if self._stop.wait(max(0.0, at - (time.monotonic() - self._begin))):
                return
            if begins:
                self._inject(index)
            else:
                self._lift(index)

    def _inject(self, index: int) -> None:
        try:
            self._faults[index].inject(self._location, self._journal)
            self._injected_s[index] = time.monotonic() - self._begin
        except Exception as error:
            self._errors[index] = describe(error)

    def _lift(self, index: int) -> None:
        """Lift one fault; retry one that could not be lifted before."""
        try:
            self._faults[index].lift()
        except Exception as error:
            self._not_lifted[index] = describe(error)
            return
        self._not_lifted.pop(index, None)
        if index in self._injected_s:
            self._lifted_s.setdefault(index, time.monotonic() - self._begin)

    def finish(self, *, look: bool = True) -> list[FaultRecord]:
        """Lift every fault and return the records of what each did.

        With `look`, also check what is left. Never raises; a second call returns the same result.
        """
        if self._found is None:
            self._stop.set()
            self._join()
            for index in range(len(self._faults)):
                self._lift(index)
            for index in self._begun:
                self._end(index, look=look)
            self._lift_again()
            self._found = [self._row(index, fault) for index, fault in enumerate(self._faults)]
        return self._found

    def _lift_again(self) -> None:
        """Retry faults that could not be lifted."""
        for index, text in list(self._not_lifted.items()):
            self._lift(index)
            if index not in self._not_lifted:
                self._errors.setdefault(index, f"lifted at the second attempt: {text}")

    def _join(self) -> None:
        if self._thread is None:
            return
        self._thread.join(_THREAD_PATIENCE_S)
        if self._thread.is_alive():
            for index in range(len(self._faults)):
                self._not_lifted.setdefault(
                    index, f"still being injected after {_THREAD_PATIENCE_S:.0f} s"
                )

    def _end(self, index: int, *, look: bool) -> None:
        fault = self._faults[index]
        try:
            if look:
                fault.end(self._location, self._journal)
        except Exception as error:
            self._errors.setdefault(index, describe(error))
        finally:
            try:
                fault.abandon()
            except Exception as error:
                self._errors.setdefault(index, describe(error))

    def _row(self, index: int, fault: InjectedFault) -> FaultRecord:
        return FaultRecord(
            what=type(fault).kind,
            name=fault.options.label,
            at_s=fault.options.at,
            duration_s=fault.options.duration,
            struck_s=self._injected_s.get(index),
            lifted_s=self._lifted_s.get(index),
            fired=fault.fired,
            error=self._errors.get(index),
            not_lifted=self._not_lifted.get(index),
            seen=fault.seen,
        )

    def check_lifted(self) -> None:
        """Retry faults that could not be lifted; raise HeadraceError if any remains."""
        self._lift_again()
        if self._not_lifted:
            names = [
                f"{type(self._faults[index]).kind}: {text}"
                for index, text in self._not_lifted.items()
            ]
            raise HeadraceError("; ".join(names))
