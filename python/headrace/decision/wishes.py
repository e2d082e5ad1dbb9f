"""What is wanted, and within which limits: `--want` and `--within` of `headrace decide`.

A wish names a quantity: a metric of the records by its name or its unit (`events/s`), or a quantity
of the configuration (`price`, `usable`, `power` …). A limit is a quantity, `<=` or `>=`, and an
amount with its unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from headrace.decision.offers import refuse
from headrace.metrics import metric_of, registered
from headrace.metrics.shown import lowered
from headrace.registry import nearest

Sense = Literal["<=", ">="]


@dataclass(frozen=True)
class Quantity:
    """A number of a configuration that wishes can refer to."""

    name: str
    """Name of its value, unit last: a metric's name, or `price`, `usable_bytes` …"""
    title: str
    unit: str
    """Unit of the value: `W`, `B`, `Wh`, `share`, `y`, `1/y`, `U`, `currency`; empty for counts;
    for rates as the metric has it."""
    less_is_better: bool

    @property
    def of_records(self) -> bool:
        """Whether its value is a metric of the records."""
        return self.name not in _OWN_NAMES


_OWN: dict[str, Quantity] = {
    "price": Quantity("price", "price", "currency", True),
    "cost": Quantity("cost", "price with electricity over the years of use", "currency", True),
    "price/TB": Quantity("price_per_usable_tb", "price per usable TB", "currency", True),
    "price/MB/s": Quantity("price_per_mb_per_s", "price per MB/s", "currency", True),
    "price/event/s": Quantity("price_per_event_per_s", "price per event/s", "currency", True),
    "price/throughput": Quantity("price_per_throughput", "price per throughput", "currency", True),
    "usable": Quantity("usable_bytes", "usable capacity", "B", False),
    "power": Quantity("power_w", "mean power", "W", True),
    "energy": Quantity("energy_wh_per_year", "energy per year", "Wh", True),
    "co2": Quantity("co2_g_per_year", "emissions per year", "g", True),
    "space": Quantity("rack_units", "rack units", "U", True),
    "life": Quantity("wear_years", "life of the drives by their rated endurance", "y", False),
    "failures": Quantity("drive_failures_per_year", "drive failures per year", "1/y", True),
    "rebuild": Quantity("rebuild_failure", "failure during a rebuild", "share", True),
    "losses": Quantity("losses_per_year", "data losses per year", "1/y", True),
    "slots": Quantity("slots", "slots per node", "", False),
    "nodes": Quantity("nodes", "nodes", "", True),
}  # fmt: skip
_OWN_NAMES = {quantity.name for quantity in _OWN.values()}

_ALIASES = {
    "throughput": "throughput_jobs",
    "wh/job": "energy_wh_per_job",
    "j/event": "energy_j_per_event",
    "events/wh": "events_per_wh",
}


@dataclass(frozen=True)
class WishLimit:
    """One limit of `--within`."""

    quantity: Quantity
    sense: Sense
    amount: float
    """In the unit of the quantity's value."""
    text: str
    """As given."""
    currency: str = ""
    """Of an amount of money."""
    unit: str = ""
    """As given."""
    factor: float = 1.0
    """Of that unit, in the unit of the quantity's value."""

    def written(self, value: float) -> str:
        """Return a value in the unit in which the limit was given, as `--within` reads it.

        It has four digits or more and is rounded so that a limit of that amount lets the value in.
        """
        amount = value / self.factor
        if not math.isfinite(amount):
            return "unlimited"
        decimals = max(0, 3 - math.floor(math.log10(abs(amount)))) if amount else 0
        rounded = round(amount, decimals)
        if not replace(self, amount=rounded * self.factor).holds(value):
            step = 10.0**-decimals
            rounded = round(rounded + (step if self.sense == "<=" else -step), decimals)
        text = f"{rounded:.{decimals}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return f"{text} {self.unit}".rstrip()

    def holds(self, value: float) -> bool:
        """Return whether a value is within the limit."""
        return value <= self.amount if self.sense == "<=" else value >= self.amount


@dataclass(frozen=True)
class Wishes:
    """What is wanted most, and all limits."""

    want: Quantity
    limits: tuple[WishLimit, ...]
    shown: tuple[Quantity, ...] = ()
    """Further quantities for the tables."""

    @property
    def quantities(self) -> tuple[Quantity, ...]:
        """Every quantity that they refer to, once."""
        return tuple(dict.fromkeys([self.want, *(limit.quantity for limit in self.limits)]))


_PREFIX = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "m": 1e-3}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_LIMIT = re.compile(
    r"^\s*(?P<name>[A-Za-z_][\w/ ]*?)\s*(?P<sense><=|>=|<|>|=+)\s*"
    r"(?P<number>[0-9][0-9_ ]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*(?P<unit>[^\s0-9].*?)?\s*$"
)
_MIXED_UP = {
    ("VA", "W"): "; VA is apparent power, W what is paid for",
    ("Wh", "W"): "; Wh is an amount of energy, W the power",
    ("W", "Wh"): "; W is power, Wh an amount of energy",
    ("b", "B"): "; b is a bit, B a byte",
}
"""(End of a unit, the unit wanted) -> what the difference is."""
WITHIN = '"price <= 40000 EUR, usable >= 200 TB, efficiency >= 85 %"'


def parse_wishes(
    want: str, within: str, currency: str, known: Collection[str], show: str = ""
) -> Wishes:
    """Return the wishes of a command line. `known`: names of the metrics that the records have.

    Raises StudyError for an unknown quantity, a missing or wrong unit, another currency than the
    offers', and limits that exclude each other.
    """
    quantity = _quantity("--want", want, known)
    limits = tuple(
        _limit(part, currency, known) for part in re.split(r"[,;]", within) if part.strip()
    )
    _refuse_contradictions(limits)
    shown = tuple(_quantity("--show", part, known) for part in show.split(",") if part.strip())
    return Wishes(quantity, limits, shown)


def own_quantity(name: str) -> Quantity:
    """Return a quantity of configurations by its word in wishes, such as `price`."""
    return _OWN[name]


def own_title(name: str) -> str:
    """Return the title of a quantity of a configuration by the name of its value."""
    return next((each.title for each in _OWN.values() if each.name == name), name)


def metric_quantity(name: str) -> Quantity:
    """Return the quantity of a metric of the records, by the metric's name."""
    metric = metric_of(name)
    unit = metric.unit or {"share": "share", "time": "s"}.get(metric.scale, "")
    return Quantity(name, lowered(metric.title), unit, metric.less_is_better)


def _quantity(option: str, text: str, known: Collection[str]) -> Quantity:
    wanted = " ".join(text.split())
    lower = wanted.lower()
    own = {each.lower(): quantity for each, quantity in _OWN.items()}
    if lower in own:
        return own[lower]
    names = dict.fromkeys([*known, *registered()])
    name = _ALIASES.get(lower) or (wanted if wanted in names else None)
    if name is None:
        # Sorted by rank: the first is the one that tables show first.
        ranked = sorted(names, key=lambda each: metric_of(each).rank)
        with_unit = [each for each in ranked if metric_of(each).unit.lower() == lower and lower]
        name = next((each for each in with_unit if each in known), None) or next(
            iter(with_unit), None
        )
    if name is None:
        allowed = [*_OWN, *(each for each in names if each in known)]
        near = nearest(wanted, allowed)
        meant = f'; did you mean "{near}"?' if near else ""
        raise refuse(
            Path("command line"), option, text, f"no such quantity{meant}", ", ".join(allowed)
        )
    return metric_quantity(name)


def _limit(text: str, currency: str, known: Collection[str]) -> WishLimit:
    found = _LIMIT.match(text)
    if found is None:
        raise refuse(Path("command line"), "--within", text.strip(), "not a limit", WITHIN)
    quantity = _quantity("--within", found["name"], known)
    sense = found["sense"]
    if sense not in ("<=", ">="):
        raise refuse(
            Path("command line"), "--within", text.strip(),
            f"{sense} is not an operator of a limit", "<= or >=",
        )  # fmt: skip
    number = float(found["number"].replace("_", "").replace(" ", ""))
    unit = found["unit"] or ""
    shown = " ".join(text.split())
    if quantity.unit == "currency":
        if unit != currency:
            raise refuse(
                Path("command line"), "--within", shown,
                f'the unit of {quantity.title} is the currency of the offers, not "{unit}"'
                if unit else f"the currency of {quantity.title} is missing",
                currency,
            )  # fmt: skip
        return WishLimit(quantity, sense, number, shown, currency, unit)
    if quantity.unit == "share" and not unit and number > 1:
        raise refuse(
            Path("command line"), "--within", shown,
            f"{quantity.title}: its unit is missing", f"{number:g} %",
        )  # fmt: skip
    factor = _factor(quantity, unit, shown)
    return WishLimit(quantity, sense, number * factor, shown, unit=unit, factor=factor)


def _factor(quantity: Quantity, unit: str, text: str) -> float:
    """Return the factor from a unit to that of the quantity's value. Raises StudyError."""
    base = quantity.unit
    if base == "share":
        if unit in ("%", ""):
            return 0.01 if unit else 1.0
    elif base == "s":
        times = {"s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0, "d": 86400.0}
        if unit in times:
            return times[unit]
    elif base == "y":
        if unit in ("y", "years", "year"):
            return 1.0
    elif base in ("", "1/y", "U"):
        if unit in ("", base, "/y", "per year", "nodes", "slots", "rack units"):
            return 1.0
    elif unit == base:
        return 1.0
    elif unit.endswith(base) and unit.removesuffix(base) in {**_PREFIX, **_BINARY}:
        return {**_PREFIX, **_BINARY}[unit.removesuffix(base)]
    given = f'"{unit}" is not its unit' if unit else "its unit is missing"
    why = next((text for (has, wants), text in _MIXED_UP.items()
                if base == wants and unit.endswith(has)), "")  # fmt: skip
    raise refuse(
        Path("command line"), "--within", text, f"{quantity.title}: {given}{why}",
        {"share": "%", "y": "years", "s": "s, ms, min, h, d"}.get(base, base) or "a bare number",
    )  # fmt: skip


def _refuse_contradictions(limits: Collection[WishLimit]) -> None:
    for low in limits:
        for high in limits:
            if (
                low.quantity == high.quantity
                and (low.sense, high.sense) == (">=", "<=")
                and low.amount > high.amount
            ):
                raise refuse(
                    Path("command line"), "--within", f"{low.text}, {high.text}",
                    "these limits exclude each other: no value is within both",
                )  # fmt: skip
