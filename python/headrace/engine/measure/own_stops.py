"""Times at which this process itself was stopped while it waited for jobs.

Ctrl-Z, SIGSTOP, a debugger, a suspended batch job or a frozen container: jobs may have been stopped
as well, free slots of a sustained load stayed empty, and nothing was sampled.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from headrace.system.accounting import own_run_delay_ns

_NOTICED_S = 1.0
"""A shorter delay of a wait has other causes."""


class OwnStops:
    """Adds up the time by which waits took longer than their patience, without a lack of CPUs."""

    def __init__(self) -> None:
        self.stopped_s = 0.0
        """Seconds in which this process did not run although it could have."""

    @contextmanager
    def waiting(self, patience_s: float) -> Generator[None]:
        """Wrap a wait that returns after `patience_s` at the latest."""
        begin_s, delay_ns = time.monotonic(), own_run_delay_ns()
        yield
        over_s = time.monotonic() - begin_s - patience_s
        if over_s > _NOTICED_S:
            over_s -= (own_run_delay_ns() - delay_ns) / 1e9
        if over_s > _NOTICED_S:
            self.stopped_s += over_s
