"""Meter `prometheus`: power or energy that an exporter already writes into a Prometheus server.

One instant query (`/api/v1/query`) per reading; its answer must be one series, such as
`scaph_host_power_microwatts` or `sum(kepler_node_platform_joules_total)`. The server repeats a
value until it scrapes again: `scrape_interval` tells how often.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from pydantic import Field, field_validator, model_validator

from headrace.meters import (
    Meter,
    MeterChannel,
    MeterError,
    MeterOptions,
    Reading,
    factor_of,
    number_of,
)
from headrace.meters.http_client import HttpConnection, HttpOptions
from headrace.units import Seconds

_ACCURACY = (0.05, "assumption: 5 %; state `accuracy` for the meter behind the exporter")


class PrometheusOptions(HttpOptions):
    """Fields of `[meter.NAME]` with `kind = "prometheus"`."""

    query: str = Field(min_length=1, description="a PromQL expression whose answer is one series")
    unit: str = Field(
        description="unit of the value: W, mW, uW, kW for power; J, kJ, Wh, kWh for a counter; VA "
        "needs power_factor"
    )
    power_factor: float | None = Field(None, gt=0, le=1, description="W per VA")
    scrape_interval: Seconds = Field(15.0, gt=0, description="how often the server gets new values")

    @model_validator(mode="after")
    def _power(self) -> PrometheusOptions:
        factor_of(self.unit, self.power_factor)
        return self

    @field_validator("query")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be blank")
        return value


class Prometheus(Meter):
    """One series of a Prometheus server."""

    kind: ClassVar[str] = "prometheus"
    Options: ClassVar[type[MeterOptions]] = PrometheusOptions
    options: PrometheusOptions
    _connection: HttpConnection | None = None

    def channels(self) -> tuple[MeterChannel, ...]:
        """Return the series."""
        energy, _ = factor_of(self.options.unit, self.options.power_factor)
        return (
            self.channel("query", "node", self.options.scrape_interval, _ACCURACY, counter=energy),
        )

    def read(self) -> list[Reading]:
        """Return the value that the server scraped last, at the time of the query."""
        if self._connection is None:
            self._connection = HttpConnection(self.options)
        answer = self._connection.get("/api/v1/query", query=self.options.query)
        now_s = time.monotonic()
        energy, factor = factor_of(self.options.unit, self.options.power_factor)
        value = factor * number_of(self._value(answer), self.options.query)
        if energy:
            return [Reading("query", now_s, energy_j=value)]
        return [Reading("query", now_s, power_w=value)]

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _value(self, answer: Any) -> object:
        where = f"{self.options.address}: {self.options.query}"
        try:
            data: Any = answer["data"]
            found: list[Any] = data["result"]
            if data["resultType"] == "scalar":
                return found[1]
            if len(found) == 1:
                return found[0]["value"][1]
        except (KeyError, IndexError, TypeError):
            raise MeterError(f"{where}: no answer of Prometheus") from None
        if not found:
            raise MeterError(f"{where}: no such series", hint="try the query on the server's page")
        raise MeterError(
            f"{where}: {len(found)} series, not one", hint="choose one by its labels, or sum(…)"
        )
