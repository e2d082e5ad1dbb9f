"""Whether a trial is valid, and if not, why: pure functions of the observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace import probes as probe_package
from headrace.engine.measure.job_pool import JobEnd
from headrace.probes.sampler import Samples
from headrace.records.interference import ForeignProgram, Interference
from headrace.records.trial_record import FaultRecord, PacketsRecord, Reason
from headrace.study.model import RunOptions
from headrace.system.emulator.report import allowed_delay_ns
from headrace.system.mounts import IN_MEMORY
from headrace.targets import Setting
from headrace.units import format_amount, format_change, format_share

COLD_SHARE = 0.9
"""Cold trials: share of the unique bytes requested by jobs that must come from the device."""
_WARM_READS = 0.1
"""A warm trial whose drives read more of what its jobs requested has a warning."""
FULL_SHARE = 0.75
"""A link that carried this share of its rate for a whole trial was the limit."""
FOREIGN_INVALID_SHARE = 0.10
"""Share of the jobs' time: a trial that foreign load may have cost this much is invalid.

Competing I/O has the same limit.
"""
FOREIGN_WARNING_SHARE = 0.03
"""The same for a warning: about the difference between repeats on an idle machine."""
FOREIGN_LITTLE_SHARE = 0.10
"""Share of the CPUs: with less foreign load, full CPUs are full of the trial's own work."""
SATURATED_SHARE = 0.95
"""Share of the CPU time left by foreign load from which clients count as saturated."""
UNSTEADY_SHARE = 0.25
"""Sustained load: largest relative difference between the event rates of the two halves."""


def reason(code: str, text: str) -> Reason:
    """Return a reason as stored in the record."""
    return Reason(code=code, text=text)


def failed_jobs(jobs: Sequence[JobEnd]) -> list[Reason]:
    """Return reasons for jobs that did not succeed, grouped by how they ended."""
    found: list[Reason] = []
    for word in ("failed", "timeout", "killed", "out-of-memory"):
        of_kind = [job for job in jobs if job.exit == word]
        if of_kind:
            found.append(
                reason(f"job-{word}", f"{len(of_kind)} of {len(jobs)} jobs: {of_kind[0].cause}")
            )
    return found


def packets(summary: PacketsRecord | None) -> list[Reason]:
    """Return a reason for events that no job processed because their workers died."""
    if summary is None or not summary.events_not_processed:
        return []
    text = f"{summary.events_not_processed} events were processed by no job"
    if given_up := summary.given_up:
        first = given_up[0]
        text += (
            f": events from {first.first_event} of {Path(first.file).name} "
            f"ended two workers ({first.cause})"
        )
    return [reason("packets-lost", text)]


def settings(applied: Sequence[Setting], after: dict[str, Any]) -> list[Reason]:
    """Return reasons for settings that did not hold until the end."""
    found: list[Reason] = []
    for setting in applied:
        name = setting.name
        if name in after and after[name] != setting.after:
            text = f"{name} was {setting.after} before the jobs and {after[name]} after them"
            found.append(reason("setting-not-held", text))
    return found


def cold(
    run: RunOptions,
    jobs: Sequence[JobEnd],
    device: dict[str, Any] | None,
    resident_bytes: int | None,
    filesystem: object = None,
) -> list[Reason]:
    """Return reasons for a cold trial with a non-empty cache or too few bytes from the device.

    `filesystem`: the type of the file system that has the files.
    """
    if run.cache != "cold":
        return []
    found: list[Reason] = []
    unique = _unique_bytes(jobs)
    if resident_bytes is not None and unique and resident_bytes > (1 - COLD_SHARE) * unique:
        held = format_amount(resident_bytes)
        text = f"{held} of the files were in the page cache before the jobs"
        if filesystem in IN_MEMORY:
            text = f'{held} of the files are in memory only ({filesystem}): cache = "as-is"'
        found.append(reason("cache-not-cold", text))
    # Without a device behind the storage the counters are empty.
    if device and device["bytes_read"] < COLD_SHARE * unique:
        moved, asked = format_amount(device["bytes_read"]), format_amount(unique)
        found.append(
            reason(
                "cache-not-cold",
                f"the device moved {moved} where jobs requested {asked} of its files, each "
                f"counted once",
            )
        )
    return found


def warm(run: RunOptions, jobs: Sequence[JobEnd], bytes_read: int | None) -> list[Reason]:
    """Return a warning for a warm trial whose data came from drives, which took its time.

    `bytes_read`: by the drives, of the node or of all servers; None if not known.
    """
    unique = _unique_bytes(jobs)
    if run.cache != "warm" or bytes_read is None or not unique:
        return []
    if bytes_read <= _WARM_READS * unique:
        return []
    moved, asked = format_amount(bytes_read), format_amount(unique)
    text = (
        f"drives read {moved} during the trial, where jobs requested {asked} of files that were "
        f"to be in memory: is it large enough, and is nothing read past the page cache?"
    )
    return [reason("cache-not-warm", text)]


def cache_dropped(machines: Sequence[str]) -> list[Reason]:
    """Return a reason for a warm trial if machines lost what was read into memory for it."""
    if not machines:
        return []
    text = (
        f"the page cache of {', '.join(machines)} was dropped during this warm trial, and drives "
        f"read the files again: by another study's cold trial, or by another program of root"
    )
    return [reason("cache-dropped", text)]


def repeated_requests(jobs: Sequence[JobEnd]) -> list[Reason]:
    """Return a warning for requests that jobs had to send again; their waits are the storage's."""
    repeats = sum(job.output.request_repeats for job in jobs if job.output is not None)
    if not repeats:
        return []
    times = "once" if repeats == 1 else f"{repeats} times"
    text = f"requests were sent again {times}: the server was busy, or did not answer"
    return [reason("requests-repeated", text)]


def _unique_bytes(jobs: Sequence[JobEnd]) -> int:
    """Return the bytes that jobs requested of their files, each counted once."""
    wanted: dict[str | None, int] = {}
    for job in jobs:
        if job.output is not None:
            key = job.file if job.file is not None else f"job {job.job}"
            wanted[key] = max(wanted.get(key, 0), job.output.bytes_unique)
    return sum(wanted.values())


def cold_servers(run: RunOptions, jobs: Sequence[JobEnd], bytes_read: int | None) -> list[Reason]:
    """Return a reason for a cold trial whose data did not come from the servers' disks.

    `bytes_read`: by the disks of all servers; None if not known.
    """
    unique = _unique_bytes(jobs)
    if run.cache != "cold" or bytes_read is None or bytes_read >= COLD_SHARE * unique:
        return []
    moved, asked = format_amount(bytes_read), format_amount(unique)
    text = f"the servers' disks read {moved} where jobs requested {asked}, each counted once"
    return [reason("cache-not-cold", text)]


def full_links(
    network: dict[str, Any] | None,
    rates_bytes_per_s: Mapping[str, float | None],
    last_done_s: float,
) -> list[str]:
    """Return the links that were full for nearly all of a trial: `NODE (sent)`, `NODE (received)`.

    `network`: totals of the probe; `rates_bytes_per_s`: the configured rate of each node's link per
    direction.
    """
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
    run: RunOptions,
    jobs: Sequence[JobEnd],
    network: dict[str, Any] | None,
    clients: Sequence[str],
) -> list[Reason]:
    """Return a reason for a cold trial whose nodes received fewer bytes than their jobs read.

    The data then did not come over the network.
    """
    received = (
        sum(network[name]["bytes_received"] for name in clients if name in network)
        if network
        else 0
    )
    if run.cache != "cold" or not network or not any(name in network for name in clients):
        return []
    unique = sum(job.output.bytes_unique for job in jobs if job.output is not None)
    if received >= COLD_SHARE * unique:
        return []
    got, asked = format_amount(received), format_amount(unique)
    return [
        reason(
            "not-over-the-network",
            f"the nodes received {got} where jobs requested {asked}, each counted once",
        )
    ]


def foreign_load(run: RunOptions, found: Interference) -> tuple[list[Reason], list[Reason]]:
    """Return (reasons, warnings) for CPU time lost to foreign programs and the hypervisor.

    It is a reason if the loss may have changed the result, else a warning.
    """
    if found.lost_share < FOREIGN_WARNING_SHARE:
        return [], []
    text = (
        f"{_took(found)} while jobs waited for a CPU for "
        f"{format_share(min(1.0, found.waited_s / found.wall_s))} of their "
        f"time, which may have cost them up to {format_share(found.lost_share)} of it"
    )
    told = [reason("foreign-load", text)]
    invalid = found.lost_share >= FOREIGN_INVALID_SHARE and run.foreign_load == "invalid"
    return (told, []) if invalid else ([], told)


def _took(found: Interference) -> str:
    """Return who took how many CPUs: programs by name, and the hypervisor for itself."""
    programs = found.foreign_s / found.capacity_s * found.cpus
    stolen = found.steal_s / found.capacity_s * found.cpus
    told: list[str] = []
    if found.steal_s <= 0.01 * found.capacity_s or programs >= 0.05:
        mostly = [each for each in found.programs if each.cpu_s >= 0.05 * found.foreign_s]
        named = ", ".join(_named(program) for program in mostly[:4])
        told.append(
            f"other programs used {programs:.1f} of {found.cpus:g} CPUs"
            + (f" ({named})" if named else "")
        )
    if found.steal_s > 0.01 * found.capacity_s:
        of = "" if told else f" of {found.cpus:g} CPUs"
        told.append(f"the hypervisor withheld {stolen:.1f}{of} (steal)")
    return " and ".join(told)


def _named(program: ForeignProgram) -> str:
    processes = f"{program.processes} processes, " if program.processes > 1 else ""
    cpu_s = f"{program.cpu_s:.0f}" if program.cpu_s >= 10 else f"{program.cpu_s:.2g}"
    return f"{program.name}: {processes}{cpu_s} CPU s"


def clients_saturated(found: Interference) -> list[Reason]:
    """Return a reason if the CPUs were saturated by the trial itself.

    Its own work is that of the jobs, of Headrace's servers and drives, and of the kernel for them.
    Other programs do not count: jobs wait for them, which `foreign_load` reports.
    """
    foreign_s = found.foreign_s + found.steal_s
    if found.capacity_s <= 0 or foreign_s >= FOREIGN_LITTLE_SHARE * found.capacity_s:
        return []
    # Servers may run on CPUs other than those of the jobs.
    on_them_s = max(found.jobs_s, found.capacity_s - found.idle_s - foreign_s)
    trial_s = min(found.jobs_s + found.own_s + found.kernel_s, on_them_s)
    if trial_s < SATURATED_SHARE * (found.capacity_s - foreign_s):
        return []
    text = (
        f"the CPUs of the clients were busy {format_share(trial_s / found.capacity_s)} of the "
        f"time with the trial's own work "
        f"({format_share(found.jobs_s / found.capacity_s)} with its jobs): they, not the "
        f"storage, were the limit"
    )
    return [reason("clients-saturated", text)]


def too_short(run: RunOptions, last_done_s: float) -> list[Reason]:
    """Return a reason for a trial that is too short."""
    if last_done_s >= run.shortest:
        return []
    return [
        reason(
            "too-short",
            f"ran for {last_done_s:.3g} s; the least is {run.shortest:g} s ([run] shortest)",
        )
    ]


def stopped(stopped_s: float) -> list[Reason]:
    """Return a reason if Headrace itself was stopped while jobs ran."""
    if stopped_s <= 0:
        return []
    text = (
        f"headrace was stopped for {stopped_s:.1f} s while jobs ran (Ctrl-Z, SIGSTOP, or a "
        "suspended batch job, container or machine): slots stayed empty, or jobs were stopped, too"
    )
    return [reason("stopped", text)]


def steady(run: RunOptions, jobs: Sequence[JobEnd], stonewall_s: float) -> list[Reason]:
    """Return a reason for sustained load whose two halves differ too much.

    They are those of the time until the first slot had nothing more to do, in which rates are
    counted: after it, fewer and fewer slots are busy.
    """
    if run.load != "sustained" or stonewall_s <= 0:
        return []
    halves = [0.0, 0.0]
    middle_s = stonewall_s / 2
    for job in jobs:
        if job.output is None or not job.output.events:
            continue
        span_s = max(job.end_s - job.start_s, 1e-9)
        for half, (begin_s, end_s) in enumerate(((0.0, middle_s), (middle_s, stonewall_s))):
            within_s = min(job.end_s, end_s) - max(job.start_s, begin_s)
            halves[half] += job.output.events * max(0.0, within_s) / span_s
    if min(halves) <= 0 or len(jobs) < 4:
        return []
    change = halves[1] / halves[0] - 1
    if abs(change) <= UNSTEADY_SHARE:
        return []
    return [
        reason(
            "not-steady",
            f"the second half had {format_change(change)} of the first half's event rate",
        )
    ]


def faults(injected: Sequence[FaultRecord]) -> list[Reason]:
    """Return reasons for scheduled faults that never took effect or could not be lifted."""
    found: list[Reason] = []
    for fault in injected:
        if not fault.fired:
            why = f": {fault.error}" if fault.error else ""
            text = f"{fault.what} at {fault.at_s:g} s never took effect{why}"
            found.append(reason("fault-did-not-fire", text))
        if fault.not_lifted:
            text = f"{fault.what} could not be lifted: {fault.not_lifted}"
            found.append(reason("fault-not-lifted", text))
    return found


def probes(samples: Samples) -> list[Reason]:
    """Return reasons reported by probes, and reasons for essential probes that failed."""
    kinds = probe_package.kinds()
    found = [
        reason("probe-failed", f"probe {kind} failed {how}")
        for kind, how in samples.failed.items()
        if kind in kinds and kinds[kind].essential
    ]
    for totals in samples.totals.values():
        found += [reason(code, text) for code, text in totals.invalid]
    return found


def completion_delay(emulators: Sequence[dict[str, Any]]) -> list[Reason]:
    """Return reasons for emulated drives that answered too late or ran out of memory."""
    found: list[Reason] = []
    for report in emulators:
        name = report["device"]
        if "error" in report:
            found.append(reason("emulator-gone", f"the emulated drive {name}: {report['error']}"))
            continue
        late, service_ns = report["lateness_ns"], report["service_ns_mean"]
        allowed_ns = allowed_delay_ns(service_ns, rotational=report["rotational"])
        if late["mean"] > allowed_ns:
            text = (
                f"the emulated drive {name} was late by {late['mean'] / 1e3:.0f} us of "
                f"{service_ns / 1e3:.0f} us per request (allowed: {allowed_ns / 1e3:.0f} us; "
                f"p50 {late['p50'] / 1e3:.0f}, p99 {late['p99'] / 1e3:.0f} us); leave it more CPU "
                "time"
            )
            found.append(reason("emulator-late", text))
        woken_ns = report["kernel_wake_ns"]["mean"]
        if report["submission_ns"] is None and late["timed"] and woken_ns > allowed_ns:
            text = (
                f"requests reached the emulated drive {name} {woken_ns / 1e3:.0f} us late on "
                f"average (allowed: {allowed_ns / 1e3:.0f} us); leave it more CPU time, or let it "
                "see when requests are issued (tracefs)"
            )
            found.append(reason("emulator-late", text))
        if report["full"]:
            text = (
                f"the emulated drive {name} refused {report['full']} writes for want of memory; "
                f"give it more (size, memory)"
            )
            found.append(reason("emulator-full", text))
    return found
