"""Rows of a power log whose time does not advance: a clock that was set back, or several rows of
one time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.meters.integration import DISCARDED_MOST

_AT_ONCE_S = 1e-3
_AT_ONCE_SHARE = 0.01
"""Rows that are nearer than this, and than this share of the usual distance, are of one time:
turbostat writes rows of packages and cores some microseconds apart."""


@dataclass(frozen=True)
class LogTimes:
    """How the times of rows advance."""

    rows: int
    at_once: int
    """Rows of the time of the row before."""
    back_s: tuple[float, ...]
    """How far the clock went back, each time that it did."""

    @classmethod
    def of(cls, times_s: Sequence[float]) -> LogTimes:
        """`times_s`: of the rows that have a value, in their order."""
        steps = [b - a for a, b in itertools.pairwise(times_s)]
        ahead = sorted(step for step in steps if step > 0)
        # Of four rows of one time, three steps are short: the usual distance is near the longest.
        usual_s = ahead[int(0.95 * len(ahead))] if ahead else 0.0
        least_s = min(_AT_ONCE_S, _AT_ONCE_SHARE * usual_s)
        return cls(
            rows=len(times_s),
            at_once=sum(0 <= step <= least_s for step in steps),
            back_s=tuple(-step for step in steps if step < 0),
        )

    def refused(self) -> str:
        """Return why the rows cannot be used; empty if they can."""
        if self.at_once <= DISCARDED_MOST * self.rows:
            return ""
        return (
            f"{self.at_once} of {self.rows} rows of the log have the time of the row before: rows "
            f"of several packages, cores or outlets are no readings of one channel; log one row "
            f"for each time (turbostat: --Summary)"
        )

    def notes(self) -> list[str]:
        """Return what to know of rows that are used."""
        if not self.back_s:
            return []
        times = "once" if len(self.back_s) == 1 else f"{len(self.back_s)} times"
        return [
            f"the clock of the log went back {times}, by up to {max(self.back_s):.3g} s: rows are "
            f"not used until it has caught up, and the offset is that of the rest"
        ]
