"""Records -> configurations, with draws of their numbers that carry all uncertainty. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.analysis.read import Records
from headrace.analysis.scatter import shares_of_variance, storage_of
from headrace.decision.cells import (
    CandidateCell,
    cells_of,
    differing,
    key_of,
    rate_name,
    without_trial,
)
from headrace.decision.costs import PERFORMANCE, Activity, Costs, copies_written, costs_of
from headrace.decision.meters import MeteredBy, note_on_meters
from headrace.decision.offers import Offers
from headrace.decision.randomness import (
    Draws,
    Randomness,
    Spread,
    spreads_of,
)
from headrace.errors import RefusedError, UsageError
from headrace.metrics import less_is_better, metric_of
from headrace.records.inventory import Inventory

DRAWS = 4000
ASSUMED_MODEL_ERROR = 0.15
"""Relative error of a simulated rate where no measurement of the same study is given. An
assumption, near the largest of the errors in docs/profiles.md."""

SHOWN_METRICS = (
    "events_per_s",
    "asked_bytes_per_s",
    "efficiency",
    "throughput_jobs",
    "energy_wh_per_job",
    "energy_j_per_event",
    "mean_power_w",
    "idle_power_w",
)
"""Metrics of every configuration, besides those that wishes refer to."""


@dataclass(frozen=True)
class Evidence:
    """The trials of one workload in one configuration."""

    results: Path
    workload: str
    trials: tuple[str, ...]
    values: dict[str, tuple[float, ...]]
    """Metric -> value of each of these trials (NaN where a trial has none)."""
    left_out: int
    """Trials of the same cell that are invalid or failed."""
    meters: MeteredBy = field(default_factory=MeteredBy)
    """Errors of the meters of these trials."""


@dataclass(frozen=True)
class Candidate:
    """One configuration: a target with its levels, slots and nodes."""

    key: str
    """Text that names it, the same in every result set."""
    configuration: str
    """What `configuration_of` returns for its trials."""
    target: str
    levels: Mapping[str, object]
    """Levels that differ among the configurations; includes `slots`."""
    slots: int
    nodes: int
    provenance: str
    inventory: Inventory
    evidence: tuple[Evidence, ...]
    costs: Costs
    draws: dict[str, Draws]
    """Metric or quantity -> draws of its value."""
    points: dict[str, float]
    """Metric or quantity -> its value without uncertainty."""
    single: bool
    """Whether some workload has one trial only, so that its spread is taken from the others."""
    model_error: float | None = None
    """Relative error of its rates; None unless simulated."""

    @property
    def storage(self) -> str:
        """Return what it is without its number of slots."""
        levels = sorted((n, repr(v)) for n, v in self.levels.items() if n != "slots")
        return repr((self.target, levels, self.nodes))

    def interval(self, name: str, share: float = 0.95) -> tuple[float, float] | None:
        """Return the interval of a value that holds this share of the draws."""
        if name not in self.draws:
            return None
        draws, ends = self.draws[name], ((1 - share) / 2, (1 + share) / 2)
        if not np.isfinite(draws).all():
            # A drive that nothing is written to lasts for ever: between two infinities nothing can
            # be interpolated.
            ordered = np.sort(draws)
            low, high = (ordered[round(end * (len(ordered) - 1))] for end in ends)
        else:
            low, high = np.quantile(draws, ends)
        return float(low), float(high)


@dataclass(frozen=True)
class Basis:
    """The trials and assumptions that a decision is based on."""

    candidates: tuple[Candidate, ...]
    shares: dict[str, float]
    """Share of the events (jobs, where none are counted) of each workload."""
    incomplete: dict[str, str]
    """Configurations that are left out, with the reason."""
    notes: tuple[str, ...]
    model_error: float | None
    """Relative error of simulated rates; None without simulated configurations."""
    model_error_source: Literal["compared", "assumed", "given", ""] = ""
    trials: int = 0
    left_out: int = 0
    results: tuple[Path, ...] = ()
    metrics: frozenset[str] = field(default_factory=frozenset[str])


def basis_of(
    sets: Sequence[Records],
    offers: Offers,
    shares: Mapping[str, float] | None,
    model_error: float | None,
    *,
    metrics: Collection[str] = (),
    draws: int = DRAWS,
    seed: int = 1,
) -> Basis:
    """Return every configuration of these result sets with its numbers.

    A configuration that is measured and simulated counts as measured; the pairs give the error of
    the model. `shares`: share of each workload; equal ones when None. `metrics`: those that are
    needed besides `SHOWN_METRICS`. Raises RefusedError when no
    trial can be used, UsageError for a workload that no result set has.
    """
    every = cells_of(sets)
    cells = [cell for cell in every if cell.rows]
    workloads = list(dict.fromkeys(name for cell in cells for name in cell.rows))
    if not workloads:
        raise RefusedError(
            "no valid trial in "
            + ", ".join(str(records.root) for records in sets)
            + ": nothing can be decided",
            hint="headrace report RESULTS says why trials are invalid",
        )
    mix = _mix(workloads, shares)
    compared = _compared_error(cells)
    error, source = _error(cells, compared, model_error)
    cells, notes = _measured_first(cells)
    names = differing(cells)
    incomplete = without_trial(every, cells, differing(every))
    spreads = spreads_of(cells)
    notes = (*notes, *spreads.notes)
    random = Randomness(np.random.default_rng(seed), draws, error, spreads)
    needed = frozenset((*SHOWN_METRICS, *metrics))
    made: list[Candidate] = []
    for cell in cells:
        key = key_of(cell, names)
        missing = [name for name in mix if name not in cell.rows]
        if missing:
            incomplete[key] = f"no valid trial of {', '.join(missing)}"
            continue
        made.append(_candidate(cell, key, names, mix, offers, random, needed))
    return Basis(
        candidates=tuple(made),
        shares=mix,
        incomplete=incomplete,
        notes=(*notes, *_notes_on(every, made, sets)),
        model_error=error,
        model_error_source=source,
        trials=sum(len(each.trials) for one in made for each in one.evidence),
        left_out=sum(1 for records in sets for valid in records.trials["valid"] if not valid),
        results=tuple(records.root for records in sets),
        metrics=frozenset(name for one in made for name in one.points),
    )


def _notes_on(
    cells: Sequence[CandidateCell], made: Sequence[Candidate], sets: Sequence[Records]
) -> list[str]:
    """Return what is said of copies of trials, of meters, and of the folders."""
    copies = sum(cell.copies for cell in cells)
    return [
        *([f"{copies} trials are in several folders: they count once"] if copies else []),
        *note_on_meters(each.meters for one in made for each in one.evidence),
        *(warning for records in sets for warning in records.warnings),
    ]


def _mix(workloads: Sequence[str], shares: Mapping[str, float] | None) -> dict[str, float]:
    if shares is None:
        return {name: 1 / len(workloads) for name in workloads}
    for name in shares:
        if name not in workloads:
            raise UsageError(
                f"--mix: no result set has a workload {name!r}; there are: {', '.join(workloads)}"
            )
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items() if share > 0}


def _measured_first(cells: Sequence[CandidateCell]) -> tuple[list[CandidateCell], tuple[str, ...]]:
    """Return the cells without simulated ones that were measured too."""
    real = {cell.stated for cell in cells if cell.provenance != "simulated"}
    kept = [cell for cell in cells if cell.provenance != "simulated" or cell.stated not in real]
    dropped = len(cells) - len(kept)
    note = f"{dropped} simulated configurations were measured too: the measurement counts"
    return kept, (note,) if dropped else ()


def _compared_error(cells: Sequence[CandidateCell]) -> float | None:
    """Return the root mean square of the logarithmic error of simulated times, over cells that were
    measured too; None without any."""
    simulated = {cell.stated: cell for cell in cells if cell.provenance == "simulated"}
    errors: list[float] = []
    for cell in cells:
        other = simulated.get(cell.stated)
        if cell.provenance == "simulated" or other is None:
            continue
        for workload, (_, rows) in cell.rows.items():
            if workload in other.rows:
                name = rate_name(rows[0]["metrics"])
                pair = [_mean(rows, name), _mean(other.rows[workload][1], name)]
                if all(value > 0 for value in pair):
                    errors.append(math.log(pair[1] / pair[0]))
    return math.sqrt(sum(error**2 for error in errors) / len(errors)) if errors else None


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    values = [row["metrics"].get(name, math.nan) for row in rows]
    return float(np.nanmean(values)) if not all(math.isnan(value) for value in values) else 0.0


def _error(
    cells: Sequence[CandidateCell], compared: float | None, given: float | None
) -> tuple[float | None, Literal["compared", "assumed", "given", ""]]:
    if not any(cell.provenance == "simulated" for cell in cells):
        return None, ""
    if given is not None:
        return given, "given"
    return (compared, "compared") if compared is not None else (ASSUMED_MODEL_ERROR, "assumed")


def _candidate(
    cell: CandidateCell,
    key: str,
    names: Sequence[str],
    mix: Mapping[str, float],
    offers: Offers,
    random: Randomness,
    needed: frozenset[str],
) -> Candidate:
    simulated = cell.provenance == "simulated"
    evidence = tuple(_evidence(cell, name, needed) for name in mix)
    inventory: Inventory = cell.rows[next(iter(mix))][1][0]["inventory"] or ()
    drawn = _drawn_with_errors(cell, evidence, inventory, random)
    points = [{name: float(np.nanmean(v)) for name, v in each.values.items()} for each in evidence]
    weights = list(mix.values())
    draws = _combined(drawn, weights)
    point = {
        name: float(value[0])
        for name, value in _combined(
            [{name: np.array([v]) for name, v in each.items()} for each in points], weights
        ).items()
    }
    activity = _activity(cell, mix, point, copies_written(inventory))
    costs = costs_of(inventory, cell.target, activity, offers)
    for name, value in {**costs.values, "slots": cell.slots, "nodes": cell.nodes}.items():
        point[name] = float(value)
        draws[name] = np.full(random.draws, float(value))
    rate = next((each for each in ("events_per_s", "asked_bytes_per_s") if point.get(each)), None)
    if rate is not None and "wear_years" in point:
        # Bytes are written as fast as events are processed.
        draws["wear_years"] *= point[rate] / np.maximum(draws[rate], 1e-12)
    draws.update(_of_power(costs, draws, offers))
    for name, (metric, unit) in PERFORMANCE.items():
        if name in costs.values and metric in draws:
            draws[name] = costs.values["price"] / np.maximum(draws[metric] / unit, 1e-12)
    return Candidate(
        key=key,
        configuration=cell.configuration,
        target=cell.target,
        levels={**{n: cell.levels[n] for n in names if n in cell.levels}, "slots": cell.slots},
        slots=cell.slots,
        nodes=cell.nodes,
        provenance=cell.provenance,
        inventory=inventory,
        evidence=evidence,
        costs=costs,
        draws=draws,
        points=point,
        single=any(len(each.trials) == 1 for each in evidence),
        model_error=random.error if simulated else None,
    )


def _drawn_with_errors(
    cell: CandidateCell, evidence: Sequence[Evidence], inventory: Inventory, random: Randomness
) -> list[dict[str, Draws]]:
    """Return draws of the metrics of each workload, with the errors of the model and of meters."""
    simulated, storage = cell.provenance == "simulated", storage_of(cell.target, inventory)
    factor = np.ones(random.draws)
    if simulated:
        factor = random.model_factor(cell.target, inventory, cell.slots)
    found: list[dict[str, Draws]] = []
    for each in evidence:
        alone = random.spreads.alone[simulated]
        shared = random.spreads.of_storage.get((simulated, storage, each.workload))
        drawn = _drawn(each, factor, random, alone, shared)
        found.append(each.meters.applied(drawn, random))
    return found


def _of_power(costs: Costs, draws: Mapping[str, Draws], offers: Offers) -> dict[str, Draws]:
    """Return draws of what follows from the power of the records: energy, emissions, cost."""
    if costs.power is None:
        return {}
    found = costs.power.values(draws["mean_power_w"], draws.get("idle_power_w"))
    if "cost" in costs.values:
        found["cost"] = costs.values["price"] + offers.years * found["electricity_per_year"]
    return found


def _evidence(cell: CandidateCell, workload: str, needed: frozenset[str]) -> Evidence:
    root, rows = cell.rows[workload]
    names = dict.fromkeys(name for row in rows for name in row["metrics"] if name in needed)
    return Evidence(
        results=root,
        workload=workload,
        trials=tuple(str(row["id"]) for row in rows),
        values={
            name: tuple(float(row["metrics"].get(name, math.nan)) for row in rows) for name in names
        },
        left_out=cell.left_out.get(workload, 0),
        meters=MeteredBy.of(rows),
    )


def _drawn(
    evidence: Evidence, factor: Draws, random: Randomness, alone: Spread, shared: Spread | None
) -> dict[str, Draws]:
    """Return draws of each metric's mean: a multivariate t about the mean of the trials.

    One random weight per trial serves all metrics, so that their correlations are kept. With one
    trial, `alone` is the spread between repeats of other configurations. With more, the variance
    is drawn towards that of all configurations of the storage, `shared`.
    """
    n = len(evidence.trials)
    draws, source = random.draws, random.source
    weights = source.normal(size=(n, draws))
    scale = 1 / np.sqrt(source.chisquare(n - 1, draws) / (n - 1)) if n > 1 else np.ones(draws)
    common, power, own = np.ones(draws), np.ones(draws), 1.0
    if n == 1:
        common, power = (_scattered(each, scale, random) for each in (alone.rate, alone.power))
    elif shared is not None:
        of_own, of_shared = shares_of_variance(n)
        own = math.sqrt(of_own)
        added = scale * math.sqrt(of_shared / n)
        common, power = (_scattered(each, added, random) for each in (shared.rate, shared.power))
    found: dict[str, Draws] = {}
    for name, values in evidence.values.items():
        known = np.array([value for value in values if not math.isnan(value)])
        if not len(known):
            continue
        mean = known.mean()
        drawn = np.full(draws, mean)
        if len(known) == n and n > 1:
            drawn = mean + (known - mean) @ weights / math.sqrt(n * (n - 1)) * scale * own
        fed = [each for each in evidence.values.get("efficiency", ()) if not math.isnan(each)]
        efficiency = float(np.mean(fed)) if fed else math.nan
        if name == "mean_power_w":
            drawn = drawn * power
        found[name] = _with_error(name, np.maximum(drawn, 0.0), factor * common, efficiency)
        highest = metric_of(name).highest
        if math.isfinite(highest):
            found[name] = np.minimum(found[name], highest)
    return found


def _scattered(spread: float, scale: Draws, random: Randomness) -> Draws:
    """Return factors with this relative standard deviation, times a scale."""
    # Of two repeats, a draw of the scale may be huge: the factor stays a number.
    return np.exp(np.clip(spread * scale * random.source.normal(size=random.draws), -50.0, 50.0))


def _with_error(name: str, values: Draws, factor: Draws, efficiency: float) -> Draws:
    """Return what rates that are off by `factor` make of a metric; power and amounts stay.

    Of the job efficiency, the share of the time that jobs wait is off: an efficiency near 1 is
    near 1 whatever the drive is. Throughput is a sum of job efficiencies.
    """
    metric = metric_of(name)
    if name == "throughput_jobs" and efficiency <= 1:
        return values / (efficiency + (1 - efficiency) / factor)
    if name == "efficiency":
        return values / np.maximum(values + np.maximum(1 - values, 0.0) / factor, 1e-12)
    if metric.unit.endswith("/s"):
        return values * factor
    return values / factor if metric.scale == "time" or _per_work(name) else values


def _per_work(name: str) -> bool:
    return less_is_better(name) and name.endswith(("_per_job", "_per_event"))


def _combined(parts: Sequence[dict[str, Draws]], weights: Sequence[float]) -> dict[str, Draws]:
    """Return the metrics of a mix of workloads, from those of each.

    The rate of events (of bytes, where none are counted) is that of all together, with the shares
    given; numbers per job and per event are weighted by these shares, all others, such as further
    rates, by the time that each workload takes.
    """
    if len(parts) == 1:
        return dict(parts[0])
    common = [name for name in parts[0] if all(name in part for part in parts)]
    rate = next((n for n in ("events_per_s", "asked_bytes_per_s") if n in common), None)
    if rate is None:
        times = [np.full_like(next(iter(part.values())), weight)
                 for part, weight in zip(parts, weights, strict=True)]  # fmt: skip
    else:
        times = [weight / np.maximum(part[rate], 1e-300)
                 for part, weight in zip(parts, weights, strict=True)]  # fmt: skip
    total = _sum(times)
    found: dict[str, Draws] = {}
    for name in common:
        values = [part[name] for part in parts]
        if _per_work(name):
            found[name] = _sum([w * value for w, value in zip(weights, values, strict=True)])
        elif name == rate or (rate is None and metric_of(name).unit.endswith("/s")):
            found[name] = 1 / _sum(
                [w / np.maximum(value, 1e-300) for w, value in zip(weights, values, strict=True)]
            )
        else:
            weighted = [t * value for t, value in zip(times, values, strict=True)]
            found[name] = _sum(weighted) / total
    return found


def _sum(values: Sequence[Draws]) -> Draws:
    return np.sum(values, axis=0)


def _activity(
    cell: CandidateCell, mix: Mapping[str, float], point: Mapping[str, float], copies: float
) -> Activity:
    """Return what jobs do to the hardware. `copies`: bytes stored per byte that they write."""
    times = _times(cell, mix)
    written: list[tuple[float, float]] = []
    held = False
    for name in mix:
        counted = [
            (row["device_bytes_written"], copies * row["bytes_written"], row["last_done_s"])
            for row in cell.rows[name][1]
            if row["last_done_s"] and not math.isnan(row["device_bytes_written"])
        ]
        # What jobs wrote may be in the page cache when they end; it is written all the same.
        held = held or any(by_jobs > on_device for on_device, by_jobs, _ in counted)
        if counted:
            rates = [max(on_device, by_jobs) / time_s for on_device, by_jobs, time_s in counted]
            written.append((times[name], float(np.mean(rates))))
    written_s = sum(time for time, _ in written)
    return Activity(
        power_w=point.get("mean_power_w"),
        written_bytes_per_s=sum(time * rate for time, rate in written) / written_s
        if written
        else None,
        events_per_s=point.get("events_per_s"),
        requested_bytes_per_s=point.get("asked_bytes_per_s"),
        throughput_jobs=point.get("throughput_jobs"),
        write_amplification=_write_amplification(cell, mix),
        of_facility=_every_trial_has(cell, mix, "energy_facility_wh_per_job"),
        with_switches=all(
            row["energy_basis"] is not None and row["energy_basis"].switches
            for name in mix
            for row in cell.rows[name][1]
        ),
        has_switches=_every_trial_has(cell, mix, "energy_switch_j_per_job"),
        idle_w=point.get("idle_power_w"),
        held_in_memory=held,
    )


def _times(cell: CandidateCell, mix: Mapping[str, float]) -> dict[str, float]:
    """Return the time that each workload takes of a mix, in any unit."""
    for name in ("events_per_s", "asked_bytes_per_s"):
        rates = {workload: _mean(cell.rows[workload][1], name) for workload in mix}
        if all(rate > 0 for rate in rates.values()):
            return {workload: share / rates[workload] for workload, share in mix.items()}
    return dict(mix)


def _write_amplification(cell: CandidateCell, mix: Mapping[str, float]) -> float | None:
    """Return what flash wrote per byte written to it, over all trials; None without any write."""
    rows = [row for name in mix for row in cell.rows[name][1]]
    host = sum(row["device_flash_host_bytes"] for row in rows)
    return sum(row["device_flash_written_bytes"] for row in rows) / host if host > 0 else None


def _every_trial_has(cell: CandidateCell, mix: Mapping[str, float], metric: str) -> bool:
    rows = [row for name in mix for row in cell.rows[name][1]]
    return bool(rows) and all(row["metrics"].get(metric) is not None for row in rows)
