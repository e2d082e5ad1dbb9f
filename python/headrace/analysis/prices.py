"""Prices of storages for what they achieve, as worker-node-ssd's table 4. Pure.

The price of a target is the study's (`[report.price]`), or else the catalog's dated price of the
drives that hold its data. Amounts in different currencies are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace.analysis.findings import Curve, Estimate, Point, StoragePrice
from headrace.analysis.ranking import peak
from headrace.analysis.read import Records
from headrace.offers import catalog_entry
from headrace.records.inventory import Inventory
from headrace.study.model import Price

PER: dict[str, tuple[str, float]] = {
    "throughput": ("throughput_jobs", 1.0),
    "mb_per_s": ("asked_bytes_per_s", 1e6),
    "event_per_s": ("events_per_s", 1.0),
    "job_per_h": ("jobs_per_s", 1 / 3600),
}
"""What a price is divided by: the metric, and its value that counts as one."""


@dataclass(frozen=True)
class _Known:
    """The price of a target, and where it is from."""

    amount: float
    currency: str
    source: str
    what: str


def storage_prices(
    curves: Sequence[Curve],
    records: Records,
    stated: Mapping[str, Price],
) -> tuple[StoragePrice, ...]:
    """Return the price of each storage with a valid point, at the point with its highest rate.

    Storages without a known price are left out.
    """
    if not len(records):
        return ()
    inventories: dict[str, Inventory] = dict(
        zip(records.trials["id"], records.trials["inventory"], strict=True)
    )
    found: list[StoragePrice] = []
    for curve in curves:
        best = _busiest(curve)
        if best is None or not best.trials:
            continue
        inventory = inventories.get(best.trials[0], ())
        known = _stated(stated.get(curve.target)) or _of_catalog(inventory)
        if known is not None:
            found.append(_priced(curve, best, known, inventory))
    return tuple(found)


def drives_of_one_price(trials: Any, stated: Mapping[str, Price]) -> list[str]:
    """Return a warning for each target whose one stated price is used for drives of several
    kinds or numbers."""
    found: dict[str, dict[str, None]] = {}
    for target, inventory in (
        zip(trials["target"], trials["inventory"], strict=True) if len(trials) else ()
    ):
        drives = [item for item in inventory or () if item.part == "drive" and item.name]
        if target in stated and drives:
            text = " + ".join(f"{item.count} × {item.name}" for item in drives)
            found.setdefault(target, {})[text] = None
    return [
        f"[report.price.{target}] is one price, and {target} has several kinds or numbers of drives"
        f" ({', '.join(drives)}): each counts with this price"
        for target, drives in found.items()
        if len(drives) > 1
    ]


def _busiest(curve: Curve) -> Point | None:
    """Return the point with the highest rate: there the price for it is lowest."""
    rates = ("events_per_s", "asked_bytes_per_s", "jobs_per_s")
    return next((best for name in rates if (best := peak(curve, name)) is not None), None)


def _stated(price: Price | None) -> _Known | None:
    if price is None:
        return None
    return _Known(price.price * price.drives, price.currency, "stated", "by the study")


def _of_catalog(inventory: Inventory) -> _Known | None:
    """Return the catalog's price of the drives that hold data; None if it lacks one of them."""
    drives = [item for item in inventory if item.part == "drive" and item.usable_bytes is not None]
    prices = [(item, price) for item in drives if (price := catalog_entry(item.name)) is not None]
    if not drives or len(prices) < len(drives):
        return None
    currencies = {price.currency for _, price in prices}
    if len(currencies) > 1:
        return None
    amount = sum(item.count * price.amount / price.drives for item, price in prices)
    what = ", ".join(f"{item.count} × {item.name}, {price.year}" for item, price in prices)
    return _Known(amount, currencies.pop(), "published", f"catalog: {what}")


def _priced(curve: Curve, best: Point, known: _Known, inventory: Inventory) -> StoragePrice:
    per: dict[str, Estimate] = {}
    for name, (metric, one) in PER.items():
        estimate = best.metrics.get(metric)
        if estimate is not None and estimate.value > 0:
            per[name] = _per(known.amount, estimate, one, best.provenance, known.source)
    usable = _usable_bytes(inventory)
    if usable:
        per["gb"] = Estimate(
            known.amount / (usable / 1e9), None, None, 0, "price over usable bytes", best.trials,
            known.source,
        )  # fmt: skip
    return StoragePrice(
        workload=curve.workload,
        target=curve.target,
        levels=best.levels,
        label=curve.label,
        load=best.load,
        amount=known.amount,
        currency=known.currency,
        source=known.source,
        what=known.what,
        per=per,
        efficiency=best.metrics.get("efficiency"),
        provenance=best.provenance,
        trials=best.trials,
    )


def _per(amount: float, rate: Estimate, one: float, provenance: str, source: str) -> Estimate:
    """Return a price over a rate: the highest rate gives the lowest price."""

    def price(value: float | None) -> float | None:
        return amount / (value / one) if value else None

    low, high = price(rate.high), price(rate.low)
    if low is None or high is None:
        low = high = None
    found = f"{rate.provenance or provenance}+{source}"
    return replace(rate, value=amount / (rate.value / one), low=low, high=high, provenance=found)


def _usable_bytes(inventory: Inventory) -> float:
    return sum(item.usable_bytes or 0.0 for item in inventory if item.part == "drive")
