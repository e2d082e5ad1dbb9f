"""Makes result sets of a storage whose truth is known, through the real store: for known answers,
golden files and scale.

The storage gives `device_bytes_per_s` to all jobs together; a job computes for `cpu_s` and reads
`job_bytes`; there are `cores`. Rates carry the effects of levels, noise of whole plots and of
trials, all on the logarithm.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from headrace.engine.measure import validity
from headrace.engine.measure.interference import lost_share
from headrace.plan import Plan, Trial
from headrace.records.energy import Energy
from headrace.records.interference import ForeignProgram, Interference
from headrace.records.nodes import NodeFacts
from headrace.records.store import ResultsHeader, ResultStore
from headrace.records.trial_record import (
    CpuTotals,
    DeviceTotals,
    Provenance,
    Reason,
    StudyReference,
    TargetReference,
    TrialRecord,
    Validity,
    WorkloadReference,
)
from headrace.study.model import RunOptions

ENVIRONMENT: dict[str, Any] = {
    "kernel": "6.1.0-18-amd64",
    "cpu": {"model": "Example CPU", "cores": 8},
    "memory_bytes": 16 * 2**30,
    "versions": {"headrace": "0.1.0", "uproot": "5.6.0"},
}


@dataclass(frozen=True)
class Truth:
    """What the storage is really like."""

    device_bytes_per_s: float = 100e6
    job_bytes: float = 100e6
    cpu_s: float = 4.0
    cores: int = 8
    job_events: int = 100_000
    request_bytes: int = 256 * 1024
    effects: dict[str, dict[Any, float]] = field(default_factory=dict[str, "dict[Any, float]"])
    """Factor -> level -> addition to the logarithm of the device's rate and of the jobs' speed."""
    whole_plot_sigma: float = 0.0
    trial_sigma: float = 0.0
    cache: str = "cold"
    loads_storage: bool = False
    clients_in_job: int = 0
    """0: the result says nothing of clients."""
    site_w: float | None = None
    """What the whole site draws while jobs run; None: not known."""
    hogs_cpus: float = 0.0
    """CPUs that a program `hogs` takes from the jobs all the time, which wait for them as long."""
    slow_node: tuple[int, str, float] | None = None
    """Number of a node, and the part of the ledger that adds this share to its jobs' time."""
    idle_node: int | None = None
    """Number of a node whose jobs process no event."""
    first_job_has_events: bool = False
    """Whether the events of all jobs are with the first, as those of a script on Dask."""
    node_sigma: float = 0.0
    """Of the logarithm of each node's time in each trial."""
    engine: Literal["measure", "simulate"] = "measure"
    provenance: Provenance = "measured"
    environment: dict[str, Any] = field(default_factory=lambda: ENVIRONMENT)


def plan_of(
    cells: list[dict[str, Any]], repeats: int, whole_plot: tuple[str, ...] = ("target",)
) -> Plan:
    """A plan in plain order: rounds of whole plots of equal levels in `whole_plot`."""
    trials: list[Trial] = []
    plots: dict[tuple[Any, ...], int] = {}
    for repeat in range(repeats):
        for cell in sorted(cells, key=lambda cell: str([cell.get(name) for name in whole_plot])):
            number = plots.setdefault(
                (repeat, *(str(cell.get(name)) for name in whole_plot)), len(plots)
            )
            trials.append(
                Trial(
                    len(trials), cell["target"], cell["workload"], cell, repeat, len(trials), number
                )
            )
    return Plan(tuple(trials), study_hash="0123456789abcdef", seed=1)


def write_results(
    root: Path,
    plan: Plan,
    truth: Truth,
    *,
    seed: int = 1,
    title: str = "Synthetic",
    study_text: str = "headrace = 1\n",
    broken: dict[int, str] | None = None,
    series: bool = True,
    created_utc: str = "2026-01-01T00:00:00+00:00",
) -> Path:
    """Records of every trial of the plan.

    `broken` names trials by index that are `invalid`, `failed` or `unsupported`.
    """
    header = ResultsHeader(plan.study_hash, title, truth.engine, str(root), created_utc, "0.1.0")
    store = ResultStore.create(root, study_text, header, plan, truth.environment)
    draws = random.Random(seed)
    plot_noise = {trial.whole_plot: draws.gauss() * truth.whole_plot_sigma for trial in plan.trials}
    for trial in plan.trials:
        fate = (broken or {}).get(trial.index, "done")
        noise = plot_noise[trial.whole_plot] + draws.gauss() * truth.trial_sigma
        with store.record(trial.id) as record:
            values, jobs = trial_record(trial, plan, truth, noise, fate, title)
            if fate in ("done", "invalid"):
                record.jobs(jobs)
                if series:
                    record.series("block", _block_series(values))
            record.commit(values)
    store.close()
    return root


def _change_nodes(
    jobs: list[dict[str, Any]], truth: Truth, nodes: int, draws: random.Random
) -> None:
    """Make the jobs of nodes as slow as the truth says."""
    factors = [math.exp(draws.gauss() * truth.node_sigma) for _ in range(nodes)]
    for job in jobs:
        if job["node"] == truth.idle_node or (truth.first_job_has_events and job["job"]):
            job["events"] = 0
        own_s = job["wall_s"]
        more_s = {"wait_block": own_s * (factors[job["node"]] - 1)}
        if truth.slow_node is not None and truth.slow_node[0] == job["node"]:
            _, part, share = truth.slow_node
            more_s[part] = more_s.get(part, 0.0) + own_s * share
        for part, seconds in more_s.items():
            job[f"{part}_s"] += seconds
            job["wall_s"] += seconds
            job["end_s"] += seconds


def trial_record(
    trial: Trial, plan: Plan, truth: Truth, noise: float, fate: str, title: str
) -> tuple[TrialRecord, list[dict[str, Any]]]:
    """The record and the rows of jobs.parquet of one trial."""
    slots = int(str(trial.levels.get("slots") or 1))
    nodes = int(str(trial.levels.get("nodes") or 1))
    running = slots * nodes
    speed = math.exp(
        noise
        + sum(levels.get(trial.levels.get(name), 0.0) for name, levels in truth.effects.items())
    )
    cpu_s = truth.cpu_s
    turns_s = cpu_s * max(1.0, running / truth.cores)
    device_s = (
        0.0 if truth.cache == "warm" else truth.job_bytes * running / truth.device_bytes_per_s
    )
    wall_s = max(turns_s, device_s) / speed
    wait_cpu_s = (turns_s - cpu_s) / speed
    on_cpu_s = cpu_s / speed
    device = DeviceTotals(
        bytes_read=int(truth.job_bytes * running) if device_s else 0,
        bytes_written=0,
        requests_read=int(truth.job_bytes * running / truth.request_bytes) if device_s else 0,
        requests_write=0,
        busy_s=min(device_s / speed, wall_s),
        read_latency_s=device_s / speed * running,
        write_latency_s=0.0,
    )
    jobs = [
        {
            "trial": trial.id,
            "job": job,
            "slot": job,
            "node": job // slots,
            "file": f"/data/file{job}.root",
            "exit": "ok",
            "start_s": 0.0,
            "end_s": wall_s,
            "wall_s": wall_s,
            "user_s": on_cpu_s * 0.9,
            "system_s": on_cpu_s * 0.1,
            "on_cpu_s": on_cpu_s,
            "wait_cpu_s": wait_cpu_s,
            "wait_block_s": wall_s - on_cpu_s - wait_cpu_s,
            "wait_network_s": 0.0,
            "other_s": 0.0,
            "residue_s": 0.0,
            "ledger_source": "synthetic",
            "events": truth.job_events,
            "bytes_uncompressed": int(truth.job_bytes * 3),
            "bytes_asked": int(truth.job_bytes),
            "bytes_served": int(truth.job_bytes),
            "bytes_device": int(truth.job_bytes) if device_s else 0,
            "bytes_unique": int(truth.job_bytes),
            "bytes_written": 0,
            "read_calls": int(truth.job_bytes / truth.request_bytes),
            "peak_rss_bytes": 200_000_000,
            "phases": [],
            "results": "{}",
        }
        for job in range(running)
    ]
    _change_nodes(jobs, truth, nodes, random.Random(f"{trial.index} {noise}"))
    ran = fate in ("done", "invalid")
    interference = _interference(truth, wall_s, on_cpu_s * running, running)
    disturbed, warnings = validity.foreign_load(RunOptions.model_validate({}), interference)
    not_cold = Reason(code="cache-not-cold", text="the page cache was not cold")
    record = TrialRecord(
        id=trial.id,
        index=trial.index,
        cell=trial.cell,
        repeat=trial.repeat,
        seed=trial.seed,
        whole_plot=trial.whole_plot,
        study=StudyReference(title=title, hash=plan.study_hash),
        target=TargetReference(name=trial.target, kind="path", options={"path": "/data"}),
        workload=WorkloadReference(
            name=trial.workload, kind="analysis", options={}, loads_storage=truth.loads_storage
        ),
        levels=trial.levels,
        run={
            "slots": slots,
            "nodes": nodes,
            "load": "batch",
            "feed": "files",
            "cache": truth.cache,
        },
        engine=truth.engine,
        environment=truth.environment,
        provenance=truth.provenance,
        status="done" if ran else "unsupported" if fate == "unsupported" else "failed",
        cause=None if ran else f"made {fate} on purpose",
        validity=Validity(
            valid=fate == "done" and not disturbed,
            reasons=(not_cold,) if fate == "invalid" else tuple(disturbed),
            warnings=tuple(warnings),
        ),
        started_utc="2026-01-01T00:00:00.000+00:00",
    )
    if not ran:
        return record, jobs
    results = (
        {"clients": running * truth.clients_in_job} if truth.clients_in_job else {"peak_gev": 125.0}
    )
    record = msgspec.structs.replace(
        record,
        duration_s=wall_s + 2,
        stonewall_s=wall_s,
        last_done_s=wall_s,
        location={"filesystem": trial.levels.get("filesystem") or "ext4", "devices": ["vdb"]},
        device=device,
        cpu=CpuTotals(cores=truth.cores, busy_s=on_cpu_s * running, idle_s=0.0, iowait_s=0.0),
        interference=interference,
        energy=Energy(None if truth.site_w is None else truth.site_w * wall_s),
        results=results,
        clock={"release_monotonic_s": 0.0},
        node_facts=tuple(_node_facts(number, truth) for number in range(nodes)),
    )
    return record, jobs


def _node_facts(number: int, truth: Truth) -> NodeFacts:
    slow = truth.slow_node is not None and truth.slow_node[:2] == (number, "wait_cpu")
    return NodeFacts(
        number=number,
        name=f"node-{number}",
        host=f"wn{number:02}",
        foreign_cpus=1.5 if slow else 0.01,
    )


def _interference(truth: Truth, wall_s: float, jobs_s: float, running: int) -> Interference:
    capacity_s, foreign_s = truth.cores * wall_s, truth.hogs_cpus * wall_s
    return Interference(
        cpus=float(truth.cores),
        capacity_s=capacity_s,
        jobs_s=jobs_s,
        own_s=0.0,
        kernel_s=0.0,
        foreign_s=foreign_s,
        steal_s=0.0,
        idle_s=max(0.0, capacity_s - jobs_s - foreign_s),
        waited_s=foreign_s,
        throttled_s=0.0,
        wall_s=running * wall_s,
        lost_share=lost_share(
            wall_s=running * wall_s,
            on_cpu_s=jobs_s,
            waited_s=foreign_s,
            foreign_s=foreign_s,
            steal_s=0.0,
            capacity_s=capacity_s,
        ),
        pressure=None,
        programs=(ForeignProgram("hogs", 6, foreign_s),) if foreign_s else (),
    )


def failed_trial(name: str) -> TrialRecord:
    """The least that a record holds: a trial that did not run."""
    return TrialRecord(
        id=name,
        index=0,
        cell="a",
        repeat=0,
        seed=0,
        whole_plot=0,
        study=StudyReference(title="a study", hash="abc"),
        target=TargetReference(name="t", kind="path"),
        workload=WorkloadReference(name="w", kind="scan"),
        levels={},
        run={},
        engine="measure",
        environment={},
        provenance="measured",
        status="failed",
        cause="made to fail",
        validity=Validity(valid=False),
    )


def _block_series(record: TrialRecord) -> list[dict[str, Any]]:
    assert record.device is not None and record.last_done_s is not None
    seconds = max(1, int(record.last_done_s or 0))
    rate = record.device.bytes_read / record.last_done_s
    return [
        {
            "time_s": float(second),
            "device": "vdb",
            "read_bytes_per_s": rate,
            "write_bytes_per_s": 0.0,
            "read_iops": record.device.requests_read / record.last_done_s,
            "write_iops": 0.0,
            "in_flight": 2.0,
            "read_latency_ms": 5.0,
            "write_latency_ms": 0.0,
            "busy": record.device.busy_s / record.last_done_s,
        }
        for second in range(seconds)
    ]
