"""Compare two result sets: differences of common cells and of the environments. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headrace.analysis.environment import study_differences, values_by_name
from headrace.analysis.find import FindOptions
from headrace.analysis.findings import Comparison, Difference, EnvironmentDifference, Estimate
from headrace.analysis.jointly import joint_confidence
from headrace.analysis.metrics import (
    headline_metric,
    metric_provenance,
    missing_text,
    secondary_metrics,
    trial_metrics,
    valid_trials,
)
from headrace.analysis.ratio import ratio_of_means, ratio_of_pairs
from headrace.analysis.read import Records
from headrace.analysis.scatter import ALONE, POOLED, half_widths, spreads_by_cell
from headrace.errors import IncomparableError, RefusedError
from headrace.metrics import less_is_better, metric_of
from headrace.metrics.headline import candidates
from headrace.special_functions import gammaln, nctdtrinc

JOB_RATE, EFFICIENCY = "jobs_per_s", "efficiency"
FEWEST_PAIRS = 3
"""With two pairs, the interval of their differences is wider than that of independent trials even
where they scatter a third as much."""
NAMED_AT_MOST = 3
"""The largest number of environment differences, and of settings, that a warning names; with more
it gives their number."""
LONGEST_SETTING = 40
"""Letters of a setting in a warning."""
ENVIRONMENTS_BELOW = "; see the end of the comparison"
"""End of the warning that environments differ."""


def compare(
    a: Records,
    b: Records,
    options: FindOptions | None = None,
    *,
    force: bool = False,
    headline_only: bool = False,
) -> Comparison:
    """Return effect sizes of B against A in every common cell, for the reported metrics.

    `headline_only`: one metric for each cell: the one that `options` wants, else the workload's
    own; cells that lack a wanted metric are left out.

    Raises IncomparableError when either has no valid trial or when they have no cell in common, and
    RefusedError when their provenances differ and `force` is not given: a simulated rate against a
    measured one shows how good the model is, not which storage is better. Differences of the
    environment become a warning.
    """
    options = options or FindOptions.of_records(a)
    # Each result set has its own prices, which its study states.
    prices_b = {**options.price, **FindOptions.of_records(b).price}
    side_a, side_b = _Cells.of(a, options), _Cells.of(b, replace(options, price=prices_b))
    if side_a.provenance != side_b.provenance and not force:
        raise RefusedError(
            f"{a.root} is {side_a.provenance_text}, {b.root} is "
            f"{side_b.provenance_text}: these are not comparable",
            hint="--force compares them all the same, and says so",
        )
    common = [name for name in side_a.cells if name in side_b.cells]
    if not common:
        raise IncomparableError(
            f"{a.root} and {b.root} have no cell in common: {next(iter(side_a.cells))} is only in "
            "the first, "
            f"{next(iter(side_b.cells))} only in the second",
            hint="they can be compared where target, workload and all levels are named alike",
        )
    pairs = [pair for name in common for pair in _pairs(name, side_a, side_b, options.metric)]
    if headline_only:
        pairs = _headlines(pairs, options.metric)
    # With many cells some differ by chance: the confidence that each needs depends on all
    # (jointly.py).
    p_values = [_p_value(pair) for pair in pairs]
    joint = joint_confidence(p_values, options.confidence)
    environment = environment_differences(a, b)
    title_a, title_b = _titles(a, b)
    return Comparison(
        title_a=title_a,
        title_b=title_b,
        provenance=" + ".join(sorted({*side_a.provenance, *side_b.provenance})),
        differences=tuple(_difference(pair, options.confidence, joint) for pair in pairs),
        only_a=tuple(name for name in side_a.cells if name not in side_b.cells),
        only_b=tuple(name for name in side_b.cells if name not in side_a.cells),
        environment=tuple(environment),
        warnings=(
            *_missing_metric(options.metric, side_a, side_b),
            *_warnings(side_a, side_b, environment),
        ),
        confidence=options.confidence,
        joint_confidence=joint,
    )


def _titles(a: Records, b: Records) -> tuple[str, str]:
    """Return the titles; equal ones with the end of the folder's path and the day of the run."""
    if a.header.title != b.header.title:
        return a.header.title, b.header.title
    parts_a, parts_b = a.root.resolve().parts, b.root.resolve().parts
    shortest = min(len(parts_a), len(parts_b))
    number = next((n for n in range(1, shortest) if parts_a[-n] != parts_b[-n]), 1)
    return _titled(a, parts_a[-number:]), _titled(b, parts_b[-number:])


def _titled(records: Records, parts: Sequence[str]) -> str:
    folder, day = "/".join(parts), records.header.created_utc[:10]
    when = f", {day}" if day and day not in folder else ""
    return f"{records.header.title} ({folder}{when})"


def _missing_metric(wanted: str | None, a: _Cells, b: _Cells) -> list[str]:
    """Return a warning for each side that lacks the metric that the study wants."""
    return [
        f"{side} has no {missing_text(wanted)}"
        for side, cells in (("A", a), ("B", b))
        if wanted is not None and not any(name in cells.metrics for name in candidates(wanted))
    ]


def _warnings(a: _Cells, b: _Cells, environment: list[EnvironmentDifference]) -> list[str]:
    warnings = [
        *(f"A: {text}" for text in a.records.warnings),
        *(f"B: {text}" for text in b.records.warnings),
    ]
    if a.records.header.study_hash != b.records.header.study_hash:
        warnings.append(on_studies(a.records, b.records))
    if a.numbers_of_jobs and b.numbers_of_jobs and a.numbers_of_jobs != b.numbers_of_jobs:
        warnings.append(
            "windows with different numbers of jobs are compared: A has "
            f"{a.numbers_of_jobs}, B has {b.numbers_of_jobs} jobs per window"
        )
    idle = " and ".join(name for name, side in (("A", a), ("B", b)) if side.only_slept)
    if idle:
        warnings.append(
            f"the watched jobs of {idle} used no CPU time: they have no job efficiency to compare, "
            "and the job rate of a watch means nothing; see their reports for what they waited for"
        )
    if a.provenance != b.provenance:
        warnings.append(
            f"A is {a.provenance_text}, B is {b.provenance_text}: compared because it was forced"
        )
    if environment:
        names = ", ".join(found.name for found in environment)
        said = names if len(environment) <= NAMED_AT_MOST else f"{len(environment)} fields"
        warnings.append(f"the environments differ in {said}{ENVIRONMENTS_BELOW}")
    return warnings


def on_studies(a: Records, b: Records) -> str:
    """Return the warning that two studies differ, with the settings in which they do."""
    told = [
        f"{each.name.removeprefix('study.')} ({_stated(each.a)} and {_stated(each.b)})"
        for each in study_differences(a.study, b.study)
    ]
    more = len(told) - NAMED_AT_MOST
    named = ", ".join(told[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
    return (
        f"the studies are not the same{': they differ in ' if named else ''}{named}; only cells of"
        " the same names are compared"
    )


def _stated(values: Sequence[str]) -> str:
    text = " ".join(values) or "not set"
    return text if len(text) <= LONGEST_SETTING else f"{text[: LONGEST_SETTING - 1]}…"


def comparable_rows(records: Records) -> Any:
    """Return the valid trials. Windows of a watch have as many jobs as ran then: their slots are
    None, so that they are one cell."""
    rows = valid_trials(records)
    return rows.assign(slots=None) if records.watched else rows


def cells_of(rows: Any) -> dict[str, np.ndarray]:
    """Return cell as text -> positions of its trials, in the order of levels and then of slots.

    Factors that do not apply to a cell, and slots that are None, are left out of the text.
    """
    found: dict[str, list[int]] = {}
    places: dict[str, tuple[str, str, list[tuple[str, bool, float, str]], int]] = {}
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
        at = [] if slots is None else [f"slots {slots}"]
        text = ", ".join([target, workload, *at, *words])
        found.setdefault(text, []).append(position)
        keys = [_level_key(*each) for each in varied.items()]
        places[text] = (target, workload, keys, slots or 0)
    # Trials are recorded in random order.
    return {text: np.array(found[text]) for text in sorted(found, key=places.__getitem__)}


def _level_key(name: str, level: object) -> tuple[str, bool, float, str]:
    """Return what sorts levels of a factor: numbers by value, before all others."""
    number = float(level) if isinstance(level, int | float) else 0.0
    words = level if isinstance(level, str) else json.dumps(level)
    return name, not isinstance(level, int | float), number, words


@dataclass(frozen=True)
class _Cells:
    """The valid trials of one result set, by cell."""

    records: Records
    rows: Any
    metrics: Any
    cells: dict[str, np.ndarray]
    """Cell as text -> positions of its trials."""
    provenance: list[str]
    of_metric: dict[str, str]
    """Provenance of metrics where it differs from that of the trials."""
    spreads: dict[str, dict[str, float]]
    """Scatter of the repeats of each cell's storage, by cell and metric (`pooled_spreads`)."""

    @classmethod
    def of(cls, records: Records, options: FindOptions) -> _Cells:
        """Raise RefusedError if there is no valid trial."""
        rows = comparable_rows(records)
        if not len(rows):
            raise IncomparableError(f"{records.root} has no valid trial to compare")
        metrics = trial_metrics(rows, options.price)
        provenance = sorted(set(rows["provenance"]))
        of_metric = metric_provenance(rows, options.price)
        cells = cells_of(rows)
        spreads = spreads_by_cell(rows, metrics, cells)
        return cls(records, rows, metrics, cells, provenance, of_metric, spreads)

    @property
    def numbers_of_jobs(self) -> str:
        """Jobs of the windows of a watch, `2 to 4`; empty for the trials of a study."""
        if not self.records.watched:
            return ""
        least, most = int(self.rows["jobs"].min()), int(self.rows["jobs"].max())
        return str(least) if least == most else f"{least} to {most}"

    @property
    def only_slept(self) -> bool:
        """Whether these are jobs of a watch that used no CPU time."""
        return self.records.watched and not any(
            value > 0 for value in self.metrics.get(EFFICIENCY, ())
        )

    @property
    def provenance_text(self) -> str:
        return " and ".join(self.provenance)

    def side(self, metric: str, cell: str) -> _Side:
        found = _side(self.rows, self.metrics, metric, self.cells[cell])
        return replace(
            found,
            provenance=self.of_metric.get(metric, ""),
            spread=self.spreads[cell].get(metric, math.nan),
        )


def _pairs(cell: str, a: _Cells, b: _Cells, wanted: str | None) -> list[_Pair]:
    """Return the reported metrics of a cell that both result sets have.

    A job of a watch counts in every window, so that its job rate means nothing.
    """
    at: Any = a.cells[cell]
    mine: Any = a.metrics.iloc[at]
    headline = headline_metric(wanted, mine)
    secondary = secondary_metrics(headline, mine) if headline else []
    found: list[_Pair] = []
    of_watch = a.records.watched or b.records.watched
    for metric in [headline, *secondary]:
        if of_watch and metric == JOB_RATE:
            continue
        if metric is not None and metric in b.metrics:
            one, other = a.side(metric, cell), b.side(metric, cell)
            if len(one.values) and len(other.values):
                found.append(_Pair(a.rows.iloc[at[0]], metric, one, other, metric == headline))
    return found


def _headlines(pairs: list[_Pair], wanted: str | None) -> list[_Pair]:
    """Return the pairs of each cell's main metric; of the wanted one, where one is wanted."""
    return [pair for pair in pairs if (pair.metric in candidates(wanted) if wanted else pair.main)]


@dataclass(frozen=True)
class _Side:
    """One metric of one cell in one result set."""

    values: np.ndarray
    trials: tuple[str, ...]
    seeds: tuple[int, ...] = ()
    """Seeds of simulated trials; empty for others."""
    provenance: str = ""
    """Provenance of the values; empty: that of the trials."""
    spread: float = math.nan
    """Relative scatter of the repeats of the whole storage; NaN where its cells have none."""

    def mean(self, confidence: float, highest: float) -> Estimate:
        """Return the mean as the report has it."""
        found = mean_of(self.values, self.trials, confidence, highest, self.spread)
        return replace(found, provenance=self.provenance)


@dataclass(frozen=True)
class _Pair:
    """One metric of a cell in both result sets."""

    first: Any
    """The first row of A's trials of the cell."""
    metric: str
    a: _Side
    b: _Side
    main: bool = False
    """Whether the metric is the cell's main one."""


def _side(rows: Any, metrics: Any, metric: str, at: np.ndarray) -> _Side:
    values: np.ndarray = metrics[metric].to_numpy()[at]
    keep = np.isfinite(values) & (values > 0)
    kept: Any = rows.iloc[at[keep]]
    simulated = set(kept["provenance"]) == {"simulated"}
    seeds = tuple(int(seed) for seed in kept["seed"]) if simulated else ()
    return _Side(values[keep], tuple(kept["id"]), seeds)


def _ratio(
    a: _Side, b: _Side, trials: tuple[str, ...], confidence: float
) -> tuple[Estimate, float | None]:
    """Return B/A and its p-value.

    Simulated trials of one seed have the same random numbers, in both result sets. Where all trials
    of a cell have a partner, they are compared in pairs.
    """
    seeds = set(a.seeds)
    paired = seeds == set(b.seeds) and len(seeds) == len(a.seeds) == len(b.seeds)
    if not paired or len(seeds) < FEWEST_PAIRS:
        return ratio_of_means(a.values, b.values, trials, confidence)
    return ratio_of_pairs(
        a.values[np.argsort(a.seeds)], b.values[np.argsort(b.seeds)], trials, confidence
    )


def _p_value(pair: _Pair) -> float | None:
    ratio, p_value = _ratio(pair.a, pair.b, (), 0.95)
    if ratio.low is None or p_value is not None:
        return p_value
    # Without scatter any difference is certain (p = 0), and equality is certain too (p = 1).
    return 1.0 if ratio.value == 1 else 0.0


def _difference(pair: _Pair, confidence: float, joint: float) -> Difference:
    """Return the finding, with the ratio's interval at `joint` (jointly.py)."""
    a, b, first = pair.a, pair.b, pair.first
    highest = metric_of(pair.metric).highest
    trials = a.trials + b.trials
    ratio, p_value = _ratio(a, b, trials, joint)
    different = (
        ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high
    )
    b_more = ratio.value > 1
    better = "" if not different else ("b" if b_more != less_is_better(pair.metric) else "a")
    levels = {
        name: level for name, level in first["levels"].items() if name not in ("target", "workload")
    }
    slots = None if first["slots"] is None else int(first["slots"])
    return Difference(
        target=first["target"],
        workload=first["workload"],
        levels=levels if slots is None else {**levels, "slots": slots},
        slots=slots,
        metric=pair.metric,
        a=a.mean(confidence, highest),
        b=b.mean(confidence, highest),
        ratio=ratio,
        effect_size=hedges_g(a.values, b.values, trials, confidence),
        p_value=p_value,
        different=different,
        better=better,
    )


def mean_of(
    values: np.ndarray,
    ids: tuple[str, ...],
    confidence: float,
    highest: float = math.inf,
    spread: float = math.nan,
) -> Estimate:
    """Return the mean of some trials' values, with its t interval for two or more, cut at 0 and at
    the largest possible value as in the report. `spread`: that of `pooled_spreads`."""
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, None, None, len(values), "one trial", ids)
    half = float(half_widths(len(values), mean, float(values.std(ddof=1)), spread, confidence))
    high = max(mean, min(highest, mean + half))
    method = ALONE if math.isnan(spread) else POOLED
    return Estimate(mean, max(0.0, mean - half), high, len(values), method, ids)


def hedges_g(a: np.ndarray, b: np.ndarray, ids: tuple[str, ...], confidence: float) -> Estimate:
    """Return Hedges' g of B - A: in pooled standard deviations, corrected for few trials.

    Hedges, Journal of Educational Statistics 6 (1981) 107: g = J d with the exact J by gamma
    functions; the interval comes from the noncentral t distribution of d (Steiger and Fouladi,
    1997), with the same correction.
    """
    freedom = len(a) + len(b) - 2
    if freedom < 1 or len(a) < 2 or len(b) < 2:
        return Estimate(math.nan, None, None, len(ids), "too few trials", ids)
    pooled = math.sqrt(((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom)
    if pooled == 0:
        return Estimate(math.nan, None, None, len(ids), "no scatter to measure by", ids)
    d = float(b.mean() - a.mean()) / pooled
    correction = (
        math.exp(gammaln(freedom / 2) - 0.5 * math.log(freedom / 2) - gammaln((freedom - 1) / 2))
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
    """Return the noncentrality for which a noncentral t is below `t` with this probability."""
    return float(nctdtrinc(freedom, probability, t))


def environment_differences(a: Records, b: Records) -> list[EnvironmentDifference]:
    """Return what differs between the environments of valid trials, including the location of
    the storage."""
    found: list[EnvironmentDifference] = []
    values_a, values_b = _environment(a), _environment(b)
    for name in sorted({*values_a, *values_b}):
        texts_a = tuple(sorted(str(value) for value in values_a.get(name, [])))
        texts_b = tuple(sorted(str(value) for value in values_b.get(name, [])))
        if texts_a != texts_b:
            found.append(EnvironmentDifference(name, texts_a, texts_b))
    return found


def _environment(records: Records) -> dict[str, list[Any]]:
    locations = records.trials["location"] if len(records.trials) else []
    places = list({id(place): place for place in locations if place}.values())
    return {
        **values_by_name(records.environments),
        **{f"location.{name}": found for name, found in values_by_name(places).items()},
    }
