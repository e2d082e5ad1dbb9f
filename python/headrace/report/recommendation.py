"""The first thing that a report says: one recommendation, its reason, its doubts, what comes next.

Everything is said in other words further below; here it is one decision for one reader.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.analysis.curves import Family, family_of
from headrace.analysis.findings import Curve, FactorEffect, Findings, Growth, SlotsFed
from headrace.analysis.ranking import peak
from headrace.metrics.shown import show
from headrace.report import interference
from headrace.report.answers import Answer, answers, rate_figure, spared
from headrace.report.choices import cost_sentence
from headrace.report.numbers import percent
from headrace.report.wording import (
    LEFT_OUT,
    LevelNames,
    axis_noun,
    beyond_text,
    choice_words,
    cost_text,
    factor_text,
    fed_interval,
    fed_words,
    main_metric,
    plural,
    provenances,
    storage_of,
    untried_text,
)


@dataclass(frozen=True)
class Recommendation:
    """What to do, and how sure that is."""

    action: str
    """One sentence."""
    reason: str
    doubts: tuple[str, ...]
    interfered: str
    """What disturbed the trials, as one sentence."""
    measure_next: tuple[str, ...]
    curve: Curve
    """The curve that shows it."""
    metric: str | None
    """The metric that the curve shows."""


def recommendation(findings: Findings) -> Recommendation | None:
    """Return the recommendation; None without a valid trial.

    It is about the workload whose storage has a choice, the first one of the study; where there
    is nothing to choose, about the workload that feeds the fewest slots.
    """
    answer = _leading(findings)
    if answer is None:
        return None
    metric = main_metric(findings, answer.workload)
    mine = _of_workload(findings, answer.best)
    curve = _feeding_most(answer.best, mine)
    return Recommendation(
        action=_action(curve, mine, metric),
        reason=_reason(findings, curve, mine, metric),
        doubts=tuple(_doubts(findings, curve, mine)),
        interfered=_interfered(findings),
        measure_next=tuple(_next(findings, curve, mine)),
        curve=curve,
        metric=metric,
    )


def _leading(findings: Findings) -> Answer | None:
    found = answers(findings)
    first: dict[str, Answer] = {}
    for answer in found:
        first.setdefault(answer.workload, answer)
    best = list(first.values())
    chosen = [each for each in best if len(_of_workload(findings, each.best)) > 1]
    if chosen or not best:
        return chosen[0] if chosen else None
    fed = [each for each in best if each.best.slots_fed is not None]
    return min(fed, key=lambda each: _slots(each.best), default=best[0])


def _slots(curve: Curve) -> int:
    return curve.slots_fed.slots if curve.slots_fed is not None else 0


def _of_workload(findings: Findings, curve: Curve) -> list[Curve]:
    """Return one curve of each storage and combination of choices of a workload, best first."""
    found: dict[Family, Curve] = {}
    for each in spared(findings.curves):
        if each.workload == curve.workload and each.points:
            found.setdefault(family_of(each), each)
    return list(found.values())


def _feeding_most(best: Curve, mine: list[Curve]) -> Curve:
    """Return the curve that feeds the most slots, of the best one and those that share the first
    rank with it: where no difference in the rate is seen, the job efficiency decides."""
    if best.rank != 1 or not best.alike:
        return best
    first = [each for each in mine if each.rank == 1 and each.provenance == best.provenance]
    return max(first, key=_slots, default=best)


def _action(curve: Curve, mine: list[Curve], metric: str | None) -> str:
    words = choice_words(curve, mine) if len(mine) > 1 else ""
    storage = f"{storage_of(curve)}{f' with {words}' if words else ''}"
    noun, fed = axis_noun(curve), curve.slots_fed
    if fed is not None and fed.slots:
        run = f"run {plural(fed.slots, noun)} of {curve.workload}"
        more = f"; {untried_text(fed.failed_above, noun)}" if fed.censored else ", no more"
        return f"Take {storage}, and {run}{more}." if words or len(mine) > 1 else (
            f"{run[0].upper()}{run[1:]} on {storage}{more}."
        )  # fmt: skip
    if len(mine) > 1:
        return f"Take {storage} for {curve.workload}."
    if curve.growth is not None:
        return f"Plan with {_clients(curve.growth)} of {curve.workload} on {storage}."
    if fed is not None:
        jobs = plural(fed.smallest, noun)
        return f"{storage} does not feed {jobs} of {curve.workload}: jobs wait too long."
    best = peak(curve, metric)
    at = f" with {plural(best.load, noun)}" if best is not None else ""
    return f"Run {curve.workload} on {storage}{at}."


def _clients(growth: Growth) -> str:
    return plural(growth.enough, "client")


def _reason(findings: Findings, curve: Curve, mine: list[Curve], metric: str | None) -> str:
    parts = [_rate(curve, metric)]
    fed = curve.slots_fed
    if fed is not None and not fed.censored:
        kept = (
            f"jobs keep {percent(fed.efficiency)} efficiency up to {fed.slots} of them; beyond, "
            if fed.slots
            else f"no number of {axis_noun(curve)}s keeps {percent(fed.efficiency)} efficiency: "
        )
        parts.append(_sentence(f"{kept}{beyond_text(fed.why)}"))
    costs = [each for each in findings.combined if each.workload == curve.workload and each.seen]
    if costs and len(mine) > 1:
        most = max(costs, key=lambda each: each.cost.value)
        parts.append(f"The worst choice costs {cost_text(most.cost)}.")
    elif len(mine) > 1:
        parts.append(_cost_of_a_level(findings, curve, metric))
    return " ".join(filter(None, parts))


def _rate(curve: Curve, metric: str | None) -> str:
    """Return the rate at the load that is recommended, otherwise at the best one."""
    best, fed = peak(curve, metric), curve.slots_fed
    if metric is None or best is None:
        return ""
    if fed is not None and fed.slots:
        at_fed = [p for p in curve.points if p.load == fed.slots and metric in p.metrics]
        best = at_fed[0] if at_fed else best
    figure = rate_figure(metric, best.metrics[metric])
    interval = f" ({figure.interval})" if figure.interval else ""
    at = plural(best.load, axis_noun(curve))
    return f"At {at} the {show(metric).within} is {figure.text} {figure.unit}{interval}."


def _cost_of_a_level(findings: Findings, curve: Curve, metric: str | None) -> str:
    """Return what the wrong level of the strongest factor costs; empty when none is seen, and of
    factors whose wrong level is recommended, which are doubts."""
    effects = [each for each in _effects(findings, curve, metric) if not _takes_worst(curve, each)]
    if not effects:
        return ""
    strongest = max(effects, key=lambda each: each.cost_of_wrong.value)
    return cost_sentence(strongest, LevelNames.of(findings))


def _effects(findings: Findings, curve: Curve, metric: str | None) -> list[FactorEffect]:
    """Return the factors whose effect on the curve's workload is seen."""
    return [
        each
        for each in findings.effects
        if each.seen and each.workload == curve.workload and each.metric == metric
    ]


def _takes_worst(curve: Curve, effect: FactorEffect) -> bool:
    """Return whether the curve has a level that is the worst one over all other settings."""
    level, worst = _level(curve, effect), (effect.worst, *effect.alike_worst)
    return level in worst and level != effect.best and level not in effect.alike_best


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _doubts(findings: Findings, curve: Curve, mine: list[Curve]) -> list[str]:
    """Return what makes the recommendation less certain, the gravest first."""
    found: list[str] = []
    words = provenances(curve.provenance or " + ".join(findings.provenance))
    if "simulated" in words:
        found.append("No real job ran: the numbers are simulated.")
    if "emulated" in words:
        found.append("The drive is a model: real jobs ran on an emulated drive.")
    if all(len(point.trials) == 1 for point in curve.points):
        found.append("One trial of each: no difference can be distinguished from chance.")
    elif len(mine) > 1 and curve.alike:
        found.append(
            f"No difference is seen to {curve.alike} of {len(mine) - 1} other combinations: the "
            f"cheapest of them may do as well{_worse_words(findings, curve, mine)}."
        )
    if len(mine) > 1:
        metric, names = main_metric(findings, curve.workload), LevelNames.of(findings)
        found += [
            f"Over all other settings the other level is better: {cost_sentence(each, names)}"
            for each in _effects(findings, curve, metric)
            if _takes_worst(curve, each)
        ]
    fed = curve.slots_fed
    if fed is not None and _is_unsure(fed):
        found.append(f"The intervals allow {fed_words(fed, axis_noun(curve))}.")
    if fed is not None and fed.why == "cpu contention":
        found.append("The CPUs set the limit, not the storage.")
    note = interference.note(findings, curve.target, curve.workload)
    if note:
        found.append(f"{note[:1].upper()}{note[1:]}")
    others = [each for each in _others(findings, curve) if each.target != curve.target]
    if others:
        said = ", ".join(f"{storage_of(each)} for {each.workload}" for each in others[:3])
        found.append(f"Other workloads want other storage: {said}.")
    return found


def _worse_words(findings: Findings, curve: Curve, mine: list[Curve]) -> str:
    """Return the levels of combinations without a seen difference to the curve that the effects of
    factors, over all trials, show to be worse: `, but not those with drive a or b …`."""
    metric, names = main_metric(findings, curve.workload), LevelNames.of(findings)
    alike = [each for each in mine if each.rank == 1 and each is not curve]
    worse: list[str] = []
    for effect in _effects(findings, curve, metric):
        level = _level(curve, effect)
        if level == effect.best:
            levels = [e.level for e in effect.levels if e.level not in (level, *effect.alike_best)]
        elif level in effect.alike_best and level not in effect.alike_worst:
            levels = [effect.worst]
        else:
            levels = []
        having = [_level(each, effect) for each in alike]
        shown = [names.level(effect, each) for each in levels if each in having]
        if shown:
            worse.append(f"{factor_text(effect.factor)} {' or '.join(shown)}")
    if not worse:
        return ""
    return f", but not those with {', '.join(worse)}: over all trials they are worse"


def _level(curve: Curve, effect: FactorEffect) -> object:
    return curve.target if effect.factor == "target" else curve.levels.get(effect.factor)


def _is_unsure(fed: SlotsFed) -> bool:
    """Whether the intervals allow other numbers of slots."""
    return bool(fed_interval(fed)) and not fed.low == fed.slots == fed.high


def _others(findings: Findings, curve: Curve) -> list[Curve]:
    """Return the best curve of each other workload."""
    first: dict[str, Curve] = {}
    for each in spared(findings.curves):
        if each.points and each.workload != curve.workload:
            first.setdefault(each.workload, each)
    return list(first.values())


def _interfered(findings: Findings) -> str:
    statuses = [left.status for left in findings.left_out]
    parts = [f"{statuses.count(status)} {status}" for status in LEFT_OUT if status in statuses]
    left = f"{plural(len(statuses), 'trial')} left out ({', '.join(parts)})" if parts else ""
    warned = sum(len(each.warned) for each in findings.interference)
    other = f"other programs ran during {plural(warned, 'trial')} that count" if warned else ""
    said = "; ".join(filter(None, (left, other)))
    return _sentence(said) if said else "Nothing: no trial is left out, and none was disturbed."


def _next(findings: Findings, curve: Curve, mine: list[Curve]) -> list[str]:
    """Return what to measure next, the most informative first."""
    found: list[str] = []
    noun, loads = axis_noun(curve), sorted({point.load for point in curve.points})
    fed = curve.slots_fed
    if fed is not None and fed.failed_above and fed.slots:
        loads_again = ", ".join(map(str, fed.failed_above))
        found.append(f"{loads_again} {noun}s again: no trial with them is valid.")
    elif fed is not None and fed.censored and fed.slots:
        more = f"{2 * fed.slots} and {4 * fed.slots} {noun}s"
        are = "is" if fed.slots == 1 else "are"
        found.append(f"More {noun}s: {fed.slots} {are} still fed. Try {more}.")
    elif fed is not None and not fed.slots and fed.smallest > 1:
        found.append(f"Fewer than {fed.smallest} {noun}s.")
    elif fed is not None and fed.slots:
        above = next((load for load in loads if load > fed.slots), fed.slots)
        if above - fed.slots > 1:
            found.append(f"Numbers of {noun}s between {fed.slots} and {above}.")
    if fed is not None and _is_unsure(fed):
        found.append(f"More repeats: the intervals allow {fed_words(fed, noun)}.")
    if curve.growth is not None and curve.growth.difference_seen is False:
        first, last = curve.growth.clients[0], plural(curve.growth.clients[-1], noun)
        found.append(f"More repeats: no difference is seen between {first} and {last}.")
    elif curve.growth is not None and curve.growth.beyond == "untried":
        most, several = curve.growth.clients[-1], len(curve.growth.clients) > 1
        why = "the rate still grows" if several else f"no other number of {noun}s was tried"
        found.append(f"More than {plural(most, noun)}: {why}.")
    if any(left.status == "invalid" for left in findings.left_out):
        found.append("The invalid trials again, undisturbed: headrace resume … --retry-invalid.")
    if any(left.status == "damaged" for left in findings.left_out):
        found.append("The trials with a damaged record again: headrace resume.")
    if all(len(point.trials) == 1 for point in curve.points):
        found.append("Each cell at least three times: [plan] repeats.")
    elif len(mine) > 1 and curve.alike:
        found.append(
            "More repeats of the combinations without a seen difference: fewer cells, more trials."
        )
    if "simulated" in provenances(curve.provenance):
        found.append("The best few cells with real jobs: headrace screen writes that study.")
    return found or ["Nothing is open: the answer holds within its interval."]
