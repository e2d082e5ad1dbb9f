"""Times at which this process itself was stopped while it waited for jobs.

Ctrl-Z, SIGSTOP, a debugger, a suspended batch job or a frozen container: jobs may have been stopped
as well, free slots of a sustained load stayed empty, and nothing was sampled.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType

from headrace.system.accounting import own_run_delay_ns

_NOTICED_S = 1.0
"""A shorter delay has other causes."""


class _Continued:
    """Counts the times at which this process was continued after a stop (SIGCONT)."""

    def __init__(self) -> None:
        self.count = 0

    def listen(self) -> None:
        """Begin to count. Only the main thread can; in others a stop is seen in waits alone."""
        with suppress(ValueError):
            if signal.getsignal(signal.SIGCONT) in (signal.SIG_DFL, signal.SIG_IGN):
                signal.signal(signal.SIGCONT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1


_CONTINUED = _Continued()


class OwnStops:
    """Adds up the time by which waits took longer than their patience, without a lack of CPUs.

    After a SIGCONT, the time between two waits counts as well: work may take long, but is not
    stopped as a rule. A container or machine that is suspended sends none.
    """

    def __init__(self) -> None:
        _CONTINUED.listen()
        self.stopped_s = 0.0
        """Seconds in which this process did not run although it could have."""
        self._continued = _CONTINUED.count
        self._last_s, self._last_delay_ns = time.monotonic(), own_run_delay_ns()

    @contextmanager
    def waiting(self, patience_s: float) -> Generator[None]:
        """Wrap a wait that returns after `patience_s` at the latest."""
        begin_s, delay_ns = time.monotonic(), own_run_delay_ns()
        yield
        now_s = time.monotonic()
        if self._continued != _CONTINUED.count:
            self._continued = _CONTINUED.count
            begin_s, delay_ns = self._last_s, self._last_delay_ns
        over_s = now_s - begin_s - patience_s
        if over_s > _NOTICED_S:
            over_s -= (own_run_delay_ns() - delay_ns) / 1e9
        if over_s > _NOTICED_S:
            self.stopped_s += over_s
        self._last_s, self._last_delay_ns = now_s, delay_ns
