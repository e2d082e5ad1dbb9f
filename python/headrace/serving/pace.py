"""How fast a run gets on, and how long it still takes: from the times of its records."""

from __future__ import annotations

import time
from dataclasses import dataclass

from headrace.serving.folders import ResultsFolder
from headrace.units import format_seconds


@dataclass(frozen=True)
class Pace:
    """The records of the present run; earlier ones of a resumed study do not count."""

    trials: int
    mean_s: float
    """Time of a trial, with its share of set-ups."""
    left: int | None
    """Trials of the plan without a record; None when the plan cannot be read."""
    since_last_s: float

    @property
    def text(self) -> str:
        """The pace as a sentence."""
        rate = f"{self.trials} in this run, {3600 / self.mean_s:,.3g} trials per hour"
        if not self.left:
            return f"{rate}."
        # A trial that takes longer than the mean ends at the next moment.
        left_s = (self.left - 1) * self.mean_s + max(0.0, self.mean_s - self.since_last_s)
        others = "the last one takes" if self.left == 1 else f"the other {self.left} take"
        return f"{rate}; about {format_seconds(round(left_s))} left, if {others} as long."


def pace_of(folder: ResultsFolder) -> Pace | None:
    """Return the pace of a run; None when nothing runs, and before its first record."""
    if not folder.running:
        return None
    try:
        # A run writes its process id into the lock when it begins.
        begun = (folder.path / ".lock").stat().st_mtime
        times = [each.stat().st_mtime for each in (folder.path / "trials").glob("*/trial.json")]
    except OSError:
        return None
    mine = [each for each in times if each >= begun]
    if not mine or max(mine) <= begun:
        return None
    left = None if folder.planned is None else max(0, folder.planned - folder.recorded)
    mean_s = (max(mine) - begun) / len(mine)
    return Pace(len(mine), mean_s, left, max(0.0, time.time() - max(mine)))
