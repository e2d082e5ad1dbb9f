"""Meter `ipmi`: power that a BMC measures, of this machine or of another, by ipmitool.

Without `sensors` it is DCMI's Get Power Reading (DCMI 1.5, 6.6.1), in whole watts; otherwise
sensors of power by the names that `ipmitool sensor` lists. What a BMC measures is mostly the input
of its power supplies.
"""

from __future__ import annotations

import re
import time
from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from headrace.meters import (
    Found,
    Meter,
    MeterChannel,
    MeterError,
    MeterOptions,
    Reading,
    factor_of,
    found_here,
    number_of,
)
from headrace.meters.ipmitool import IpmiShell, IpmiTarget, password_for
from headrace.units import Seconds

_ACCURACY = (0.05, "assumption: 5 %; makers state 1 to 10 % for sensors of power supplies")
_INTERVAL_S = 1.0
_DCMI_RESOLUTION_W = 1.0
_SENSOR_STEPS = 255
"""A sensor's reading is one byte (IPMI 2.0, 35.14): that many steps between its two ends."""
_SENSOR_RESOLUTION_W = 4.0
"""Of a sensor that does not state its ends: one byte for 1 kW."""
_SESSION_S = 45.0
"""A BMC forgets a session in which nothing was asked for 60 s (IPMI 2.0, 6.12.15)."""
_DCMI_W = re.compile(r"Instantaneous power reading:\s+(\S+) Watts")
_DCMI_STATE = re.compile(r"Power reading state is:\s+(\w+)")


class IpmiOptions(MeterOptions):
    """Fields of `[meter.NAME]` with `kind = "ipmi"`."""

    path_fields: ClassVar[tuple[str, ...]] = ("password_file",)
    host: str | None = Field(
        None,
        description="name or address of a BMC; that of this machine when not given",
    )
    port: int = Field(623, ge=1, le=65535)
    user: str | None = Field(None, min_length=1, max_length=16)
    password_file: str | None = Field(
        None,
        description="file whose first line is the password; the environment variable "
        "IPMI_PASSWORD when not given",
    )
    interface: Literal["lanplus", "lan"] = Field("lanplus", description="IPMI 2.0 or 1.5")
    cipher_suite: int | None = Field(
        None, ge=0, le=255, description="of IPMI 2.0; what the BMC offers when not given"
    )
    privilege: Literal["USER", "OPERATOR", "ADMINISTRATOR"] = "USER"
    sensors: tuple[str, ...] = Field(
        (), description="names of sensors of power; the DCMI power reading when not given"
    )
    power_factor: float | None = Field(None, gt=0, le=1, description="W per VA, for such sensors")
    timeout: Seconds = Field(5.0, ge=1, le=60, description="longest wait for an answer")

    @field_validator("host")
    @classmethod
    def _host(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[^\s-]\S*", value):
            raise ValueError(f'"{value}" is not a name or address')
        return value

    @field_validator("sensors")
    @classmethod
    def _named(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not re.fullmatch(r'[^"\\,\x00-\x1f]+', name):
                raise ValueError(f'"{name}" is not a name of a sensor')
        if len(set(value)) != len(value):
            raise ValueError("duplicate sensor")
        return value

    @model_validator(mode="after")
    def _remote(self) -> IpmiOptions:
        remote = ("user", "password_file", "cipher_suite")
        given = [name for name in remote if getattr(self, name) is not None]
        if self.host is None and given:
            raise ValueError(
                f"{given[0]} is for a BMC on the network: state host, or leave {given[0]} out"
            )
        return self


class Ipmi(Meter):
    """The DCMI power reading, or one channel per sensor."""

    kind: ClassVar[str] = "ipmi"
    Options: ClassVar[type[MeterOptions]] = IpmiOptions
    options: IpmiOptions
    _shell: IpmiShell | None = None
    _asked_s: float = 0.0
    """Monotonic time of the last command."""
    _sensors: dict[str, tuple[float, float]] | None = None
    """Name of a sensor -> watts per unit, resolution in W."""

    @classmethod
    def on_this_machine(cls) -> list[Found]:
        """Return the BMC of this machine."""
        return [
            found_here(cls("bmc", IpmiOptions.model_validate({})), "BMC of this machine (IPMI)")
        ]

    def in_band(self) -> bool:
        """Return whether it is the BMC of the machine itself."""
        return self.options.host is None

    def channels(self) -> tuple[MeterChannel, ...]:
        """Return the power reading, or the sensors with the units that the BMC states."""
        if not self.options.sensors:
            return (self._channel("power", _DCMI_RESOLUTION_W),)
        return tuple(self._channel(name, step) for name, (_, step) in self._described().items())

    def read(self) -> list[Reading]:
        """Read all at the middle of the request."""
        if not self.options.sensors:
            before_s = time.monotonic()
            power_w = self._dcmi_w()
            return [Reading("power", (before_s + time.monotonic()) / 2, power_w=power_w)]
        sensors = self._described()
        before_s = time.monotonic()
        answer = self._ask(_command("sensor reading", sensors))
        now_s = (before_s + time.monotonic()) / 2
        values: dict[str, str] = {}
        for line in answer.splitlines():
            name, _, value = line.rpartition(",")
            values[name] = value
        return [
            Reading(name, now_s, power_w=factor * self._value_w(values.get(name), name))
            for name, (factor, _) in sensors.items()
        ]

    def close(self) -> None:
        """End ipmitool."""
        shell, self._shell, self._sensors = self._shell, None, None
        if shell is not None:
            shell.close()

    def _channel(self, name: str, resolution_w: float) -> MeterChannel:
        return self.channel(name, "node", _INTERVAL_S, _ACCURACY, resolution_w=resolution_w)

    def _ask(self, command: str) -> str:
        if self._shell is not None and time.monotonic() - self._asked_s > _SESSION_S:
            self._shell.close()
            self._shell = None
        if self._shell is None:
            options = self.options
            target = IpmiTarget(
                host=options.host,
                port=options.port,
                user=options.user,
                interface=options.interface,
                cipher_suite=options.cipher_suite,
                privilege=options.privilege,
            )
            password = password_for(options.password_file) if options.host else ""
            self._shell = IpmiShell(target, password, options.timeout)
        said = self._shell.ask(command)
        self._asked_s = time.monotonic()
        return said

    def _dcmi_w(self) -> float:
        answer = self._ask("dcmi power reading")
        found, state = _DCMI_W.search(answer), _DCMI_STATE.search(answer)
        if found is None:
            raise self._without_dcmi(answer)
        if state is not None and state[1] != "activated":
            raise MeterError(
                f"{self._where}: the BMC says that its power reading is {state[1]}",
                hint="activate power measurement in the BMC, or name sensors",
            )
        return self._value_w(found[1], "DCMI power reading")

    def _without_dcmi(self, answer: str) -> MeterError:
        if "Insufficient privilege" in answer:
            return MeterError(
                f"{self._where}: the privilege {self.options.privilege} is not enough",
                hint='state privilege = "OPERATOR" (or "ADMINISTRATOR") in the study',
            )
        reason = re.search(r"request failed because: (.+)", answer)
        return MeterError(
            f"{self._where}: the BMC has no DCMI power reading"
            f"{f' ({reason[1].strip()})' if reason else ''}",
            hint='name sensors of power: sensors = ["…"]; `ipmitool sensor` lists them',
        )

    def _described(self) -> dict[str, tuple[float, float]]:
        """Return the sensors, as the BMC describes them."""
        if self._sensors is None:
            answer = self._ask(_command("sdr get", self.options.sensors))
            rows = {row[0]: row for line in answer.splitlines() if (row := line.split(","))[2:]}
            self._sensors = {
                name: self._described_sensor(name, rows) for name in self.options.sensors
            }
        return self._sensors

    def _described_sensor(self, name: str, rows: dict[str, list[str]]) -> tuple[float, float]:
        if name not in rows:
            raise MeterError(f"{self._where}: no sensor {name}", hint=self._sensors_of_power())
        unit = rows[name][2]
        try:
            energy, factor = factor_of(unit, self.options.power_factor)
        except ValueError as error:
            raise MeterError(
                f"{self._where}: sensor {name} is not a sensor of power: {error}",
                hint=self._sensors_of_power(),
            ) from None
        if energy:
            raise MeterError(f"{self._where}: sensor {name} counts energy ({unit}), not power")
        try:
            low, high = float(rows[name][-2]), float(rows[name][-1])
        except ValueError:
            low = high = 0.0
        step = factor * (high - low) / _SENSOR_STEPS
        return factor, step if step > 0 else _SENSOR_RESOLUTION_W

    def _sensors_of_power(self) -> str:
        rows = [line.split(",") for line in self._ask("sdr list full").splitlines()]
        names = [row[0] for row in rows if row[2:] and row[2] == "Watts"]
        return f"sensors of power there: {', '.join(names) or 'none'}"

    def _value_w(self, value: str | None, name: str) -> float:
        what = f"{self._where}: {name}"
        if value is None or value.strip() in ("na", "no reading", "disabled", ""):
            raise MeterError(f"{what} has no value now")
        number = number_of(value, what)
        if number == 0:
            raise MeterError(
                f"{what} is 0 W: the machine is off, or its BMC does not measure power",
                hint="compare with `ipmitool sensor`; name another sensor or meter",
            )
        return number

    @property
    def _where(self) -> str:
        return self.options.host or "BMC of this machine"


def _command(words: str, names: tuple[str, ...] | dict[str, tuple[float, float]]) -> str:
    return " ".join((words, *(f'"{name}"' for name in names)))
