"""The entries of fio's JSON (stat.c of https://github.com/axboe/fio): one for each job or group.

With `numjobs`, fio writes an entry for each clone of a job, or with `group_reporting` one with the
sums of all. Its JSON does not say which (fio 3.33 leaves the option out); the number of entries
does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from headrace.json_text import json_objects


class FioLatency(msgspec.Struct):
    """A latency; its unit is that of the field."""

    mean: float = 0.0


class FioTransfers(msgspec.Struct):
    """Reads or writes of an entry."""

    total_ios: int = 0
    iops: float = 0.0
    runtime_ms: float = msgspec.field(default=0.0, name="runtime")
    clat_ns: FioLatency | None = None
    lat_ns: FioLatency | None = None
    clat_us: FioLatency | None = msgspec.field(default=None, name="clat")
    """Until version 2, in microseconds."""
    lat_us: FioLatency | None = msgspec.field(default=None, name="lat")

    @property
    def latency_ns(self) -> float:
        """The mean latency; 0 if it was not measured (`disable_clat`)."""
        seen = [each.mean for each in (self.clat_ns, self.lat_ns) if each]
        seen += [each.mean * 1000 for each in (self.clat_us, self.lat_us) if each]
        return next((mean for mean in seen if 0 < mean < math.inf), 0.0)


class FioEntry(msgspec.Struct, rename={"options": "job options"}):
    """An entry: a job, a clone of it, or a group."""

    jobname: str = "?"
    groupid: int | None = None
    error: int = 0
    options: dict[str, str] = {}
    read: FioTransfers = msgspec.field(default_factory=FioTransfers)
    write: FioTransfers = msgspec.field(default_factory=FioTransfers)
    mixed: FioTransfers | None = None
    """Reads and writes as one number, in place of the others (`unified_rw_reporting`)."""
    job_runtime_ms: float = msgspec.field(default=0.0, name="job_runtime")
    """Summed over the jobs of the entry; 0 before version 3."""

    def transfers(self, direction: str, rw: str) -> FioTransfers:
        """Return the reads or writes of a load `rw`; those of one direction may be in `mixed`."""
        part = self.read if direction == "read" else self.write
        if self.mixed is not None and not part.total_ios and rw in (direction, f"rand{direction}"):
            return self.mixed
        return part

    def jobs_at_least(self, ramp_s: float, *, mixed: bool) -> float:
        """Return how many jobs the entry sums up at least, by their summed time; 0: not known."""
        times_ms = (self.read.runtime_ms, self.write.runtime_ms)
        if self.mixed is not None and not any(times_ms):
            times_ms = (self.mixed.runtime_ms,)
        one_ms = (max(times_ms) if mixed else sum(times_ms)) + 1000 * ramp_s
        return self.job_runtime_ms / one_ms if one_ms > 0 else 0.0


class FioOutput(msgspec.Struct, rename={"common": "global options"}):
    """The parts of fio's JSON that are read."""

    jobs: list[FioEntry]
    common: dict[str, str] = {}
    timestamp: float = 0.0
    """When it was written, Unix time in s."""
    timestamp_ms: float = 0.0

    @property
    def written_s(self) -> float:
        """When it was written, as a Unix time; 0 if it does not say."""
        return self.timestamp_ms / 1000 or self.timestamp

    def options(self, job: FioEntry) -> dict[str, str]:
        """Return the options of a job, with those of all jobs."""
        return {**self.common, **job.options}


class _Elapsed(msgspec.Struct):
    elapsed: float = 0.0
    """Seconds since the job began."""


class _Times(msgspec.Struct):
    jobs: list[_Elapsed]


def results_in(text: str) -> list[FioOutput]:
    """Return the results in the output of one or several runs: the last of each, and the clones of
    a job as one entry. Raises ValueError, RecursionError for one that is broken or cut off."""
    documents = _documents(text)
    found = [msgspec.convert(each, FioOutput) for each in documents]
    begun = [_begun(each, result) for each, result in zip(documents, found, strict=True)]
    kept = [
        each
        for at, each in enumerate(found)
        if at + 1 == len(found) or not _goes_on(found[at : at + 2], begun[at : at + 2])
    ]
    for each in kept:
        each.jobs = _with_clones_together(each)
    return kept


def _documents(text: str) -> list[object]:
    documents, broken = json_objects(text)
    for each in broken:
        if each.alone or not documents:
            raise each.error
    if not documents:
        raise ValueError("no JSON")
    return documents


def _begun(document: object, result: FioOutput) -> float | None:
    """Return when the run of a result began, as a Unix time in s; None if it does not say."""
    jobs = msgspec.convert(document, _Times).jobs
    elapsed_s = max((job.elapsed for job in jobs), default=0.0)
    return result.written_s - elapsed_s if result.written_s and elapsed_s else None


def _goes_on(results: Sequence[FioOutput], begun: Sequence[float | None]) -> bool:
    """Return whether the second of two results is of the same run, as with `--status-interval`: it
    began with the first, not after its end. `elapsed` is in whole seconds."""
    first, second = (
        [(job.jobname, job.groupid, job.options) for job in each.jobs] for each in results
    )
    if first != second or begun[0] is None or begun[1] is None:
        return False
    return begun[1] - begun[0] < 0.5 * (results[0].written_s - begun[0])


def _with_clones_together(result: FioOutput) -> list[FioEntry]:
    """Return the entries, with those of the clones of one job (`numjobs`) added up."""
    clones: dict[tuple[int | None, str], list[FioEntry]] = {}
    for job in result.jobs:
        clones.setdefault((job.groupid, job.jobname), []).append(job)
    found: list[FioEntry] = []
    for entries in clones.values():
        text = result.options(entries[0]).get("numjobs", "1")
        number = int(text) if text.isdecimal() and len(text) < 10 else 1
        alike = all(each.options == entries[0].options for each in entries)
        if len(entries) == 1 or number == 1 or not alike:
            found += entries
        else:
            found.append(_sum(entries, number))
    return found


def _sum(entries: Sequence[FioEntry], number: int) -> FioEntry:
    """Return the clones of a job as one entry; `number`: of all clones, should some be missing."""
    first = entries[0]
    mixed = [each.mixed for each in entries if each.mixed is not None]
    return FioEntry(
        first.jobname,
        first.groupid,
        max(each.error for each in entries),
        first.options,
        _sum_of([each.read for each in entries], number),
        _sum_of([each.write for each in entries], number),
        _sum_of(mixed, number) if mixed else None,
    )


def _sum_of(parts: Sequence[FioTransfers], number: int) -> FioTransfers:
    ios = sum(each.total_ios for each in parts)
    timed = [each for each in parts if each.latency_ns]
    weight = sum(each.total_ios for each in timed)
    latency_ns = sum(each.latency_ns * each.total_ios for each in timed) / weight if weight else 0.0
    return FioTransfers(
        ios,
        sum(each.iops for each in parts) * number / len(parts),
        max(each.runtime_ms for each in parts),
        FioLatency(latency_ns),
    )
