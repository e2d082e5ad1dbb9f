"""What an emulated drive can be on this machine: how fast, how large; said before one is attached."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace import _core
from headrace.errors import HeadraceError
from headrace.units import format_bytes

FLOOR_NS = 25_000
"""The fastest answer to be counted on: the way of a 4 KiB request through loop device, FUSE and emulator and back.
Each device measures its own when it is attached."""
_PROCESS_BYTES = 24 << 20
"""Code, threads, message buffers and model of one emulator, and what a model keeps of a large SSD is added."""
_RESERVE_SHARE = 0.15
"""Of the memory that is free, left to everyone else."""


@dataclass(frozen=True)
class Limits:
    """Of this machine, now."""

    floor_ns: int
    free_bytes: int
    """Memory that could be taken (MemAvailable)."""
    data_bytes: int
    """The most that emulated drives may hold together: what is free less a reserve."""


def limits() -> Limits:
    """What this machine can do now."""
    available = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) * 1024
    return Limits(
        FLOOR_NS,
        available,
        max(0, available - max(1 << 30, int(available * _RESERVE_SHARE)) - _PROCESS_BYTES),
    )


def fastest_ns(storage: dict[str, Any]) -> int:
    """The shortest response time of the drives to a 4 KiB request at queue depth 1, by the model."""
    fastest: list[int] = []
    for drive in storage["drives"]:
        for rw in ("read", "randwrite"):
            load = {"rw": rw, "bs_bytes": 4096, "runtime_s": 5.0, "number_ios": 200, "size_bytes": 64 << 20}
            done = json.loads(_core.drive_run_json(json.dumps(drive), json.dumps(load)))
            fastest.append(int(done["write" if rw == "randwrite" else "read"]["latency_ns_p50"]))
    return min(fastest)


def refusal(storage: dict[str, Any], *, floor_ns: int = FLOOR_NS) -> str | None:
    """Why a drive is faster than it can be emulated here; None when it can."""
    name = storage["drives"][0].get("name", "the drive")
    needs = fastest_ns(storage)
    if needs >= floor_ns:
        return None
    return (
        f"{name} answers within {needs / 1e3:.0f} us; an emulated drive on this machine takes {floor_ns / 1e3:.0f} us "
        "at least (headrace simulate has no such limit)"
    )


def write_cache_bytes(storage: dict[str, Any]) -> int:
    """What the drives together hold of acknowledged writes."""
    count = int(storage["raid"]["drives"]) if storage.get("raid") else 1
    total = 0
    for drive in storage["drives"]:
        if drive["kind"] == "hdd":
            total += int(drive.get("buffer", {}).get("write_cache_bytes", 8 << 20))
        else:
            total += int(drive.get("write_buffer_bytes", 0))
    return total * count // len(storage["drives"])


def memory_bytes(storage: dict[str, Any], data_limit_bytes: int) -> int:
    """What an emulated drive takes at most: data, what a loss of power would bring back, the process itself."""
    return data_limit_bytes + 2 * write_cache_bytes(storage) + (64 << 20) + _PROCESS_BYTES


def data_limit(size_bytes: int, given: int | None) -> int:
    """How much data a device of that size may hold. Raises HeadraceError when it does not fit into memory."""
    room = limits().data_bytes
    wanted = size_bytes if given is None else min(given, size_bytes)
    if wanted > room:
        what = f"an emulated drive of {format_bytes(size_bytes)}" + (
            "" if given is None else f" that holds {format_bytes(given)}"
        )
        raise HeadraceError(
            f"{what} lies in memory, and only {format_bytes(room)} can be taken",
            hint="give a smaller size, or let it hold less than its size (--memory); headrace simulate has no such limit",
        )
    return wanted
