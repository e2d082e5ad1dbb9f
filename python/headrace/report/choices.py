"""The effect of choices in words, the most important first.

A winner or a cost is named only where a difference is significant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.analysis.findings import Combined, FactorEffect, Findings
from headrace.metrics.shown import show
from headrace.report.wording import (
    LevelNames,
    axis_noun,
    cost_text,
    detectable_text,
    factor_text,
    levels_text,
    main_metric,
    plural,
)

AT_MOST = 6
"""The largest number of sentences; tables show everything."""


@dataclass(frozen=True)
class _Statement:
    text: str
    seen: bool
    main: bool
    """Whether it is about the metric that defines 'best'."""
    cost: float


def choice_sentences(findings: Findings) -> list[str]:
    """Return every sentence about choices, the most important first.

    Significant differences come before others, the headline metric before other metrics, larger
    costs before smaller ones.
    """
    nouns = {curve.workload: axis_noun(curve) for curve in findings.curves}
    seen = {(each.workload, each.metric) for each in findings.effects if each.seen}
    statements = [
        _combined(each, nouns.get(each.workload, "slot"), (each.workload, each.metric) in seen)
        for each in findings.combined
    ]
    names = LevelNames.of(findings)
    groups: dict[tuple[str, str], list[FactorEffect]] = {}
    for effect in findings.effects:
        groups.setdefault((effect.workload, effect.metric), []).append(effect)
    for (workload, name), effects in groups.items():
        statements.append(_strongest(effects, name == main_metric(findings, workload), names))
    statements.sort(key=lambda each: (not each.seen, not each.main, -each.cost))
    return [each.text for each in statements]


def _strongest(effects: list[FactorEffect], main: bool, names: LevelNames) -> _Statement:
    """Return a statement about the strongest factor of one workload and metric, and the others
    that matter."""
    of = f"{show(effects[0].metric).title} of {effects[0].workload}"
    seen = sorted((e for e in effects if e.seen), key=lambda e: e.cost_of_wrong.value, reverse=True)
    if not seen:
        return _Statement(f"{of}: {_none_seen(effects)}", False, main, 0.0)
    first = seen[0]
    most = " most" if len(effects) > 1 else ""
    text = f"{of}: {factor_text(first.factor)} matters{most}. {cost_sentence(first, names)}"
    if len(seen) > 1:
        then = ", ".join(
            f"{factor_text(each.factor)} {cost_text(each.cost_of_wrong)}" for each in seen[1:]
        )
        text += f" Then {then}."
    rest = [factor_text(e.factor) for e in effects if not e.seen]
    if rest:
        text += f" No difference seen for {', '.join(rest)}."
    return _Statement(text, True, main, first.cost_of_wrong.value)


def cost_sentence(effect: FactorEffect, names: LevelNames) -> str:
    """Return the cost of the worst level.

    Levels that do not differ significantly from the best or the worst are named with it.
    """

    def words(levels: Sequence[Any]) -> str:
        return " or ".join(names.level(effect, level) for level in levels)

    between = [level for level in effect.alike_best if level in effect.alike_worst]
    best = [effect.best, *(level for level in effect.alike_best if level not in between)]
    worst = [effect.worst, *(level for level in effect.alike_worst if level not in between)]
    notes: list[str] = []
    if len(best) > 1 or len(worst) > 1:
        notes.append("no difference seen between levels joined by “or”")
    if between:
        notes.append(f"{words(between)}: no difference seen to either")
    note = f" ({'; '.join(notes)})" if notes else ""
    more = " more" if effect.less_is_better else ""
    # A bare number does not say of what.
    of = f"{factor_text(effect.factor)} " if isinstance(effect.worst, int | float) else ""
    return (
        f"{of}{words(worst)} instead of {words(best)} costs "
        f"{cost_text(effect.cost_of_wrong)}{more}{note}."
    )


def _none_seen(effects: list[FactorEffect]) -> str:
    names = ", ".join(factor_text(effect.factor) for effect in effects)
    known = [effect.detectable for effect in effects if effect.detectable is not None]
    if not known:
        return (
            f"with one trial of each, no difference between levels of {names} can be "
            "distinguished from chance."
        )
    said = detectable_text(max(known))
    return f"no difference seen between levels of {names}; {said}."


def combination_names(combined: Combined) -> tuple[str, str]:
    """Return the best and the worst combination in words: what distinguishes them from the
    others compared."""
    differ = [name for name in combined.best if combined.best[name] != combined.worst.get(name)]
    return (
        combined.best_name or levels_text(combined.best, differ),
        combined.worst_name or levels_text(combined.worst, differ),
    )


def _combined(combined: Combined, noun: str, factors_seen: bool) -> _Statement:
    """Return a statement about all combinations of levels. `factors_seen`: whether the effect of a
    factor alone is seen, for which all trials are used."""
    where = f" on {combined.target}" if combined.target else ""
    about = f"{combined.workload}{where} at {plural(combined.slots, noun)}"
    title = show(combined.metric).within
    if combined.cost.low is None:
        text = (
            f"For {about}, with one trial of each, no difference between combinations can "
            "be distinguished from chance."
        )
        return _Statement(text, False, True, 0.0)
    if not combined.seen:
        if factors_seen:
            text = (
                f"For {about}, the repeats of single combinations ({combined.cells}) do not tell "
                f"their {title} apart; the effect of a factor, over all trials, is seen."
            )
            return _Statement(text, False, True, 0.0)
        said = detectable_text(combined.detectable)
        text = (
            f"For {about}, no difference seen in the {title} of {combined.cells} "
            f"combinations{f'; {said}' if said else ''}."
        )
        return _Statement(text, False, True, 0.0)
    best, worst = combination_names(combined)
    alike = (
        f" No difference is seen between the best and {plural(combined.alike_best, 'other')}."
        if combined.alike_best
        else ""
    )
    text = (
        f"For {about}, the worst of {combined.cells} combinations ({worst}) costs "
        f"{cost_text(combined.cost)} of the {title} against the best ({best}).{alike}"
    )
    return _Statement(text, True, True, combined.cost.value)
