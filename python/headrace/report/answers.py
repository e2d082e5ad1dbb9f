"""The answers of a report: what each storage achieves, in words, shared by all formats."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headrace.analysis.curves import choices, family_of, is_load
from headrace.analysis.faults import is_spared
from headrace.analysis.findings import (
    Curve,
    Estimate,
    Findings,
    Growth,
    Point,
    SlotsFed,
    Unanswered,
)
from headrace.analysis.naming import varied_factors
from headrace.analysis.ranking import peak
from headrace.metrics import less_is_better
from headrace.metrics.shown import show, spoken
from headrace.report import interference
from headrace.report.numbers import interval_text, number, percent, value_text
from headrace.report.wording import (
    axis_noun,
    beyond_text,
    choice_words,
    confidence_text,
    fed_interval,
    knee_interval,
    level_text,
    main_metric,
    plural,
    provenance_of,
    storage_of,
    untried_text,
    varied,
)

IN_FULL = 6
"""With more storages and workloads than this, only the best storage of each workload gets a
sentence; tables show all."""


@dataclass(frozen=True)
class AnswerNumber:
    """One number of an answer, with its unit and its interval as text."""

    text: str
    unit: str
    interval: str = ""


@dataclass(frozen=True)
class Answer:
    """What one storage achieves for one workload: its best curve, in words."""

    target: str
    workload: str
    storage: str
    figures: tuple[AnswerNumber, ...]
    """Known numbers, the most informative first: slots fed, and the highest rate."""
    sentence: str
    best: Curve
    others: int
    """Number of further combinations of choices of the same storage and workload."""
    provenance: str


def answers(findings: Findings) -> list[Answer]:
    """Return one answer for each storage and workload with a valid trial, the best storage of a
    workload first."""
    groups: dict[tuple[str, str], list[Curve]] = {}
    for curve in spared(findings.curves):
        if curve.points:
            groups.setdefault((curve.workload, curve.target), []).append(curve)
    confidence = confidence_text(findings)
    return [
        _with_note(_answer(curves, main_metric(findings, workload), confidence), findings)
        for (workload, _), curves in groups.items()
    ]


def spared(curves: Iterable[Curve]) -> list[Curve]:
    """Return the curves without a fault, and those of workloads that have no such curve."""
    curves = list(curves)
    having = {curve.workload for curve in curves if is_spared(curve.levels)}
    return [each for each in curves if is_spared(each.levels) or each.workload not in having]


def _with_note(answer: Answer, findings: Findings) -> Answer:
    """Return the answer with a note on the time that other programs may have cost."""
    note = interference.note(findings, answer.target, answer.workload)
    return replace(answer, sentence=f"{answer.sentence} {note}") if note else answer


def leading(found: list[Answer]) -> list[Answer]:
    """Return the answers shown as sentences: all when they are few, otherwise the best of each
    workload."""
    if len(found) <= IN_FULL:
        return found
    first: dict[str, Answer] = {}
    for answer in found:
        first.setdefault(answer.workload, answer)
    return [
        replace(answer, sentence=answer.sentence + _place(answer, found))
        for answer in first.values()
    ]


def _place(answer: Answer, found: list[Answer]) -> str:
    """Return a sentence that ranks the best storage of a workload among the others."""
    mine = [other for other in found if other.workload == answer.workload]
    if len(mine) < 2 or answer.best.rank is None:
        return ""
    if answer.best.alike:
        return (
            f" No difference is seen to {plural(answer.best.alike, 'other combination')} of "
            "this workload."
        )
    return f" It is the best of {len(mine)} storages."


def _answer(curves: list[Curve], rate: str | None, confidence: str) -> Answer:
    # Curves are sorted best first.
    best = curves[0]
    combinations = {_combination(curve) for curve in curves}
    condition = choice_words(best, curves) if len(combinations) > 1 else ""
    with_note = f" with {condition}" if condition else ""
    if best.growth is not None:
        sentence = _growth_sentence(best, best.growth, with_note, confidence)
    elif best.slots_fed is not None:
        family = [curve for curve in curves if _combination(curve) == _combination(best)]
        sentence = _fed_sentence(family, best.slots_fed, with_note, confidence)
        if rate is not None and less_is_better(rate):
            sentence += _lowest_sentence(best, rate, confidence)
    else:
        sentence = _rate_sentence(best, rate, with_note, confidence)
    return Answer(
        best.target,
        best.workload,
        storage_of(best),
        _figures(best, rate),
        sentence,
        best,
        len(combinations) - 1,
        provenance_of(best),
    )


def _combination(curve: Curve) -> str:
    """Return the combination of choices as text; curves that differ only in load have the same."""
    return json.dumps([choices(curve.levels), curve.provenance], sort_keys=True, default=str)


def _figures(curve: Curve, rate: str | None) -> tuple[AnswerNumber, ...]:
    """Return slots fed and the highest rate, where known; the number that is more informative
    comes first."""
    found: list[AnswerNumber] = []
    best = peak(curve, rate)
    if rate is not None and best is not None:
        found.append(rate_figure(rate, best.metrics[rate]))
    fed = curve.slots_fed
    if fed is not None:
        noun = axis_noun(curve)
        if fed.slots:
            text = f"≥{fed.slots}" if fed.censored else str(fed.slots)
            found.insert(
                0,
                AnswerNumber(text, f"{noun if text == '1' else noun + 's'} fed", fed_interval(fed)),
            )
        else:
            # Fewer than the smallest number tried is only a bound: the rate is more informative.
            found.append(
                AnswerNumber(
                    f"<{fed.smallest}", f"{noun} fed" if fed.smallest == 1 else f"{noun}s fed"
                )
            )
    return tuple(found)


def rate_figure(name: str, estimate: Estimate) -> AnswerNumber:
    """Return a metric's value with its unit: `2.5`, `M events/s`."""
    shown = spoken(name, estimate.value)
    # Without scatter, as simulated, an interval adds nothing.
    interval = "" if estimate.low == estimate.high else interval_text(estimate, shown)
    return AnswerNumber(value_text(estimate, shown), shown.unit or shown.title, interval)


def _not_storage(why: str) -> str:
    # Otherwise readers would attribute the limit to the storage.
    return " (the CPUs set this limit, not the storage)" if why == "cpu contention" else ""


def _fed_sentence(family: list[Curve], fed: SlotsFed, with_note: str, confidence: str) -> str:
    curve = family[0]
    noun = axis_noun(curve)
    where = f"{storage_of(curve)} feeds"
    what = f"of {curve.workload} at {percent(fed.efficiency)} job efficiency{with_note}"
    interval = f" ({confidence} interval: {fed_interval(fed)})" if _worth_saying(fed) else ""
    if fed.censored:
        more = untried_text(fed.failed_above, noun)
        return f"{where} at least {plural(fed.slots, noun)} {what}{interval}; {more}."
    beyond = f"{beyond_text(fed.why)}{_not_storage(fed.why)}"
    if fed.slots:
        return f"{where} {plural(fed.slots, noun)} {what}{interval}; beyond, {beyond}."
    reached = _reached(family, fed, noun)
    return f"{where} fewer than {plural(fed.smallest, noun)} {what}{interval}: {reached}{beyond}."


def _lowest_sentence(curve: Curve, name: str, confidence: str) -> str:
    """Return a sentence with the lowest value of a metric for which less is better."""
    best = peak(curve, name)
    if best is None:
        return ""
    figure = rate_figure(name, best.metrics[name])
    interval = f" ({confidence} interval: {figure.interval})" if figure.interval else ""
    at = plural(best.load, axis_noun(curve))
    return f" Its lowest {show(name).within} is {figure.text} {figure.unit} at {at}{interval}."


def _worth_saying(fed: SlotsFed) -> bool:
    """Return whether the interval is known and adds information to the number itself."""
    return bool(fed_interval(fed)) and not fed.low == fed.slots == fed.high


def _reached(family: list[Curve], fed: SlotsFed, noun: str) -> str:
    points = [point for curve in family for point in curve.points if point.load == fed.smallest]
    value = max(
        (p.metrics["efficiency"].value for p in points if "efficiency" in p.metrics), default=None
    )
    if value is None:
        return ""
    # A value just below the bound must not be rounded to it.
    near = percent(value) == percent(fed.efficiency)
    return f"with {plural(fed.smallest, noun)} it is {percent(value, 3 if near else 2)}, and "


def _rate_sentence(curve: Curve, rate: str | None, with_note: str, confidence: str) -> str:
    best = peak(curve, rate)
    gives = f"{storage_of(curve)} gives {curve.workload}"
    if rate is not None and less_is_better(rate):
        gives = f"{storage_of(curve)} runs {curve.workload} with"
    if best is None or rate is None:
        return f"{storage_of(curve)} runs {curve.workload}; no rate is known."
    figure = rate_figure(rate, best.metrics[rate])
    title = show(rate).within
    wall = best.metrics.get("wall_s")
    job = ""
    if wall is not None and rate != "wall_s":
        job = f"; a job takes {rate_figure('wall_s', wall).text} {rate_figure('wall_s', wall).unit}"
    about = (
        f" ({title}; {confidence} interval: {figure.interval})"
        if figure.interval
        else f" ({title})"
    )
    at = plural(best.load, axis_noun(curve))
    return f"{gives} {figure.text} {figure.unit} at {at}{with_note}{about}{job}."


def _growth_sentence(curve: Curve, growth: Growth, with_note: str, confidence: str) -> str:
    less, last = less_is_better(growth.metric), growth.clients[-1]
    highest = min(growth.rates) if less else max(growth.rates)
    shown = spoken(growth.metric, highest)

    def rate(value: float) -> str:
        return f"{number(value / shown.divisor)} {shown.unit}".strip()

    clients, most = plural(growth.enough, "client"), "least" if less else "most"
    gives = f"{storage_of(curve)} gives {curve.workload} {rate(highest)}"
    if len(growth.clients) == 1:
        other = "no other number of clients was tried"
        if growth.failed_above:
            other = untried_text(growth.failed_above, "client")
        said = f"{gives}{with_note} at {clients}; {other}."
    elif growth.difference_seen is False:
        said = (
            f"{gives} at {most}{with_note}: no difference is seen between {growth.clients[0]} "
            f"and {last} clients."
        )
    elif growth.beyond == "untried":
        tried = "the most with a valid trial" if growth.failed_above else "the most that were tried"
        said = (
            f"{gives}{with_note} at {clients}, {tried}: the "
            f"{shown.within if less else 'rate'} still {'falls' if less else 'grows'} with them."
        )
    else:
        reach = "reaches" if growth.enough == 1 else "reach"
        interval = knee_interval(growth)
        unsure = (
            ""
            if not interval or growth.low == growth.high
            else f" ({confidence} interval: {interval})"
        )
        then = (
            f"with {last} it {growth.beyond} to {rate(growth.rates[-1])}"
            if growth.beyond in ("falls", "rises")
            else f"more add nothing (up to {last} were tried)"
        )
        said = f"{gives} at {most}{with_note}: {clients} {reach} it{unsure}, {then}."
    if growth.why in ("unknown", "idle", "sleep"):
        return said
    theirs = (
        " (the clients set this limit, not the storage)" if growth.why.startswith("cpu") else ""
    )
    return f"{said} At {clients}, {beyond_text(growth.why)}{theirs}."


def unanswered_sentence(found: Unanswered) -> str:
    """Return a sentence that says why a workload and target has no answer."""
    counts = (
        (found.invalid, "invalid"),
        (found.failed, "failed"),
        (found.unsupported, "unsupported"),
        (found.missing, "not run"),
    )
    parts = ", ".join(f"{count} {word}" for count, word in counts if count)
    said = f"{found.workload} on {found.storage}: no valid trial of {found.planned} ({parts})."
    if not found.reasons:
        return said
    text, count = found.reasons[0]
    more = (
        f" ({plural(count, 'trial')}; further reasons: {len(found.reasons) - 1})"
        if len(found.reasons) > 1
        else ""
    )
    return f"{said[:-1]}: {text}{more}."


def by_clients(curve: Curve, curves: Iterable[Curve]) -> Curve:
    """Return a curve with the points of all curves that differ from it only in load, by rising
    load."""
    among = [other for other in curves if other.workload == curve.workload]
    family = family_of(curve)
    alike = [other for other in among if family_of(other) == family]
    if len(alike) == 1:
        return curve

    def by_load(points: Iterable[Point]) -> tuple[Point, ...]:
        return tuple(sorted(points, key=lambda point: (point.load, point.slots)))

    names = [name for name in varied(among) if name in curve.words and not is_load(name)]
    return replace(
        curve,
        label=(
            f"{curve.workload}: "
            f"{', '.join([storage_of(curve), *(curve.words[name] for name in names)])}"
        ),
        points=by_load(point for other in alike for point in other.points),
        distrusted=by_load(point for other in alike for point in other.distrusted),
    )


def load_columns(points: Sequence[Point]) -> dict[str, list[str]]:
    """Return what distinguishes points of one load, as columns by their headings: slots and nodes
    where both vary, and other load factors that vary."""
    varying = [name for name in varied_factors(point.levels for point in points) if is_load(name)]
    words = {name: name.rpartition(".")[2] for name in varying}
    found: dict[str, list[str]] = {}
    for name, word in words.items():
        levels = [level_text(point.levels.get(name)) for point in points]
        if word == "nodes" and len({point.slots for point in points}) > 1:
            found["slots ×\nnodes"] = [
                f"{point.slots} × {level}" for point, level in zip(points, levels, strict=True)
            ]
        elif word not in ("nodes", "slots"):
            found[word] = levels
    return found
