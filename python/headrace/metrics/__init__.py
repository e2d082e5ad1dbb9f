"""Metrics: a single definition of every number in findings, reports and comparisons.

A metric is a `Metric` at the top level of a module of this package, or an entry point of the group
`headrace.metrics`. Its value is computed once per trial, when records are read. Findings, effects,
the terminal, the HTML page, CSV, LaTeX and `compare` look up names and formats here.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points

from headrace.metrics.definition import Better as Better
from headrace.metrics.definition import Metric as Metric
from headrace.metrics.definition import Scale as Scale
from headrace.metrics.headline import WANTED
from headrace.metrics.naming import named
from headrace.metrics.trial import RecordedTrial
from headrace.records.energy import Energy
from headrace.records.trial_record import TrialRecord
from headrace.study.model import Price


@cache
def registered() -> dict[str, Metric]:
    """Return every metric by name, in the order of `rank`.

    Raises RuntimeError when two metrics have the same name: that is a defect, not a user error.
    """
    modules = [
        importlib.import_module(f"{__name__}.{found.name}")
        for found in pkgutil.iter_modules(__path__)
    ]
    items = [
        item for module in modules for item in vars(module).values() if isinstance(item, Metric)
    ]
    items += [entry.load() for entry in entry_points(group=__name__)]
    found: dict[str, Metric] = {}
    for item in items:
        if found.setdefault(item.name, item) is not item:
            raise RuntimeError(f"two metrics are named {item.name}")
    return dict(sorted(found.items(), key=lambda named: named[1].rank))


def values_of(record: TrialRecord) -> dict[str, float]:
    """Return the metrics of one trial, without those that have no value for it.

    Includes the rates that a workload measured itself (`results.rates`), even those without a
    definition.
    """
    if not record.sums:
        return {}
    trial = RecordedTrial(record)
    found: dict[str, float] = {}
    for name, value_of in _computed(record.energy != _NO_ENERGY):
        value = value_of(trial)
        if value is not None and math.isfinite(value):
            found[name] = float(value)
    for name, value in trial.own_rates.items():
        if value is not None and math.isfinite(value):
            found.setdefault(name, float(value))
    return found


_NO_ENERGY = Energy()


@cache
def _computed(energy: bool) -> tuple[tuple[str, Callable[[RecordedTrial], float | None]], ...]:
    """Return names and functions of the metrics computed from a record (cached: used per trial),
    with or without those of energy."""
    return tuple(
        (each.name, each.value)
        for each in registered().values()
        if each.value is not None and (energy or not each.of_energy)
    )


def forget() -> None:
    """Clear the caches, so that metrics of added or removed packages are looked up again."""
    for each in (registered, metric_of, _computed, _with_provenance, _with_uncertainty):
        each.cache_clear()


def priced_values(values: Mapping[str, float], price: Price) -> dict[str, float]:
    """Return the metrics of money for a trial with these metrics and a target with this price."""
    found: dict[str, float] = {}
    for metric in registered().values():
        if metric.value_for_price is not None:
            value = metric.value_for_price(values, price)
            if value is not None and math.isfinite(value):
                found[priced_name(metric.name, price)] = value
    return found


def priced_name(name: str, price: Price) -> str:
    """Return the name of a metric of money in this price's currency: `…_per_eur` for
    `…_per_currency`.
    """
    return f"{name.removesuffix('currency')}{price.currency.lower()}"


def is_of_money(name: str) -> bool:
    """Return whether a name is that of a metric of money, in some currency."""
    return any(
        name.startswith(metric.name.removesuffix("currency"))
        for metric in registered().values()
        if metric.value_for_price is not None
    )


def names_for(prices: Iterable[Price]) -> list[str]:
    """Return the names that `[report] metric` may have in a study with these prices."""
    of_money = [
        priced_name(metric.name, price)
        for metric in registered().values()
        if metric.value_for_price is not None
        for price in prices
    ]
    plain = [name for name, metric in registered().items() if metric.value_for_price is None]
    return list(dict.fromkeys([*(name for name in WANTED if name), *plain, *of_money]))


def provenances_of(record: TrialRecord) -> dict[str, str]:
    """Return the provenance of each metric whose provenance differs from that of the trial."""
    return {name: provenance_of(record) for name, provenance_of in _with_provenance()}


@cache
def _with_provenance() -> tuple[tuple[str, Callable[[TrialRecord], str]], ...]:
    return tuple(
        (each.name, each.provenance)
        for each in registered().values()
        if each.provenance is not None
    )


def uncertainties_of(record: TrialRecord) -> dict[str, float]:
    """Return the relative standard uncertainty of each metric that has one beyond its scatter."""
    energy = record.energy != _NO_ENERGY
    found = {name: of(record) for name, of in _with_uncertainty(energy)}
    return {name: value for name, value in found.items() if value is not None and value > 0}


@cache
def _with_uncertainty(
    energy: bool,
) -> tuple[tuple[str, Callable[[TrialRecord], float | None]], ...]:
    return tuple(
        (each.name, each.relative_uncertainty)
        for each in registered().values()
        if each.relative_uncertainty is not None and (energy or not each.of_energy)
    )


@cache
def metric_of(name: str) -> Metric:
    """Return the definition of a metric; without one, derive it from the name (`naming.py`)."""
    return registered().get(name) or named(name, registered())


def less_is_better(name: str) -> bool:
    """Return whether smaller values of this metric are better."""
    return metric_of(name).less_is_better


def is_rate(name: str) -> bool:
    """Return whether this metric is a rate of which more is better."""
    return "/s" in metric_of(name).unit and not less_is_better(name)
