"""Base layer: offers, which are prices of parts with currency and date, the price of electricity,
and years of use (docs/decide.md). A file of their own, or `[offers]` of a study."""

from __future__ import annotations

import contextlib
import datetime
import re
from typing import Annotated, Any, cast

from pydantic import (
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from headrace.catalog import entry, names
from headrace.catalog.tables import CatalogPrice
from headrace.currencies import currency_code
from headrace.site import Section
from headrace.units import Bytes, BytesPerS

MOST_MONEY = 1e12
"""Highest price of a part, in any currency: far above it, sums lose what other parts cost."""
MOST_PARTS = 1_000_000
"""Parts of one kind of a target."""


def _date(value: object) -> str:
    """Return the text of a date given as TOML date, `2026`, `"2026-11"` or `"2026-11-01"`.

    As exact as it was given: a price of a year is not one of its first day.
    """
    if isinstance(value, datetime.date):
        return value.isoformat()[:10]
    text = str(value)
    if re.fullmatch(r"(19[89]|20\d|210)\d(-\d\d(-\d\d)?)?", text) and not isinstance(value, bool):
        with contextlib.suppress(ValueError):
            datetime.date.fromisoformat(f"{text}-01-01"[:10] if len(text) < 10 else text)
            return text
    raise ValueError('must be a date: "2026-11-01", "2026-11" or 2026')


Currency = Annotated[str, BeforeValidator(currency_code)]
Date = Annotated[
    str,
    BeforeValidator(_date),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
]


class Offer(Section):
    """The price of one part."""

    price: float = Field(ge=0, le=MOST_MONEY, description="of one")
    currency: Currency | None = Field(None, description="the file's currency when not given")
    date: Date = Field(description='of the offer: "2026-11-01", "2026-11" or 2026')
    rack_units: float = Field(0.0, ge=0, le=1000)
    warranty_years: float | None = Field(None, ge=0, le=100)


class DriveOffer(Offer):
    """`[drive.NAME]`: a drive, by its name in the catalog or the model that it reports.

    Without `price`, `currency` and `date` it has those of the catalog.
    """

    _of_catalog: bool = PrivateAttr(False)

    capacity: Bytes | None = Field(None, gt=0, description="the catalog's when not given")
    endurance: Bytes | None = Field(None, gt=0, description="bytes that may be written in its life")
    write_amplification: float | None = Field(
        None, ge=1, le=1000, description="bytes that flash writes per byte written to the drive"
    )
    failures_per_year: float | None = Field(
        None, ge=0, lt=1, description="annualised failure rate (AFR): 0.01 is 1 %"
    )
    rebuild_rate: BytesPerS | None = Field(
        None, ge=1000, description="rate at which a failed drive's data are written to a new one"
    )

    @property
    def of_catalog(self) -> bool:
        """Return whether its price is the catalog's."""
        return self._of_catalog

    def mark_of_catalog(self) -> DriveOffer:
        """Note that its price is the catalog's, and return it."""
        self._of_catalog = True
        return self


def catalog_entry(drive: str) -> CatalogPrice | None:
    """Return the catalog's price of a drive as it stands there; None without one."""
    tables = (entry("prices", name).table for name in names("prices"))
    return next((table for table in tables if table.drive == drive), None)


def catalog_price(drive: str) -> dict[str, object] | None:
    """Return the catalog's price of one drive, with currency and date; None without one."""
    table = catalog_entry(drive)
    if table is None:
        return None
    return {
        "price": table.amount / table.drives,
        "currency": table.currency,
        "date": table.date or table.year,
    }


class MachineOffer(Offer):
    """`[node.NAME]`, `[server.NAME]`: a machine without the drives that have offers."""

    power: float | None = Field(
        None, ge=0, le=1e6, description="mean power in W, where none was recorded"
    )


class SwitchOffer(Offer):
    """`[switch.NAME]`: a switch; as many as the ports of nodes and servers need."""

    ports: int = Field(gt=0, le=100_000)
    power: float = Field(0.0, ge=0, le=1e6, description="mean power in W")


class Electricity(Section):
    """`[electricity]`: price and emissions of a kWh."""

    price: float = Field(ge=0, le=1e6, description="of a kWh, in the file's currency")
    co2: float | None = Field(None, ge=0, le=10_000, description="grams of CO2 per kWh")


class ExchangeRate(Section):
    """`[rates]`: what one unit of another currency costs in the file's currency."""

    rate: float = Field(ge=1e-6, le=1e6)
    date: Date


PartCount = Annotated[int, Field(ge=0, le=MOST_PARTS)]


class Parts(Section):
    """`[target.NAME]`: what a target of a study is made of, where its record does not say."""

    drives: dict[str, PartCount] = Field(default_factory=dict[str, int])
    nodes: dict[str, PartCount] = Field(default_factory=dict[str, int])
    servers: dict[str, PartCount] = Field(default_factory=dict[str, int])
    usable: Bytes | None = Field(None, gt=0, description="bytes of data that it holds")


class Offers(Section):
    """An offers file, or `[offers]` of a study."""

    currency: Currency = "EUR"
    years: float = Field(5.0, gt=0, le=50, description="years of use")
    busy: float = Field(1.0, ge=0, le=1, description="share of the time in which jobs run")
    pue: float | None = Field(
        None,
        ge=1,
        le=100,
        description="power usage effectiveness: multiplies the power of records that do not have "
        "the facility's overhead",
    )
    filesystem_share: float = Field(
        0.05, ge=0, lt=1, description="share of the capacity that filesystems keep for themselves"
    )
    electricity: Electricity | None = None
    rates: dict[str, ExchangeRate] = Field(default_factory=dict[str, ExchangeRate])
    drive: dict[str, DriveOffer] = Field(default_factory=dict[str, DriveOffer])
    node: dict[str, MachineOffer] = Field(default_factory=dict[str, MachineOffer])
    server: dict[str, MachineOffer] = Field(default_factory=dict[str, MachineOffer])
    switch: dict[str, SwitchOffer] = Field(default_factory=dict[str, SwitchOffer])
    target: dict[str, Parts] = Field(default_factory=dict[str, Parts])

    @model_validator(mode="wrap")
    @classmethod
    def _with_catalog_prices(cls, given: Any, made: ModelWrapValidatorHandler[Offers]) -> Offers:
        """Give drives without a price that of the catalog, where it has one."""
        if not isinstance(given, dict) or not isinstance(given.get("drive"), dict):
            return made(given)
        drives: dict[str, object] = dict(given["drive"])
        completed: list[str] = []
        for name, written in drives.items():
            price = catalog_price(name)
            if price is None or not isinstance(written, dict):
                continue
            table = cast("dict[str, object]", written)
            if not price.keys() & table.keys():
                drives[name] = {**table, **price}
                completed.append(name)
        offers = made({**given, "drive": drives})
        for name in completed:
            offers.drive[name].mark_of_catalog()
        return offers

    @field_validator("rates")
    @classmethod
    def _codes(cls, rates: dict[str, ExchangeRate]) -> dict[str, ExchangeRate]:
        for code in rates:
            currency_code(code)
        return rates

    @model_validator(mode="after")
    def _convertible(self) -> Offers:
        """Refuse every offer in a currency without a rate, at the place of its currency."""
        wrong: list[InitErrorDetails] = []
        for shelf in ("drive", "node", "server", "switch"):
            for name, offer in getattr(self, shelf).items():
                code = offer.currency or self.currency
                if code != self.currency and code not in self.rates:
                    said = ValueError(
                        f"the file is in {self.currency}, and no rate of {code} is given: add "
                        f"[rates] {code} = {{ rate = …, date = … }}, the price of one {code} in "
                        f"{self.currency}"
                    )
                    place = (shelf, name, "currency")
                    wrong.append(
                        {"type": "value_error", "loc": place, "input": code, "ctx": {"error": said}}
                    )
        if wrong:
            raise ValidationError.from_exception_data("Offers", wrong)
        return self

    def amount(self, offer: Offer) -> float:
        """Return the price of an offer in the file's currency."""
        code = offer.currency or self.currency
        return offer.price * (1.0 if code == self.currency else self.rates[code].rate)
