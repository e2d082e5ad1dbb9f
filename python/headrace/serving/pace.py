"""How fast a run gets on, and how long it still takes: from the times of its records."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from headrace.serving.folders import ResultsFolder
from headrace.serving.trial_files import TRIAL_FILES
from headrace.units import format_seconds


class _Times(msgspec.Struct):
    """The times of trial.json."""

    started_utc: datetime.datetime | None = None
    duration_s: float = 0.0


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
        begun_s = (folder.path / ".lock").stat().st_mtime
        files = {file: at_ns for file, at_ns in TRIAL_FILES.of(folder.path).items() if at_ns}
    except OSError:
        return None
    # The clock of a file server may differ from this one, but it is the same for all its files.
    mine = [each for each, at_ns in files.items() if at_ns * 1e-9 >= begun_s]
    if not mine:
        return None
    spans = [_span(str(each), files[each]) for each in mine]
    measured = [span for span in spans if span is not None]
    if len(measured) == len(mine):
        # Without the set-up before the first trial, of which no record has the time.
        begun_s, last_s = min(measured)[0], max(end_s for _, end_s in measured)
    else:  # trials in virtual time have no date
        last_s = max(files[each] for each in mine) * 1e-9
    if last_s <= begun_s:
        return None
    left = None if folder.planned is None else max(0, folder.planned - folder.recorded)
    return Pace(len(mine), (last_s - begun_s) / len(mine), left, max(0.0, time.time() - last_s))


@lru_cache(maxsize=1_000_000)
def _span(file: str, _at_ns: int) -> tuple[float, float] | None:
    """Return when a trial began and when its jobs had ended, as times of day of the machine that
    ran it in seconds; None if its record does not say so."""
    try:
        made = msgspec.json.decode(Path(file).read_bytes(), type=_Times)
    except (OSError, ValueError):
        return None
    if made.started_utc is None:
        return None
    begun_s = made.started_utc.timestamp()
    return begun_s, begun_s + made.duration_s
