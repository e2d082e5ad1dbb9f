"""Factors -> effects of their levels: which level is best, and what a wrong choice costs. Pure.

All effects are measured first and judged afterwards: the required confidence of one comparison
depends on all comparisons of the study (jointly.py).
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from headrace.analysis.contrasts import Contrasts, by_blocks, by_model
from headrace.analysis.cost import cost_estimate, detectable_cost
from headrace.analysis.curves import is_load
from headrace.analysis.findings import Estimate, FactorEffect, LevelEffect
from headrace.analysis.jointly import pair_p_value
from headrace.analysis.naming import level_key
from headrace.metrics import less_is_better
from headrace.special_functions import stdtrit

ENOUGH = 0.5
"""Share of a factor's trials that complete blocks must contain for the block estimate to be
used."""


@dataclass(frozen=True)
class _Sample:
    """Valid trials of one workload that have one metric and one factor."""

    rows: pd.DataFrame
    """The trials, and one column per factor with the level as text (`null` where it does not
    apply)."""
    y: np.ndarray
    level: np.ndarray
    names: list[str]
    """The factor's levels as text, in the order of their numbers."""
    others: list[str]
    """The other columns that distinguish trials."""
    provenance: str


@dataclass(frozen=True)
class MeasuredEffect:
    """The effect of one factor, before it is judged."""

    sample: _Sample
    contrasts: Contrasts
    note: str
    factor: str
    workload: str
    metric: str


def measure_effects(
    trials: pd.DataFrame,
    metrics: pd.DataFrame,
    workload: str,
    names: Sequence[str],
    left_away: Collection[str] = (),
) -> list[MeasuredEffect]:
    """Return the effect of every choice with several levels on each metric, for one workload.

    Rates are compared on the logarithm: an effect is a ratio of geometric means, with equal weight
    for each combination of the other factors. Load factors are axes, not choices; they and the
    factors in `left_away` are skipped.
    """
    mine = (trials["workload"] == workload).to_numpy()
    own: Any = trials[mine]
    rows, factors = _with_levels(own.reset_index(drop=True))
    found: list[MeasuredEffect] = []
    for name in names:
        if name not in metrics:
            continue
        values = metrics[name].to_numpy()[mine]
        for factor in factors:
            if is_load(factor) or factor in left_away:
                continue
            sample = _sample(rows, values, factor, factors)
            contrasts, note = (None, "") if sample is None else _contrasts(sample)
            if sample is not None and contrasts is not None:
                found.append(MeasuredEffect(sample, contrasts, note, factor, workload, name))
    return found


def _with_levels(trials: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the trials with one text column per factor, and the factors but the workload."""
    factors = list(dict.fromkeys(name for levels in trials["levels"] for name in levels))
    texts: dict[int, dict[str, str]] = {}
    for levels in trials["levels"]:
        if id(levels) not in texts:
            texts[id(levels)] = {name: level_key(levels.get(name)) for name in factors}
    columns = {
        f"factor {name}": pd.Series(
            [texts[id(levels)][name] for levels in trials["levels"]], trials.index, object
        )
        for name in factors
    }
    rows = pd.concat([trials, pd.DataFrame(columns)], axis="columns")
    return rows, [name for name in factors if name != "workload"]


def _sample(
    rows: pd.DataFrame, values: np.ndarray, factor: str, factors: list[str]
) -> _Sample | None:
    column = f"factor {factor}"
    having = (rows[column] != "null").to_numpy() & np.isfinite(values) & (np.nan_to_num(values) > 0)
    found: Any = rows[having]
    level, names = pd.factorize(found[column].to_numpy())
    if len(names) < 2:
        return None
    others = [
        f"factor {name}"
        for name in factors
        if name != factor and len(set(found[f"factor {name}"])) > 1
    ]
    provenances = sorted(set(found["provenance"]))
    if len(provenances) > 1 and bool((found.groupby(column)["provenance"].nunique() > 1).any()):
        others.append("provenance")
    return _Sample(
        found, np.log(values[having]), level, list(names), others, " + ".join(provenances)
    )


def p_value_of(found: MeasuredEffect) -> float | None:
    """Return the p-value of best against worst, selected from all pairs of levels; None without
    an error term."""
    effects = found.contrasts.effects
    distance = float(effects.max() - effects.min())
    return pair_p_value(distance, found.contrasts.variance, found.contrasts.freedom, _pairs(found))


def _pairs(found: MeasuredEffect) -> int:
    count = len(found.sample.names)
    return count * (count - 1) // 2


def judge_effect(found: MeasuredEffect, confidence: float, joint: float) -> FactorEffect:
    """Return the finding: levels with intervals at `confidence`, the cost at `joint`
    (jointly.py)."""
    sample, contrasts = found.sample, found.contrasts
    less = less_is_better(found.metric)
    order = np.argsort(contrasts.effects, kind="stable")
    best, worst = (order[0], order[-1]) if less else (order[-1], order[0])
    levels = [json.loads(name) for name in sample.names]
    pairs = _pairs(found)
    cost = cost_estimate(
        abs(float(contrasts.effects[best] - contrasts.effects[worst])),
        contrasts.variance,
        contrasts.freedom if _has_error(contrasts) else 0,
        pairs,
        joint,
        less,
        tuple(sample.rows["id"].iloc[contrasts.used]),
    )
    return FactorEffect(
        factor=found.factor,
        workload=found.workload,
        metric=found.metric,
        levels=_level_effects(found, confidence),
        best=levels[best],
        worst=levels[worst],
        cost_of_wrong=cost,
        p_value=contrasts.p_value,
        error_term=contrasts.error_term,
        less_is_better=less,
        targets=tuple(dict.fromkeys(sample.rows["target"].iloc[contrasts.used])),
        provenance=sample.provenance,
        note=found.note,
        alike_best=tuple(levels[other] for other in _alike(contrasts, int(best), pairs, joint)),
        alike_worst=tuple(levels[other] for other in _alike(contrasts, int(worst), pairs, joint)),
        detectable=detectable_cost(contrasts.variance, contrasts.freedom, pairs, joint, less)
        if _has_error(contrasts)
        else None,
    )


def _has_error(contrasts: Contrasts) -> bool:
    return contrasts.freedom > 0 and math.isfinite(contrasts.variance)


def _alike(contrasts: Contrasts, level: int, pairs: int, confidence: float) -> list[int]:
    """Return the other levels that do not differ significantly from this one."""
    others = [number for number in range(len(contrasts.effects)) if number != level]
    if not _has_error(contrasts):
        return others
    half = float(stdtrit(contrasts.freedom, 1 - (1 - confidence) / 2 / pairs))
    half *= math.sqrt(contrasts.variance)
    return [
        each for each in others if abs(contrasts.effects[each] - contrasts.effects[level]) <= half
    ]


def _level_effects(found: MeasuredEffect, confidence: float) -> tuple[LevelEffect, ...]:
    sample, contrasts = found.sample, found.contrasts
    count, known = len(sample.names), _has_error(contrasts)
    half = math.nan
    method = "geometric mean"
    if known:
        # Variance of one effect: half that of a difference of two, reduced because effects are
        # relative to the mean of all levels.
        own = contrasts.variance / 2 * (count - 1) / count
        half = float(stdtrit(contrasts.freedom, 0.5 + confidence / 2)) * math.sqrt(own)
        method += (
            "; interval of its distance from the mean of all levels, error of "
            f"{contrasts.error_term}"
        )
    ids = sample.rows["id"].to_numpy()[contrasts.used]
    levels = sample.level[contrasts.used]
    return tuple(
        LevelEffect(
            level=json.loads(name),
            estimate=Estimate(
                value=math.exp(contrasts.level + effect),
                low=math.exp(contrasts.level + effect - half) if known else None,
                high=math.exp(contrasts.level + effect + half) if known else None,
                n=int((levels == number).sum()),
                method=method,
                trials=tuple(ids[levels == number]),
            ),
        )
        for number, (name, effect) in enumerate(zip(sample.names, contrasts.effects, strict=True))
    )


def _contrasts(sample: _Sample) -> tuple[Contrasts | None, str]:
    """Return the level effects by the method that uses the most trials, and a note about it.

    The methods, in order: blocks of equal other levels; then, for levels that determine which other
    factors apply (the target), blocks of the factors they have in common; then a main-effects
    model.
    """
    rows: Any = sample.rows
    repeat, plot = rows["repeat"].to_numpy(), rows["plot"].to_numpy()
    common = [name for name in sample.others if not bool((rows[name] == "null").any())]
    gated = [name.removeprefix("factor ") for name in sample.others if name not in common]
    best: tuple[Contrasts | None, str] = (None, "")
    for others in [sample.others] if not gated else [sample.others, common]:
        found = by_blocks(
            sample.y, sample.level, len(sample.names), _numbers(rows, others), repeat, plot
        )
        note = _averaged(others, gated if others is common and gated else [])
        left = 0 if found is None else len(rows) - len(found.used)
        if left:
            note += (
                f"; {left} of {len(rows)} trials have no partner at every level and are left out"
            )
        if found is not None and (best[0] is None or len(found.used) > len(best[0].used)):
            best = (found, note)
        if best[0] is not None and len(best[0].used) >= ENOUGH * len(rows):
            return best
    codes = pd.DataFrame({name: rows[name].to_numpy() for name in sample.others})
    modelled = by_model(sample.y, sample.level, len(sample.names), codes, plot)
    if modelled is not None:
        return modelled, "main effects of all factors, fitted together"
    return best


def _numbers(rows: Any, columns: list[str]) -> np.ndarray:
    """Return a number for each combination of these columns, in the order of the first rows."""
    number = np.zeros(len(rows), dtype=np.int64)
    for column in columns:
        own, found = pd.factorize(rows[column].to_numpy())
        number = pd.factorize(number * len(found) + own)[0]
    return number


def _averaged(others: Sequence[str], gated: Sequence[str]) -> str:
    names = [name.removeprefix("factor ") for name in others]
    text = f"averaged over {', '.join(names)}" if names else "nothing else was varied"
    return text + (f"; each level with its own {', '.join(gated)}" if gated else "")
