"""Two result sets beside each other: what differs in each common cell, by how much, and whether the machines explain it. Pure."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from scipy import special, stats

from headrace.analysis.environment import values_by_name
from headrace.analysis.find import FindOptions
from headrace.analysis.findings import Comparison, Difference, EnvironmentDifference, Estimate
from headrace.analysis.metrics import LESS_IS_BETTER, headline_metric, trial_metrics, valid_trials
from headrace.analysis.ratio import ratio_of_means
from headrace.errors import RefusedError
from headrace.records.read import Records


def compare(a: Records, b: Records, options: FindOptions | None = None, *, force: bool = False) -> Comparison:
    """Effect sizes of B against A in every cell that both have, for the headline metric and job efficiency.

    Raises RefusedError when they have no cell in common, or when their provenances differ and `force` is not given: a simulated
    rate against a measured one says how good the model is, not which storage is better. Differences of the environment are warned of.
    """
    options = options or FindOptions.of_records(a)
    rows_a, rows_b = valid_trials(a), valid_trials(b)
    for records, rows in ((a, rows_a), (b, rows_b)):
        if not len(rows):
            raise RefusedError(f"{records.root} has no valid trial to compare")
    provenance_a, provenance_b = sorted(set(rows_a["provenance"])), sorted(set(rows_b["provenance"]))
    if provenance_a != provenance_b and not force:
        raise RefusedError(
            f"{a.root} is {' and '.join(provenance_a)}, {b.root} is {' and '.join(provenance_b)}: these are not comparable",
            hint="--force compares them all the same, and says so",
        )
    cells_a, cells_b = cells_of(rows_a), cells_of(rows_b)
    common = [name for name in cells_a if name in cells_b]
    if not common:
        raise RefusedError(
            f"{a.root} and {b.root} have no cell in common: {next(iter(cells_a))} is only in the first, "
            f"{next(iter(cells_b))} only in the second",
            hint="they can be compared where target, workload and all levels are named alike",
        )
    metrics_a, metrics_b = trial_metrics(rows_a, options.price), trial_metrics(rows_b, options.price)
    differences: list[Difference] = []
    for name in common:
        at_a, at_b = cells_a[name], cells_b[name]
        mine: Any = metrics_a.iloc[at_a]
        headline = headline_metric(options.metric, mine)
        beside = ["efficiency"] if headline == "events_per_s" else []
        for metric in [headline, *beside]:
            if metric is None or metric not in metrics_b:
                continue
            values_a, values_b = (metrics_a[metric].to_numpy()[at_a], metrics_b[metric].to_numpy()[at_b])
            ids_a, ids_b = (tuple(rows_a["id"].iloc[at_a]), tuple(rows_b["id"].iloc[at_b]))
            first = rows_a.iloc[at_a[0]]
            found = _difference(first, metric, values_a, values_b, ids_a, ids_b, options.confidence)
            if found is not None:
                differences.append(found)
    environment = _environment_differences(a, b)
    warnings = [*(f"A: {text}" for text in a.warnings), *(f"B: {text}" for text in b.warnings)]
    if a.header.study_hash != b.header.study_hash:
        warnings.append("the studies are not the same; only cells of the same names are compared")
    if provenance_a != provenance_b:
        warnings.append(
            f"A is {' and '.join(provenance_a)}, B is {' and '.join(provenance_b)}: compared because it was forced"
        )
    if environment:
        warnings.append(f"the environments differ in {', '.join(found.name for found in environment)}")
    expected = len(differences) * (1 - options.confidence)
    if expected >= 1:
        warnings.append(
            f"of {len(differences)} differences, about {expected:.0f} would look real by chance alone"
        )
    return Comparison(
        title_a=a.header.title,
        title_b=b.header.title,
        provenance=" + ".join(sorted({*provenance_a, *provenance_b})),
        differences=tuple(differences),
        only_a=tuple(name for name in cells_a if name not in cells_b),
        only_b=tuple(name for name in cells_b if name not in cells_a),
        environment=tuple(environment),
        warnings=tuple(warnings),
        confidence=options.confidence,
    )


def cells_of(rows: Any) -> dict[str, np.ndarray]:
    """Cell as text -> positions of its trials. A factor with no level in a cell does not set it apart."""
    found: dict[str, list[int]] = {}
    for position, (target, workload, slots, levels) in enumerate(
        zip(rows["target"], rows["workload"], rows["slots"], rows["levels"], strict=True)
    ):
        varied = {
            name: level
            for name, level in sorted(levels.items())
            if level is not None and name not in ("target", "workload", "slots")
        }
        words = [
            f"{name} {level if isinstance(level, str) else json.dumps(level)}"
            for name, level in varied.items()
        ]
        text = ", ".join([target, workload, f"slots {slots}", *words])
        found.setdefault(text, []).append(position)
    return {text: np.array(positions) for text, positions in found.items()}


def _difference(
    first: Any,
    metric: str,
    values_a: np.ndarray,
    values_b: np.ndarray,
    ids_a: tuple[str, ...],
    ids_b: tuple[str, ...],
    confidence: float,
) -> Difference | None:
    keep_a, keep_b = np.isfinite(values_a) & (values_a > 0), np.isfinite(values_b) & (values_b > 0)
    ids_a = tuple(trial for trial, keep in zip(ids_a, keep_a, strict=True) if keep)
    ids_b = tuple(trial for trial, keep in zip(ids_b, keep_b, strict=True) if keep)
    values_a, values_b = values_a[keep_a], values_b[keep_b]
    if not len(values_a) or not len(values_b):
        return None
    ratio, p_value = ratio_of_means(values_a, values_b, ids_a + ids_b, confidence)
    different = ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high
    b_more = ratio.value > 1
    better = "" if not different else ("b" if b_more != (metric in LESS_IS_BETTER) else "a")
    levels = {name: level for name, level in first["levels"].items() if name not in ("target", "workload")}
    return Difference(
        target=first["target"],
        workload=first["workload"],
        levels={**levels, "slots": int(first["slots"])},
        slots=int(first["slots"]),
        metric=metric,
        a=mean_of(values_a, ids_a, confidence),
        b=mean_of(values_b, ids_b, confidence),
        ratio=ratio,
        effect_size=hedges_g(values_a, values_b, ids_a + ids_b, confidence),
        p_value=p_value,
        different=different,
        better=better,
    )


def mean_of(values: np.ndarray, ids: tuple[str, ...], confidence: float) -> Estimate:
    """The mean of some trials' values, with its t interval where there are two or more."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, None, None, len(values), "one trial", ids)
    half = float(stats.t.ppf(0.5 + confidence / 2, len(values) - 1) * stats.sem(values))
    return Estimate(mean, max(0.0, mean - half), mean + half, len(values), "mean, t interval", ids)


def hedges_g(a: np.ndarray, b: np.ndarray, ids: tuple[str, ...], confidence: float) -> Estimate:
    """The difference of the means of B and A in pooled standard deviations, corrected for few trials.

    Hedges, Journal of Educational Statistics 6 (1981) 107: g = J d with the exact J by gamma functions; the interval from the
    noncentral t distribution of d (Steiger and Fouladi, 1997), corrected alike.
    """
    freedom = len(a) + len(b) - 2
    if freedom < 1 or len(a) < 2 or len(b) < 2:
        return Estimate(math.nan, None, None, len(ids), "too few trials", ids)
    pooled = math.sqrt(((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom)
    if pooled == 0:
        return Estimate(math.nan, None, None, len(ids), "no scatter to measure by", ids)
    d = float(b.mean() - a.mean()) / pooled
    correction = (
        math.exp(
            special.gammaln(freedom / 2) - 0.5 * math.log(freedom / 2) - special.gammaln((freedom - 1) / 2)
        )
        if freedom > 1
        else 0.0
    )
    scale = math.sqrt(1 / len(a) + 1 / len(b))
    low, high = (
        _noncentrality(d / scale, freedom, tail) * scale
        for tail in (0.5 + confidence / 2, 0.5 - confidence / 2)
    )
    method = "Hedges' g, noncentral t interval"
    return Estimate(correction * d, correction * low, correction * high, len(ids), method, ids)


def _noncentrality(t: float, freedom: int, probability: float) -> float:
    """The noncentrality for which a noncentral t is below `t` with this probability."""
    return float(special.nctdtrinc(freedom, probability, t))


def _environment_differences(a: Records, b: Records) -> list[EnvironmentDifference]:
    """What is not the same in the environments of valid trials, the storage's own location among it."""
    found: list[EnvironmentDifference] = []
    values_a, values_b = _environment(a), _environment(b)
    for name in sorted({*values_a, *values_b}):
        texts_a = tuple(sorted(str(value) for value in values_a.get(name, [])))
        texts_b = tuple(sorted(str(value) for value in values_b.get(name, [])))
        if texts_a != texts_b:
            found.append(EnvironmentDifference(name, texts_a, texts_b))
    return found


def _environment(records: Records) -> dict[str, list[Any]]:
    places = list({id(place): place for place in records.trials["location"] if place}.values())
    return {
        **values_by_name(records.environments),
        **{f"location.{name}": found for name, found in values_by_name(places).items()},
    }
