"""Meter `redfish`: the BMC of a server by Redfish over HTTPS (DMTF DSP0266, schemas DSP8010).

Vendors differ in where they put the power of a chassis: `EnvironmentMetrics` (`PowerWatts`) in
newer services, `Power` (`PowerControl[].PowerConsumedWatts`) in older ones; the first that has a
number is read. Sensors are read when the study names them: a chassis has several of power, and only
their names tell which contain which.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import httpx
from pydantic import Field, model_validator

from headrace.meters import (
    Meter,
    MeterChannel,
    MeterError,
    MeterOptions,
    Reading,
    factor_of,
    number_of,
)
from headrace.meters.http_client import HttpConnection, HttpOptions, password_of
from headrace.meters.redfish_login import SessionLogin, trusted
from headrace.meters.redfish_resources import (
    ACCURACY,
    accuracy_of,
    link_to,
    members_of,
    value_at,
)
from headrace.units import Seconds

_ROOT = "/redfish/v1/"
_SESSIONS = "/redfish/v1/SessionService/Sessions"
_INTERVAL_S = 2.0
_MOST_SENSORS = 64
"""Sensors that are looked at to name those of power in a message."""


class RedfishOptions(HttpOptions):
    """Fields of `[meter.NAME]` with `kind = "redfish"`."""

    path_fields = ("password_file", "certificate", "ca")
    timeout: Seconds = Field(10.0, gt=0, le=60, description="longest wait for an answer")
    password_variable: str | None = Field(
        None, description="environment variable with the password, instead of password_file"
    )
    login: Literal["session", "basic"] = Field(
        "session", description="basic for a service without sessions"
    )
    certificate: str | None = Field(
        None, description="file (PEM) with the BMC's own certificate: only it is trusted"
    )
    ca: str | None = Field(
        None, description="file (PEM) with the CA of its certificate; those of this machine if none"
    )
    chassis: tuple[str, ...] = Field(
        (), description="Ids of the chassis; every one that has power when not given"
    )
    resource: Literal["EnvironmentMetrics", "Power"] | None = Field(
        None, description="where to read power; the first that has any when not given"
    )
    sensors: tuple[str, ...] = Field(
        (), description='"CHASSIS/SENSOR" by their Ids: read instead of the power of the chassis'
    )

    @model_validator(mode="after")
    def _reachable(self) -> RedfishOptions:
        if self.user is not None and self.address.startswith("http://"):
            raise ValueError("a password must not be sent without TLS: write https://")
        if self.user is not None and not (self.password_file or self.password_variable):
            raise ValueError("user needs password_file or password_variable")
        if self.certificate is not None and self.ca is not None:
            raise ValueError("certificate and ca cannot both be stated")
        return self


@dataclass(frozen=True)
class _Source:
    """Where the value of a channel is."""

    channel: MeterChannel
    url: str
    keys: tuple[str | int, ...]
    """The place of the value in the resource."""
    factor: float = 1.0
    """Its unit in W."""


class Redfish(Meter):
    """One channel per chassis and further part of `PowerControl`, or per named sensor."""

    kind: ClassVar[str] = "redfish"
    Options: ClassVar[type[MeterOptions]] = RedfishOptions
    options: RedfishOptions
    _connection: HttpConnection | None = None
    _login: SessionLogin | None = None
    _sources: tuple[_Source, ...] = ()

    def channels(self) -> tuple[MeterChannel, ...]:
        """Look where this service has power."""
        if not self._sources:
            chassis = self._chassis()
            found = self._sensors(chassis) if self.options.sensors else self._powers(chassis)
            self._sources = tuple(found)
        return tuple(source.channel for source in self._sources)

    def read(self) -> list[Reading]:
        """Read each resource once, at the middle of its request."""
        self.channels()
        found: list[Reading] = []
        for url in dict.fromkeys(source.url for source in self._sources):
            before_s = time.monotonic()
            resource = self._get(url)
            now_s = (before_s + time.monotonic()) / 2
            for source in self._sources:
                if source.url == url:
                    value = value_at(resource, source.keys)
                    if value is None:
                        raise MeterError(f"{self.options.address}{url} has no power at present")
                    watts = source.factor * number_of(value, f"{self.options.address}{url}")
                    found.append(Reading(source.channel.name, now_s, power_w=watts))
        return found

    def close(self) -> None:
        """End the session, since a BMC has few, and close the connection."""
        connection, login, self._connection, self._login = self._connection, self._login, None, None
        self._sources = ()
        if connection is None:
            return
        try:
            if login is not None and login.session_url:
                login.again = False
                connection.request("DELETE", login.session_url)
        except MeterError:
            pass  # it is gone; the service ends sessions without requests by itself
        finally:
            connection.close()

    # -- where power is --

    def _chassis(self) -> dict[str, Any]:
        """Return the chassis resources by Id."""
        link = link_to(self._get(_ROOT), "Chassis")
        if link is None:
            raise MeterError(f"{self.options.address} has no Chassis: is it a Redfish service?")
        every = {str(each.get("Id")): each for each in map(self._get, members_of(self._get(link)))}
        for name in self.options.chassis:
            if name not in every:
                raise MeterError(
                    f"{self.options.address} has no chassis {name}",
                    hint=f"its chassis: {', '.join(every)}",
                )
        chosen = self.options.chassis or tuple(every)
        return {name: every[name] for name in chosen}

    def _powers(self, chassis: dict[str, Any]) -> list[_Source]:
        """Return the power of each chassis that has one, and of its parts."""
        found: list[_Source] = []
        names = {each.get("@odata.id", "").rstrip("/"): name for name, each in chassis.items()}
        holders: dict[str, str | None] = {}
        for name, each in chassis.items():
            holder = link_to(each.get("Links"), "ContainedBy")
            holders[name] = names.get((holder or "").rstrip("/"))
            found += self._environment(name, each) or self._power_control(name, each)
        if not found:
            places = self.options.resource or "EnvironmentMetrics nor Power"
            named = ", ".join(self._sensors_of_power(chassis)) or "none found"
            raise MeterError(
                f"{self.options.address}: no chassis has power in {places}",
                hint=f"name sensors of power in `sensors`: {named}",
            )
        known = {source.channel.name for source in found}
        return [
            replace(each, channel=replace(each.channel, within=holders[each.channel.name]))
            if holders.get(each.channel.name) in known
            else each
            for each in found
        ]

    def _environment(self, name: str, chassis: Any) -> list[_Source]:
        url = link_to(chassis, "EnvironmentMetrics")
        if url is None or self.options.resource == "Power":
            return []
        resource, keys = self._get(url), ("PowerWatts", "Reading")
        if value_at(resource, keys) is None:
            return []
        accuracy = ACCURACY
        sensor = value_at(resource, ("PowerWatts", "DataSourceUri"))
        if isinstance(sensor, str):
            with contextlib.suppress(MeterError):  # not every service shows it
                accuracy = accuracy_of(self._get(sensor))
        channel = self.channel(name, "node", _INTERVAL_S, accuracy, resolution_w=1.0)
        return [_Source(channel, url, keys)]

    def _power_control(self, name: str, chassis: Any) -> list[_Source]:
        """Return the chassis (the first part with a number), and the parts within it."""
        url = link_to(chassis, "Power")
        if url is None or self.options.resource == "EnvironmentMetrics":
            return []
        parts = value_at(self._get(url), ("PowerControl",))
        found: list[_Source] = []
        for index, part in enumerate(parts if isinstance(parts, list) else []):
            keys = ("PowerControl", index, "PowerConsumedWatts")
            if value_at(part, keys[2:]) is None:
                continue
            label = name if not found else f"{name}/{part.get('Name') or index}"
            if label in [source.channel.name for source in found]:
                label = f"{label} {index}"
            channel = self.channel(label, "node", _INTERVAL_S, ACCURACY, resolution_w=1.0)
            within = found[0].channel.name if found else None
            found.append(_Source(replace(channel, within=within), url, keys))
        return found

    def _sensors(self, chassis: dict[str, Any]) -> list[_Source]:
        """Return the sensors that the study names."""
        found: list[_Source] = []
        for name in self.options.sensors:
            holder, _, wanted = name.rpartition("/")
            urls = dict(self._sensor_urls(chassis[holder])) if holder in chassis else {}
            if wanted not in urls:
                known = ", ".join(self._sensors_of_power(chassis)) or "none found"
                raise MeterError(
                    f"{self.options.address} has no sensor {name}",
                    hint=f"its sensors of power: {known}",
                )
            sensor = self._get(urls[wanted])
            unit = str(sensor.get("ReadingUnits") or "W")
            where = f"{self.options.address}: sensor {name}"
            if sensor.get("ReadingType", "Power") != "Power":
                raise MeterError(f"{where} is of {sensor.get('ReadingType')}, not of Power")
            try:
                energy, factor = factor_of(unit)
            except ValueError as error:
                raise MeterError(f"{where}: {error}") from None
            if energy:
                raise MeterError(f"{where}: {unit} is not a unit of power")
            channel = self.channel(name, "node", _INTERVAL_S, accuracy_of(sensor), resolution_w=1.0)
            found.append(_Source(channel, urls[wanted], ("Reading",), factor))
        return found

    def _sensor_urls(self, chassis: Any) -> Iterator[tuple[str, str]]:
        url = link_to(chassis, "Sensors")
        if url is not None:
            for member in members_of(self._get(url)):
                yield member.rstrip("/").rpartition("/")[2], member

    def _sensors_of_power(self, chassis: dict[str, Any]) -> Iterable[str]:
        """Return the names of the sensors of power, of the first that the service lists."""
        urls = [
            (f"{name}/{sensor}", url)
            for name, each in chassis.items()
            for sensor, url in self._sensor_urls(each)
        ]
        for name, url in urls[:_MOST_SENSORS]:
            if self._get(url).get("ReadingType") == "Power":
                yield name

    # -- the service --

    def _get(self, url: str) -> Any:
        if self._connection is None:
            self._connect()
        connection = self._connection
        if connection is None:
            raise MeterError(f"{self.options.address} is not connected")
        resource = connection.get(url)
        if not isinstance(resource, dict):
            raise MeterError(f"{self.options.address}{url} is not a resource of Redfish")
        return resource

    def _connect(self) -> None:
        options = self.options
        address = options.address if "://" in options.address else f"https://{options.address}"
        given = options.model_copy(update={"address": address})
        tls = trusted(options.certificate, options.ca)
        if options.user is None:
            self._connection = HttpConnection(given, tls=tls)
            return
        password = self._password()
        if options.login == "session":
            url = address.rstrip("/") + _SESSIONS
            self._login = SessionLogin(url, options.user, password)
            self._connection = HttpConnection(given, auth=self._login, tls=tls)
        else:
            auth = httpx.BasicAuth(options.user, password)
            self._connection = HttpConnection(given, auth=auth, tls=tls)

    def _password(self) -> str:
        variable = self.options.password_variable
        if variable is None:
            return password_of(self.options.password_file)
        if variable not in os.environ:
            raise MeterError(
                f"the environment variable {variable} is not set",
                hint=f"export {variable}=… before the command, or state password_file",
            )
        return os.environ[variable]
