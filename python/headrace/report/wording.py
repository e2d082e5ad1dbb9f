"""Words shared by all formats: levels, limits, marks, intervals of counts. answers.py and
choices.py make sentences of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from headrace.analysis.findings import (
    Curve,
    Estimate,
    FactorEffect,
    Findings,
    Growth,
    Knee,
    LimitKind,
    Point,
    SlotsFed,
)
from headrace.labels import plain
from headrace.metrics import is_rate
from headrace.metrics.shown import ShownMetric
from headrace.report.numbers import NARROW_SPACE, interval_text, percent, value_text

LEDGER_TITLES = {
    "on_cpu": "On CPU",
    "wait_cpu": "Waiting for a CPU",
    "wait_block": "Waiting for block I/O",
    "wait_network": "Waiting for the network",
    "other": "Other",
}
PROVENANCE_MARKS = {
    "measured": "m",
    "emulated": "e",
    "simulated": "s",
    "modelled": "mod",
    "published": "p",
    "stated": "st",
}
PROVENANCE_MEANING = {
    "measured": "real jobs on real storage",
    "emulated": "real jobs under the real kernel, on a modelled drive",
    "simulated": "modelled jobs on modelled storage, in virtual time",
    "modelled": "computed from a model, not observed",
    "published": "taken from a publication",
    "stated": "taken from the study file",
}
_LIMITS: dict[str, str] = {
    "cpu": "jobs keep their CPUs busy",
    "cpu contention": "jobs wait for a CPU",
    "device latency": "jobs wait for device latency",
    "device bandwidth": "jobs share a device at its full bandwidth",
    "network": "jobs wait for the network",
    "memory": "jobs wait for memory",
    "cache": "jobs are fed by the page cache",
    "sleep": "jobs sleep for time, or for other threads and programs",
    "idle": "slots stand idle",
    "unknown": "what jobs wait for is not known",
}


RANK = "a rank is a range where no difference is seen to some others"
"""Note below a table with ranks."""
NOT_TOLD_APART = "cannot be told apart"
"""Instead of a rank that would be any of all."""
UNRANKED = (
    f"{NOT_TOLD_APART}: the repeats of two storages alone do not show which is better; more "
    "repeats can"
)
"""Note below a table with such storages."""


def level_text(level: object) -> str:
    """Return a level as text for readers."""
    if level is None:
        return "–"
    if isinstance(level, bool):
        return "yes" if level else "no"
    if isinstance(level, (list, tuple, dict)):
        return json.dumps(level, default=str)
    return str(level)


@dataclass(frozen=True)
class LevelNames:
    """Levels of factors in words; targets by their product: `GlusterFS`."""

    targets: Mapping[str, str]

    @classmethod
    def of(cls, findings: Findings) -> LevelNames:
        """Take the targets' words from the curves."""
        return cls({curve.target: storage_of(curve) for curve in findings.curves})

    def level(self, effect: FactorEffect, level: Any) -> str:
        """Return one level of an effect's factor."""
        return self.targets.get(level, level) if effect.factor == "target" else level_text(level)


def factor_text(factor: str) -> str:
    """Return a factor's name for readers: `read_ahead` is `read-ahead`."""
    return factor.replace("_", "-")


def levels_text(levels: Mapping[str, Any], only: Iterable[str] | None = None) -> str:
    """Return levels as `filesystem xfs, read-ahead 128 KiB`; factors that do not apply are left
    out."""
    names = list(levels) if only is None else [name for name in only if name in levels]
    return ", ".join(
        f"{factor_text(name)} {level_text(_flat(levels[name]))}"
        for name in names
        if levels[name] is not None
    )


def _flat(level: object) -> object:
    return plain(level) if isinstance(level, dict) else level


def plural(count: int, word: str) -> str:
    """Return `1 slot`, `2 slots`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def beyond_text(why: str) -> str:
    """Return what limits the next slot, as a clause; `why` is a kind of limit or a sentence of
    the analysis."""
    if why in get_args(LimitKind):
        return _LIMITS[why]
    return why.rstrip(".")


def varied(curves: Iterable[Curve]) -> list[str]:
    """Return the factors (without target and workload) that have more than one level over these
    curves."""
    seen: dict[str, set[str]] = {}
    for curve in curves:
        for name, level in curve.levels.items():
            if name not in ("target", "workload", "slots"):
                seen.setdefault(name, set()).add(level_text(level))
    return [name for name, levels in seen.items() if len(levels) > 1]


_USUAL = (
    "events_per_s",
    "asked_bytes_per_s",
    "device_bytes_per_s",
    "iops",
    "throughput_jobs",
    "efficiency",
)


def main_metric(findings: Findings, workload: str) -> str | None:
    """Return the metric that defines 'best' for a workload: from the findings, otherwise the
    first usual one that it has."""
    if workload in findings.headline:
        return findings.headline[workload]
    present = {
        name
        for c in findings.curves
        if c.workload == workload
        for point in c.points
        for name in point.metrics
    }
    return next((name for name in _USUAL if name in present), min(present, default=None))


def best_heading(mains: Iterable[str | None]) -> str:
    """Return the heading of a column with the best value of the main metrics."""
    return "best rate" if all(name is None or is_rate(name) for name in mains) else "best value"


def provenances(text: str) -> list[str]:
    """Return the words of a provenance that may be several: `measured + emulated`."""
    return [word.strip() for word in text.replace("+", ",").split(",") if word.strip()]


def axis_noun(curve: Curve) -> str:
    """Return `slot`, or `client` where several nodes, or several clients per job, make the load."""
    return curve.axis.removesuffix("s")


def axis_title(curves: Iterable[Curve]) -> str:
    """Return the title of the load axis."""
    return (
        "Clients (nodes × slots)"
        if any(c.axis == "clients" for c in curves)
        else "Job slots in use"
    )


def storage_of(curve: Curve) -> str:
    """Return the target in words."""
    return curve.storage or curve.target


def choice_words(curve: Curve, among: Iterable[Curve]) -> str:
    """Return what distinguishes a curve from others of its target, in words: `xfs, scheduler
    bfq`; empty when nothing does."""
    names = [name for name in varied(among) if curve.levels.get(name) is not None]
    return ", ".join(curve.words.get(name) or levels_text(curve.levels, [name]) for name in names)


ANY = "any number"
"""An interval of numbers without bounds."""


def range_text(
    low: int | None, high: int | None, smallest: int, *, open_above: bool = False
) -> str:
    """Return an interval of numbers tried: `2 – 6`, `2 or more`, `fewer than 4`.

    It is empty when not known. A `low` of 0 means below the smallest number tried.
    """
    if low is None and high is None:
        return ""
    if not low:
        if open_above or high is None:
            return ANY
        return f"fewer than {smallest}" if high == 0 else f"up to {high}"
    return f"{low} or more" if open_above or high is None else f"{low} – {high}"


def fed_interval(fed: SlotsFed) -> str:
    """Return the interval of the slots fed, where it adds information to the number itself;
    empty without repeats."""
    if fed.high == 0 or (fed.censored and fed.low == fed.slots):
        return ""
    return range_text(fed.low, fed.high, fed.smallest, open_above=fed.open_above)


def untried_text(failed_above: Sequence[int], noun: str) -> str:
    """Return what is known above the largest number with a valid trial: it was not tried, or no
    trial of it counts."""
    if not failed_above:
        return "more were not tried"
    return f"no trial with {', '.join(map(str, failed_above))} {noun}s is valid"


def fed_words(fed: SlotsFed, noun: str) -> str:
    """Return the same with what is counted: `2 – 6 slots`, `any number of slots`."""
    interval = fed_interval(fed)
    return f"{interval}{' of' if interval == ANY else ''} {noun}s"


def knee_interval(found: Knee | Growth) -> str:
    """Return the interval of a knee; empty without repeats."""
    return range_text(found.low, found.high, found.low or 0)


def knee_text(found: Knee | Growth, at: int, noun: str) -> str:
    """Return `at 4 slots (2 – 6), then level`; says so when no two numbers differ significantly."""
    if found.difference_seen is False:
        return "no difference seen"
    interval = knee_interval(found)
    return f"at {plural(at, noun)}{f' ({interval})' if interval else ''}, then {found.beyond}"


def cost_text(cost: Estimate) -> str:
    """Return a cost with its interval: `12.9 % (9.9 – 15.9)`, as exact as each other."""
    shown = ShownMetric("cost_of_wrong", "Cost of the wrong choice", "%", 0.01)
    interval = interval_text(cost, shown)
    if not interval:
        return percent(cost.value)
    return f"{value_text(cost, shown)}{NARROW_SPACE}% ({interval})"


def detectable_text(detectable: float | None) -> str:
    """Return the smallest detectable difference, as a clause; empty when it is not known."""
    if detectable is None:
        return ""
    if detectable == 0:
        return "it is the same in every trial"
    if not detectable < 10:
        return "only a difference of more than tenfold would have been seen"
    return f"a difference of {percent(detectable)} would have been seen 4 times in 5"


def provenance_of(curve: Curve) -> str:
    """Return the provenance of a curve's points: one word, or several when they differ."""
    return curve.provenance or " + ".join(sorted({point.provenance for point in curve.points}))


LEFT_OUT = ("invalid", "failed", "unsupported", "damaged")
"""Why a trial is left out, in the order of sentences."""


def trials_sentence(findings: Findings) -> str:
    """Return how much of the plan these findings use."""
    text = f"{findings.trials_done} of {findings.trials_planned} planned trials done"
    if not findings.plan_known:
        done = plural(findings.trials_done, "trial")
        text = f"{done} done, and the plan cannot be read: how many are missing is not known"
    counts = {
        status: sum(1 for left in findings.left_out if left.status == status) for status in LEFT_OUT
    }
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    if parts:
        text += f"; left out of every finding: {', '.join(parts)}."
    else:
        text += "; all of them count." if findings.trials_done else "."
    if findings.retried:
        # Readers must know about earlier, invalid attempts.
        attempts = plural(findings.retried, "invalid record")
        text += (
            f" {attempts} of earlier attempts at them "
            f"{'is' if findings.retried == 1 else 'are'} in retried/."
        )
    return text


def confidence_text(findings: Findings) -> str:
    """Return the confidence as text: `95 %`."""
    return percent(findings.confidence)


def limit_name(kind: str) -> str:
    """Return a kind of limit in words."""
    return kind.replace("cpu", "CPU")


def limit_text(point: Point) -> str:
    """Return kind and share of a limit: `device latency (61 %)`."""
    return f"{limit_name(point.limit.kind)} ({percent(point.limit.share)})"
