"""Base layer: power states that NVMe drives state in themselves (NVMe Base Specification 2.0).

The watts are those of the maker (Identify Controller, figure 276), not measured: a state allows at
most this power. Both commands only read; they need root.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SYSFS = Path("/sys/class/nvme")
DEVICES = Path("/dev")

_ADMIN_COMMAND = 0xC0484E41
"""NVME_IOCTL_ADMIN_CMD of linux/nvme_ioctl.h."""
_COMMAND = struct.Struct("=BBHIIIQQIIIIIIIIII")
"""nvme_passthru_cmd: opcode, flags, reserved, namespace, 2 words, metadata, address, lengths of
metadata and data, 6 words, time limit in ms, result."""
_IDENTIFY, _GET_FEATURES = 0x06, 0x0A
_CONTROLLER, _POWER_MANAGEMENT = 0x01, 0x02
_IDENTIFY_BYTES = 4096
_TIMEOUT_MS = 2000
_STATES_AT, _STATE_BYTES = 2048, 32
_COUNT_AT = 263
_SCALES_W = {1: 1e-4, 2: 1e-2}
"""Watts of one count of idle and active power; 0 means that none is stated."""


@dataclass(frozen=True)
class PowerState:
    """One power state as the drive describes it. None is what it leaves out."""

    number: int
    max_w: float | None
    operational: bool
    """Whether the drive serves requests in it."""
    idle_w: float | None
    active_w: float | None
    entry_us: int
    exit_us: int


@dataclass(frozen=True)
class Controller:
    """An NVMe drive of this machine."""

    name: str
    """Such as nvme0."""
    model: str
    states: tuple[PowerState, ...]
    """Empty if it cannot be asked; see `error`."""
    present: int | None = None
    """Number of the state that it is in now."""
    error: str = ""

    @property
    def described(self) -> str:
        """The most power of each state, as `0: 8.5 W, 1: 4.5 W, 2: 0.05 W (idle)`."""
        words = [
            f"{state.number}: {'?' if state.max_w is None else f'{state.max_w:g} W'}"
            f"{'' if state.operational else ' (idle)'}"
            for state in self.states
        ]
        now = "" if self.present is None else f"; now in {self.present}"
        return ", ".join(words) + now


def controllers(sysfs: Path = SYSFS, devices: Path = DEVICES) -> list[Controller]:
    """Return the NVMe drives, with their states if this process may ask for them."""
    found: list[Controller] = []
    for folder in sorted(sysfs.glob("nvme*")):
        model = _text(folder / "model")
        try:
            states, present = ask(devices / folder.name)
        except OSError as error:
            why = "run as root" if error.errno in (1, 13) else str(error.strerror)
            found.append(Controller(folder.name, model, (), error=why))
        else:
            found.append(Controller(folder.name, model, states, present))
    return found


@cache
def states_of_disk(disk: str) -> tuple[PowerState, ...]:
    """Return the states of a disk such as nvme0n1; none if it is no NVMe drive or does not tell."""
    number = re.match(r"nvme(\d+)", disk)
    if number is None:
        return ()
    try:
        return ask(DEVICES / number[0])[0]
    except OSError:
        return ()


def ask(device: Path) -> tuple[tuple[PowerState, ...], int]:
    """Return a drive's power states and the number of the present one. Raises OSError."""
    file = os.open(device, os.O_RDONLY)
    try:
        data = ctypes.create_string_buffer(_IDENTIFY_BYTES)
        _admin(file, _IDENTIFY, _CONTROLLER, data)
        return power_states(data.raw), _admin(file, _GET_FEATURES, _POWER_MANAGEMENT, None) & 0x1F
    finally:
        os.close(file)


def power_states(identify: bytes) -> tuple[PowerState, ...]:
    """Return the states in the answer to Identify Controller."""
    return tuple(
        _state(number, identify[_STATES_AT + number * _STATE_BYTES :][:_STATE_BYTES])
        for number in range(min(identify[_COUNT_AT], 31) + 1)
    )


def _state(number: int, descriptor: bytes) -> PowerState:
    max_power, _, flags, entry_us, exit_us = struct.unpack_from("<HBBII", descriptor)
    idle, idle_scale = struct.unpack_from("<HB", descriptor, 16)
    active, active_scale = struct.unpack_from("<HB", descriptor, 20)
    return PowerState(
        number=number,
        max_w=round(max_power * (1e-4 if flags & 1 else 1e-2), 6) if max_power else None,
        operational=not flags & 2,
        idle_w=_watts(idle, idle_scale),
        active_w=_watts(active, active_scale),
        entry_us=entry_us,
        exit_us=exit_us,
    )


def _watts(counts: int, scale: int) -> float | None:
    watts = _SCALES_W.get(scale >> 6)
    return None if watts is None else round(counts * watts, 6)


def _admin(file: int, opcode: int, word: int, data: ctypes.Array[ctypes.c_char] | None) -> int:
    """Send an admin command that reads; return its result."""
    address, length = (0, 0) if data is None else (ctypes.addressof(data), len(data))
    command = bytearray(
        _COMMAND.pack(
            opcode, 0, 0, 0, 0, 0, 0, address, 0, length, word, 0, 0, 0, 0, 0, _TIMEOUT_MS, 0
        )
    )
    status = fcntl.ioctl(file, _ADMIN_COMMAND, command)
    if status:
        raise OSError(5, f"the drive answers status 0x{status:x}")
    return int(_COMMAND.unpack(command)[-1])


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""
