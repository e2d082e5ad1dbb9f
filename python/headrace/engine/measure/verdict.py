"""Whether a trial is valid: apply all rules of `validity.py` to its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.engine.measure import validity
from headrace.engine.measure.emulator_reports import with_service
from headrace.engine.measure.job_pool import PoolResult
from headrace.engine.measure.node_probes import TrialSamples
from headrace.engine.measure.node_validity import lost_reasons, node_reasons
from headrace.engine.measure.outcome import Outcome
from headrace.engine.measure.prepared_target import PreparedTarget
from headrace.engine.measure.target_servers import bytes_read
from headrace.probes.block import competing_io
from headrace.records.interference import Interference
from headrace.records.trial_record import NODE_LOST, Reason
from headrace.study.model import RunOptions
from headrace.study.resolve import Resolved
from headrace.units import format_amount
from headrace.workloads import Workload


@dataclass(frozen=True)
class Verdict:
    """Reasons and warnings of a trial."""

    reasons: list[Reason]
    """Why it is invalid; empty for a valid trial."""
    warnings: list[Reason]
    """What a reader must know about a valid trial."""


def verdict_on(
    prepared: PreparedTarget,
    resolved: Resolved,
    workload: Workload,
    outcome: Outcome,
    pool: PoolResult,
    samples: TrialSamples,
    full_links: list[str],
    interference: Interference | None,
) -> Verdict:
    """Apply every rule to the outcome of a trial whose jobs ran."""
    run = resolved.run
    values = {kind: totals.values for kind, totals in samples.totals.items()}
    # Under a fault, failing jobs are the subject of the trial.
    reasons = (
        [] if any(fault.fired for fault in outcome.injected) else validity.failed_jobs(pool.jobs)
    )
    reasons += validity.packets(pool.packets)
    reasons += validity.settings(outcome.settings, outcome.settings_after)
    if not reasons:
        filesystem = prepared.location.description.get("filesystem")
        reasons += validity.cold(
            run, pool.jobs, values.get("block"), outcome.resident_bytes, filesystem
        )
    if not reasons:
        reasons += validity.cold_servers(run, pool.jobs, bytes_read(outcome.server_totals))
    reasons += lost_reasons(outcome.server_facts)
    if pool.storage_lost:
        reasons.append(Reason(code=NODE_LOST, text=pool.storage_lost))
    reasons += validity.too_short(run, pool.last_done_s)
    reasons += validity.stopped(pool.stopped_s)
    reasons += validity.steady(run, pool.jobs, pool.stonewall_s)
    reasons += validity.faults(outcome.injected)
    reasons += validity.completion_delay(with_service(outcome.emulators, values.get("block")))
    reasons += validity.probes(samples)
    reasons += node_reasons(run, outcome.node_facts, pool, outcome.clocks_s)
    reasons += _over_network(prepared, resolved, pool, values.get("network"))
    if (
        workload.bound_by_storage
        and not full_links  # the link was the limit, whatever the CPUs did
        and run.cache != "warm"  # reading from memory is bound by the CPU as intended
        and interference is not None
    ):
        reasons += validity.clients_saturated(interference)
    found, warnings = _warm(run, outcome, pool, values.get("block"))
    reasons += found
    warnings += validity.repeated_requests(pool.jobs)
    if interference is not None:
        found, told = validity.foreign_load(run, interference)
        reasons += found
        warnings += told
    return Verdict(reasons + _competing_io(prepared, outcome, pool, values.get("block")), warnings)


def _warm(
    run: RunOptions, outcome: Outcome, pool: PoolResult, device: dict[str, Any] | None
) -> tuple[list[Reason], list[Reason]]:
    """Return (reasons, warnings) for a warm trial that read from drives."""
    told = validity.warm(run, pool.jobs, device["bytes_read"] if device else None)
    told += validity.warm(run, pool.jobs, bytes_read(outcome.server_totals))
    dropped = validity.cache_dropped(outcome.cache_dropped)
    return (dropped, []) if told and dropped else ([], told)


def _over_network(
    prepared: PreparedTarget,
    resolved: Resolved,
    pool: PoolResult,
    network: dict[str, Any] | None,
) -> list[Reason]:
    nodes = prepared.nodes
    at_home = {server.node.name for server in prepared.location.servers.values()} & set(nodes.names)
    if not prepared.location.network or at_home:  # a job on a server's node may read locally
        return []
    return validity.over_network(
        resolved.run, pool.jobs, network, nodes.names[: resolved.run.nodes]
    )


_NAMED_BYTES = 1 << 20
"""Programs that moved less are not named."""


def _competing_io(
    prepared: PreparedTarget, outcome: Outcome, pool: PoolResult, device: dict[str, Any] | None
) -> list[Reason]:
    ledgers = [job.ledger for job in pool.jobs if job.ledger is not None]
    known = bool(ledgers) and all(ledger.bytes_device is not None for ledger in ledgers)
    if not device or prepared.location.network or not known:
        return []
    others = None if prepared.location.own_device else outcome.machine_use
    read_by_jobs = sum(ledger.bytes_device for ledger in ledgers)
    # No process owns writes of journals and metadata. Foreign writes are therefore those of foreign
    # programs, limited to what the device wrote beyond the jobs' writes.
    beyond_jobs = max(
        0, device["bytes_written"] - sum(ledger.bytes_device_written for ledger in ledgers)
    )
    foreign_written = min(beyond_jobs, 0 if others is None else others.foreign_written_bytes)
    of_trial = device["bytes_written"] - foreign_written
    # Reads are also judged alone: a few foreign reads would not show among many writes.
    found = competing_io(device, read_by_jobs, pool.last_done_s) or competing_io(
        device, read_by_jobs, pool.last_done_s, of_trial
    )
    if found is None:
        return []
    code, text = found
    movers = (
        [one for one in others.movers[:3] if one.moved_bytes >= _NAMED_BYTES]
        if others is not None
        else []
    )
    if movers:
        text += f" ({', '.join(f'{one.name}: {format_amount(one.moved_bytes)}' for one in movers)})"
    return [validity.reason(code, text)]
