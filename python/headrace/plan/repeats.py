"""When a cell has been tried often enough. The plan lists the most repeats; the engine asks here before each beyond the first."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.plan.intervals import interval
from headrace.study.model import Study


def headline_rate(
    events: float, bytes_asked: float, bytes_written: float, last_done_s: float
) -> float | None:
    """The rate that repeats are judged by: events/s, or asked and written bytes/s for a workload without events.

    None when the trial took no time or moved nothing.
    """
    if last_done_s <= 0:
        return None
    done = events or bytes_asked + bytes_written
    return done / last_done_s if done > 0 else None


def needs_more(rates: Sequence[float], repeat: int, study: Study, spent_s: float) -> bool:
    """Whether repeat number `repeat` (from 0) of a cell is to be run.

    `rates` are the headline rates of its valid trials so far, `spent_s` the time since the study began. The first
    `repeats.min` are always run. Beyond them, one is run while the interval of the mean or median is wider than asked and the
    budget lasts; never for a cell without a valid trial, which more of the same would not help.
    """
    options = study.plan_options
    repeats = options.repeats
    if repeat < repeats.min:
        return True
    if repeats.interval is None or repeat >= repeats.most or not rates:
        return False
    if options.budget is not None and spent_s >= options.budget:
        return False
    found = interval(rates, study.report_options.confidence, repeats.statistic)
    return found.half_width > repeats.interval
