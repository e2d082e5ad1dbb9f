"""Watches a program that runs already: for a verdict, without a recording."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from headrace.errors import UsageError
from headrace.system.waiting import remaining
from headrace.verdict.observation import Observation, ShareKind, TimeShare
from headrace.verdict.shares import SAMPLES_LEAST, Counts, others
from headrace.verdict.watching import TreeSampler
from headrace.watching import Watcher, finder_kinds
from headrace.watching.ledger import JobLedger, StorageWait
from headrace.watching.used import JobSample

_OF_IDLE: dict[str, ShareKind] = {
    "timer": "sleep", "locks": "lock", "a file lock": "file-lock", "a pipe": "pipe",
}  # fmt: skip
_LOOK_S = 1.0
_NOT_RECORDED = "its reads are not known: why -- COMMAND records them"


def attend(pid: str, duration_s: float, stop: Callable[[], bool] = lambda: False) -> Observation:
    """Watch a process with its descendants until the time is over, it ends, or `stop` says so.

    Raises UsageError when there is no such process.
    """
    finder = finder_kinds()["pid"]([pid])
    job: JobSample | None = None
    with Watcher(finder) as watcher, TreeSampler(int(pid)) as sampler:
        # Looks find new threads and children; without root the last one before the end counts.
        for left_s in remaining(duration_s):
            if left_s <= 0 or not watcher.living or stop():
                break
            (job,) = watcher.watch(min(_LOOK_S, left_s), stop).jobs
    if job is None:
        raise UsageError(f"--pid {pid}: no such process", hint="it has just ended")
    return observation_from(job, sampler)


def observation_from(job: JobSample, sampler: TreeSampler) -> Observation:
    """Return what was seen of a watched job since it was first seen."""
    ledger = job.total.ledger
    connections = tuple(sorted(sampler.connections))
    samples = dict(sampler.samples)
    # The ledger has these already, but for polls whose descriptors it could not read.
    read_s = sum(s for wait, s in ledger.waits_s.items() if _kind(wait) == "connection")
    of_reads = round(sum(samples.values()) * read_s / ledger.wall_s) if ledger.wall_s else 0
    samples["connection"] = max(0, samples.get("connection", 0) - of_reads)
    counts = Counts(ledger.wall_s, ledger.on_cpu_s, samples=samples, connections=connections)
    shares = [
        TimeShare("cpu", "", ledger.on_cpu_s),
        TimeShare("wait-cpu", "", ledger.wait_cpu_s),
        *(TimeShare(_kind(wait), wait.place, amount) for wait, amount in ledger.waits_s.items()),
        *_others(counts, ledger),
    ]
    return Observation(
        command=(job.name,),
        wall_s=ledger.wall_s,
        shares=tuple(sorted((s for s in shares if s.seconds > 0), key=lambda s: -s.seconds)),
        connections=connections,
        cores=len(os.sched_getaffinity(0)),
        cpu_s=job.total.cpu_s,
        swapped_in=sampler.swapped_in,
        waits_bounds_s=ledger.waits_bounds_s,
        sources="+".join([*job.sources, "samples"]),
        samples=sum(sampler.samples.values()),
        hidden=not job.io_readable,
        lacks=(*_unreadable(job.lacks), _NOT_RECORDED),
    )


def _unreadable(lacks: Sequence[str]) -> list[str]:
    """Return what could not be read, by the reason: `not readable (owner or root only): …`."""
    by_reason: dict[str, list[str]] = {}
    for each in lacks:
        what, _, reason = each.rpartition(": ")
        by_reason.setdefault(reason, []).append(what)
    return [f"not readable ({why}): {', '.join(what)}" for why, what in by_reason.items()]


def _others(counts: Counts, ledger: JobLedger) -> list[TimeShare]:
    """Return the time that no other part explains, divided.

    A sample of the whole tree looks at every process: of hundreds there are too few. Then the
    ledger's samples, of one thread each, divide it.
    """
    if sum(counts.samples.values()) >= SAMPLES_LEAST:
        return others(counts, ledger.other_s)
    found = [
        TimeShare(_OF_IDLE.get(word, "other"), "", amount) for word, amount in ledger.idle_s.items()
    ]
    rest_s = ledger.other_s - sum(share.seconds for share in found)
    return [*found, TimeShare("other", "", max(0.0, rest_s))]


def _kind(wait: StorageWait) -> ShareKind:
    """A place of network storage is a mount, or the other end of a connection."""
    if wait.kind == "memory":
        return "memory"
    if wait.kind == "block":
        return "block"
    return "network" if wait.place.startswith("/") or not wait.place else "connection"
