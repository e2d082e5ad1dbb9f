"""Simulates a recorded program on the storage of one place, as it is and otherwise."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from headrace.catalog import entry
from headrace.engine.simulate.outcome import SimulatedOutcome
from headrace.engine.simulate.simulator import Cores, ScenarioRefusal
from headrace.errors import HeadraceError
from headrace.profiles.scenario import scenario_steps
from headrace.profiles.steps import Ints, Op, Recording
from headrace.profiles.summary import is_read
from headrace.scenario import DriveSpec, PlacedFileSet, Scenario, Step, VolumeSpec
from headrace.targets.scenario import filesystem, host, storage
from headrace.verdict.advice import Advice, SimulatedChange
from headrace.verdict.calls import jumps, waited
from headrace.verdict.limit import limit_of
from headrace.verdict.observation import STORAGE, Observation, StoragePlace
from headrace.verdict.places import places_of
from headrace.verdict.present import ReadTimes, completed, recorded_times

SATA_SSD = "samsung-870-evo-1tb"
NVME = "samsung-pm9a3-3.84tb"
_DISK = "sata-7200-500gb"
_DISK_LEAST_S = 1.5e-3
"""A block device that takes longer for a random read is a disk, whatever it says."""
_REGION = 2 << 20
"""Reads in order are hits of the page cache, or not, in pieces of this size."""
_LARGE_READ_AHEAD = 4 << 20
_READ_AHEAD = 128 << 10
_SOME_JUMPS = 0.1
"""From this share of reads elsewhere on, order is an alternative."""
_STEPS_MOST = 3_000_000
_MAPPED_MOST = 0.1


@dataclass(frozen=True)
class _Usual:
    """Times of a class of storage, where none was measured."""

    random_s: float
    rate_bytes_per_s: float


_USUAL_DISK = _Usual(12e-3, 150e6)
"""Assumption: a disk of 7200 rpm."""
_USUAL_OTHER = _Usual(150e-6, 500e6)
"""Assumption: a SATA SSD."""
_DISK_OVERHEAD_S = 150e-6


def advise(
    recording: Recording,
    place: StoragePlace,
    places: Mapping[str, StoragePlace],
    *,
    measure: bool = True,
) -> Advice:
    """Return simulated times for the place that the program waits for most.

    Raises HeadraceError with the reason when it cannot be simulated.
    """
    files = [
        number for number, file in enumerate(recording.files) if places.get(file.path) == place
    ]
    reads = recording.steps.take(is_read(recording.steps) & np.isin(recording.steps.file, files))
    _check(reads.op, reads.length, len(recording.steps))
    most_read = max(files, key=lambda number: int(reads.length[reads.file == number].sum()))
    times = recorded_times(recording, files)
    if measure:
        times = completed(times, Path(recording.files[most_read].path), place)
    kept = replace(recording, steps=recording.steps.take(_kept(recording, files)), cpu_wait_ns=0)
    present = _present_volume(place, times)
    others = _alternatives(place, present, times, kept)
    scenarios = [
        _scenario(kept, files, volume, reordered=reordered)
        for _, volume, reordered in [("", present, False), ("", _at_once(present), False), *others]
    ]
    seconds = _simulated(scenarios)
    advice = Advice(
        recording.duration_ns * 1e-9,
        seconds[0],
        seconds[1],
        recording.cpu_wait_ns * 1e-9,
        own_reads=times.own_reads,
    )
    if not advice.trusted:
        return advice
    changes = tuple(
        SimulatedChange(name, found)
        for (name, _, _), found in zip(others, seconds[2:], strict=True)
    )
    return replace(advice, changes=changes)


def advice_on(
    seen: Observation, recording: Recording | None, *, measure: bool = True
) -> tuple[Advice | None, str]:
    """Return advice, or why there is none; neither for a program that storage does not limit.

    `measure`: read the program's files for a second where its own reads do not tell enough.
    """
    limit = limit_of(seen)
    if limit.kind not in STORAGE or limit.access is None or recording is None:
        return None, ""
    places = places_of(file.path for file in recording.files)
    try:
        return advise(recording, limit.access.place, places, measure=measure), ""
    except HeadraceError as error:
        return None, error.message


def _check(op: Ints, length: Ints, steps: int) -> None:
    if not len(op):
        raise HeadraceError("no reads to simulate were recorded")
    if steps > _STEPS_MOST:
        raise HeadraceError(f"{steps} steps are too many to simulate here")
    if int(length[op == Op.MAPPED_READ].sum()) > _MAPPED_MOST * int(length.sum()):
        raise HeadraceError("it reads through maps, whose waits have no recorded times")


def _kept(recording: Recording, files: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return which steps are simulated: those on the place whose data was not in the page cache.

    The time of the others stays as it was. A read elsewhere tells by its own time; reads in order
    are hits of read-ahead if a read of the same piece waited.
    """
    steps = recording.steps
    kept = np.isin(steps.file, files) & (steps.op != Op.MAPPED_READ)
    at = np.flatnonzero(kept & is_read(steps))
    reads = steps.take(at)
    slow, jumped = waited(reads), jumps(reads)
    order = np.lexsort((reads.start_ns, reads.file))
    run = np.empty(len(reads), np.int64)
    run[order] = np.cumsum(jumped[order])
    keys = np.column_stack([run, reads.offset // _REGION])
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    cold = np.zeros(int(group.max(initial=-1)) + 1, bool)
    cold[group[slow]] = True
    kept[at[~cold[group]]] = False
    return kept


def _present_volume(place: StoragePlace, times: ReadTimes) -> VolumeSpec:
    """Return the present storage as a model with the measured times, or the usual ones of its class
    where one is missing: then it hardly matters for this program.

    Raises HeadraceError when nothing was measured.
    """
    if times.random_s is None and times.rate_bytes_per_s is None:
        raise HeadraceError("it waited too seldom to tell what its storage takes for a read")
    usual = _USUAL_DISK if _is_disk(place, times) else _USUAL_OTHER
    random_s = usual.random_s if times.random_s is None else times.random_s
    rate = usual.rate_bytes_per_s if times.rate_bytes_per_s is None else times.rate_bytes_per_s
    access_s = random_s - times.random_bytes / rate
    made: VolumeSpec = {
        "name": "data",
        "filesystem": filesystem("ext4"),
        "read_ahead_bytes": place.read_ahead_bytes or _READ_AHEAD,
    }
    if _is_disk(place, times):
        made["storage"] = storage(_disk(access_s, rate))
    else:
        read_ns = round(max(1e-6, access_s) * 1e9)
        made["ideal"] = {
            "capacity_bytes": 1 << 42,
            "read_ns": read_ns,
            "write_ns": read_ns,
            "read_bytes_per_s": rate,
            "write_bytes_per_s": rate,
        }
    return made


def _is_disk(place: StoragePlace, times: ReadTimes) -> bool:
    if place.kind == "network":
        return False
    if times.random_s is None:
        return bool(place.rotational)
    return times.random_s > _DISK_LEAST_S


def _disk(access_s: float, rate_bytes_per_s: float) -> DriveSpec:
    """Return a disk that takes so long to any other cylinder, and has one rate."""
    table = cast("dict[str, Any]", copy.deepcopy(entry("drives", _DISK).table))
    rpm = next(
        (each for least, each in ((6e-3, 7200.0), (4e-3, 10_000.0)) if access_s > least), 15_000.0
    )
    seek_ms = max(0.05, (access_s - _DISK_OVERHEAD_S - 30 / rpm) * 1e3)
    table["rotation_rpm"] = rpm
    table["rates"] = {"outer_bytes_per_s": rate_bytes_per_s}
    table["seek"] = {
        "curve": "table", "distance_cylinders": [1, 2], "time_ms": [seek_ms, seek_ms],
    }  # fmt: skip
    table.pop("seek_write", None)
    table["link_bytes_per_s"] = max(table["link_bytes_per_s"], rate_bytes_per_s)
    return cast("DriveSpec", table)


def _at_once(present: VolumeSpec) -> VolumeSpec:
    made = cast(
        "VolumeSpec", {**present, "ideal": {"capacity_bytes": 1 << 42, "read_ns": 0, "write_ns": 0}}
    )
    made.pop("storage", None)
    return made


def _alternatives(
    place: StoragePlace, present: VolumeSpec, times: ReadTimes, recording: Recording
) -> list[tuple[str, VolumeSpec, bool]]:
    """Return name, volume and whether files are in the order of reading, of each alternative."""
    ahead = cast("VolumeSpec", {**present, "read_ahead_bytes": _LARGE_READ_AHEAD})
    found: list[tuple[str, VolumeSpec, bool]] = [("read-ahead of 4 MiB", ahead, False)]
    reads = recording.steps.take(is_read(recording.steps))
    # How much order would save depends on the rate.
    if times.rate_bytes_per_s is not None and len(reads) and jumps(reads).mean() > _SOME_JUMPS:
        found.append(("files in reading order", ahead, True))
    if place.kind == "network" and "ideal" in present:
        own = dict(present["ideal"])
        half = {**own, "read_ns": int(cast("int", own["read_ns"])) // 2}
        fast = {**own, "read_bytes_per_s": 10 * cast("float", own["read_bytes_per_s"])}
        found += [
            ("half the latency", cast("VolumeSpec", {**present, "ideal": half}), False),
            ("a link of 10 times the rate", cast("VolumeSpec", {**present, "ideal": fast}), False),
            ("a local copy on a SATA SSD", _catalog_volume(SATA_SSD), False),
        ]
        return found
    found += [
        ("a SATA SSD", _catalog_volume(SATA_SSD), False),
        ("an NVMe drive", _catalog_volume(NVME), False),
    ]
    return found


def _catalog_volume(name: str) -> VolumeSpec:
    return {
        "name": "data",
        "filesystem": filesystem("ext4"),
        "storage": storage(entry("drives", name).table),
        "read_ahead_bytes": _READ_AHEAD,
    }


def _scenario(
    recording: Recording, files: Sequence[int], volume: VolumeSpec, *, reordered: bool
) -> Scenario:
    names = [f"f{number}" for number in range(len(recording.files))]
    used = _in_reading_order(recording) if reordered else recording
    steps: list[Step] = scenario_steps(used, names, software=True)
    sizes = {number: recording.files[number].bytes for number in files}
    for number in files:
        own = used.steps.take((used.steps.file == number) & (used.steps.length > 0))
        sizes[number] = max(1, sizes[number], int((own.offset + own.length).max(initial=0)))
    node = host("node", "generic-node", None)
    node["cores"] = os.cpu_count() or 1
    node["memory_bytes"] = _memory_bytes()
    node["volumes"] = [volume]
    placed: list[PlacedFileSet] = [
        {
            "name": names[number],
            "on": {"volume": volume["name"]},
            "bytes": 0 if recording.files[number].created else sizes[number],
            "count": 1,
            "share": "new" if recording.files[number].created else "each",
        }
        for number in files
    ]
    return {
        "name": "why",
        "seed": 1,
        "cache": "cold",
        "nodes": [node],
        "servers": [],
        "services": [],
        "files": placed,
        "profiles": [{"name": "job", "memory_bytes": recording.memory_bytes, "steps": steps}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}},
        "power": {"pue": 1.0, "switch_w": 0.0},
        "observe": {"series_interval_ns": 0, "histograms": False},
    }


def _in_reading_order(recording: Recording) -> Recording:
    """Return the recording with data of each file where it is read first; a second read of the same
    range goes to the same place."""
    steps = recording.steps
    offset = steps.offset.copy()
    reads = is_read(steps)
    for file in np.unique(steps.file[reads]).tolist():
        at = np.flatnonzero(reads & (steps.file == file))
        pairs = np.column_stack([steps.offset[at], steps.length[at]])
        _, first, group = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        begins = np.empty(len(first), np.int64)
        lengths = steps.length[at][first]
        begins[order] = np.concatenate([[0], np.cumsum(lengths[order])[:-1]])
        offset[at] = begins[group.reshape(-1)]
    return replace(recording, steps=replace(steps, offset=offset))


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _simulated(scenarios: Sequence[Scenario]) -> list[float]:
    """Return the time of each. Raises HeadraceError if one is refused."""
    found: dict[int, float] = {}
    problems: list[str] = []

    def finished(index: int, outcome: str | None, refusal: ScenarioRefusal | None) -> bool:
        if outcome is None:
            problems.append(f"{refusal[0]} = {refusal[1]}" if refusal is not None else "an error")
            return False
        job = cast("SimulatedOutcome", json.loads(outcome))["jobs"][0]
        found[index] = (job["end_ns"] - job["start_ns"]) * 1e-9
        return True

    Cores().run([json.dumps(each) for each in scenarios], finished)
    if problems:
        raise HeadraceError(f"the simulator refuses the profile: {problems[0]}")
    return [found[index] for index in range(len(scenarios))]
