"""Meter `shelly`: plugs and meters of Shelly over HTTP, first generation and later ones.

Generation 1 answers `/status` with `meters` (plugs) or `emeters` (clamps); later ones answer
`/rpc/Switch.GetStatus`, `PM1.GetStatus`, `EM1.GetStatus` (shelly-api-docs.shelly.cloud). `/shelly`
tells which it is and needs no password. Power is active power in W.
"""

from __future__ import annotations

import time
from typing import Any, ClassVar

from pydantic import Field

from headrace.meters import Meter, MeterChannel, MeterError, MeterOptions, Reading, number_of
from headrace.meters.http_client import HttpConnection, HttpOptions

_ACCURACY = (0.02, "assumption: 2 %; the maker states 1 % for some models")


class ShellyOptions(HttpOptions):
    """Fields of `[meter.NAME]` with `kind = "shelly"`."""

    output: int = Field(0, ge=0, le=15, description="number of the output or clamp")


class Shelly(Meter):
    """One output of a plug or meter."""

    kind: ClassVar[str] = "shelly"
    Options: ClassVar[type[MeterOptions]] = ShellyOptions
    options: ShellyOptions
    _connection: HttpConnection | None = None
    _path: str = ""
    """Where power is read; empty until the device has told its generation."""

    def channels(self) -> tuple[MeterChannel, ...]:
        """Return the output."""
        return (self.channel("power", "node", 1.0, _ACCURACY, resolution_w=0.1),)

    def read(self) -> list[Reading]:
        """Read the present power, at the middle of the request."""
        if self._connection is None or not self._path:
            self._connect()
        connection = self._connection
        if connection is None:
            raise MeterError(f"{self.options.address} is not connected")
        before_s = time.monotonic()
        if self._path == "/status":
            answer = connection.get("/status")
        else:
            answer = connection.get(self._path, id=str(self.options.output))
        now_s = (before_s + time.monotonic()) / 2
        return [Reading("power", now_s, power_w=self._power_w(answer))]

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._path = self._connection, None, ""
        if connection is not None:
            connection.close()

    def _connect(self) -> None:
        options = self.options
        first = HttpConnection(options)
        try:
            about = first.get("/shelly")
            if not isinstance(about, dict) or not ({"gen", "type"} & set(about)):
                raise MeterError(f"{options.address} is not a Shelly device")
            if "gen" not in about:
                self._connection, self._path = HttpConnection(options), "/status"
                return
        finally:
            first.close()
        # Later generations know the user admin and digest authentication only.
        connection = HttpConnection(options, digest=True)
        self._connection = connection
        for component in ("Switch", "PM1", "EM1"):
            path = f"/rpc/{component}.GetStatus"
            try:
                connection.get(path, id=str(options.output))
            except MeterError as error:
                if "answers 404" not in error.message:
                    raise
            else:
                self._path = path
                return
        raise MeterError(f"{options.address} has no output {options.output} that measures power")

    def _power_w(self, answer: Any) -> float:
        number, where = self.options.output, self.options.address
        value: Any = None
        if isinstance(answer, dict):
            value = answer.get("apower", answer.get("act_power"))
            for name in ("emeters", "meters"):
                group = answer.get(name)
                if isinstance(group, list) and number < len(group):
                    if group[number].get("is_valid") is False:
                        raise MeterError(f"{where}: the meter says that its value is not valid")
                    value = group[number].get("power")
                    break
        if value is None:
            raise MeterError(f"{where} has no output {number} that measures power")
        return number_of(value, where)
