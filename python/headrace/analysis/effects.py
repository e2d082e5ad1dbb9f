"""Factors -> what their levels do: the best level, and what a wrong choice costs, alone and all factors together."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from headrace.analysis.contrasts import Contrasts, by_blocks, by_model
from headrace.analysis.findings import Combined, Estimate, FactorEffect, LevelEffect, Point
from headrace.analysis.metrics import LESS_IS_BETTER

ENOUGH = 0.5
"""Share of a factor's trials that complete blocks must hold for blocks to speak for it."""


@dataclass(frozen=True)
class _Sample:
    """Valid trials of one workload that have one metric and one factor."""

    rows: pd.DataFrame
    """The trials, and a column for each factor with the level as text (`null` where it does not apply)."""
    y: np.ndarray
    level: np.ndarray
    names: list[str]
    """The factor's levels as text, in the order of their numbers."""
    others: list[str]
    """The other columns that set trials apart."""
    provenance: str


def factor_effects(
    trials: pd.DataFrame, metrics: pd.DataFrame, workload: str, names: Sequence[str], confidence: float
) -> list[FactorEffect]:
    """The effect of every factor with more than one level on each of the metrics `names`, for one workload.

    Rates are compared on the logarithm: an effect is a ratio of geometric means, over the other factors' combinations alike.
    """
    mine = (trials["workload"] == workload).to_numpy()
    own: Any = trials[mine]
    rows = _with_levels(own.reset_index(drop=True))
    factors = [name for name in rows.attrs["factors"] if name != "workload"]
    effects: list[FactorEffect] = []
    for name in names:
        if name not in metrics:
            continue
        values = metrics[name].to_numpy()[mine]
        for factor in factors:
            sample = _sample(rows, values, factor, factors)
            effect = None if sample is None else _effect(sample, factor, workload, name, confidence)
            if effect is not None:
                effects.append(effect)
    return effects


def _with_levels(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials with a column of text for each factor; `attrs["factors"]` names them."""
    factors = list(dict.fromkeys(name for levels in trials["levels"] for name in levels))
    texts: dict[int, dict[str, str]] = {}
    for levels in trials["levels"]:
        if id(levels) not in texts:
            texts[id(levels)] = {name: json.dumps(levels.get(name), sort_keys=True) for name in factors}
    columns = {
        f"factor {name}": pd.Series(
            [texts[id(levels)][name] for levels in trials["levels"]], trials.index, object
        )
        for name in factors
    }
    rows = pd.concat([trials, pd.DataFrame(columns)], axis="columns")
    rows.attrs["factors"] = factors
    return rows


def _sample(rows: pd.DataFrame, values: np.ndarray, factor: str, factors: list[str]) -> _Sample | None:
    column = f"factor {factor}"
    having = (rows[column] != "null").to_numpy() & np.isfinite(values) & (np.nan_to_num(values) > 0)
    found: Any = rows[having]
    names: list[str] = list(dict.fromkeys(found[column]))
    if len(names) < 2:
        return None
    level = found[column].map({name: number for number, name in enumerate(names)}).to_numpy()
    others = [
        f"factor {name}" for name in factors if name != factor and found[f"factor {name}"].nunique() > 1
    ]
    provenances = sorted(set(found["provenance"]))
    if len(provenances) > 1 and bool((found.groupby(column)["provenance"].nunique() > 1).any()):
        others.append("provenance")
    return _Sample(found, np.log(values[having]), level, names, others, " + ".join(provenances))


def _effect(
    sample: _Sample, factor: str, workload: str, metric: str, confidence: float
) -> FactorEffect | None:
    contrasts, note = _contrasts(sample)
    if contrasts is None:
        return None
    less = metric in LESS_IS_BETTER
    order = np.argsort(contrasts.effects)
    best, worst = (int(order[0]), int(order[-1])) if less else (int(order[-1]), int(order[0]))
    ids = tuple(sample.rows["id"].iloc[contrasts.used])
    count = len(sample.names)
    known = contrasts.freedom > 0 and math.isfinite(contrasts.variance)
    one = float(special.stdtrit(contrasts.freedom, 0.5 + confidence / 2)) if known else math.nan
    # An effect's own variance: that of a difference of two is twice it, but for what their mean takes away.
    half = one * math.sqrt(contrasts.variance / 2 * (count - 1) / count) if known else math.nan
    method = f"geometric mean; interval of its distance from the mean of all levels, error of {contrasts.error_term}"
    effects = tuple(
        LevelEffect(
            level=json.loads(name),
            estimate=Estimate(
                value=math.exp(contrasts.level + effect),
                low=math.exp(contrasts.level + effect - half) if known else None,
                high=math.exp(contrasts.level + effect + half) if known else None,
                n=int((sample.level[contrasts.used] == number).sum()),
                method=method if known else "geometric mean",
                trials=tuple(
                    trial
                    for trial, own in zip(ids, sample.level[contrasts.used], strict=True)
                    if own == number
                ),
            ),
        )
        for number, (name, effect) in enumerate(zip(sample.names, contrasts.effects, strict=True))
    )
    pairs = count * (count - 1) // 2
    cost = cost_estimate(
        abs(float(contrasts.effects[best] - contrasts.effects[worst])),
        contrasts.variance,
        contrasts.freedom if known else 0,
        pairs,
        confidence,
        less,
        ids,
    )
    return FactorEffect(
        factor=factor,
        workload=workload,
        metric=metric,
        levels=effects,
        best=json.loads(sample.names[best]),
        worst=json.loads(sample.names[worst]),
        cost_of_wrong=cost,
        p_value=contrasts.p_value,
        error_term=contrasts.error_term,
        less_is_better=less,
        targets=tuple(dict.fromkeys(sample.rows["target"].iloc[contrasts.used])),
        provenance=sample.provenance,
        note=note,
    )


def _contrasts(sample: _Sample) -> tuple[Contrasts | None, str]:
    """The level effects by the way that rests on the most, and what to say of it.

    First by blocks of equal other levels; then, for levels that change which other factors apply (the target), by blocks
    of what they have in common; then by a main-effects model.
    """
    rows: Any = sample.rows
    repeat, plot = rows["repeat"].to_numpy(), rows["plot"].to_numpy()
    common = [name for name in sample.others if not bool((rows[name] == "null").any())]
    gated = [name.removeprefix("factor ") for name in sample.others if name not in common]
    best: tuple[Contrasts | None, str] = (None, "")
    for others in [sample.others] if not gated else [sample.others, common]:
        found = by_blocks(sample.y, sample.level, len(sample.names), _numbers(rows, others), repeat, plot)
        note = _averaged(others, gated if others is common and gated else [])
        left = 0 if found is None else len(rows) - len(found.used)
        if left:
            note += f"; {left} of {len(rows)} trials have no partner at every level and are left out"
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
    """A number for each combination of these columns."""
    return (
        rows.groupby(columns, sort=False).ngroup().to_numpy()
        if columns
        else np.zeros(len(rows), dtype=np.int64)
    )


def _averaged(others: Sequence[str], gated: Sequence[str]) -> str:
    names = [name.removeprefix("factor ") for name in others]
    text = f"averaged over {', '.join(names)}" if names else "nothing else was varied"
    return text + (f"; each level with its own {', '.join(gated)}" if gated else "")


def cost_estimate(
    distance: float,
    variance: float,
    freedom: int,
    pairs: int,
    confidence: float,
    less: bool,
    trials: tuple[str, ...],
) -> Estimate:
    """What the worst costs against the best, from the distance of their logarithms.

    The interval holds for all pairs of levels at once (Bonferroni), since best and worst were picked by the data.
    """

    def cost(logarithm: float) -> float:
        return math.expm1(logarithm) if less else -math.expm1(-logarithm)

    if freedom <= 0 or not math.isfinite(variance):
        return Estimate(cost(distance), None, None, len(trials), "ratio of geometric means", trials)
    half = float(special.stdtrit(freedom, 1 - (1 - confidence) / 2 / max(1, pairs))) * math.sqrt(variance)
    return Estimate(
        cost(distance),
        cost(distance - half),
        cost(distance + half),
        len(trials),
        f"ratio of geometric means, t interval on the logarithm for {pairs} pair{'s' if pairs != 1 else ''}",
        trials,
    )


def combined_effects(
    points: Sequence[Point], values: Mapping[str, float], workload: str, metric: str, confidence: float
) -> list[Combined]:
    """Best against worst cell of one workload at the largest number of slots that several cells have, for each target and for all.

    `values` holds the metric by trial id. Provenances are kept apart.
    """
    having = [point for point in points if point.workload == workload and metric in point.metrics]
    found: list[Combined] = []
    targets: list[str | None] = list(dict.fromkeys(point.target for point in having))
    if len(targets) > 1:
        targets.insert(0, None)
    for provenance in dict.fromkeys(point.provenance for point in having):
        for target in targets:
            mine = [p for p in having if p.provenance == provenance and target in (None, p.target)]
            compared = _at_most_slots(mine)
            if len(compared) > 1:
                found.append(_combined(compared, values, workload, target, metric, confidence))
    return found


def _at_most_slots(points: Sequence[Point]) -> list[Point]:
    """The points of the largest number of slots that more than one has."""
    for slots in sorted({point.slots for point in points}, reverse=True):
        at = [point for point in points if point.slots == slots]
        if len(at) > 1:
            return at
    return []


def _combined(
    points: Sequence[Point],
    values: Mapping[str, float],
    workload: str,
    target: str | None,
    metric: str,
    confidence: float,
) -> Combined:
    less = metric in LESS_IS_BETTER
    logs = [
        np.array([math.log(values[trial]) for trial in point.metrics[metric].trials if values[trial] > 0])
        for point in points
    ]
    means = [float(found.mean()) if len(found) else -math.inf for found in logs]
    order = sorted(
        (number for number in range(len(points)) if len(logs[number])), key=lambda number: means[number]
    )
    best, worst = (order[0], order[-1]) if less else (order[-1], order[0])
    freedom = sum(max(0, len(found) - 1) for found in logs)
    pooled = (
        sum(float(((found - found.mean()) ** 2).sum()) for found in logs if len(found)) / freedom
        if freedom
        else math.nan
    )
    cost = cost_estimate(
        abs(means[best] - means[worst]),
        pooled * (1 / len(logs[best]) + 1 / len(logs[worst])),
        freedom,
        len(points) * (len(points) - 1) // 2,
        confidence,
        less,
        points[best].metrics[metric].trials + points[worst].metrics[metric].trials,
    )
    return Combined(
        workload=workload,
        target=target,
        slots=points[best].slots,
        metric=metric,
        best=_choice(points[best], target),
        worst=_choice(points[worst], target),
        cost=cost,
        best_value=points[best].metrics[metric].value,
        worst_value=points[worst].metrics[metric].value,
        cells=len(points),
        provenance=points[best].provenance,
    )


def _choice(point: Point, target: str | None) -> dict[str, Any]:
    levels = {name: level for name, level in point.levels.items() if level is not None and name != "slots"}
    return levels if target is not None else {"target": point.target, **levels}
