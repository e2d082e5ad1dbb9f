"""Messages between the engine and a node process: typed, and nothing that could run code.

A message is MessagePack behind its length in four bytes. The engine sends `Call`; a node sends
`CallAnswer` and, without being asked, what its jobs say and how they end.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from inspect import get_annotations
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.jobs import JobOutput
from headrace.launchers import JobExit, LauncherLostError
from headrace.probes.ledger import LedgerRow
from headrace.probes.sampler import Samples, Sampling
from headrace.system.accounting import UseSoFar
from headrace.system.capabilities import Capability
from headrace.system.machine_facts import MachineFacts
from headrace.system.machine_use import MachineUse, Own
from headrace.system.node_limits import NodeLimits
from headrace.system.storage_settings import AppliedSetting, SettingValue

_LENGTH = struct.Struct("!I")
MOST_BYTES = 1 << 30
"""Length of the longest message. A length beyond it is a broken stream."""


class Call(msgspec.Struct, tag="call", array_like=True):
    """A method to call, with its arguments encoded as a tuple. Number 0: no answer is wanted."""

    number: int
    method: str
    arguments: msgspec.Raw


class NodeError(msgspec.Struct, array_like=True):
    """An error on a node: the name of its class, its text and its remedy."""

    name: str
    text: str
    hint: str | None = None

    @property
    def words(self) -> str:
        """Text and remedy as one clause."""
        return "; ".join(filter(None, (self.text, self.hint)))


class CallAnswer(msgspec.Struct, tag="answer", array_like=True):
    """The encoded result of a call, or its error.

    A call without an answer (number 0) has one when it fails.
    """

    number: int
    value: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: NodeError | None = None


class JobReady(msgspec.Struct, tag="ready", array_like=True):
    """A job waits for its release, or begins (`JobSpec.at_once`).

    The fields of `launchers.Ready`.
    """

    job: int
    pid: int
    offers: dict[str, str] = {}


class JobRefused(msgspec.Struct, tag="refused", array_like=True):
    """A job could not be started."""

    job: int
    error: NodeError


class JobWantsPacket(msgspec.Struct, tag="packet", array_like=True):
    """A job waits for a packet: the fields of `launchers.PacketWanted`."""

    job: int
    so_far: JobOutput | None = None


class JobReported(msgspec.Struct, tag="reported", array_like=True):
    """The fields of `launchers.Reported`."""

    job: int
    word: str
    cause: str | None
    start_s: float
    end_s: float
    output: JobOutput | None
    ledger: LedgerRow | None


class Leftovers(msgspec.Struct, array_like=True):
    """What a job wrote into folders that its node made: its log, and files to keep by name."""

    log: bytes = b""
    kept: dict[str, bytes] = {}


class JobEnded(msgspec.Struct, tag="ended", array_like=True):
    """The process of a job has ended."""

    job: int
    exit: JobExit
    leftovers: Leftovers


class JobsLost(msgspec.Struct, tag="lost", array_like=True):
    """What ran the jobs of the node has died, and they with it."""

    text: str


class Beat(msgspec.Struct, tag="beat", array_like=True):
    """The node is there. Sent again and again, whatever else it does."""


class Reaped(msgspec.Struct, array_like=True):
    """Jobs that still run, and how the others ended where it is known."""

    left: list[int]
    exits: dict[int, JobExit]
    leftovers: dict[int, Leftovers]


class Hello(msgspec.Struct, array_like=True):
    """What a node says of itself when it starts."""

    machine: MachineFacts
    kernel: str
    """`Agent.kernel`."""
    pid: int = 0
    start_ticks: int | None = None
    """With its id, who the process is."""
    journal: str = ""
    """Its undo journal."""


class NodeAbilities(msgspec.Struct, array_like=True):
    """What a node can do for a study, and what limits it."""

    others_cpus: float
    """CPUs that other programs used during a second, without `stolen_cpus`."""
    stolen_cpus: float
    """CPUs that the hypervisor kept from the machine during this second (steal)."""
    wall_less_monotonic_s: float
    """Difference of its clock of the day and its monotonic clock."""
    limits: NodeLimits
    capabilities: list[Capability]


FromNode = (
    Beat | CallAnswer | JobReady | JobRefused | JobWantsPacket | JobReported | JobEnded | JobsLost
)


def _plain(value: object) -> str:
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be sent to another process")


def _made(kind: type[Any], value: Any) -> Any:
    if kind is object:
        return value
    if kind is Path:
        return Path(value)
    raise TypeError(f"{kind} cannot be received from another process")


_encoder = msgspec.msgpack.Encoder(enc_hook=_plain)


def encode(value: object) -> bytes:
    """Return a value as MessagePack. Raises TypeError for values that are not plain data."""
    return _encoder.encode(value)


@cache
def _decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_made)


def decode(data: bytes | msgspec.Raw, kind: Any) -> Any:
    """Return the value of a type. Raises msgspec.DecodeError when the data is of another type."""
    return _decoder(kind).decode(data)


def framed(message: object) -> bytes:
    """Return a message with its length, for a stream."""
    body = encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete with these bytes. Raises ValueError if broken."""
        self._data += data
        found: list[bytes] = []
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            if length > MOST_BYTES:
                raise ValueError(f"a message of {length} B: the stream is broken")
            if len(self._data) < _LENGTH.size + length:
                break
            found.append(bytes(self._data[_LENGTH.size : _LENGTH.size + length]))
            del self._data[: _LENGTH.size + length]
        return found


_OF_AGENTS = {
    **{each.__name__: each for each in (AppliedSetting, MachineFacts, MachineUse, Own)},
    **{each.__name__: each for each in (Samples, Sampling, UseSoFar)},
    "SettingValue": SettingValue,
}
"""Types of methods of `launchers.Agent`, whose module does not import them when it runs."""


@cache
def types_of(method: Callable[..., Any]) -> tuple[Any, Any]:
    """Return the type of a method's arguments, as a tuple, and of its result."""
    hints = get_type_hints(method, localns=_OF_AGENTS)
    names = [name for name in get_annotations(method) if name != "return"]
    arguments = tuple(hints[name] for name in names)
    return (tuple[arguments] if arguments else tuple[()]), hints["return"]


ERRORS: dict[str, type[Exception]] = {
    kind.__name__: kind
    for kind in (HeadraceError, LauncherLostError, UnsupportedLevelError, OSError)
}


def error_of(sent: NodeError, where: str = "") -> Exception:
    """Return the error of a call; one of an unknown kind becomes a HeadraceError.

    `where` is put before its text. A HeadraceError keeps its remedy.
    """
    error = ERRORS.get(sent.name, HeadraceError)(f"{where}{sent.text}")
    if isinstance(error, HeadraceError):
        error.hint = sent.hint
    return error
