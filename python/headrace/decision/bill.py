"""The parts of a configuration with their prices, from its inventory and the offers. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.decision.offers import DriveOffer, Offer, Offers
from headrace.offers import catalog_entry
from headrace.records.inventory import Inventory


@dataclass(frozen=True)
class PricedPart:
    """One line of the bill: equal parts."""

    what: str
    """`node`, `server`, `drive`, `switch`."""
    name: str
    count: int
    """0: unknown."""
    each: float | None
    """Price of one in the offers' currency; None when no offer names it."""
    date: str = ""
    """Of the offer."""
    of_catalog: bool = False
    """Whether no offer states the price, so that it is the catalog's."""

    @property
    def total(self) -> float | None:
        """Return the price of all; None without an offer."""
        return None if self.each is None else self.each * self.count


def bill(items: Inventory, offers: Offers, *, has_switches: bool) -> tuple[PricedPart, ...]:
    """Return all parts, equal ones together. `has_switches`: whether the records count switches,
    which are a part without a price if no switch is offered."""
    parts: list[PricedPart] = []
    for item in items:
        offer = offer_of(item.part, item.name, offers)
        each = None if offer is None else offers.amount(offer)
        date = "" if offer is None else offer.date
        own = isinstance(offer, DriveOffer) and offer.of_catalog
        parts.append(PricedPart(item.part, item.name, item.count, each, date, own))
    ports = _ports(items)
    if offers.switch and ports > 1:
        name, offer = min(
            offers.switch.items(),
            key=lambda named: offers.amount(named[1]) * math.ceil(ports / named[1].ports),
        )
        count = math.ceil(ports / offer.ports)
        parts.append(PricedPart("switch", name, count, offers.amount(offer), offer.date))
    elif has_switches:
        parts.append(PricedPart("switch", "", 0, None))
    return _together(parts)


def _ports(items: Inventory) -> int:
    """Return the ports of switches that nodes and servers need."""
    return sum(item.count for item in items if item.part in ("node", "server"))


def without_switches(
    items: Inventory, parts: Sequence[PricedPart], *, power_known: bool
) -> list[str]:
    """Return a note where machines need a switch and none is known. `power_known`: whether there is
    a power, which lacks that of switches."""
    ports = _ports(items)
    if ports < 2 or any(part.what == "switch" for part in parts):
        return []
    power = " and the power" if power_known else ""
    return [
        f"no switch is in the price{power}: {ports} nodes and servers need ports, and the offers "
        "have no [switch.NAME]"
    ]


def _together(parts: Sequence[PricedPart]) -> tuple[PricedPart, ...]:
    """Return the parts with equal ones in one line."""
    counts: dict[tuple[str, str], int] = {}
    for part in parts:
        counts[part.what, part.name] = counts.get((part.what, part.name), 0) + part.count
    first = {(part.what, part.name): part for part in reversed(parts)}
    return tuple(
        PricedPart(what, name, count, one.each, one.date, one.of_catalog)
        for (what, name), count in counts.items()
        for one in (first[what, name],)
    )


def offer_of(part: str, name: str, offers: Offers) -> Offer | None:
    """Return the offer of a part, None without one."""
    shelf: dict[str, Offer] = dict(getattr(offers, part).items())
    return shelf.get(name)


def lacking(part: PricedPart, offers: Offers) -> str:
    """Return the name of a part without a price, and which exchange rate would give it one."""
    if part.what == "switch":
        return "the switches that the records count ([switch.NAME])"
    named = f"{part.what} {part.name or '(unnamed)'}"
    known = catalog_entry(part.name) if part.what == "drive" else None
    if known is None or known.currency in (offers.currency, *offers.rates):
        return named
    return f"{named} (the catalog's is in {known.currency}, of which [rates] states no price)"
