"""Whether a trial can be trusted, and if not, why: pure functions of what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.engine.measure.crew import JobEnd
from headrace.study.model import RunOptions
from headrace.units import format_bytes

Reason = dict[str, str]

COLD_SHARE = 0.9
"""Of the bytes that jobs asked for, each counted once, this share must come from the device for a cold trial."""
LATE_SHARE = {True: 0.04, False: 0.2}
"""Of the time that an emulated drive took for its answers, how much of it they may have been late: a disk, anything else."""
LATE_NS = 30_000
"""Lateness that is allowed in any case, mean."""
FULL_SHARE = 0.75
"""A link that carried this share of its rate for the whole of a trial was what limited it."""
UNSTEADY_SHARE = 0.25
"""Sustained load: difference between the event rates of the two halves above which it was not steady."""


def reason(code: str, text: str) -> Reason:
    """One reason, as it stands in the record."""
    return {"code": code, "text": text}


def failed_jobs(jobs: Sequence[JobEnd]) -> list[Reason]:
    """Jobs that did not end well, grouped by how."""
    found: list[Reason] = []
    for word in ("failed", "timeout", "killed", "out-of-memory"):
        of_kind = [job for job in jobs if job.exit == word]
        if of_kind:
            found.append(reason(f"job-{word}", f"{len(of_kind)} of {len(jobs)} jobs: {of_kind[0].cause}"))
    return found


def settings(applied: Sequence[dict[str, Any]], after: dict[str, Any]) -> list[Reason]:
    """Settings that did not hold until the end."""
    found: list[Reason] = []
    for setting in applied:
        name = setting["name"]
        if name in after and after[name] != setting["after"]:
            text = f"{name} was {setting['after']} before the jobs and {after[name]} after them"
            found.append(reason("setting-not-held", text))
    return found


def cold(
    run: RunOptions, jobs: Sequence[JobEnd], device: dict[str, Any] | None, resident_bytes: int | None
) -> list[Reason]:
    """A cold trial in which the cache was not empty, or the device moved too few bytes."""
    if run.cache != "cold":
        return []
    found: list[Reason] = []
    wanted: dict[str | None, int] = {}
    for job in jobs:
        if job.output is not None:
            key = job.file if job.file is not None else f"job {job.job}"
            wanted[key] = max(wanted.get(key, 0), job.output.bytes_unique)
    unique = sum(wanted.values())
    if resident_bytes is not None and unique and resident_bytes > (1 - COLD_SHARE) * unique:
        found.append(
            reason(
                "cache-not-cold",
                f"{format_bytes(resident_bytes)} of the files were in the page cache before the jobs",
            )
        )
    # Without a device behind the storage the counts are empty.
    if device and device["bytes_read"] < COLD_SHARE * unique:
        moved, asked = format_bytes(device["bytes_read"]), format_bytes(unique)
        found.append(
            reason(
                "cache-not-cold",
                f"the device moved {moved} where jobs asked for {asked} of its files, each counted once",
            )
        )
    return found


def full_links(
    network: dict[str, Any] | None, rates_bytes_per_s: Mapping[str, float | None], last_done_s: float
) -> list[str]:
    """The links that were full for nearly all of a trial, as `NODE (sent)` or `NODE (received)`.

    `network`: totals of the probe; `rates_bytes_per_s`: what each node's link was given, in each direction."""
    found: list[str] = []
    for label, rate in rates_bytes_per_s.items():
        counted = (network or {}).get(label)
        if not rate or counted is None or last_done_s <= 0:
            continue
        for direction in ("sent", "received"):
            if counted[f"bytes_{direction}"] >= FULL_SHARE * rate * last_done_s:
                found.append(f"{label} ({direction})")
    return found


def over_network(
    run: RunOptions, jobs: Sequence[JobEnd], network: dict[str, Any] | None, clients: Sequence[str]
) -> list[Reason]:
    """A cold trial in which the nodes that run jobs received fewer bytes than their jobs read: the data came another way."""
    received = sum(network[name]["bytes_received"] for name in clients if name in network) if network else 0
    if run.cache != "cold" or not network or not any(name in network for name in clients):
        return []
    unique = sum(job.output.bytes_unique for job in jobs if job.output is not None)
    if received >= COLD_SHARE * unique:
        return []
    got, asked = format_bytes(received), format_bytes(unique)
    return [
        reason(
            "not-over-the-network",
            f"the nodes received {got} where jobs asked for {asked}, each counted once",
        )
    ]


def too_short(run: RunOptions, last_done_s: float) -> list[Reason]:
    """A trial too short to say anything."""
    if last_done_s >= run.shortest:
        return []
    return [
        reason("too-short", f"ran for {last_done_s:.3g} s; the least is {run.shortest:g} s ([run] shortest)")
    ]


def steady(run: RunOptions, jobs: Sequence[JobEnd], last_done_s: float) -> list[Reason]:
    """Sustained load whose two halves differ too much."""
    if run.load != "sustained" or last_done_s <= 0:
        return []
    halves = [0.0, 0.0]
    middle = last_done_s / 2
    for job in jobs:
        if job.output is None or not job.output.events:
            continue
        span = max(job.end_s - job.start_s, 1e-9)
        early = min(max(middle - job.start_s, 0.0), span) / span
        halves[0] += job.output.events * early
        halves[1] += job.output.events * (1 - early)
    if min(halves) <= 0 or len(jobs) < 4:
        return []
    change = halves[1] / halves[0] - 1
    if abs(change) <= UNSTEADY_SHARE:
        return []
    return [reason("not-steady", f"the second half had {change:+.0%} of the first half's event rate")]


def faults(injected: Sequence[dict[str, Any]]) -> list[Reason]:
    """Faults that were scheduled and never took effect."""
    return [
        reason("fault-did-not-fire", f"{fault['what']} at {fault['at_s']:g} s never took effect")
        for fault in injected
        if not fault["fired"]
    ]


def lateness(emulators: Sequence[dict[str, Any]]) -> list[Reason]:
    """Emulated drives that answered too late, or refused data for want of memory, while the jobs ran."""
    found: list[Reason] = []
    for report in emulators:
        name = report["device"]
        if "error" in report:
            found.append(reason("emulator-gone", f"the emulated drive {name}: {report['error']}"))
            continue
        late = report["lateness_ns"]
        mean_ns, service_ns = late["mean"], report["service_ns_mean"]
        bound = LATE_SHARE[report["rotational"]]
        if mean_ns > LATE_NS and mean_ns > bound * service_ns:
            text = (
                f"the emulated drive {name} was late by {mean_ns / 1e3:.0f} us of {service_ns / 1e3:.0f} us a request (allowed: "
                f"{bound:.0%}; p50 {late['p50'] / 1e3:.0f}, p99 {late['p99'] / 1e3:.0f} us); leave it more CPU time"
            )
            found.append(reason("emulator-late", text))
        if report["full"]:
            text = f"the emulated drive {name} refused {report['full']} writes for want of memory; give it more (size, memory)"
            found.append(reason("emulator-full", text))
    return found
