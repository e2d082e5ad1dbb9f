"""Expected time of each trial of a plan, from earlier runs on this machine or a model of rates."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.study.resolve import Resolved

KEPT = 9
"""Number of times kept per kind of trial; the expected time is their median."""


class Timings:
    """Times of trials and set-ups on this machine in seconds, by key."""

    def __init__(self, seconds: Mapping[str, Sequence[float]] | None = None) -> None:
        self._seconds: dict[str, list[float]] = {
            key: list(each) for key, each in (seconds or {}).items()
        }

    def add(self, key: str, seconds: float) -> None:
        """Add a time; only the latest `KEPT` are kept."""
        self._seconds[key] = [*self._seconds.get(key, []), seconds][-KEPT:]

    def of(self, key: str) -> float | None:
        """Return the median of the times with this key; None without any."""
        found = self._seconds.get(key)
        return statistics.median(found) if found else None

    @property
    def seconds(self) -> dict[str, list[float]]:
        """All times, by key."""
        return self._seconds


@dataclass(frozen=True)
class Expected:
    """One trial, or one set-up of a target with the files of a workload."""

    key: str
    """Equal for those that should take the same time."""
    modelled_s: float


@dataclass(frozen=True)
class Expectation:
    """The components of a plan's time."""

    trials: Mapping[int, Expected]
    """By index of the trial."""
    set_ups: Mapping[int, Expected]
    """By number of the whole plot."""
    plots: Mapping[int, int]
    """Index of a trial -> its whole plot."""
    data_s: float
    """Time to make all data sets: an upper limit, since cached ones take no time."""

    def left_s(self, timings: Timings, done: Collection[int] = ()) -> float:
        """Return the time of the trials that are not in `done`.

        Trials that were never timed take the model's time, multiplied by the ratio of measured to
        modelled time of the others.
        """
        trials = [each for index, each in self.trials.items() if index not in done]
        begun = {self.plots[index] for index in done}
        set_ups = [each for plot, each in self.set_ups.items() if plot not in begun]
        return self._sum(self.trials.values(), trials, timings) + self._sum(
            self.set_ups.values(), set_ups, timings
        )

    def timed(self, timings: Timings) -> int:
        """Return the number of trials that match one that was timed."""
        return sum(timings.of(each.key) is not None for each in self.trials.values())

    @staticmethod
    def _sum(every: Collection[Expected], left: Collection[Expected], timings: Timings) -> float:
        known = {each.key: each for each in every if timings.of(each.key) is not None}
        modelled_s = sum(each.modelled_s for each in known.values())
        took_s = sum(timings.of(key) or 0.0 for key in known)
        ratio = took_s / modelled_s if modelled_s > 0 else 1.0
        return sum(
            each.modelled_s * ratio if (took := timings.of(each.key)) is None else took
            for each in left
        )


def trial_key(resolved: Resolved) -> str:
    """Return a key that is equal for trials with equal options, of any study."""
    return _hashed("trial", resolved, resolved.run.model_dump(mode="json"), resolved.faults)


def set_up_key(resolved: Resolved) -> str:
    """Return a key that is equal for set-ups of a target with equal options and workload."""
    return _hashed("set-up", resolved, resolved.run.nodes, ())


def _hashed(what: str, resolved: Resolved, run: Any, faults: Sequence[Any]) -> str:
    values = [
        what,
        resolved.target_kind,
        resolved.target_options.model_dump(mode="json"),
        resolved.workload_kind,
        resolved.workload_options.model_dump(mode="json"),
        run,
        [each.model_dump(mode="json") for each in faults],
        None if resolved.site is None else resolved.site.model_dump(mode="json"),
    ]
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:16]
