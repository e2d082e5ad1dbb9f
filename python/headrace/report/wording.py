"""Sentences: what the findings answer, in plain words. Used by every format, so that all say the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from headrace.analysis.curves import CLIENT_FACTORS
from headrace.analysis.findings import Combined, Curve, FactorEffect, Findings, Growth, LimitKind, Point
from headrace.report.metrics import less_is_better, metric, number, percent, value_text

LEDGER = ("on_cpu", "wait_cpu", "wait_block", "wait_network", "other")
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
    "cache": "jobs are fed by the page cache",
    "idle": "slots stand idle",
    "unknown": "what jobs wait for is not known",
}


@dataclass(frozen=True)
class Answer:
    """What one storage and workload can do: the best of its curves, in words."""

    target: str
    workload: str
    big: str
    """The number of slots fed as a short text: `6`, `≥ 8`, `0`; the highest rate of a workload that loads the storage; `–` without either."""
    unit: str
    """Of `big`."""
    sentence: str
    best: Curve
    others: int
    """Combinations of levels of the same storage and workload that are not better; another number of clients is none."""
    provenance: str


def level_text(level: object) -> str:
    """A level as people write it."""
    if level is None:
        return "–"
    if isinstance(level, bool):
        return "yes" if level else "no"
    if isinstance(level, (list, tuple, dict)):
        return json.dumps(level, default=str)
    return str(level)


def factor_text(factor: str) -> str:
    """A factor's name for people: `read_ahead` is `read-ahead`."""
    return factor.replace("_", "-")


def levels_text(levels: Mapping[str, Any], only: Iterable[str] | None = None) -> str:
    """`filesystem xfs, read-ahead 128 KiB`; factors that do not apply are left away."""
    names = list(levels) if only is None else [name for name in only if name in levels]
    return ", ".join(
        f"{factor_text(name)} {level_text(levels[name])}" for name in names if levels[name] is not None
    )


def plural(count: int, word: str) -> str:
    """`1 slot`, `2 slots`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def beyond_text(why: str) -> str:
    """What limits the next slot, as a clause; `why` is a kind of limit or a sentence of the analysis."""
    if why in get_args(LimitKind):
        return _LIMITS[why]
    return why.rstrip(".")


def varied(curves: Iterable[Curve]) -> list[str]:
    """Factors (without target and workload) that have more than one level over these curves."""
    seen: dict[str, set[str]] = {}
    for curve in curves:
        for name, level in curve.levels.items():
            if name not in ("target", "workload", "slots"):
                seen.setdefault(name, set()).add(level_text(level))
    return [name for name, levels in seen.items() if len(levels) > 1]


_USUAL = ("events_per_s", "asked_bytes_per_s", "device_bytes_per_s", "iops", "throughput_jobs", "efficiency")


def main_metric(findings: Findings, workload: str) -> str | None:
    """The metric that 'best' is about for a workload: what the findings say, else the first usual one that it has."""
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


def provenances(text: str) -> list[str]:
    """The words of a provenance that may be several: `measured + emulated`."""
    return [word.strip() for word in text.replace("+", ",").split(",") if word.strip()]


def peak(curve: Curve, name: str | None) -> Point | None:
    """The point with the best value of a metric; None without it."""
    having = [point for point in curve.points if name is not None and name in point.metrics]
    if name is None or not having:
        return None
    return (min if less_is_better(name) else max)(having, key=lambda point: point.metrics[name].value)


def rank(curve: Curve, name: str | None) -> tuple[int, float]:
    """Sort key, greatest best: slots fed first, then the best value of the main metric."""
    at = peak(curve, name)
    sign = -1 if name is not None and less_is_better(name) else 1
    reached = float("-inf") if at is None or name is None else at.metrics[name].value * sign
    return (-1 if curve.slots_fed is None else curve.slots_fed.slots, reached)


def _storage(curve: Curve) -> str:
    """What was tried, as a name: of a workload that loads the storage, another number of clients is nothing else."""
    left = () if curve.growth is None else CLIENT_FACTORS
    levels = {name: level for name, level in curve.levels.items() if name not in left}
    return json.dumps([curve.target, curve.workload, levels, curve.provenance], sort_keys=True, default=str)


def _choices(curves: Iterable[Curve]) -> list[str]:
    """Factors that make another storage of these curves of one target and workload."""
    curves = list(curves)
    loading = any(curve.growth is not None for curve in curves)
    return [name for name in varied(curves) if not loading or name not in CLIENT_FACTORS]


def by_clients(curve: Curve, curves: Iterable[Curve]) -> Curve:
    """A curve of a workload that loads the storage, with the points of all that differ from it in nodes and clients alone, by rising
    clients; any other curve as it is."""
    if curve.growth is None:
        return curve
    mine = [other for other in curves if (other.workload, other.target) == (curve.workload, curve.target)]
    points = [point for other in mine if _storage(other) == _storage(curve) for point in other.points]
    words = [f"{curve.workload} on {curve.target}", levels_text(curve.levels, _choices(mine))]
    points.sort(key=lambda point: (point.clients, point.slots))
    return replace(curve, label=", ".join(word for word in words if word), points=tuple(points))


def _not_storage(why: str) -> str:
    # The number would otherwise be read as the storage's fault.
    return " (the CPUs set this limit, not the storage)" if why == "cpu contention" else ""


def _growth_sentence(curve: Curve, growth: Growth, condition: str) -> str:
    highest, last = max(growth.rates), growth.clients[-1]
    shown = metric(growth.metric, highest)

    def rate(value: float) -> str:
        return f"{number(value / shown.divisor)} {shown.unit}".strip()

    clients = plural(growth.enough, "client")
    gives = f"{curve.target} gives {curve.workload} {rate(highest)}"
    note = f" with {condition}" if condition else ""
    if len(growth.clients) == 1:
        said = f"{gives}{note} at {clients}; no other number of clients was tried."
    elif growth.beyond == "untried":
        said = f"{gives}{note} at {clients}, the most that were tried: the rate still grows with them."
    else:
        reach = "reaches" if growth.enough == 1 else "reach"
        then = (
            f"with {last} it falls to {rate(growth.rates[-1])}"
            if growth.beyond == "falls"
            else f"more add nothing (up to {last} were tried)"
        )
        said = f"{gives} at most{note}: {clients} {reach} it, {then}."
    if growth.why in ("unknown", "idle"):
        return said
    theirs = " (the clients set this limit, not the storage)" if growth.why.startswith("cpu") else ""
    return f"{said} At {clients}, {beyond_text(growth.why)}{theirs}."


def _sentence(curve: Curve, rate: str | None, condition: str) -> tuple[str, str]:
    fed = curve.slots_fed
    where = f"{curve.target} feeds"
    verb_note = "" if not condition else f" with {condition}"
    if fed is None:
        best = peak(curve, rate)
        if best is None or rate is None:
            return "–", f"{curve.target} has no valid trial of {curve.workload}."
        shown = metric(rate, best.metrics[rate].value)
        value = f"{value_text(best.metrics[rate], shown)} {shown.unit}".strip()
        return (
            "–",
            f"{curve.target} gives {curve.workload} {value} at {plural(best.slots, 'slot')}{verb_note}.",
        )
    bound = percent(fed.efficiency)
    if fed.censored:
        return f"≥{fed.slots}", (
            f"{where} at least {plural(fed.slots, 'slot')} of {curve.workload} at {bound} job efficiency{verb_note}; "
            "more were not tried."
        )
    if fed.slots == 0:
        first = curve.points[0] if curve.points else None
        reached = ""
        if first is not None and "efficiency" in first.metrics:
            value = first.metrics["efficiency"].value
            # Just below the bound must not read like the bound.
            shown = percent(value) if percent(value) != bound else percent(value, 3)
            reached = f"with {plural(first.slots, 'slot')} it is {shown}, and "
        return "0", (
            f"{where} no slot of {curve.workload} at {bound} job efficiency{verb_note}: {reached}{beyond_text(fed.why)}"
            f"{_not_storage(fed.why)}."
        )
    return str(fed.slots), (
        f"{where} {plural(fed.slots, 'slot')} of {curve.workload} at {bound} job efficiency{verb_note}; "
        f"beyond, {beyond_text(fed.why)}{_not_storage(fed.why)}."
    )


def provenance_of(curve: Curve) -> str:
    """The provenance of a curve's points: one word, or several when they differ."""
    return curve.provenance or " + ".join(sorted({point.provenance for point in curve.points}))


def answers(findings: Findings) -> list[Answer]:
    """One answer for each storage and workload, best storage first within a workload."""
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in findings.curves:
        groups.setdefault((curve.workload, curve.target), []).append(curve)
    found: list[Answer] = []
    for (workload, target), curves in groups.items():
        rate = main_metric(findings, workload)
        best = max(curves, key=lambda c: rank(c, rate))
        condition = levels_text(best.levels, _choices(curves)) if len(curves) > 1 else ""
        if best.growth is not None:
            shown = metric(best.growth.metric, max(best.growth.rates))
            big, unit = number(max(best.growth.rates) / shown.divisor), shown.unit
            sentence = _growth_sentence(best, best.growth, condition)
        else:
            big, sentence = _sentence(best, rate, condition)
            unit = "" if big == "–" else "slot" if big == "1" else "slots"
        others = len({_storage(curve) for curve in curves}) - 1
        found.append(Answer(target, workload, big, unit, sentence, best, others, provenance_of(best)))
    order = {workload: index for index, workload in enumerate(dict.fromkeys(a.workload for a in found))}
    return sorted(
        found,
        key=lambda a: (order[a.workload], tuple(-x for x in rank(a.best, main_metric(findings, a.workload)))),
    )


def _strength(effect: FactorEffect) -> float:
    return effect.cost_of_wrong.value


def choice_sentences(findings: Findings) -> list[str]:
    """What a wrong choice costs: the strongest factor of each workload and metric, and all of them together."""
    sentences: list[str] = []
    for combined in findings.combined:
        sentences.append(combined_sentence(combined))
    groups: dict[tuple[str, str], list[FactorEffect]] = {}
    for effect in findings.effects:
        if effect.factor != "slots":
            groups.setdefault((effect.workload, effect.metric), []).append(effect)
    for (workload, name), effects in groups.items():
        strongest = max(effects, key=_strength)
        if strongest.cost_of_wrong.low is not None and strongest.cost_of_wrong.low <= 0:
            sentences.append(
                f"No factor other than slots is seen to change the {metric(name).within} of {workload}: all intervals include zero."
            )
            continue
        sentences.append(
            f"What matters most for the {metric(name).within} of {workload} is {factor_text(strongest.factor)}: "
            f"{level_text(strongest.worst)} instead of {level_text(strongest.best)} costs {percent(strongest.cost_of_wrong.value)}."
        )
    return sentences


def differing(combined: Combined) -> list[str]:
    """Factors in which best and worst differ."""
    return [name for name in combined.best if combined.best[name] != combined.worst.get(name)]


def combined_sentence(combined: Combined) -> str:
    """Best against worst over all factors together."""
    differ = differing(combined)
    where = f" on {combined.target}" if combined.target else ""
    return (
        f"For {combined.workload}{where} at {plural(combined.slots, 'slot')}, the worst choice "
        f"({levels_text(combined.worst, differ) or 'same levels'}) against the best ({levels_text(combined.best, differ) or 'same levels'}) "
        f"costs {percent(combined.cost.value)} of the {metric(combined.metric).within}."
    )


def trials_sentence(findings: Findings) -> str:
    """How much of the plan these findings rest on."""
    text = f"{findings.trials_done} of {findings.trials_planned} planned trials done"
    counts = {
        status: sum(1 for left in findings.left_out if left.status == status)
        for status in ("invalid", "failed", "unsupported")
    }
    parts = [f"{count} {status}" for status, count in counts.items() if count]
    return (
        f"{text}; left out of every finding: {', '.join(parts)}." if parts else f"{text}; all of them count."
    )


def confidence_text(findings: Findings) -> str:
    """`95 %`."""
    return percent(findings.confidence)


def limit_name(kind: str) -> str:
    """A kind of limit as people write it."""
    return kind.replace("cpu", "CPU")


def limit_text(point: Point) -> str:
    """Kind and share: `device latency (61 %)`."""
    return f"{limit_name(point.limit.kind)} ({percent(point.limit.share)})"
