"""Engine `simulate`: convert an outcome of the Rust simulator to a record (docs/records.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from headrace.engine import identity
from headrace.engine.inventory import NODE
from headrace.engine.simulate.faults import fired
from headrace.engine.simulate.outcome import (
    SimulatedDrive,
    SimulatedHost,
    SimulatedJob,
    SimulatedLatency,
    SimulatedOutcome,
)
from headrace.engine.site_energy import completed, switch_power_w
from headrace.plan.trial import Trial
from headrace.records.energy import Energy, PartEnergy
from headrace.records.inventory import Inventory
from headrace.records.nodes import NodeFacts
from headrace.records.rows import LOAD_OVER, BlockRow, JobRow, PhaseRow
from headrace.records.trial_record import (
    NOT_MODELLED,
    CpuTotals,
    DeviceTotals,
    DriveTotals,
    FaultRecord,
    JsonObject,
    PacketsRecord,
    PacketWorker,
    Reason,
    TrialRecord,
    Validity,
)
from headrace.study.model import Study
from headrace.study.resolve import Resolved

LEDGER_SOURCE = "simulated"


def job_rows(trial: Trial, outcome: SimulatedOutcome, local: bool) -> list[JobRow]:
    """Return the rows of jobs.parquet.

    `local`: the target is a volume of the node, so device bytes belong to the job.
    """
    rows: list[JobRow] = []
    for job in outcome["jobs"]:
        ledger, amounts = job["ledger"], job["bytes"]
        wall_ns = job["end_ns"] - job["start_ns"]
        rows.append(
            {
                "trial": trial.id,
                "job": job["number"],
                "slot": job["slot"],
                "node": _number(job["host"]),
                "exit": "killed" if job["unfinished"] else "failed" if job["failed"] else "ok",
                "cause": _cause(job),
                "start_s": job["start_ns"] * 1e-9,
                "end_s": job["end_ns"] * 1e-9,
                "wall_s": wall_ns * 1e-9,
                "user_s": ledger["on_cpu_ns"] * 1e-9,
                "system_s": 0.0,
                "on_cpu_s": ledger["on_cpu_ns"] * 1e-9,
                "wait_cpu_s": ledger["wait_cpu_ns"] * 1e-9,
                "wait_block_s": ledger["wait_block_ns"] * 1e-9,
                "wait_network_s": ledger["wait_network_ns"] * 1e-9,
                "other_s": ledger["other_ns"] * 1e-9,
                "residue_s": 0.0,
                "ledger_source": LEDGER_SOURCE,
                "events": job["events"],
                "bytes_uncompressed": amounts["uncompressed_bytes"],
                "bytes_asked": amounts["asked_bytes"],
                # The simulator counts what a server sent. What was in the node's memory is served
                # too, as read calls of a measured job count it.
                "bytes_served": max(amounts["served_bytes"], amounts["asked_bytes"]),
                "bytes_device": amounts["device_bytes"] if local else None,
                "bytes_written": amounts["written_bytes"],
                "read_calls": job["reads"],
                "open_s": job["phases"]["open_ns"] * 1e-9,
                "phases": _phases(job),
                "results": "{}",
            }
        )  # fmt: skip
    return rows


def _cause(job: SimulatedJob) -> str | None:
    if job["unfinished"]:
        return LOAD_OVER
    return "a read or write of it failed" if job["failed"] else None


def _number(host: str) -> int:
    """Return the index of a host name: `node[2]` -> 2."""
    _, _, index = host.partition("[")
    return int(index.removesuffix("]")) if index else 0


def _phases(job: SimulatedJob) -> list[PhaseRow]:
    """Return the phases, one after another: the simulator keeps only the time in each."""
    found: list[PhaseRow] = []
    at_s = job["start_ns"] * 1e-9
    phases = job["phases"]
    times = (
        ("stage-in", phases["stage_in_ns"]),
        ("read", phases["read_ns"]),
        ("write", phases["write_ns"]),
    )
    for name, time_ns in times:
        if time_ns:
            found.append({"name": name, "start_s": at_s, "end_s": at_s + time_ns * 1e-9})
            at_s += time_ns * 1e-9
    return found


def block_series(outcome: SimulatedOutcome) -> list[BlockRow]:
    """Return the rows of series/block.parquet.

    There are millions for a large cluster, of which most are of drives without requests: rows share
    the objects of equal times, names and zeros. The last interval ends with the run, as the last
    sample of a measured trial does.
    """
    rows: list[BlockRow] = []
    ends_s: dict[int, list[float]] = {}
    for drive in outcome["drives"]:
        series = drive["series"]
        interval_ns = series["interval_ns"]
        times_s = ends_s.setdefault(interval_ns, [])
        while len(times_s) < len(series["read_bytes"]):
            end_ns = min((len(times_s) + 1) * interval_ns, outcome["end_ns"])
            times_s.append(end_ns * 1e-9)
        device = f"{drive['host']}/{drive['volume']}"
        for index, read_bytes in enumerate(series["read_bytes"]):
            span_s = min(interval_ns, outcome["end_ns"] - index * interval_ns) * 1e-9
            written_bytes = series["written_bytes"][index]
            reads, writes = series["reads"][index], series["writes"][index]
            read_ns, write_ns = series["read_latency_ns"][index], series["write_latency_ns"][index]
            rows.append(
                {
                    "time_s": times_s[index],
                    "device": device,
                    "read_bytes_per_s": read_bytes / span_s if read_bytes else 0.0,
                    "write_bytes_per_s": written_bytes / span_s if written_bytes else 0.0,
                    "read_iops": reads / span_s if reads else 0.0,
                    "write_iops": writes / span_s if writes else 0.0,
                    "in_flight": float(series["inside"][index]) or 0.0,
                    "read_latency_ms": read_ns * 1e-6 if read_ns else 0.0,
                    "write_latency_ms": write_ns * 1e-6 if write_ns else 0.0,
                    "busy": min(1.0, float(series["busy"][index])) or 0.0,
                }
            )
    return rows


@dataclass(frozen=True)
class SimulatedEnding:
    """How the jobs of a simulated trial ended."""

    ends_s: list[float]
    """Of the jobs that succeeded."""
    last_done_s: float
    injected: list[FaultRecord]
    reasons: list[Reason]
    """Why the trial is invalid."""

    @property
    def valid(self) -> bool:
        """Whether jobs succeeded, and nothing makes the trial invalid."""
        return bool(self.ends_s) and not self.reasons


def ending_of(
    resolved: Resolved, outcome: SimulatedOutcome, rows: Sequence[JobRow]
) -> SimulatedEnding:
    """Return how a trial ended; `rows` are its jobs."""
    end_s = outcome["end_ns"] * 1e-9
    ends_s = [row["end_s"] for row in rows if row["exit"] == "ok"]
    cut_off = [row["end_s"] for row in rows if row["cause"] == LOAD_OVER] if ends_s else []
    injected = fired(resolved, outcome, end_s)
    return SimulatedEnding(
        ends_s,
        max([*ends_s, *cut_off], default=end_s),
        injected,
        _reasons(outcome, injected),
    )


def record_of(
    study: Study,
    trial: Trial,
    resolved: Resolved,
    outcome: SimulatedOutcome,
    rows: list[JobRow],
    environment: JsonObject,
    inventory_of: Callable[[int], Inventory],
    holding: Collection[tuple[str, str]],
    not_modelled: Sequence[str] = (),
) -> TrialRecord:
    """Return the record of a simulated trial.

    `rows` are its jobs; `inventory_of` returns the hardware with a number of nodes; `holding` are
    host and volume of the target's devices; `not_modelled` names what the model leaves out.
    """
    warnings = tuple(Reason(code=NOT_MODELLED, text=text) for text in not_modelled)
    end_s = outcome["end_ns"] * 1e-9
    ending = ending_of(resolved, outcome, rows)
    ends = ending.ends_s
    nodes = [host for host in outcome["hosts"] if host["slots"] > 0]
    which = identity(study, trial, resolved)
    which["run"]["nodes"] = len(nodes)
    drives = tuple(_drive(drive) for drive in outcome["drives"])
    own = [drive for drive in drives if (drive.host.partition("[")[0], drive.volume) in holding]
    inventory = inventory_of(len(nodes))
    return TrialRecord(
        **which,
        engine="simulate",
        environment=environment,
        provenance="simulated",
        status="done" if ends else "failed",
        cause=None if ends else (outcome["broken_off"] or "no job ended"),
        duration_s=end_s,
        stonewall_s=min(ends, default=0.0),
        last_done_s=ending.last_done_s,
        location={"devices": [f"{drive.host}/{drive.volume}" for drive in own]},
        device=_device(own),
        drives=drives,
        cpu=cpu_of(nodes, end_s),
        energy=completed(_energy(outcome, drives, resolved), resolved.site, inventory, end_s),
        inventory=inventory,
        node_facts=tuple(_facts(node) for node in nodes),
        probes={
            "network": _network(nodes) if outcome["services"] else {},
            "services": outcome["services"],
            "simulator": outcome["counters"],
        },
        validity=Validity(valid=ending.valid, reasons=tuple(ending.reasons), warnings=warnings),
        faults=tuple(ending.injected),
        packets=_packets(outcome),
    )


def _packets(outcome: SimulatedOutcome) -> PacketsRecord | None:
    """Return what each worker was given, if a master like that of real runs handed it out."""
    if "packets" not in outcome:
        return None
    given = outcome["packets"]
    hosts = {job["number"]: job["host"] for job in outcome["jobs"]}
    workers = tuple(
        PacketWorker(
            job=worker["job"],
            node=f"node-{_number(hosts[worker['job']])}",
            handed_out=worker["handed_out"],
            events=worker["events"],
            events_local=worker["events_local"],
            busy_s=worker["busy_ns"] * 1e-9,
        )
        for worker in sorted(given["workers"], key=lambda worker: worker["job"])
    )
    return PacketsRecord(
        handed_out=sum(worker.handed_out for worker in workers),
        handed_out_again=given["handed_out_again"],
        given_up=(),
        events_not_processed=given["events_not_processed"],
        events=sum(worker.events for worker in workers),
        events_local=sum(worker.events_local for worker in workers) if given["placed"] else None,
        workers=workers,
    )


def _energy(outcome: SimulatedOutcome, drives: Sequence[DriveTotals], resolved: Resolved) -> Energy:
    """Return the modelled energy, whole and by part."""
    parts = [
        PartEnergy(
            "node" if host["name"].partition("[")[0] == NODE else "server",
            host["name"],
            host["machine_j"],
        )
        for host in outcome["hosts"]
    ]
    parts += [
        PartEnergy("drive", f"{drive.host}/{drive.volume}", drive.energy_j) for drive in drives
    ]
    energy = outcome["energy"]
    unknown = bool(outcome["services"]) and switch_power_w(resolved.site) is None
    if energy["switch_j"]:
        parts.append(PartEnergy("switch", "switch", energy["switch_j"]))
    return Energy(**energy, parts=tuple(parts), not_covered=("switch",) if unknown else ())


def failed_record(
    study: Study, trial: Trial, resolved: Resolved, cause: str, environment: JsonObject
) -> TrialRecord:
    """Return the record of a trial that could not be simulated."""
    return TrialRecord(
        **identity(study, trial, resolved),
        engine="simulate",
        environment=environment,
        provenance="simulated",
        status="failed",
        cause=cause,
        last_done_s=0.0,
        validity=Validity(valid=False, reasons=(Reason(code="failed", text=cause),)),
    )


def cpu_of(nodes: list[SimulatedHost], end_s: float) -> CpuTotals:
    """Return the CPU totals of nodes up to `end_s`."""
    busy_s = sum(host["busy_core_ns"] for host in nodes) * 1e-9
    cores = sum(host["cores"] for host in nodes)
    return CpuTotals(cores=cores, busy_s=busy_s, idle_s=cores * end_s - busy_s, iowait_s=0.0)


def _facts(node: SimulatedHost) -> NodeFacts:
    number = _number(node["name"])
    return NodeFacts(number=number, name=f"node-{number}", cpus=node["cores"])


def _network(nodes: list[SimulatedHost]) -> dict[str, dict[str, int]]:
    """Return the bytes sent and received by the nodes that run jobs.

    Nodes have the same names as in a measured study.
    """
    return {
        f"node-{_number(node['name'])}": {
            "bytes_received": node["received_bytes"],
            "bytes_sent": node["sent_bytes"],
        }
        for node in nodes
    }


def _drive(drive: SimulatedDrive) -> DriveTotals:
    return DriveTotals(
        host=drive["host"],
        volume=drive["volume"],
        bytes_read=drive["read_bytes"],
        bytes_written=drive["written_bytes"],
        requests_read=drive["reads"],
        requests_write=drive["writes"],
        busy_s=drive["busy_ns"] * 1e-9,
        read_latency_s=_latency_s(drive["read_latency"]),
        write_latency_s=_latency_s(drive["write_latency"]),
        energy_j=drive["energy_j"],
        flash_host_bytes=drive["flash_host_bytes"],
        flash_written_bytes=drive["flash_written_bytes"],
    )


def _device(drives: Sequence[DriveTotals]) -> DeviceTotals:
    return DeviceTotals(
        bytes_read=sum(drive.bytes_read for drive in drives),
        bytes_written=sum(drive.bytes_written for drive in drives),
        requests_read=sum(drive.requests_read for drive in drives),
        requests_write=sum(drive.requests_write for drive in drives),
        busy_s=sum(drive.busy_s for drive in drives),
        read_latency_s=sum(drive.read_latency_s for drive in drives),
        write_latency_s=sum(drive.write_latency_s for drive in drives),
        flash_host_bytes=sum(drive.flash_host_bytes for drive in drives),
        flash_written_bytes=sum(drive.flash_written_bytes for drive in drives),
    )


def _latency_s(latency: SimulatedLatency) -> float:
    """Return the sum of the requests' latencies."""
    return latency["mean_ns"] * latency["requests"] * 1e-9


def _reasons(outcome: SimulatedOutcome, injected: Sequence[FaultRecord]) -> list[Reason]:
    """Return why a simulated trial is invalid.

    Rules against clock noise, such as `[run] shortest`, do not apply: virtual time has no noise.
    """
    found: list[Reason] = []

    def add(code: str, text: str) -> None:
        found.append(Reason(code=code, text=text))

    if outcome["broken_off"]:
        add("broken-off", f"the simulation was broken off: {outcome['broken_off']}")
    if outcome["counters"]["out_of_space"]:
        add("out-of-space", "a modelled volume had no room for the data")
    failed = sum(1 for job in outcome["jobs"] if job["errors"])
    # Under a fault, failing jobs are the subject of the trial.
    if failed and not any(fault.fired for fault in injected):
        add("failed-jobs", f"{failed} of {len(outcome['jobs'])} jobs had failed reads or writes")
    for fault in injected:
        if not fault.fired:
            add("fault-did-not-fire", f"{fault.what} at {fault.at_s:g} s never took effect")
    return found
