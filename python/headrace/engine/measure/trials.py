"""One measured trial, from a prepared target to a record: settings, cache, jobs, probes, validity."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace import probes as probe_room
from headrace import workloads as workload_room
from headrace.datasets import DatasetSpec
from headrace.datasets.writing.events_file import cluster_events
from headrace.engine import base_record, parts_of
from headrace.engine.measure import validity
from headrace.engine.measure.crew import Crew, CrewResult, CrewTask, JobEnd
from headrace.engine.measure.inputs import Inputs, lay_out, moved
from headrace.engine.measure.packets import Packetiser
from headrace.engine.measure.placing import OURS
from headrace.engine.measure.stage import Stage
from headrace.engine.measure.striking import Striking
from headrace.engine.measure.watching import Watching, emulator_reports, with_service
from headrace.errors import HeadraceError, UnsupportedLevelError
from headrace.plan.trial import Trial
from headrace.probes import Totals, Watch
from headrace.probes.block import competing_io
from headrace.probes.cpu import clients_saturated
from headrace.records.store import PartialRecord
from headrace.study.model import RunOptions
from headrace.study.resolve import Resolved
from headrace.system import page_cache
from headrace.system.cgroups import MemoryLimit
from headrace.system.emulator import yield_to_kernel
from headrace.targets import Location, Setting
from headrace.workloads import Workload


@dataclass
class _Outcome:
    """What a trial leaves, before it is a record."""

    settings: list[Setting]
    crew: CrewResult
    totals: dict[str, Totals]
    series: dict[str, list[dict[str, Any]]]
    resident_bytes: int | None
    injected: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    emulators: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


def run_trial(stage: Stage, trial: Trial, resolved: Resolved, record: PartialRecord) -> dict[str, Any]:
    """Runs the jobs of one trial and fills its record; returns trial.json. Raises HeadraceError when jobs could not be run."""
    started = datetime.datetime.now(datetime.UTC)
    begin = time.monotonic()
    workload = workload_room.kinds()[resolved.workload_kind](trial.workload, resolved.workload_options)
    outcome = _run(stage, trial, resolved, workload, record)
    slots = resolved.run.slots
    rows = [_job_row(trial, job, stage.location, job.slot // slots) for job in outcome.crew.jobs]
    record.jobs(rows)
    for kind, series in outcome.series.items():
        record.series(kind, series)
    good = [job for job in outcome.crew.jobs if job.output is not None]
    status, cause, results = "done", None, {}
    if not good:
        status, cause = "failed", next((job.cause for job in outcome.crew.jobs if job.cause), "no job ended")
    else:
        results = workload.merge([job.output.results for job in good if job.output is not None])
    values = {kind: totals.values for kind, totals in outcome.totals.items()}
    # Where clients meet before their first request, links are idle until then.
    span_s = results.get("span_s") or outcome.crew.last_done_s
    full_links = validity.full_links(values.get("network"), stage.nodes.rates(), span_s)
    reasons = _reasons(stage, resolved, workload, outcome, values, full_links)
    return {
        **base_record(stage.run, trial, "measure", stage.environment),
        "provenance": stage.location.provenance,
        "status": status,
        "cause": cause,
        **parts_of(trial, resolved),
        "run": resolved.run.model_dump(mode="json"),
        "started_utc": started.isoformat(timespec="milliseconds"),
        "duration_s": time.monotonic() - begin,
        "stonewall_s": outcome.crew.stonewall_s,
        "last_done_s": outcome.crew.last_done_s,
        "settings": [setting.as_dict() for setting in outcome.settings],
        "settings_after": stage.target.read_settings(),
        "location": {**stage.location.description, "devices": list(stage.location.device_names)},
        "device": values.pop("block", None),
        "cpu": values.pop("cpu", None),
        "probes": values,
        "full_links": full_links,
        "results": results,
        "validity": {"valid": status == "done" and not reasons, "reasons": reasons},
        "faults": outcome.injected,
        "emulators": outcome.emulators,
        "clock": {"release_monotonic_s": outcome.crew.release_monotonic_s},
    }


def _run(
    stage: Stage, trial: Trial, resolved: Resolved, workload: Workload, record: PartialRecord
) -> _Outcome:
    run, observer = resolved.run, stage.run.observer
    directory = stage.location.directory
    scratch_root = (directory or stage.work_dir) / OURS / "scratch"
    scratch_roots = [scratch_root]
    if stage.location.own_drives:
        if run.nodes > 1 and (why_not := workload.why_not_on_own_drives()):
            raise UnsupportedLevelError(f"workload {workload.name}: {why_not}")
        scratch_roots = [here / OURS / "scratch" for here in stage.location.node_directories]
    for each in scratch_roots:
        shutil.rmtree(each, ignore_errors=True)
        each.mkdir(parents=True)
    meeting = stage.work_dir / "meeting"
    shutil.rmtree(meeting, ignore_errors=True)
    meeting.mkdir(parents=True)
    laid = lay_out(stage, resolved, workload, trial, directory)
    # Jobs that read a data set write beside it at most (a skim's output), on the node's own disk.
    by_url = directory is None and workload.dataset(stage.slots_max) is None
    folder = f"{OURS}/jobs-{trial.id}-{os.urandom(3).hex()}" if by_url else None
    applied = stage.target.apply(resolved.target_options, stage.context)
    if lacking := [setting for setting in applied if not setting.applied]:
        # Never quietly another level: without all of them the jobs are not run.
        raise UnsupportedLevelError(
            "; ".join(f"{each.name} = {each.asked}: {each.reason}" for each in lacking)
        )
    limits = _memory_limits(stage, run)
    watching = Watching(_probes(run), run.series_interval)
    striking = Striking(resolved.faults, stage.location, stage.context.journal)
    packets = _packetiser(stage, run, laid.files, laid.events, workload.dataset(stage.slots_max))
    watched = False
    slots = run.slots * run.nodes
    try:
        if run.cache == "cold":
            stage.target.drop_caches(stage.context)
        resident = _prepare_cache(
            run.cache, [Path(file) for file in laid.everywhere if "://" not in file], stage.location, observer
        )
        observer.trial_started(trial, 0 if run.load == "sustained" else slots)

        def adopt(pid: int, slot: int) -> None:
            stage.nodes.adopt(pid, slot // run.slots)
            if limits:
                limits[slot // run.slots].add(pid)
            if stage.location.emulated:
                # Jobs that keep every CPU busy would hold up the kernel's own way to the emulated drive.
                yield_to_kernel(pid)

        def released(pids: list[int]) -> None:
            nonlocal watched
            watching.start(
                Watch(
                    stage.location.device_names,
                    tuple(pids),
                    directory,
                    record.keep,
                    stage.location.interfaces,
                )
            )
            watched = True
            for device in stage.location.emulated:
                device.reset_report()
            striking.start()

        crew = Crew(
            stage.nursery,
            CrewTask(
                kind=resolved.workload_kind,
                name=trial.workload,
                # Only what was written: a rule about a field that is given must not fire for its default.
                options=resolved.workload_options.model_dump(mode="json", exclude_unset=True),
                slots=slots,
                network=(stage.holding(workload) if workload.reads_source() else stage).location.network,
                make_input=Inputs(
                    stage,
                    workload,
                    laid,
                    scratch_root,
                    meeting,
                    None if folder is None else f"{stage.location.url}/{folder}",
                    slots_per_node=run.slots,
                    slots=slots,
                    seed=trial.seed,
                    keep=record.keep,
                    packets=packets is not None,
                ),
                log_dir=record.keep,
                timeout_s=run.timeout,
                packets=packets,
                duration_s=(run.duration or 30.0) if run.load == "sustained" and run.jobs is None else None,
                jobs_total=run.jobs if run.load == "sustained" else None,
                adopt=adopt,
                environment={**stage.holding(workload).location.environment, **stage.location.environment},
                home=lambda slot: stage.nodes.name(slot // run.slots),
                here=lambda file, slot: moved(file, directory, stage.location.on_node(slot // run.slots)),
                namespace=lambda slot: stage.nodes.namespace(slot // run.slots),
                out_of_memory=lambda: sum(limit.killed() for limit in limits) + stage.nodes.out_of_memory(),
                released=released,
                progress=observer.jobs,
            ),
            stage.run.stop.is_set,
        ).run()
    except BaseException:
        if watched:
            watching.finish()
        raise
    finally:
        emulators = emulator_reports(stage.location)
        injected = striking.finish()
        for limit in limits:
            limit.close()
        for each in scratch_roots:
            shutil.rmtree(each, ignore_errors=True)
        shutil.rmtree(meeting, ignore_errors=True)
        if folder is not None:
            _clear(stage, folder)
        _drop_empty_logs(record.keep)
    series, totals = watching.finish()
    return _Outcome(applied, crew, totals, series, resident, injected, emulators)


def _clear(stage: Stage, folder: str) -> None:
    """Removes what jobs left on a storage that is reached by URL; a server that does not answer any more keeps it."""
    try:
        with stage.nodes.links_open():
            stage.target.clear(folder, stage.context)
    except HeadraceError as error:
        stage.run.observer.phase(f"{folder} stays on {stage.target.name}: {error.message}")


def _memory_limits(stage: Stage, run: RunOptions) -> list[MemoryLimit]:
    """One a node, when the run asks for a limit."""
    if run.memory_limit is None:
        return []
    made: list[MemoryLimit] = []
    try:
        for _ in range(run.nodes):
            made.append(MemoryLimit(stage.context.journal, run.memory_limit))
    except BaseException:
        for limit in made:
            limit.close()
        raise
    return made


def _packetiser(
    stage: Stage, run: RunOptions, files: list[str], events: list[int], spec: DatasetSpec | None
) -> Packetiser | None:
    if run.feed != "packets":
        return None
    if spec is None:
        raise HeadraceError("packets need a data set whose files and events are known")
    held = [stage.held[file] for file in files] if stage.held else None
    return Packetiser(
        list(zip(files, events, strict=True)),
        workers=run.slots * run.nodes,
        first_events=run.packet_events,
        workers_per_server=run.workers_per_server,
        cluster_events=cluster_events(spec),
        servers=[each.server for each in held] if held else None,
        local={each.url: str(each.local) for each in held or [] if each.local is not None},
    )


def _prepare_cache(wanted: str, files: list[Path], location: Location, observer: Any) -> int | None:
    """Brings the page cache into the wanted state. Returns the bytes of the files that are in it afterwards when cold was
    asked, None otherwise."""
    if wanted == "cold":
        observer.phase("dropping caches")
        stayed = page_cache.drop_files(files) if files else 1
        # A device of the study's own also loses its cached metadata. On a shared one that would make everybody else read
        # anew while jobs run, so all is dropped only where files alone could not be.
        if (stayed or location.own_device) and page_cache.can_drop_all():
            page_cache.drop_all()
        return page_cache.resident_bytes(files)
    if wanted == "warm":
        observer.phase("warming the cache")
        page_cache.warm(files)
    return None


def _probes(run: Any) -> dict[str, probe_room.Probe]:
    """Those that every trial has, as far as this machine can, and those that were asked for. Raises UnsupportedLevelError when one of
    these cannot be had."""
    asked = {"trace"} if run.trace else set[str]()
    made = {kind: part() for kind, part in probe_room.kinds().items() if part.default or kind in asked}
    lacking = {kind: problems for kind, probe in made.items() if (problems := probe.check())}
    if missing := [problems[0].what for kind, problems in lacking.items() if kind in asked]:
        raise UnsupportedLevelError("; ".join(missing))
    return {kind: probe for kind, probe in made.items() if kind not in lacking}


def _job_row(trial: Trial, job: JobEnd, location: Location, node: int) -> dict[str, Any]:
    row: dict[str, Any] = {
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
        row.update(
            events=output.events,
            bytes_uncompressed=output.bytes_uncompressed,
            bytes_asked=output.bytes_asked,
            bytes_unique=output.bytes_unique,
            bytes_written=output.bytes_written,
            read_calls=output.read_calls,
            phases=[
                {
                    "name": name,
                    "start_s": start - (job.absolute_start_s - job.start_s),
                    "end_s": end - (job.absolute_start_s - job.start_s),
                }
                for name, start, end in output.phases
            ],
            results=json.dumps(output.results),
        )
        if not row.get("bytes_served"):
            row["bytes_served"] = output.bytes_asked
    if not location.device_names or location.network:
        row["bytes_device"] = None  # the servers' devices move bytes for all jobs together
    return row


def _reasons(
    stage: Stage,
    resolved: Resolved,
    workload: Workload,
    outcome: _Outcome,
    values: dict[str, dict[str, Any]],
    full_links: list[str],
) -> list[validity.Reason]:
    crew, run = outcome.crew, resolved.run
    # Jobs that fail under a fault are what the trial is about.
    reasons = [] if any(fault["fired"] for fault in outcome.injected) else validity.failed_jobs(crew.jobs)
    reasons += validity.settings(
        [setting.as_dict() for setting in outcome.settings], stage.target.read_settings()
    )
    if not reasons:
        reasons += validity.cold(run, crew.jobs, values.get("block"), outcome.resident_bytes)
    reasons += validity.too_short(run, crew.last_done_s)
    reasons += validity.steady(run, crew.jobs, crew.last_done_s)
    reasons += validity.faults(outcome.injected)
    reasons += validity.lateness(with_service(outcome.emulators, values.get("block")))
    for totals in outcome.totals.values():
        reasons += [validity.reason(code, text) for code, text in totals.invalid]
    network, nodes = values.get("network"), stage.nodes
    at_home = {server.node.name for server in stage.location.servers.values()} & set(nodes.names)
    if stage.location.network and not at_home:  # a job beside its server may have its data from there
        reasons += validity.over_network(run, crew.jobs, network, nodes.names[: run.nodes])
    if (
        workload.bound_by_storage
        and not full_links  # whatever else the processors did, the link was the limit
        and run.cache != "warm"  # what is read from memory is bound by the CPU, as it was asked to be
        and "cpu" in values
        and (text := clients_saturated(values["cpu"])) is not None
    ):
        reasons.append(validity.reason("clients-saturated", text))
    ledgers = [job.ledger for job in crew.jobs if job.ledger is not None]
    if (
        values.get("block")
        and not stage.location.network
        and ledgers
        and all(ledger.bytes_device is not None for ledger in ledgers)
    ):
        found = competing_io(
            values["block"], sum(ledger.bytes_device for ledger in ledgers), crew.last_done_s
        )
        if found is not None:
            reasons.append(validity.reason(*found))
    return reasons


def _drop_empty_logs(keep: Path) -> None:
    for log in keep.glob("job-*.log"):
        if log.stat().st_size == 0:
            log.unlink()
