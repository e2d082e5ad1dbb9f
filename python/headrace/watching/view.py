"""Jobs as text: a table of at most 80 columns, those that lose most time first; pure."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Iterable, Sequence

from headrace.units import format_bytes_per_s, format_seconds
from headrace.watching.client_counters import Operations
from headrace.watching.used import JobSample, Used
from headrace.watching.watcher import NodeSample

_RECENT_S = 10.0
_NAME = 20
_PLACE = 11
_WIDTH = 80
_FOREIGN_BYTES_PER_S = 100e3
"""Less is what any node does all the time."""
_UNKNOWN_LEAST = 0.2
_JOBS_TOLD = 3
_ROW = f"%-{_NAME}s %4.0f %%%5.0f %%%4.0f %%%4.0f %%%4.0f %%%4.0f %% %9s %s"
"""Name, shares by part, rate, and what is waited for."""
_HEADING = (
    f"{'job':<{_NAME}} {'on CPU':>6}{'no CPU':>7}{'block':>6}{'netw.':>6}{'mem.':>6}{'other':>6}"
    f" {'read':>9} waits for"
)


class Recent:
    """What each job used in the last seconds, so that a table does not flicker."""

    def __init__(self, span_s: float = _RECENT_S) -> None:
        self._span_ns = (span_s + 0.5) * 1e9
        self._kept: dict[str, tuple[Used, deque[Used]]] = {}

    def add(self, jobs: Iterable[JobSample]) -> dict[str, Used]:
        """Take a look; return the sums by key of a job."""
        kept: dict[str, tuple[Used, deque[Used]]] = {}
        for job in jobs:
            whole, parts = self._kept.get(job.key) or (Used(), deque[Used]())
            whole.add(job.last)
            parts.append(job.last)
            while whole.spent.wall_ns > self._span_ns and len(parts) > 1:
                whole.remove(parts.popleft())
            kept[job.key] = whole, parts
        self._kept = kept
        return {key: whole for key, (whole, _) in kept.items()}


def table(rows: Sequence[tuple[JobSample, Used]], most: int) -> list[str]:
    """Return the lines of a table: a heading, and at most `most` jobs."""
    ordered = sorted(rows, key=lambda row: (-row[1].spent.lost_s, row[0].name))
    lines = [_HEADING, *(_row(job, used) for job, used in ordered[:most])]
    if (left := len(ordered) - most) > 0:
        lines.append(f"{left} more jobs, which lose less")
    return lines


def _row(job: JobSample, used: Used) -> str:
    ledger = used.ledger
    name = job.name if len(job.name) <= _NAME else f"{job.name[: _NAME - 1]}…"
    wall_s = ledger.wall_s or 1.0
    shares = [100 * part / wall_s for part in ledger.parts_s]
    place = ledger.longest_wait
    place = place if len(place) <= _PLACE else f"…{place[1 - _PLACE :]}"
    return (_ROW % (name, *shares, _rate(used.moved.served / wall_s), place)).rstrip()


def _rate(rate: float) -> str:
    return format_bytes_per_s(rate) if rate >= 1 else "-"


def heading(sample: NodeSample, jobs: Sequence[JobSample]) -> str:
    """Return one line about the node."""
    processes = sum(job.processes for job in jobs)
    cpus = sum(job.last.cpu_s for job in jobs) / (sample.interval_s or 1.0)
    cost = sample.cost_s / (sample.interval_s or 1.0)
    others = "" if sample.foreign_cpus is None else f", others {sample.foreign_cpus:.2f}"
    return (
        f"{len(jobs)} job{'s' if len(jobs) != 1 else ''}, {processes} "
        f"process{'es' if processes != 1 else ''}: {cpus:.2f} CPUs{others}; "
        f"this watch {cost:.3f}"
    )


def clients(sample: NodeSample) -> list[str]:
    """Return lines on each mount of network storage that did something in the interval."""
    lines: list[str] = []
    for client in sample.clients:
        did = [
            _operations(name, each, sample.interval_s or 1.0)
            for name, each in client.last.by_name.items()
            if each.number or each.bytes
        ]
        if client.waiting:
            did.append(f"{client.waiting} waiting")
        if did:
            mount = client.mount if len(client.mount) <= _NAME else f"…{client.mount[1 - _NAME :]}"
            lines += _listed(f"{client.kind} {mount}: ", did)
    return lines


def _listed(beginning: str, parts: Sequence[str]) -> list[str]:
    """Return parts as a list in lines of `_WIDTH`, which end between two parts: a rate without its
    unit is another rate."""
    lines = [beginning + parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 3 <= _WIDTH:  # ", " before it, "," behind it
            lines[-1] += f", {part}"
        else:
            lines[-1] += ","
            lines.append(f"  {part}")
    return lines


def foreign(sample: NodeSample) -> list[str]:
    """Return lines on the disks that other programs used in the interval, if any."""
    seconds = sample.interval_s or 1.0
    used = sorted(sample.foreign_io.items(), key=lambda each: -sum(each[1]))
    told = [
        f"{disk} read {_rate(moved.read / seconds)} written {_rate(moved.written / seconds)}"
        for disk, moved in used[:2]
        if sum(moved) / seconds >= _FOREIGN_BYTES_PER_S
    ]
    return _listed("others: ", told) if told else []


def _operations(name: str, done: Operations, interval_s: float) -> str:
    rate = f" {_rate(done.bytes / interval_s)}" if done.bytes else ""
    each_ms = 1e3 * done.time_s / done.number if done.number else 0.0
    digits = ".0f" if each_ms >= 10 else ".2g"
    each = f" {each_ms:{digits}} ms" if each_ms else ""
    return f"{name}{rate} {done.number / interval_s:.0f}/s{each}"


def footnotes(jobs: Iterable[JobSample], notes: Iterable[str]) -> list[str]:
    """Return where the numbers come from and what is missing, each once."""
    jobs = list(jobs)
    # Most jobs share one tuple of them.
    sources = dict.fromkeys(each for of in {job.sources: 0 for job in jobs} for each in of)
    lacks = dict.fromkeys(each for of in {job.lacks: 0 for job in jobs} for each in of)
    told = [
        *_beside(jobs),
        *(f"source: {each}" for each in sources),
        *(f"not readable: {each}" for each in lacks),
        *notes,
    ]
    return [
        line
        for each in told
        for line in textwrap.wrap(
            each, _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    ]


def _beside(jobs: Iterable[JobSample]) -> list[str]:
    """Return what is not known of jobs whose threads wait while others run."""
    lines: list[str] = []
    for job in jobs:
        ledger = job.total.ledger
        if ledger.beside_s < _UNKNOWN_LEAST * ledger.wall_s or not ledger.wall_s:
            continue  # most jobs
        least_s, most_s = ledger.waits_bounds_s
        if most_s - least_s > _UNKNOWN_LEAST * ledger.wall_s:
            bounds = f"{100 * least_s / ledger.wall_s:.0f} to {100 * most_s / ledger.wall_s:.0f} %"
            lines.append(
                f"{job.name}: threads wait while others run. Whether these need it is not seen: "
                f"storage and servers that answer at once would save {bounds}"
            )
    return lines[:_JOBS_TOLD]


def summary(jobs: Sequence[JobSample], most: int = 1000) -> list[str]:
    """Return the table of whole watches, for the end."""
    longest = max((job.total.spent.wall_ns for job in jobs), default=0) / 1e9
    ended = sum(job.ended for job in jobs)
    about = f"; {ended} of {len(jobs)} ended" if ended else ""
    first = f"whole watch of {format_seconds(round(longest, 1))}{about}"
    return [first, *table([(job, job.total) for job in jobs], most)]
