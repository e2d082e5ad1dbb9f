"""Meter `tasmota`: plugs with the firmware Tasmota over HTTP.

`/cm?cmnd=Status 8` answers with `StatusSNS.ENERGY`; `Power` is active power in W, a list for
several channels (tasmota.github.io/docs/Commands, /docs/Power-Monitoring).
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from pydantic import Field

from headrace.meters import Meter, MeterChannel, MeterError, MeterOptions, Reading, number_of
from headrace.meters.http_client import HttpConnection, HttpOptions, password_of

_ACCURACY = (0.03, "assumption: 3 % for a plug that was not calibrated")


class TasmotaOptions(HttpOptions):
    """Fields of `[meter.NAME]` with `kind = "tasmota"`."""

    output: int = Field(0, ge=0, le=15, description="number of the output, from 0")


class Tasmota(Meter):
    """One output of a plug."""

    kind: ClassVar[str] = "tasmota"
    Options: ClassVar[type[MeterOptions]] = TasmotaOptions
    options: TasmotaOptions
    _connection: HttpConnection | None = None

    def channels(self) -> tuple[MeterChannel, ...]:
        """Return the output. Power is in whole watts unless `PowerRes` was set."""
        return (self.channel("power", "node", 1.0, _ACCURACY, resolution_w=1.0),)

    def read(self) -> list[Reading]:
        """Read the present power, at the middle of the request."""
        options = self.options
        if self._connection is None:
            # Tasmota takes user and password as parameters, not as HTTP authentication.
            self._connection = HttpConnection(options.model_copy(update={"user": None}))
        parameters = {"cmnd": "Status 8"}
        if options.user is not None:
            parameters |= {"user": options.user, "password": password_of(options.password_file)}
        before_s = time.monotonic()
        answer = self._connection.get("/cm", **parameters)
        now_s = (before_s + time.monotonic()) / 2
        return [Reading("power", now_s, power_w=self._power_w(answer))]

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _power_w(self, answer: Any) -> float:
        where, number = self.options.address, self.options.output
        if isinstance(answer, dict) and "WARNING" in answer:
            raise MeterError(
                f"{where} refuses user and password",
                hint="state user and password_file in the study",
            )
        try:
            power: Any = answer["StatusSNS"]["ENERGY"]["Power"]
        except (KeyError, TypeError):
            raise MeterError(f"{where} does not measure power (no ENERGY in Status 8)") from None
        outputs: list[Any] = power if isinstance(power, list) else [power]
        if number >= len(outputs):
            raise MeterError(f"{where} has no output {number}; it has {len(outputs)}")
        return number_of(outputs[number], where)
