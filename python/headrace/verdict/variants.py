"""Storage, memory and habits other than the present ones, on which a program is simulated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from headrace.profiles.steps import Op, Recording
from headrace.profiles.summary import is_read
from headrace.profiles.synchronous import sync_calls
from headrace.scenario import VolumeSpec
from headrace.verdict.advice import STORAGE_MODEL_ERROR, SYNC_MODEL_ERROR
from headrace.verdict.calls import jumps, waited
from headrace.verdict.observation import StoragePlace
from headrace.verdict.present import ReadTimes
from headrace.verdict.volumes import catalog_volume
from headrace.verdict.writes import LEAST, WriteTimes

SATA_SSD = "samsung-870-evo-1tb"
NVME = "samsung-pm9a3-3.84tb"
GROUPED = 10
"""Syncs in whose place there is one."""
_LARGE_READ_AHEAD = 4 << 20
_SOME_JUMPS = 0.1
"""From this share of reads elsewhere on, order is an alternative."""
_SYNCS_OF_A_FILE = 2
"""With less on average, files are synced when they are complete: there is nothing to group."""
_SYNCS_LEAST = 0.05
"""Of the time of the program: with less in syncs, their number is no reason to change anything."""


@dataclass(frozen=True)
class Variant:
    """Storage and memory on which the program is simulated."""

    name: str
    volume: VolumeSpec
    reordered: bool = False
    """Data of files is in the order in which it is read."""
    memory_bytes: int = 0
    """Of the job and its page cache; 0: that of this machine."""
    grouped: int = 1
    """One of so many syncs is made."""
    model_error: float = STORAGE_MODEL_ERROR
    """Of the time that is spent on its storage."""


def memories(present: VolumeSpec, memory_bytes: int, needed: int) -> list[Variant]:
    """Return more memory than the program has: twice, and enough for all that it reads."""
    enough = memory_bytes + needed
    found = [Variant("memory for all that it reads", present, memory_bytes=enough)]
    if 2 * memory_bytes < enough:
        found.insert(0, Variant("twice the memory", present, memory_bytes=2 * memory_bytes))
    return found


def alternatives(
    place: StoragePlace,
    present: VolumeSpec,
    times: ReadTimes,
    recording: Recording,
    writes: WriteTimes = WriteTimes(),  # noqa: B008 (it is frozen)
) -> list[Variant]:
    """Return other storage than the present, and other ways to read and write."""
    found: list[Variant] = []
    if not writes.most:
        found += _other_reads(present, times, recording)
    syncs = _syncs_matter(recording)
    if syncs and _can_be_grouped(recording):
        name = f"one {_sync_name(recording)} instead of {GROUPED}"
        found.append(Variant(name, present, grouped=GROUPED))
    if place.kind == "network" and "ideal" in present:
        found += _other_servers(present)
        drives = {"a local copy on a SATA SSD": SATA_SSD}
        if writes.most:
            drives = {"a local SATA SSD": SATA_SSD}
    else:
        protected = " with power-loss protection" if syncs else ""
        drives = {"a SATA SSD": SATA_SSD, f"an NVMe drive{protected}": NVME}
    error = SYNC_MODEL_ERROR if syncs else STORAGE_MODEL_ERROR
    return found + [
        Variant(name, catalog_volume(drive), model_error=error) for name, drive in drives.items()
    ]


def _other_reads(present: VolumeSpec, times: ReadTimes, recording: Recording) -> list[Variant]:
    found: list[Variant] = []
    ahead = present
    if present.get("read_ahead_bytes", 0) < _LARGE_READ_AHEAD:
        ahead = cast("VolumeSpec", {**present, "read_ahead_bytes": _LARGE_READ_AHEAD})
        found.append(Variant("read-ahead of 4 MiB", ahead))
    reads = recording.steps.take(is_read(recording.steps))
    # How much order would save depends on the rate.
    if times.rate_bytes_per_s is not None and len(reads) and jumps(reads).mean() > _SOME_JUMPS:
        found.append(Variant("files in reading order", ahead, reordered=True))
    return found


def _syncs_matter(recording: Recording) -> bool:
    """Return whether the program makes many syncs and waits for them."""
    steps = recording.steps
    syncs = steps.take(sync_calls(recording) & waited(steps, recording.files))
    lasted_ns = int((syncs.end_ns - syncs.start_ns).sum())
    return len(syncs) >= LEAST and lasted_ns >= _SYNCS_LEAST * recording.duration_ns


def _can_be_grouped(recording: Recording) -> bool:
    """Return whether files are synced often, not each once when it is complete."""
    syncs = sync_calls(recording) & waited(recording.steps, recording.files)
    files = len(np.unique(recording.steps.file[syncs]))
    return int(syncs.sum()) >= _SYNCS_OF_A_FILE * files


def _sync_name(recording: Recording) -> str:
    steps = recording.steps
    return "fsync" if (steps.op == Op.SYNC).any() else "synchronous write"


def _other_servers(present: VolumeSpec) -> list[Variant]:
    """Return network storage with half the latency, and behind a link of ten times the rate."""
    own = dict(present.get("ideal", {}))
    latencies = [name for name in ("read_ns", "write_ns", "flush_ns") if name in own]
    rates = [name for name in ("read_bytes_per_s", "write_bytes_per_s") if name in own]
    half = {**own, **{name: int(cast("int", own[name])) // 2 for name in latencies}}
    fast = {**own, **{name: 10 * cast("float", own[name]) for name in rates}}
    return [
        Variant("half the latency", cast("VolumeSpec", {**present, "ideal": half})),
        Variant("a link of 10 times the rate", cast("VolumeSpec", {**present, "ideal": fast})),
    ]


def with_memory(variants: list[Variant], memory_bytes: int) -> list[Variant]:
    """Return the variants with so much memory; order of files is nothing for lack of it."""
    return [replace(each, memory_bytes=memory_bytes) for each in variants if not each.reordered]
