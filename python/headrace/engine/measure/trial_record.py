"""Create the record of one trial from its outcome: `trial.json`, `jobs.parquet`, the series."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec

from headrace.engine import Run, identity, workload_of
from headrace.engine.inventory import measured_inventory
from headrace.engine.measure import validity
from headrace.engine.measure.interference import interference_of
from headrace.engine.measure.job_pool import JobEnd, PoolResult
from headrace.engine.measure.node_probes import TrialSamples
from headrace.engine.measure.outcome import ENDS_THE_RUN, Failure, Outcome, failure_of
from headrace.engine.measure.prepared_target import PreparedTarget
from headrace.engine.measure.unmetered import without_energy
from headrace.engine.measure.verdict import verdict_on
from headrace.engine.modelled_power import of_probes, power_rows
from headrace.engine.site_energy import completed
from headrace.plan.trial import Trial
from headrace.records.store import PartialRecord
from headrace.records.trial_record import (
    CpuTotals,
    DeviceTotals,
    JsonObject,
    SettingRecord,
    TrialRecord,
    Validity,
)
from headrace.study.resolve import Resolved
from headrace.targets import Location
from headrace.workloads import Workload


def write_outcome(
    record: PartialRecord,
    prepared: PreparedTarget,
    trial: Trial,
    resolved: Resolved,
    outcome: Outcome,
) -> TrialRecord:
    """Fill and commit the record of a trial, whatever its outcome. Return the record.

    Raises CannotRecordError when the disk is full.
    """
    pool, samples = outcome.pool, outcome.samples
    if outcome.failure is None and pool is not None and samples is not None:
        try:
            workload = workload_of(trial.workload, resolved)
            made = _ran(prepared, trial, resolved, workload, outcome, pool, samples)
            slots = resolved.run.slots
            by_url = prepared.holding(workload).location.url is not None
            record.jobs(
                [
                    _job_row(trial, job, prepared.location, job.slot // slots, by_url=by_url)
                    for job in pool.jobs
                ]
            )
            modelled = power_rows(
                made.energy,
                made.inventory,
                of_probes(samples.series, pool.last_done_s),
                pool.last_done_s,
            )
            power = [*samples.series.get("power", ()), *({**row} for row in modelled)]
            for kind, series in {**samples.series, "power": power}.items():
                record.series(kind, series)
            return record.commit(made)
        except ENDS_THE_RUN:
            raise
        except Exception as error:  # results of an external workload that cannot be recorded
            outcome.failure = failure_of(error)
    failure = outcome.failure or Failure("failed", "no job was run")
    return write_failure(
        record, prepared.run, prepared.environment, trial, resolved, failure, outcome
    )


def write_failure(
    record: PartialRecord,
    run: Run,
    environment: dict[str, object],
    trial: Trial,
    resolved: Resolved,
    failure: Failure,
    outcome: Outcome | None = None,
) -> TrialRecord:
    """Fill and commit the record of a trial whose jobs did not complete. Return the record.

    Raises CannotRecordError when the disk is full.
    """
    if failure.trace is not None:
        record.text("error.txt", failure.trace)
    record.jobs([])
    made = TrialRecord(
        **identity(run.study, trial, resolved),
        engine="measure",
        environment=environment,
        provenance="measured",
        status=failure.status,
        cause=failure.cause,
        validity=Validity(
            valid=False,
            reasons=(validity.reason(failure.passing, failure.cause),) if failure.passing else (),
        ),
    )
    if outcome is not None:
        made = msgspec.structs.replace(
            made,
            started_utc=outcome.started.isoformat(timespec="milliseconds"),
            duration_s=outcome.duration_s,
            settings=_settings(outcome),
            faults=tuple(outcome.injected),
            teardown_errors=tuple(outcome.teardown_errors),
        )
    return record.commit(made)


def _ran(
    prepared: PreparedTarget,
    trial: Trial,
    resolved: Resolved,
    workload: Workload,
    outcome: Outcome,
    pool: PoolResult,
    samples: TrialSamples,
) -> TrialRecord:
    good = [job.output for job in pool.jobs if job.output is not None]
    results = workload.merge([output.results for output in good]) if good else {}
    values = {kind: totals.values for kind, totals in samples.totals.items()}
    # Where clients synchronise before their first request, links are idle until then.
    span_s = results.get("span_s") or pool.last_done_s
    full_links = validity.full_links(values.get("network"), prepared.nodes.rates(), span_s)
    use = outcome.machine_use
    interference = None if use is None else interference_of(use, pool.jobs, pool.last_done_s)
    verdict = verdict_on(
        prepared, resolved, workload, outcome, pool, samples, full_links, interference
    )
    device, cpu = values.pop("block", None), values.pop("cpu", None)
    inventory = measured_inventory(trial.target, resolved, prepared)
    values |= _by_machine(outcome, samples)
    return TrialRecord(
        **identity(prepared.run.study, trial, resolved),
        engine="measure",
        environment=prepared.environment,
        provenance=prepared.location.provenance,
        status="done" if good else "failed",
        cause=None if good else next((job.cause for job in pool.jobs if job.cause), "no job ended"),
        started_utc=outcome.started.isoformat(timespec="milliseconds"),
        duration_s=outcome.duration_s,
        stonewall_s=pool.stonewall_s,
        last_done_s=pool.last_done_s,
        settings=_settings(outcome),
        settings_after=outcome.settings_after,
        location={**prepared.location.description, "devices": list(prepared.location.device_names)},
        device=_device(device, outcome.emulators),
        cpu=None if cpu is None else msgspec.convert(cpu, CpuTotals),
        energy=completed(outcome.energy, resolved.site, inventory, pool.last_done_s),
        inventory=inventory,
        node_facts=outcome.node_facts,
        server_facts=outcome.server_facts,
        probes=values,
        probes_failed=samples.failed,
        full_links=tuple(full_links),
        results=results,
        packets=pool.packets,
        interference=interference,
        validity=Validity(
            valid=bool(good) and not verdict.reasons,
            reasons=tuple(verdict.reasons),
            warnings=(*verdict.warnings, *without_energy(outcome.energy)),
        ),
        faults=tuple(outcome.injected),
        teardown_errors=tuple(outcome.teardown_errors),
        emulators=tuple(outcome.emulators),
        clock={"release_monotonic_s": pool.release_monotonic_s},
    )


def _by_machine(outcome: Outcome, samples: TrialSamples) -> dict[str, JsonObject]:
    """Return the totals of each node and server, where they are known."""
    found: dict[str, JsonObject] = {
        "nodes": {**samples.by_node},
        "servers": {**outcome.server_totals},
    }
    return {name: totals for name, totals in found.items() if totals}


def _device(
    totals: Mapping[str, object] | None, emulated: Sequence[Mapping[str, object]]
) -> DeviceTotals | None:
    """Return the totals of the kernel's counters, with what emulated drives know of their flash."""
    if not totals:
        return None
    names = ("flash_host_bytes", "flash_written_bytes")
    flash = {name: sum(int(str(each.get(name, 0))) for each in emulated) for name in names}
    return msgspec.convert({**totals, **flash}, DeviceTotals)


def _settings(outcome: Outcome) -> tuple[SettingRecord, ...]:
    return tuple(
        SettingRecord(
            name=setting.name,
            asked=setting.asked,
            before=setting.before,
            after=setting.after,
            applied=setting.applied,
            reason=setting.reason,
        )
        for setting in outcome.settings
    )


def _job_row(
    trial: Trial, job: JobEnd, location: Location, node: int, *, by_url: bool
) -> dict[str, object]:
    row: dict[str, object] = {
        "trial": trial.id,
        "job": job.job,
        "slot": job.slot,
        "node": node,
        "file": job.file,
        "exit": job.exit,
        "cause": job.cause,
        "start_s": job.start_s,
        "end_s": job.end_s,
        "wall_s": job.end_s - job.start_s,
        "peak_rss_bytes": job.peak_rss_bytes,
        "events": 0,
    }
    if job.ledger is not None:
        row.update(job.ledger.as_row())
    output = job.output
    if output is not None:
        began_s = job.absolute_start_s - job.start_s
        row.update(
            events=output.events,
            bytes_uncompressed=output.bytes_uncompressed,
            bytes_asked=output.bytes_asked,
            bytes_unique=output.bytes_unique,
            bytes_written=output.bytes_written,
            read_calls=output.read_calls,
            request_repeats=output.request_repeats,
            open_s=output.open_s,
            phases=[
                {"name": name, "start_s": start - began_s, "end_s": end - began_s}
                for name, start, end in output.phases
            ],
            results=json.dumps(output.results),
        )
        # The kernel counts what read calls return, but not what recv returns, with which clients of
        # S3 and HDFS read.
        served = job.ledger.bytes_served if job.ledger is not None else 0
        if by_url or not served:
            row["bytes_served"] = max(served, output.bytes_asked)
    if not location.device_names or location.network:
        row["bytes_device"] = None  # the servers' devices move bytes for all jobs together
    return row
