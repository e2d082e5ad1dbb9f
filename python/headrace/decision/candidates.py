"""Records -> configurations, with draws of their numbers that carry all uncertainty. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from headrace.analysis.metrics import valid_trials
from headrace.analysis.read import Records
from headrace.decision.costs import PERFORMANCE, Activity, Costs, copies_written, costs_of
from headrace.decision.offers import Offers
from headrace.errors import RefusedError, UsageError
from headrace.metrics import less_is_better, metric_of
from headrace.records.inventory import Inventory
from headrace.study.level_words import level_words

DRAWS = 4000
ASSUMED_MODEL_ERROR = 0.15
"""Relative error of a simulated rate where no measurement of the same study is given. An
assumption, near the largest of the errors in docs/profiles.md."""

ASSUMED_SPREAD = 0.1
"""Relative standard deviation of rates between repeats where no configuration was measured twice.
An assumption: with none, two single trials would show any difference."""
_NOT_REPEATED = "no configuration was measured twice: repeats are taken to differ by 10 %"

SETTINGS_ERROR = 0.03
"""Relative error of a simulated rate between settings of one storage with the same slots, at most.
Twice what is left in the reproduction of *cluster-energy* without the mean error of each storage:
1.0 % of the energies and 1.5 % of the times, over 28 filesystems and schedulers each."""
SLOTS_SHARE = 0.5
"""Share of the model's error (its variance) that is another one for each number of slots of a
storage. An assumption: in the reproduction of *proof-ssd*, curves over slots are as far off as
storages are."""

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

Draws = npt.NDArray[np.float64]


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


@dataclass(frozen=True)
class Candidate:
    """One configuration: a target with its levels, slots and nodes."""

    key: str
    """Text that names it, the same in every result set."""
    configuration: str
    """What `configuration_of` returns for its trials."""
    target: str
    levels: dict[str, Any]
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


@dataclass
class _Cell:
    configuration: str
    target: str
    levels: dict[str, Any]
    slots: int
    nodes: int
    provenance: str
    target_kind: str
    rows: dict[str, Any] = field(default_factory=dict[str, Any])
    """Workload -> (results folder, rows of its valid trials)."""
    left_out: dict[str, int] = field(default_factory=dict[str, int])


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
    every = _cells(sets)
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
    names = _differing(cells)
    incomplete = _without_trial(every, cells, _differing(every))
    spreads, assumed = _spreads(cells)
    notes = (*notes, *assumed)
    random = _Random(np.random.default_rng(seed), draws, error, spreads)
    needed = frozenset((*SHOWN_METRICS, *metrics))
    made: list[Candidate] = []
    for cell in cells:
        key = _key(cell, names)
        missing = [name for name in mix if name not in cell.rows]
        if missing:
            incomplete[key] = f"no valid trial of {', '.join(missing)}"
            continue
        made.append(_candidate(cell, key, names, mix, offers, random, needed))
    return Basis(
        candidates=tuple(made),
        shares=mix,
        incomplete=incomplete,
        notes=(*notes, *(warning for records in sets for warning in records.warnings)),
        model_error=error,
        model_error_source=source,
        trials=sum(len(each.trials) for one in made for each in one.evidence),
        left_out=sum(1 for records in sets for valid in records.trials["valid"] if not valid),
        results=tuple(records.root for records in sets),
        metrics=frozenset(name for one in made for name in one.points),
    )


# -- cells --


def _cells(sets: Sequence[Records]) -> list[_Cell]:
    found: dict[tuple[str, str], _Cell] = {}
    for records in sets:
        for row in _rows(records.trials):
            name = configuration_of(row)
            cell = found.setdefault(
                (name, row["provenance"]),
                _Cell(
                    name, row["target"], _levels(row), int(row["slots"]), _node_count(row),
                    row["provenance"], str(row["target_kind"]),
                ),
            )  # fmt: skip
            if not row["valid"]:
                workload = str(row["workload"])
                cell.left_out[workload] = cell.left_out.get(workload, 0) + 1
        for row in _rows(valid_trials(records)):
            cell = found[configuration_of(row), row["provenance"]]
            cell.rows.setdefault(row["workload"], (records.root, []))[1].append(row)
    return list(found.values())


def _without_trial(
    every: Sequence[_Cell], cells: Sequence[_Cell], names: Sequence[str]
) -> dict[str, str]:
    """Return the configurations of which no trial is valid, by name, with the reason."""
    having = {cell.configuration for cell in cells}
    return {
        _key(cell, names): f"none of its {sum(cell.left_out.values())} trials is valid"
        if sum(cell.left_out.values()) > 1
        else "its only trial is not valid"
        for cell in every
        if cell.configuration not in having
    }


def configuration_of(row: Mapping[str, Any]) -> str:
    """Return a text that is equal for trials of one configuration: rows of `Records.trials`."""
    return repr((row["target"], sorted(_levels(row).items()), row["slots"], _node_count(row)))


def _levels(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: level
        for name, level in dict(row["levels"]).items()
        if name.removeprefix("run.") not in ("target", "workload", "slots", "nodes")
        and level is not None
    }


def _rows(frame: Any) -> list[dict[str, Any]]:
    return frame.to_dict("records") if len(frame) else []


def _node_count(row: Mapping[str, Any]) -> int:
    """Return the number of nodes: what the inventory says, or the number in `[run]`."""
    counted = [item.count for item in row["inventory"] or () if item.part == "node"]
    return int(counted[0] if counted else row["nodes"])


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


def _measured_first(cells: Sequence[_Cell]) -> tuple[list[_Cell], tuple[str, ...]]:
    """Return the cells without simulated ones that were measured too."""
    real = {cell.configuration for cell in cells if cell.provenance != "simulated"}
    kept = [
        cell for cell in cells if cell.provenance != "simulated" or cell.configuration not in real
    ]
    dropped = len(cells) - len(kept)
    note = f"{dropped} simulated configurations were measured too: the measurement counts"
    return kept, (note,) if dropped else ()


def _compared_error(cells: Sequence[_Cell]) -> float | None:
    """Return the root mean square of the logarithmic error of simulated times, over cells that were
    measured too; None without any."""
    simulated = {cell.configuration: cell for cell in cells if cell.provenance == "simulated"}
    errors: list[float] = []
    for cell in cells:
        other = simulated.get(cell.configuration)
        if cell.provenance == "simulated" or other is None:
            continue
        for workload, (_, rows) in cell.rows.items():
            if workload in other.rows:
                name = _rate_name(rows[0]["metrics"])
                pair = [_mean(rows, name), _mean(other.rows[workload][1], name)]
                if all(value > 0 for value in pair):
                    errors.append(math.log(pair[1] / pair[0]))
    return math.sqrt(sum(error**2 for error in errors) / len(errors)) if errors else None


def _rate_name(metrics: Mapping[str, float]) -> str:
    return "events_per_s" if metrics.get("events_per_s") else "asked_bytes_per_s"


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    values = [row["metrics"].get(name, math.nan) for row in rows]
    return float(np.nanmean(values)) if not all(math.isnan(value) for value in values) else 0.0


def _error(
    cells: Sequence[_Cell], compared: float | None, given: float | None
) -> tuple[float | None, Literal["compared", "assumed", "given", ""]]:
    if not any(cell.provenance == "simulated" for cell in cells):
        return None, ""
    if given is not None:
        return given, "given"
    return (compared, "compared") if compared is not None else (ASSUMED_MODEL_ERROR, "assumed")


def _differing(cells: Sequence[_Cell]) -> list[str]:
    """Return the factors of which the cells have several levels."""
    names = dict.fromkeys(name for cell in cells for name in cell.levels)
    return [name for name in names if len({repr(cell.levels.get(name)) for cell in cells}) > 1]


def _key(cell: _Cell, names: Sequence[str]) -> str:
    parts = [cell.target]
    parts += [
        level_words(n, cell.levels[n], cell.target_kind, "") for n in names if n in cell.levels
    ]
    parts.append(f"{cell.slots} slot{'s' if cell.slots != 1 else ''}")
    if cell.nodes > 1:
        parts.append(f"{cell.nodes} nodes")
    return ", ".join(parts)


# -- numbers --


@dataclass(frozen=True)
class _Spread:
    """Relative standard deviations between repeats, for cells with one trial."""

    rate: float
    power: float


def _spreads(cells: Sequence[_Cell]) -> tuple[dict[bool, _Spread], tuple[str, ...]]:
    """Return the spread of the simulated cells (True) and of the others (False), and a note where
    it is assumed. Simulated cells without repeats have none."""
    found: dict[bool, _Spread] = {}
    notes: tuple[str, ...] = ()
    for simulated in (True, False):
        mine = [cell for cell in cells if (cell.provenance == "simulated") == simulated]
        rate, power = _pooled_spread(mine), _pooled_spread(mine, "mean_power_w")
        if rate is None and mine and not simulated:
            notes = (_NOT_REPEATED,)
        other = 0.0 if simulated else ASSUMED_SPREAD
        found[simulated] = _Spread(
            other if rate is None else rate, other if power is None else power
        )
    return found, notes


def _pooled_spread(cells: Sequence[_Cell], name: str = "") -> float | None:
    """Return the relative standard deviation of a metric between repeats, over all cells; of the
    rate if none is named. None when no cell has repeats."""
    squares, freedom = 0.0, 0
    for cell in cells:
        for _, rows in cell.rows.values():
            values = [
                row["metrics"].get(name or _rate_name(row["metrics"]), math.nan) for row in rows
            ]
            logs = np.log([value for value in values if value > 0])
            if len(logs) > 1:
                squares += float(((logs - logs.mean()) ** 2).sum())
                freedom += len(logs) - 1
    return math.sqrt(squares / freedom) if freedom else None


class _Random:
    """Where draws come from. Cells of one storage share what the model of it does not know."""

    def __init__(
        self,
        source: np.random.Generator,
        draws: int,
        error: float | None,
        spreads: Mapping[bool, _Spread],
    ) -> None:
        self.source = source
        self.draws = draws
        self.error = error
        """Relative error of simulated rates."""
        self.spreads = spreads
        """Of simulated cells (True), and of others."""
        self._factors: dict[str, Draws] = {}

    def model_factor(self, target: str, inventory: Inventory, slots: int) -> Draws:
        """Return the factors between the true and the simulated rates of a configuration.

        One part is common to all configurations of a storage, one to those with the same slots.
        """
        storage = repr((target, [(item.name, item.count) for item in inventory]))
        error = self.error or 0.0
        common = self._common(storage, error * math.sqrt(1 - SLOTS_SHARE))
        of_slots = self._common(f"{storage} {slots}", error * math.sqrt(SLOTS_SHARE))
        own = self.source.normal(0.0, min(error, SETTINGS_ERROR), self.draws)
        return common * of_slots * np.exp(own)

    def _common(self, name: str, error: float) -> Draws:
        """Return the same factors whenever this name is given."""
        if name not in self._factors:
            self._factors[name] = np.exp(self.source.normal(0.0, error, self.draws))
        return self._factors[name]


def _candidate(
    cell: _Cell,
    key: str,
    names: Sequence[str],
    mix: Mapping[str, float],
    offers: Offers,
    random: _Random,
    needed: frozenset[str],
) -> Candidate:
    simulated = cell.provenance == "simulated"
    evidence = tuple(_evidence(cell, name, needed) for name in mix)
    inventory: Inventory = cell.rows[next(iter(mix))][1][0]["inventory"] or ()
    factor = np.ones(random.draws)
    if simulated:
        factor = random.model_factor(cell.target, inventory, cell.slots)
    drawn = [_drawn(each, factor, random, random.spreads[simulated]) for each in evidence]
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


def _of_power(costs: Costs, draws: Mapping[str, Draws], offers: Offers) -> dict[str, Draws]:
    """Return draws of what follows from the power of the records: energy, emissions, cost."""
    if costs.power is None:
        return {}
    found = costs.power.values(draws["mean_power_w"], draws.get("idle_power_w"))
    if "cost" in costs.values:
        found["cost"] = costs.values["price"] + offers.years * found["electricity_per_year"]
    return found


def _evidence(cell: _Cell, workload: str, needed: frozenset[str]) -> Evidence:
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
    )


def _drawn(evidence: Evidence, factor: Draws, random: _Random, spread: _Spread) -> dict[str, Draws]:
    """Return draws of each metric's mean: a multivariate t about the mean of the trials.

    One random weight per trial serves all metrics, so that their correlations are kept. With one
    trial, `spread` is that between repeats of other configurations.
    """
    n = len(evidence.trials)
    draws, source = random.draws, random.source
    weights = source.normal(size=(n, draws))
    scale = 1 / np.sqrt(source.chisquare(n - 1, draws) / (n - 1)) if n > 1 else np.ones(draws)
    common = np.exp(spread.rate * source.normal(size=draws)) if n == 1 else np.ones(draws)
    power = np.exp(spread.power * source.normal(size=draws)) if n == 1 else np.ones(draws)
    found: dict[str, Draws] = {}
    for name, values in evidence.values.items():
        known = np.array([value for value in values if not math.isnan(value)])
        if not len(known):
            continue
        mean = known.mean()
        drawn = np.full(draws, mean)
        if len(known) == n and n > 1:
            drawn = mean + (known - mean) @ weights / math.sqrt(n * (n - 1)) * scale
        fed = [each for each in evidence.values.get("efficiency", ()) if not math.isnan(each)]
        efficiency = float(np.mean(fed)) if fed else math.nan
        if name == "mean_power_w":
            drawn = drawn * power
        found[name] = _with_error(name, np.maximum(drawn, 0.0), factor * common, efficiency)
        highest = metric_of(name).highest
        if math.isfinite(highest):
            found[name] = np.minimum(found[name], highest)
    return found


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
    cell: _Cell, mix: Mapping[str, float], point: Mapping[str, float], copies: float
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


def _times(cell: _Cell, mix: Mapping[str, float]) -> dict[str, float]:
    """Return the time that each workload takes of a mix, in any unit."""
    for name in ("events_per_s", "asked_bytes_per_s"):
        rates = {workload: _mean(cell.rows[workload][1], name) for workload in mix}
        if all(rate > 0 for rate in rates.values()):
            return {workload: share / rates[workload] for workload, share in mix.items()}
    return dict(mix)


def _write_amplification(cell: _Cell, mix: Mapping[str, float]) -> float | None:
    """Return what flash wrote per byte written to it, over all trials; None without any write."""
    rows = [row for name in mix for row in cell.rows[name][1]]
    host = sum(row["device_flash_host_bytes"] for row in rows)
    return sum(row["device_flash_written_bytes"] for row in rows) / host if host > 0 else None


def _every_trial_has(cell: _Cell, mix: Mapping[str, float], metric: str) -> bool:
    rows = [row for name in mix for row in cell.rows[name][1]]
    return bool(rows) and all(row["metrics"].get(metric) is not None for row in rows)
