"""Simulates a recorded program on the storage of one place, as it is and otherwise."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from headrace.engine.simulate.outcome import SimulatedOutcome
from headrace.engine.simulate.simulator import Cores, ScenarioRefusal
from headrace.errors import HeadraceError
from headrace.profiles.scenario import scenario_steps
from headrace.profiles.steps import Op, Recording, Steps
from headrace.profiles.summary import covered_bytes, is_read
from headrace.scenario import PlacedFileSet, Scenario, Step
from headrace.system.machine_facts import (
    multi_generational_lru,
    reads_ahead_in_large_folios,
    writeback_ratios,
)
from headrace.targets.scenario import host
from headrace.verdict.advice import Advice, SimulatedChange
from headrace.verdict.calls import jumps, waited
from headrace.verdict.observation import StoragePlace
from headrace.verdict.present import READ_AHEADS, ReadTimes, completed, recorded_times
from headrace.verdict.variants import Variant, alternatives, memories, with_memory
from headrace.verdict.volumes import CALL_S, at_once, present_volume
from headrace.verdict.writes import (
    WriteTimes,
    copy_rate,
    grouped,
    recorded_writes,
    without_shared_syncs,
)

_REGION = 2 << 20
"""Reads in order are hits of the page cache, or not, in pieces of this size at least."""
_STEPS_MOST = 3_000_000
_MAPPED_MOST = 0.1
_NO_COPY = 1e15
"""Bytes per second."""


def advise(
    recording: Recording,
    place: StoragePlace,
    places: Mapping[str, StoragePlace],
    *,
    measure: bool = True,
    memory_bytes: int = 0,
) -> Advice:
    """Return simulated times for a place that the program waits for. `memory_bytes`: that it has,
    if that is what it lacks; more of it is then an alternative.

    Raises HeadraceError with the reason when it cannot be simulated.
    """
    files = [
        number for number, file in enumerate(recording.files) if places.get(file.path) == place
    ]
    reads = recording.steps.take(is_read(recording.steps) & np.isin(recording.steps.file, files))
    writes = recorded_writes(recording, files)
    _check(reads, writes, len(recording.steps))
    ahead = place.read_ahead_bytes or 0
    times = recorded_times(recording, files, ahead)
    if measure and not writes.most:
        most_read = max(files, key=lambda number: int(reads.length[reads.file == number].sum()))
        times = completed(times, Path(recording.files[most_read].path), place)
    kept = replace(
        recording, steps=recording.steps.take(_kept(recording, files, ahead)), cpu_wait_ns=0
    )
    present = present_volume(place, times, writes, _copies(kept)[0])
    others = alternatives(place, present, times, kept, writes)
    if memory_bytes:
        others = memories(present, memory_bytes, _covered(reads)) + with_memory(
            others, memory_bytes
        )
    kept = without_shared_syncs(kept)
    return simulated_advice(
        kept, files, Variant("", present, memory_bytes=memory_bytes), others, recording, times
    )


def simulated_advice(
    kept: Recording,
    files: Sequence[int],
    present: Variant,
    others: Sequence[Variant],
    recording: Recording,
    times: ReadTimes,
) -> Advice:
    """Simulate what is kept of a recording on the present storage and on others."""
    at_once_there = replace(present, volume=at_once(present.volume))
    seconds = _simulated(
        [_scenario(kept, files, each) for each in (present, at_once_there, *others)]
    )
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
        SimulatedChange(variant.name, found, variant.model_error)
        for variant, found in zip(others, seconds[2:], strict=True)
    )
    return replace(advice, changes=changes)


def _check(reads: Steps, writes: WriteTimes, steps: int) -> None:
    if not len(reads) and not writes.most:
        raise HeadraceError("no reads to simulate were recorded")
    if steps > _STEPS_MOST:
        raise HeadraceError(f"{steps} steps are too many to simulate here")
    mapped = reads.length[reads.op == Op.MAPPED_READ].sum()
    if not writes.most and int(mapped) > _MAPPED_MOST * int(reads.length.sum()):
        raise HeadraceError("it reads through maps, whose waits have no recorded times")


def _kept(
    recording: Recording, files: Sequence[int], read_ahead_bytes: int
) -> npt.NDArray[np.bool_]:
    """Return which steps are simulated: those on the place whose data was not in the page cache.

    The time of the others stays as it was. A read elsewhere tells by its own time; reads in order
    are hits of read-ahead if a read of the same piece waited. Pieces are larger than what is read
    ahead at once. Syncs that did not wait had nothing to write.
    """
    steps = recording.steps
    kept = np.isin(steps.file, files) & (steps.op != Op.MAPPED_READ)
    kept &= (steps.op != Op.SYNC) | waited(steps, recording.files)
    at = np.flatnonzero(kept & is_read(steps))
    if not len(at):
        return kept
    reads = steps.take(at)
    slow, jumped = waited(reads, recording.files), jumps(reads)
    order = np.lexsort((reads.start_ns, reads.file))
    run = np.empty(len(reads), np.int64)
    run[order] = np.cumsum(jumped[order])
    keys = np.column_stack([run, reads.offset // max(_REGION, READ_AHEADS * read_ahead_bytes)])
    _, group = np.unique(keys, axis=0, return_inverse=True)
    group = group.reshape(-1)
    cold = np.zeros(int(group.max(initial=-1)) + 1, bool)
    cold[group[slow]] = True
    kept[at[~cold[group]]] = False
    return kept


def _scenario(recording: Recording, files: Sequence[int], variant: Variant) -> Scenario:
    volume = variant.volume
    names = [f"f{number}" for number in range(len(recording.files))]
    used = _in_reading_order(recording) if variant.reordered else recording
    if variant.grouped > 1:
        used = grouped(used, variant.grouped)
    steps: list[Step] = scenario_steps(used, names, software=True)
    sizes = {number: recording.files[number].bytes for number in files}
    for number in files:
        own = used.steps.take((used.steps.file == number) & (used.steps.length > 0))
        sizes[number] = max(1, sizes[number], int((own.offset + own.length).max(initial=0)))
    node = host("node", "generic-node", None)
    node["cores"] = os.cpu_count() or 1
    node["memory_bytes"] = max(_memory_bytes(), 2 * variant.memory_bytes)
    if multi_generational_lru():
        node["page_reclaim"] = "mglru"
    if reads_ahead_in_large_folios(platform.release()):
        node["read_ahead"] = "large_folios"
    node["writeback"] = _writeback()
    node["call_ns"] = round(CALL_S * 1e9)
    node["copy_bytes_per_s"], node["write_copy_bytes_per_s"] = _copies(recording)
    if (rate := copy_rate(recording)) is not None:
        node["write_copy_bytes_per_s"] = rate
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
        "run": {
            "profile": "job",
            "slots_per_node": 1,
            "load": {"kind": "batch", "jobs": 1},
            "job_memory_limit_bytes": variant.memory_bytes,
        },
        "power": {"pue": 1.0, "switch_w": 0.0},
        "observe": {"series_interval_ns": 0, "histograms": False},
    }


def _copies(recording: Recording) -> tuple[float, float]:
    """Return the bytes per second of copies out of the page cache and into it.

    The simulator charges a copy for direct calls, too: with those, copies take no time.
    """
    rate = host("node", "generic-node", None).get("copy_bytes_per_s", math.inf)
    steps = recording.steps
    direct = np.array([file.direct for file in recording.files] or [False])[steps.file]
    found: list[float] = []
    for chosen in (is_read(steps), steps.op == Op.WRITE):
        moved, past = (int(steps.length[each].sum()) for each in (chosen, chosen & direct))
        found.append(_NO_COPY if 2 * past > moved else rate)
    return found[0], found[1]


def _writeback() -> dict[str, object]:
    """Return when this machine's kernel writes dirty pages.

    Since Linux 3.2 writers are slowed down from halfway between both thresholds on
    (`dirty_freerun_ceiling`); the simulated ones stop at the upper.
    """
    found = writeback_ratios()
    if found is None:
        return {}
    background, limit = found
    return {"dirty_background_ratio": background, "dirty_ratio": (background + limit) / 2}


def _covered(reads: Steps) -> int:
    """Return the bytes read, each once."""
    return sum(
        covered_bytes(reads.offset[reads.file == each], reads.length[reads.file == each])
        for each in np.unique(reads.file).tolist()
    )


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
