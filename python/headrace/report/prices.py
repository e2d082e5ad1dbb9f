"""Prices in the report: what each storage costs for what it achieves."""

from __future__ import annotations

from typing import TypedDict

from headrace.analysis.findings import Estimate, Findings, StoragePrice
from headrace.metrics.shown import ShownMetric
from headrace.report import tables
from headrace.report.numbers import number

PER = {
    "throughput": "job's worth of computing",
    "event_per_s": "event/s",
    "mb_per_s": "MB/s",
    "job_per_h": "job/h",
    "gb": "GB",
}
SENTENCE = (
    "Price over what jobs get of each storage, at the load with its highest rate; a job's worth of "
    "computing is the sum of the efficiencies of all slots. Prices in different currencies do not "
    "compare."
)


class PriceRow(TypedDict):
    """One storage."""

    workload: str
    label: str
    load: int
    price: tables.Value
    what: str
    per: list[tables.Value | None]
    efficiency: tables.Value | None
    trials: tuple[str, ...]


def per_columns(findings: Findings) -> list[str]:
    """Return what prices are divided by, as far as any storage has it."""
    return [name for name in PER if any(name in each.per for each in findings.prices)]


def rows(findings: Findings) -> list[PriceRow]:
    """Return the rows of the table of prices, the best storage first."""
    names = per_columns(findings)
    return [_row(each, names) for each in findings.prices]


def _row(price: StoragePrice, names: list[str]) -> PriceRow:
    amount = f"{number(price.amount, 4)}\u202f{price.currency}"
    return {
        "workload": price.workload,
        "label": price.label,
        "load": price.load,
        "price": tables.Value(amount, "", price.source, price.what),
        "what": price.what,
        "per": [_value(price.per.get(name), price.currency) for name in names],
        "efficiency": None
        if price.efficiency is None
        else tables.value(
            price.efficiency, ShownMetric("efficiency", "Job efficiency", "%", 0.01),
            price.efficiency.provenance or price.provenance,
        ),
        "trials": price.trials,
    }  # fmt: skip


def _value(estimate: Estimate | None, currency: str) -> tables.Value | None:
    if estimate is None:
        return None
    shown = ShownMetric("price", "Price", currency)
    return tables.value(estimate, shown, estimate.provenance, unit=True)
