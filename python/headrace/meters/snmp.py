"""Meter `snmp`: power or energy of a PDU, or any object of an agent, by SNMP version 2c or 3.

A PDU of a known family is read by `preset`: whole, by outlet or by branch. `oids` reads any other
object, with its unit and scale.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import ClassVar

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
from headrace.meters.http_client import password_of
from headrace.meters.pdu_presets import PRESETS, PduObject
from headrace.meters.snmp_client import (
    Authentication,
    Privacy,
    SnmpAgent,
    SnmpConnection,
    SnmpValue,
)
from headrace.registry import nearest
from headrace.site import Section
from headrace.units import Seconds

_ACCURACY = (0.02, "assumption: 2 %; makers state 1 % for most metered PDUs")
_INTERVAL_S = 2.0
_SHORTEST_PASSWORD = 8
"""RFC 3414, 11.2."""


class SnmpObject(Section):
    """An entry of `oids`."""

    oid: str = Field(description='"1.3.6.1.4.1.…"')
    unit: str = Field(
        description="unit of value times scale: W, mW, kW for power; J, Wh, kWh for a counter; VA "
        "needs power_factor"
    )
    scale: float = Field(1.0, gt=0, description="units of one count, such as 0.1")
    power_factor: float | None = Field(None, gt=0, le=1, description="W per VA")

    @field_validator("oid")
    @classmethod
    def _numbers(cls, value: str) -> str:
        if not re.fullmatch(r"\.?[0-2](\.\d+)+", value):
            raise ValueError(
                f'"{value}" is not an OID: numbers with dots between them, such as '
                '"1.3.6.1.4.1.318.1.1.12.1.16.0"; names of a MIB are not known here'
            )
        return value

    @model_validator(mode="after")
    def _power(self) -> SnmpObject:
        factor_of(self.unit, self.power_factor)
        return self


class SnmpOptions(MeterOptions):
    """Fields of `[meter.NAME]` with `kind = "snmp"`."""

    path_fields: ClassVar[tuple[str, ...]] = (
        "community_file",
        "password_file",
        "privacy_password_file",
    )
    host: str = Field(min_length=1, description="name or address of the agent")
    port: int = Field(161, ge=1, le=65535)
    timeout: Seconds = Field(3.0, gt=0, le=60, description="longest wait for an answer")
    community_file: str | None = Field(
        None, description='version 2c: file whose first line is the community, "public" without'
    )
    user: str | None = Field(None, min_length=1, description="of version 3; without it, 2c")
    authentication: Authentication | None = Field(None, description="version 3")
    password_file: str | None = Field(
        None, description="file whose first line is the password of authentication"
    )
    privacy: Privacy | None = Field(None, description="version 3: encryption")
    privacy_password_file: str | None = Field(
        None, description="file whose first line is the password of privacy"
    )
    context: str = Field("", description="version 3: name of the context; mostly none")
    preset: str | None = Field(None, description=f"family of a PDU: {', '.join(PRESETS)}")
    pdu: int = Field(1, ge=1, le=64, description="number of the PDU in a chain, from 1")
    outlets: tuple[int, ...] = Field((), description="numbers of outlets; else the whole PDU")
    branches: tuple[int, ...] = Field((), description="numbers of branches; else the whole PDU")
    oids: dict[str, SnmpObject] = Field(
        default_factory=dict[str, SnmpObject], description="objects by a name of your choice"
    )

    @field_validator("preset")
    @classmethod
    def _known(cls, value: str | None) -> str | None:
        if value is not None and value not in PRESETS:
            near = nearest(value, list(PRESETS))
            raise ValueError(
                f"unknown preset {value}; "
                + (f"did you mean {near}? " if near else "")
                + f"allowed: {', '.join(PRESETS)}; or state oids"
            )
        return value

    @field_validator("outlets", "branches")
    @classmethod
    def _numbers(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(number < 1 for number in value) or len(set(value)) != len(value):
            raise ValueError("must be different numbers from 1")
        return value

    @model_validator(mode="after")
    def _one_source(self) -> SnmpOptions:
        if (self.preset is None) == (not self.oids):
            raise ValueError(f"state preset ({', '.join(PRESETS)}) or oids")
        if self.preset is None and (self.outlets or self.branches):
            raise ValueError("outlets and branches are those of a preset; state preset")
        if self.outlets and self.branches:
            raise ValueError(
                "state outlets or branches: an outlet's power is part of its branch's; use one "
                "meter for each"
            )
        if self.preset is not None:
            preset = PRESETS[self.preset]
            for field in ("outlet", "branch"):
                plural = "branches" if field == "branch" else "outlets"
                if getattr(self, plural) and getattr(preset, field) is None:
                    raise ValueError(f"preset {preset.name} has no power per {field}")
        return self

    @model_validator(mode="after")
    def _credentials(self) -> SnmpOptions:
        of_3 = ("authentication", "password_file", "privacy", "privacy_password_file")
        given = [name for name in of_3 if getattr(self, name) is not None]
        if self.user is None:
            if given:
                raise ValueError(f"user is missing: {given[0]} is of version 3, which needs it")
            return self
        if self.community_file is not None:
            raise ValueError("community_file is of version 2c, user of version 3; state one")
        if (self.authentication is None) != (self.password_file is None):
            raise ValueError("authentication and password_file belong together")
        if (self.privacy is None) != (self.privacy_password_file is None):
            raise ValueError("privacy and privacy_password_file belong together")
        if self.privacy is not None and self.authentication is None:
            raise ValueError("privacy needs authentication")
        return self


@dataclass(frozen=True)
class _Source:
    """One object that is read: a channel."""

    name: str
    oid: str
    factor: float
    """W or J of one count."""
    energy: bool = False
    digits_oid: str | None = None


class Snmp(Meter):
    """One channel per object."""

    kind: ClassVar[str] = "snmp"
    Options: ClassVar[type[MeterOptions]] = SnmpOptions
    options: SnmpOptions
    _connection: SnmpConnection | None = None
    _described: tuple[tuple[_Source, float, int | None], ...] | None = None
    """Each object, W or J of one count, bits of its counter."""

    def channels(self) -> tuple[MeterChannel, ...]:
        """Ask for each object once: it tells its type, and some their digits."""
        return tuple(
            self.channel(
                source.name,
                "node",
                _INTERVAL_S,
                _ACCURACY,
                counter=source.energy,
                resolution_w=0.0 if source.energy else factor,
                resolution_j=factor if source.energy else 0.0,
                wraps_at_j=None if bits is None else factor * 2.0**bits,
            )
            for source, factor, bits in self._describe()
        )

    def read(self) -> list[Reading]:
        """Read every object with one request, at its middle."""
        described = self._describe()
        before_s = time.monotonic()
        values = self._get([source.oid for source, _, _ in described])
        now_s = (before_s + time.monotonic()) / 2
        found: list[Reading] = []
        for (source, factor, _), value in zip(described, values, strict=True):
            counted = factor * self._number(source, value)
            if source.energy:
                found.append(Reading(source.name, now_s, energy_j=counted))
            else:
                found.append(Reading(source.name, now_s, power_w=counted))
        return found

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._described = self._connection, None, None
        if connection is not None:
            connection.close()

    def _sources(self) -> list[_Source]:
        options = self.options
        if options.preset is None:
            found: list[_Source] = []
            for name, own in options.oids.items():
                energy, factor = factor_of(own.unit, own.power_factor)
                found.append(_Source(name, own.oid.lstrip("."), own.scale * factor, energy))
            return found
        preset = PRESETS[options.preset]
        if options.outlets and preset.outlet is not None:
            return [self._of_preset("outlet", preset.outlet, each) for each in options.outlets]
        if options.branches and preset.branch is not None:
            return [self._of_preset("branch", preset.branch, each) for each in options.branches]
        return [self._of_preset("total", preset.total, None)]

    def _of_preset(self, name: str, each: PduObject, number: int | None) -> _Source:
        pdu = self.options.pdu - 1 + PRESETS[self.options.preset or ""].first_pdu
        digits = each.digits_oid
        return _Source(
            name if number is None else f"{name} {number}",
            each.oid.format(pdu=pdu, number=number),
            each.watts,
            digits_oid=None if digits is None else digits.format(pdu=pdu, number=number),
        )

    def _describe(self) -> tuple[tuple[_Source, float, int | None], ...]:
        if self._described is None:
            sources = self._sources()
            with_digits = [source for source in sources if source.digits_oid is not None]
            digits: dict[str, float] = {}
            if with_digits:
                answers = self._get([source.digits_oid or "" for source in with_digits])
                for source, answer in zip(with_digits, answers, strict=True):
                    digits[source.oid] = self._number(source, answer)
            values = self._get([source.oid for source in sources])
            self._described = tuple(
                (source, source.factor * 10.0 ** -digits.get(source.oid, 0.0), value.bits)
                for source, value in zip(sources, values, strict=True)
            )
        return self._described

    def _get(self, oids: list[str]) -> list[SnmpValue]:
        if self._connection is None:
            self._connection = SnmpConnection(self._agent())
        return self._connection.get(oids)

    def _agent(self) -> SnmpAgent:
        options = self.options
        community = "" if options.user is not None else "public"
        if options.community_file is not None:
            community = password_of(options.community_file)
        return SnmpAgent(
            host=options.host,
            port=options.port,
            timeout_s=options.timeout,
            community=community,
            user=options.user,
            authentication=options.authentication,
            password=_long_enough(options.password_file),
            privacy=options.privacy,
            privacy_password=_long_enough(options.privacy_password_file),
            context=options.context,
        )

    def _number(self, source: _Source, value: SnmpValue) -> float:
        what = f"{self.options.host}: {source.name} ({source.oid})"
        number = number_of(value.value, what)
        if number < 0:
            raise MeterError(
                f"{what} is {number:g}: the PDU does not measure it",
                hint="name what it meters, or another meter",
            )
        return number


def _long_enough(file: str | None) -> str:
    """Return the password of a file; SNMP allows none that is shorter than 8 characters."""
    password = password_of(file)
    if file is not None and len(password) < _SHORTEST_PASSWORD:
        raise MeterError(
            f"the password in {file} has fewer than {_SHORTEST_PASSWORD} characters, which "
            "SNMP version 3 does not allow"
        )
    return password
