"""Which repeats of the plan are still needed, from the records that are there: the same answer after a stop as without one."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.plan.repeats import headline_rate, needs_more
from headrace.plan.trial import Plan, Trial
from headrace.study.model import Study


class Repeating:
    """Follows the headline rate of every cell as records come in."""

    def __init__(self, study: Study, plan: Plan, root: Path) -> None:
        self._study = study
        self._rates: dict[str, list[float]] = defaultdict(list)
        self._spent_s = 0.0
        for trial in plan.trials:
            path = root / "trials" / trial.id / "trial.json"
            if path.exists():
                values = json.loads(path.read_text())
                self.recorded(trial, values, values["sums"])

    def recorded(self, trial: Trial, values: dict[str, Any], sums: Mapping[str, float] | None) -> None:
        """A record has been made: trial.json and the sums over its jobs."""
        self._spent_s += float(values.get("duration_s") or 0.0)
        totals = sums or {}
        if not values["validity"]["valid"]:
            return
        rate = headline_rate(
            totals.get("events", 0),
            totals.get("bytes_asked", 0),
            totals.get("bytes_written", 0),
            values["last_done_s"],
        )
        if rate is not None:
            self._rates[trial.cell].append(rate)

    def needs(self, trial: Trial) -> bool:
        """Whether this repeat is to be run."""
        return needs_more(self._rates[trial.cell], trial.repeat, self._study, self._spent_s)
