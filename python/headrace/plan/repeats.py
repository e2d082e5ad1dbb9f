"""When a cell has enough repeats.

The plan lists the maximum number. The engine checks before each repeat.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plan.intervals import interval
from headrace.study.model import Study


def headline_rate(
    events: float, bytes_asked: float, bytes_written: float, last_done_s: float
) -> float | None:
    """Return the rate that decides on repeats: events/s, or bytes/s for a workload without events.

    Bytes are those requested and written. Returns None when the trial took no time or moved
    nothing.
    """
    if last_done_s <= 0:
        return None
    done = events or bytes_asked + bytes_written
    return done / last_done_s if done > 0 else None


def enough_because(rates: Sequence[float], repeat: int, study: Study, spent_s: float) -> str | None:
    """Return why repeat number `repeat` (from 0) of a cell is not needed, or None if it must run.

    `rates` are the headline rates of the cell's valid trials among its earlier repeats, `spent_s`
    the time since the study started. The first `repeats.min` always run. After them, a repeat runs
    while the interval of the mean or median is wider than requested and the budget is not spent. A
    cell without a valid trial gets no further repeats: they would not help.
    """
    options = study.plan_options
    repeats = options.repeats
    if repeat < repeats.min:
        return None
    if repeats.interval is None or repeat >= repeats.most:
        return "as many as requested"
    if not rates:
        return "no repeat before it is valid"
    if options.budget is not None and spent_s >= options.budget:
        return "the time budget is spent"
    found = interval(rates, study.report_options.confidence, repeats.statistic)
    return "interval narrow enough" if found.half_width <= repeats.interval else None
