"""Requests to agents over SNMP 2c and 3, by pysnmp: with a time limit, and one clear error."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from headrace.meters import MeterError

if TYPE_CHECKING:
    from pysnmp.hlapi.v3arch.asyncio import CommunityData, UsmUserData

# pysnmp is imported when the first request is made, since the import takes 0.6 s.

Authentication = Literal["MD5", "SHA", "SHA224", "SHA256", "SHA384", "SHA512"]
Privacy = Literal["DES", "AES", "AES192", "AES256"]

_AUTHENTICATIONS: dict[Authentication, str] = {
    "MD5": "usmHMACMD5AuthProtocol",
    "SHA": "usmHMACSHAAuthProtocol",
    "SHA224": "usmHMAC128SHA224AuthProtocol",
    "SHA256": "usmHMAC192SHA256AuthProtocol",
    "SHA384": "usmHMAC256SHA384AuthProtocol",
    "SHA512": "usmHMAC384SHA512AuthProtocol",
}
_PRIVACIES: dict[Privacy, str] = {
    "DES": "usmDESPrivProtocol",
    "AES": "usmAesCfb128Protocol",
    "AES192": "usmAesCfb192Protocol",
    "AES256": "usmAesCfb256Protocol",
}
_TRIES = 3


@dataclass(frozen=True)
class SnmpAgent:
    """An agent, and what it needs to answer."""

    host: str
    port: int
    timeout_s: float
    """Longest wait for an answer, with all tries."""
    community: str = ""
    """Of version 2c."""
    user: str | None = None
    """Of version 3; None for 2c."""
    authentication: Authentication | None = None
    password: str = ""
    privacy: Privacy | None = None
    privacy_password: str = ""
    context: str = ""


@dataclass(frozen=True)
class SnmpValue:
    """The value of an object."""

    value: int | str
    bits: int | None = None
    """Of a counter, after which it begins again at 0."""


class SnmpConnection:
    """One agent. Used by one thread at a time."""

    def __init__(self, agent: SnmpAgent) -> None:
        from pysnmp.hlapi.v3arch.asyncio import SnmpEngine

        self._agent = agent
        self._loop = asyncio.new_event_loop()
        self._engine = SnmpEngine()
        self._engine.cache["mibViewController"] = _without_mibs()
        self._target: Any = None
        self._user = _credentials(agent)

    def get(self, oids: Sequence[str]) -> list[SnmpValue]:
        """Return the values of objects, in one request. Raises MeterError."""
        agent = self._agent
        try:
            indication, status, index, found = self._loop.run_until_complete(
                asyncio.wait_for(self._answer(oids), agent.timeout_s + 1.0)
            )
        except TimeoutError:
            raise _no_answer(agent) from None
        except Exception as error:  # pysnmp raises its own and those of sockets
            if "Bad IPv" in str(error):
                raise MeterError(
                    f"{agent.host} is not found", hint="check the name of the agent"
                ) from None
            raise MeterError(
                f"{agent.host} is not reachable: {error}", hint="check its address and the network"
            ) from None
        if indication:
            raise _refused(agent, str(indication))
        if status:
            oid = oids[int(index) - 1] if index else oids[0]
            raise MeterError(f"{agent.host}: {oid}: the agent answers {status.prettyPrint()}")
        return [_value(agent, oid, value) for oid, (_, value) in zip(oids, found, strict=True)]

    def close(self) -> None:
        """Close the socket."""
        if not self._loop.is_closed():
            self._engine.close_dispatcher()
            # What the dispatcher cancelled must end before its loop does.
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

    async def _answer(self, oids: Sequence[str]) -> Any:
        from pysnmp.hlapi.v3arch.asyncio import (
            ContextData,
            ObjectIdentity,
            ObjectType,
            Udp6TransportTarget,
            UdpTransportTarget,
            get_cmd,
        )

        agent = self._agent
        if self._target is None:
            transport = Udp6TransportTarget if ":" in agent.host else UdpTransportTarget
            self._target = await transport.create(
                (agent.host, agent.port), timeout=agent.timeout_s / _TRIES, retries=_TRIES - 1
            )
        return await get_cmd(
            self._engine,
            self._user,
            self._target,
            ContextData(contextName=agent.context.encode()),
            *(ObjectType(ObjectIdentity(oid)) for oid in oids),
            lookupMib=False,
        )


class _NoMibCompiler:
    """Stands for the compiler of MIBs, which takes 0.7 s to set up: requests are numbers only."""

    def compile(self, *names: str, **options: object) -> dict[str, str]:
        """Compile nothing."""
        return {}


def _without_mibs() -> Any:
    from pysnmp.smi.builder import MibBuilder
    from pysnmp.smi.view import MibViewController

    builder = MibBuilder()
    builder.set_mib_compiler(_NoMibCompiler(), "")
    return MibViewController(builder)


def _credentials(agent: SnmpAgent) -> CommunityData | UsmUserData:
    from pysnmp.hlapi.v3arch import asyncio as api

    if agent.user is None:
        return api.CommunityData(agent.community, mpModel=1)
    authentication = privacy = None
    if agent.authentication is not None:
        authentication = getattr(api, _AUTHENTICATIONS[agent.authentication])
    if agent.privacy is not None:
        privacy = getattr(api, _PRIVACIES[agent.privacy])
    return api.UsmUserData(
        agent.user,
        authKey=agent.password or None,
        privKey=agent.privacy_password or None,
        authProtocol=authentication,
        privProtocol=privacy,
    )


def _value(agent: SnmpAgent, oid: str, value: Any) -> SnmpValue:
    kind = type(value).__name__
    if kind in ("NoSuchObject", "NoSuchInstance", "EndOfMibView"):
        raise MeterError(
            f"{agent.host} has no object {oid}",
            hint="check preset, number, and that this outlet or branch is metered; or what "
            "the user may read",
        )
    bits = {"Counter32": 32, "Counter64": 64}.get(kind)
    try:
        return SnmpValue(int(value), bits)
    except (TypeError, ValueError):
        return SnmpValue(str(value.prettyPrint()))


def _no_answer(agent: SnmpAgent) -> MeterError:
    if agent.user is None:
        hint = "check its address, and that its community may read: agents do not answer others"
    else:
        hint = "check its address, that it speaks version 3, and context"
    return MeterError(f"{agent.host} gave no answer within {agent.timeout_s:g} s", hint=hint)


def _refused(agent: SnmpAgent, indication: str) -> MeterError:
    """Return what an indication of pysnmp means (pysnmp.proto.errind)."""
    said = indication.lower()
    if "no snmp response" in said:
        return _no_answer(agent)
    if any(word in said for word in ("user", "digest", "security level", "cipher", "decrypt")):
        return MeterError(
            f"{agent.host} refuses user {agent.user} ({indication})",
            hint="check user, authentication, privacy and their passwords",
        )
    return MeterError(f"{agent.host}: {indication}", hint="check its address and the network")
