"""Decide which repeats of the plan are still needed, from the records made so far.

The decision after a stop and resume equals that of an uninterrupted run.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from pathlib import Path

from headrace.plan.repeats import enough_because, headline_rate
from headrace.plan.trial import Plan, Trial
from headrace.records.trial_record import TrialRecord, decode
from headrace.study.model import Study


class Repeating:
    """Tracks the headline rate of every cell as records arrive.

    A repeat is judged only by earlier repeats of its cell, never by later ones, so that the order
    in which records are made (concurrently, after a stop) does not change the decision.
    """

    def __init__(self, study: Study, plan: Plan, root: Path, *, side_by_side: bool = False) -> None:
        """Read the records that exist already.

        `side_by_side`: the trials of a round end in any order, so the budget is judged by the
        rounds before it; otherwise by everything recorded so far.
        """
        self._study = study
        self._side_by_side = side_by_side
        self._rates: dict[str, dict[int, float]] = defaultdict(dict)
        self._spent_s: dict[int, float] = defaultdict(float)
        for trial in plan.trials:
            path = root / "trials" / trial.id / "trial.json"
            # The report lists damaged records; they give no rate for their cell.
            with contextlib.suppress(FileNotFoundError, ValueError):
                self.recorded(trial, decode(path.read_bytes()))

    def recorded(self, trial: Trial, record: TrialRecord) -> None:
        """Add a new record."""
        self._spent_s[trial.repeat] += record.duration_s
        totals = record.sums or {}
        if not record.validity.valid or record.last_done_s is None:
            return
        rate = headline_rate(
            totals.get("events", 0),
            totals.get("bytes_asked", 0),
            totals.get("bytes_written", 0),
            record.last_done_s,
        )
        if rate is not None:
            self._rates[trial.cell][trial.repeat] = rate

    def enough_because(self, trial: Trial) -> str | None:
        """Return why this repeat is not needed, or None if it must run."""
        known = self._rates[trial.cell]
        rates = [known[repeat] for repeat in sorted(known) if repeat < trial.repeat]
        rounds = [
            spent_s
            for repeat, spent_s in sorted(self._spent_s.items())
            if repeat < trial.repeat or not self._side_by_side
        ]
        return enough_because(rates, trial.repeat, self._study, sum(rounds))
