"""Limits of emulated drives on this machine, in speed and size, known before one is attached."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from headrace import _core
from headrace.errors import HeadraceError
from headrace.scenario import StorageSpec
from headrace.units import format_bytes

FLOOR_NS = 25_000
"""The fastest completion to rely on: a 4 KiB request through loop device, FUSE, emulator and back.

Each device measures its own when it is attached.
"""
_PROCESS_BYTES = 24 << 20
"""Code, threads, message buffers and model of one emulator; a large SSD's model needs more."""
_RESERVE_SHARE = 0.15
"""Fraction of the free memory that is left to other programs."""


@dataclass(frozen=True)
class Limits:
    """Current limits of this machine."""

    floor_ns: int
    free_bytes: int
    """Available memory (MemAvailable)."""
    data_bytes: int
    """Maximum data of all emulated drives together: the free memory minus a reserve."""


def limits() -> Limits:
    """Return the current limits of this machine."""
    available = int(Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]) * 1024
    return Limits(
        FLOOR_NS,
        available,
        max(0, available - max(1 << 30, int(available * _RESERVE_SHARE)) - _PROCESS_BYTES),
    )


def fastest_ns(storage: StorageSpec) -> int:
    """Return the drives' shortest modelled response time to a 4 KiB request at queue depth 1.

    The read is of an address without data, which needs no flash access.
    """
    fastest: list[int] = []
    for drive in storage["drives"]:
        for rw in ("read", "randwrite"):
            load = {
                "rw": rw,
                "bs_bytes": 4096,
                "runtime_s": 5.0,
                "number_ios": 200,
                "size_bytes": 64 << 20,
                "empty": True,
            }
            done = json.loads(_core.drive_run_json(json.dumps(drive), json.dumps(load)))
            fastest.append(int(done["write" if rw == "randwrite" else "read"]["latency_ns_p50"]))
    return min(fastest)


def refusal(storage: StorageSpec, *, floor_ns: int = FLOOR_NS) -> str | None:
    """Return why a drive is too fast to be emulated here; None when it is not."""
    name = storage["drives"][0].get("name", "the drive")
    needs = fastest_ns(storage)
    if needs >= floor_ns:
        return None
    return (
        f"{name} answers within {needs / 1e3:.0f} us; an emulated drive on this machine takes "
        f"{floor_ns / 1e3:.0f} us "
        "at least (headrace simulate has no such limit)"
    )


def write_cache_bytes(storage: StorageSpec) -> int:
    """Return the bytes of acknowledged writes that the drives' caches hold together."""
    raid = storage.get("raid")
    count = raid["drives"] if raid else 1
    total = 0
    for drive in storage["drives"]:
        if drive["kind"] == "hdd":
            total += int(drive.get("buffer", {}).get("write_cache_bytes", 8 << 20))
        else:
            total += int(drive.get("write_buffer_bytes", 0))
    return total * count // len(storage["drives"])


def memory_bytes(storage: StorageSpec, data_limit_bytes: int) -> int:
    """Return an emulated drive's maximum memory.

    It holds the data, the old data that a power loss restores, and the process itself.
    """
    return data_limit_bytes + 2 * write_cache_bytes(storage) + (64 << 20) + _PROCESS_BYTES


def data_limit(size_bytes: int, given: int | None) -> int:
    """Return how much data a device of that size may hold.

    Raises HeadraceError when it does not fit into memory.
    """
    room = limits().data_bytes
    wanted = size_bytes if given is None else min(given, size_bytes)
    if wanted > room:
        what = f"an emulated drive of {format_bytes(size_bytes)}" + (
            "" if given is None else f" that holds {format_bytes(given)}"
        )
        raise HeadraceError(
            f"{what} is kept in memory, and only {format_bytes(room)} can be taken",
            hint=(
                "give a smaller size, or let it hold less than its size (--memory); headrace "
                "simulate has no such limit"
            ),
        )
    return wanted
