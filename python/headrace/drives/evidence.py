"""The measurements that a drive is fitted to: fio results and traces, each with its file's name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headrace.catalog import CatalogEntry
from headrace.drives.fio import Observed, read_fio_results
from headrace.drives.observed_traces import ObservedTrace, TraceReplay, is_trace, observe_trace
from headrace.drives.running import capacity_bytes
from headrace.errors import FileProblem, StudyError
from headrace.scenario import Table

LONGEST_S = 60.0
"""Virtual run time of a disk's load that fio measured for longer, or does not say for how long."""
SHORT_S = 4.0
"""That of an SSD's load: it serves a thousand times as many requests per second."""

Evidence = Observed | ObservedTrace


def names_of(files: Sequence[Path]) -> list[str]:
    """Return a name for each file: its last part, or where two share that, the path as given."""
    last = [file.name or str(file) for file in files]  # ".": the folder of a capture
    return [
        str(file) if last.count(name) > 1 else name for file, name in zip(files, last, strict=True)
    ]


def check_different(files: Sequence[Path], what: str) -> None:
    """Raise StudyError if a file is given twice: it would count twice. `what`: the argument."""
    seen: set[Path] = set()
    for file in files:
        place = file.resolve()
        if place in seen:
            problem = "given twice: it would count twice"
            raise StudyError([FileProblem(Path("command line"), 0, what, str(file), problem)])
        seen.add(place)


def read_evidence(
    entry: CatalogEntry, files: Sequence[Path], runtime_s: float | None, replay: TraceReplay
) -> tuple[list[Evidence], list[str]]:
    """Return the measurements of the files, and the name of the file of each.

    `runtime_s` is the virtual run time of each load (None: of a disk as long as fio measured,
    `LONGEST_S` at most, of an SSD `SHORT_S`). Raises StudyError for a file that is neither, or
    given twice.
    """
    check_different(files, "RESULTS")
    observed: list[Evidence] = []
    owner: list[str] = []
    for file, name in zip(files, names_of(files), strict=True):
        if is_trace(file):
            observed.append(replace(observe_trace(file, entry, replay), name=name))
        else:
            capacity = capacity_bytes(entry.table, replay.raid)
            jobs = read_fio_results(file, SHORT_S if runtime_s is None else runtime_s)
            if runtime_s is None and entry.table["kind"] == "hdd":
                jobs = list(map(_as_long, jobs))
            observed += [
                _named(_shrunk(_on(job, replay.raid), capacity), file, name) for job in jobs
            ]
        owner += [name] * (len(observed) - len(owner))
    return observed, owner


def _named(job: Observed, file: Path, name: str) -> Observed:
    """Return a job with the name of its file among those given."""
    return replace(job, name=name + job.name.removeprefix(file.name))


def _as_long(job: Observed) -> Observed:
    """Return a job that is run as long as fio measured it: a write cache takes its first writes at
    once, which count for more in a short run."""
    runtime_s = min(job.measured_s or LONGEST_S, LONGEST_S)
    ramp_s = min(job.ramp_s, LONGEST_S)
    return replace(job, load=replace(job.load, runtime_s=runtime_s, ramp_time_s=ramp_s))


def _on(job: Observed, raid: Table | None) -> Observed:
    """Return a job with the RAID that served it."""
    return job if raid is None else replace(job, load=replace(job.load, raid=raid))


def _shrunk(job: Observed, capacity_bytes: int) -> Observed:
    """Limit a region larger than the drive (a file on a larger drive) to the whole drive."""
    size = job.load.size_bytes
    return (
        replace(job, load=replace(job.load, size_bytes=None))
        if size is not None and size >= capacity_bytes
        else job
    )
