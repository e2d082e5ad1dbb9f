"""Runs a program for a verdict: recorded where that is possible, watched always."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.profiles.recorder import ObservedRun, observe
from headrace.profiles.steps import Recording
from headrace.verdict.calls import accesses_of, mapped_on, waited_bytes
from headrace.verdict.observation import Access, Observation, PageFaults, StoragePlace
from headrace.verdict.places import places_of
from headrace.verdict.shares import Counts, ProgramParts, parts_of
from headrace.verdict.watching import ProgramWatch


@dataclass(frozen=True)
class ObservedProgram:
    """A program that has ended: what was seen of it, and its recording where there is one."""

    observation: Observation
    recording: Recording | None
    exit_code: int
    full: bool
    """Whether the place of the recording became full, so that it ends before the program."""


def run(command: Sequence[str], name: str, place: Path) -> ObservedProgram:
    """Run the command until it ends and return what was seen.

    The recording's data is kept at `place` while it runs. Raises ProgramError for a program that
    does not exist or may not be run.
    """
    watches: list[ProgramWatch] = []

    def watching(pid: int) -> ProgramWatch:
        watches.append(ProgramWatch(pid))
        return watches[0]

    run = observe(command, name, place, watching)
    return ObservedProgram(
        _observation(command, run, watches[0]), run.recording, run.ended.exit_code, run.full
    )


def observation_of(recording: Recording) -> Observation:
    """Return what a stored profile alone shows."""
    accesses = accesses_of(recording, places_of(file.path for file in recording.files))
    counts = Counts(
        recording.duration_ns * 1e-9,
        recording.cpu_ns * 1e-9,
        recording.cpu_wait_ns * 1e-9,
        threads=_threads(recording),
    )
    parts = parts_of(counts, accesses)
    return Observation(
        command=recording.command,
        wall_s=counts.wall_s,
        shares=parts.shares,
        summed_threads=parts.summed_threads,
        accesses=accesses,
        cpu_s=counts.cpu_s,
        sources="profile",
        lacks=("sleep, connections and page faults of maps are in “other”",),
    )


def _observation(command: Sequence[str], run: ObservedRun, watch: ProgramWatch) -> Observation:
    ended, recording = run.ended, run.recording
    accesses: tuple[Access, ...] = ()
    lacks: list[str] = []
    mapped: StoragePlace | None = None
    if recording is not None:
        places = places_of(file.path for file in recording.files)
        accesses, mapped = accesses_of(recording, places), mapped_on(recording, places)
        lacks += recording.notes
    else:
        lacks.append(f"its reads and writes are not known: {run.not_recorded}")
    row = watch.row
    assert row is not None, "the watch ends with the program"
    wall_s = (ended.end_ns - ended.begin_ns) * 1e-9
    recorded_wait_s = recording.cpu_wait_ns * 1e-9 if recording is not None else 0.0
    # The ledger's row is cut to the wall time; here times of all threads are summed.
    uncut = (row.wall_s + row.residue_s) / row.wall_s
    counts = Counts(
        wall_s,
        max(ended.usage.ru_utime + ended.usage.ru_stime, row.on_cpu_s * uncut),
        max(row.wait_cpu_s * uncut, recorded_wait_s, ended.cpu_wait_ns * 1e-9),
        row.wait_block_s * uncut,
        watch.memory_stall_s,
        _threads(recording) if recording is not None else 1,
        watch.threads,
        watch.samples,
        watch.busy,
        sorted(watch.connections),
        mapped,
        watch.together,
    )
    parts = parts_of(counts, accesses)
    device_bytes = ended.counts.device_bytes if ended.counts is not None else None
    return Observation(
        command=tuple(command),
        wall_s=wall_s,
        shares=parts.shares,
        summed_threads=parts.summed_threads,
        waits_bounds_s=parts.waits_bounds_s,
        accesses=accesses,
        faults=_faults(parts, accesses, mapped, ended.usage.ru_majflt, device_bytes, recording),
        memory_limit_bytes=watch.memory.limit_bytes,
        cache_bytes=watch.memory.cache_bytes,
        exit_code=ended.exit_code,
        connections=tuple(counts.connections),
        connection_use=watch.connection_use,
        cores=len(os.sched_getaffinity(0)),
        cpu_s=counts.cpu_s,
        major_faults=ended.usage.ru_majflt,
        swapped_in=watch.swapped_in,
        device_bytes=device_bytes,
        sources="+".join(
            dict.fromkeys(
                [row.ledger_source, *(["recorder"] if recording is not None else []), "samples"]
            )
        ),
        samples=sum(watch.samples.values()),
        lacks=tuple(lacks),
    )


def _faults(
    parts: ProgramParts,
    accesses: Sequence[Access],
    mapped: StoragePlace | None,
    number: int,
    device_bytes: int | None,
    recording: Recording | None,
) -> PageFaults | None:
    """Return the waits of the place that its calls do not show."""
    if mapped is None or recording is None:
        return None
    there_s = sum(share.seconds for share in parts.shares if share.where == mapped.name)
    calls_s = parts.of_wait * sum(each.waited_s for each in accesses if each.place == mapped)
    moved = max(0, (device_bytes or 0) - waited_bytes(recording))
    wall_s = max(0.0, there_s - calls_s)
    return PageFaults(mapped, number, moved, wall_s, wall_s / (parts.of_wait or 1.0))


def _threads(recording: Recording) -> int:
    return int(recording.steps.thread.max(initial=0)) + 1
