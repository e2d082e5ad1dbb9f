"""Engine `simulate`: an outcome of the Rust simulator -> the rows and values of a record (docs/records.md). Pure, no clock."""

from __future__ import annotations

from typing import Any

from headrace.engine import Run, base_record, parts_of
from headrace.engine.simulate.faults import fired
from headrace.plan.trial import Trial
from headrace.study.resolve import Resolved

LEDGER_SOURCE = "simulated"


def job_rows(trial: Trial, outcome: dict[str, Any], local: bool) -> list[dict[str, Any]]:
    """Rows of jobs.parquet. `local`: the target is a volume of the node, so that bytes of the device are the job's own."""
    rows: list[dict[str, Any]] = []
    for job in outcome["jobs"]:
        ledger, amounts, phases = job["ledger"], job["bytes"], job["phases"]
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
                **{f"{name}_s": ledger[f"{name}_ns"] * 1e-9 for name in ("on_cpu", "wait_cpu", "wait_block", "wait_network", "other")},
                "residue_s": 0.0,
                "ledger_source": LEDGER_SOURCE,
                "events": job["events"],
                "bytes_uncompressed": amounts["uncompressed_bytes"],
                "bytes_asked": amounts["asked_bytes"],
                "bytes_served": amounts["served_bytes"],
                "bytes_device": amounts["device_bytes"] if local else None,
                "bytes_written": amounts["written_bytes"],
                "read_calls": job["reads"],
                "phases": _phases(job, phases),
                "results": "{}",
            }
        )  # fmt: skip
    return rows


def _cause(job: dict[str, Any]) -> str | None:
    if job["unfinished"]:
        return "the sustained load was over"
    return "a read or write of it failed" if job["failed"] else None


def _number(host: str) -> int:
    """`node[2]` -> 2."""
    _, _, index = host.partition("[")
    return int(index.removesuffix("]")) if index else 0


def _phases(job: dict[str, Any], phases: dict[str, int]) -> list[dict[str, Any]]:
    """Time in each phase; the simulator keeps sums, so they are laid one behind the other."""
    found: list[dict[str, Any]] = []
    at_s = job["start_ns"] * 1e-9
    for name, field in (("stage-in", "stage_in_ns"), ("read", "read_ns"), ("write", "write_ns")):
        if phases[field]:
            found.append({"name": name, "start_s": at_s, "end_s": at_s + phases[field] * 1e-9})
            at_s += phases[field] * 1e-9
    return found


def block_series(outcome: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of series/block.parquet."""
    rows: list[dict[str, Any]] = []
    for drive in outcome["drives"]:
        series = drive["series"]
        interval_s = series["interval_ns"] * 1e-9
        for index in range(len(series["read_bytes"])):
            reads, writes = series["reads"][index], series["writes"][index]
            rows.append(
                {
                    "time_s": (index + 1) * interval_s,
                    "device": f"{drive['host']}/{drive['volume']}",
                    "read_bytes_per_s": series["read_bytes"][index] / interval_s,
                    "write_bytes_per_s": series["written_bytes"][index] / interval_s,
                    "read_iops": reads / interval_s,
                    "write_iops": writes / interval_s,
                    "in_flight": float(series["inside"][index]),
                    "read_latency_ms": series["latency_ns"][index] * 1e-6 if reads else 0.0,
                    "write_latency_ms": series["latency_ns"][index] * 1e-6 if writes else 0.0,
                    "busy": float(series["busy"][index]),
                }
            )
    return rows


def record_values(
    run: Run,
    trial: Trial,
    resolved: Resolved,
    outcome: dict[str, Any],
    rows: list[dict[str, Any]],
    environment: dict[str, Any],
) -> dict[str, Any]:
    """trial.json of a simulated trial."""
    injected = fired(resolved, outcome, outcome["end_ns"] * 1e-9)
    reasons = _reasons(resolved, outcome, rows, injected)
    ends = [row["end_s"] for row in rows if row["exit"] == "ok"]
    nodes = [host for host in outcome["hosts"] if host["slots"] > 0]
    end_s = outcome["end_ns"] * 1e-9
    busy_s = sum(host["busy_core_ns"] for host in nodes) * 1e-9
    cores = sum(host["cores"] for host in nodes)
    return {
        **base_record(run, trial, "simulate", environment),
        "provenance": "simulated",
        "status": "done" if ends else "failed",
        "cause": None if ends else (outcome["broken_off"] or "no job ended"),
        **parts_of(trial, resolved),
        "run": resolved.run.model_dump(mode="json"),
        "started_utc": None,
        "duration_s": end_s,
        "stonewall_s": min(ends, default=0.0),
        "last_done_s": max(ends, default=end_s),
        "totals": {
            name: sum(int(row.get(name) or 0) for row in rows)
            for name in (
                "events",
                "bytes_uncompressed",
                "bytes_asked",
                "bytes_served",
                "bytes_device",
                "bytes_written",
            )
        },
        "settings": [],
        "settings_after": {},
        "location": {"devices": [f"{drive['host']}/{drive['volume']}" for drive in outcome["drives"]]},
        "device": _device(outcome),
        "cpu": {"cores": cores, "busy_s": busy_s, "idle_s": cores * end_s - busy_s, "iowait_s": 0.0},
        "probes": {
            "energy": outcome["energy"],
            "services": outcome["services"],
            "simulator": outcome["counters"],
        },
        "results": {},
        "validity": {"valid": bool(ends) and not reasons, "reasons": reasons},
        "faults": injected,
        "clock": {},
    }


def _device(outcome: dict[str, Any]) -> dict[str, Any]:
    drives = outcome["drives"]
    return {
        "bytes_read": sum(drive["read_bytes"] for drive in drives),
        "bytes_written": sum(drive["written_bytes"] for drive in drives),
        "requests_read": sum(drive["reads"] for drive in drives),
        "requests_write": sum(drive["writes"] for drive in drives),
        "busy_s": sum(drive["busy_ns"] for drive in drives) * 1e-9,
        "read_latency_s": sum(drive["latency_ns_mean"] * drive["reads"] for drive in drives) * 1e-9,
        "write_latency_s": sum(drive["latency_ns_mean"] * drive["writes"] for drive in drives) * 1e-9,
    }


def _reasons(
    resolved: Resolved, outcome: dict[str, Any], rows: list[dict[str, Any]], injected: list[dict[str, Any]]
) -> list[dict[str, str]]:
    """Why a simulated trial cannot be trusted."""
    found: list[dict[str, str]] = []

    def add(code: str, text: str) -> None:
        found.append({"code": code, "text": text})

    if outcome["broken_off"]:
        add("broken-off", f"the simulation was broken off: {outcome['broken_off']}")
    if outcome["counters"]["out_of_space"]:
        add("out-of-space", "a modelled volume had no room for the data")
    failed = sum(1 for job in outcome["jobs"] if job["errors"])
    # Jobs that fail under a fault are what the trial is about.
    if failed and not any(fault["fired"] for fault in injected):
        add("failed-jobs", f"{failed} of {len(outcome['jobs'])} jobs had failed reads or writes")
    for fault in injected:
        if not fault["fired"]:
            add("fault-did-not-fire", f"{fault['what']} at {fault['at_s']:g} s never took effect")
    last_s = max((row["end_s"] for row in rows if row["exit"] == "ok"), default=0.0)
    if rows and 0 < last_s < resolved.run.shortest:
        add("too-short", f"the trial took {last_s:.3g} s, less than {resolved.run.shortest:g} s")
    return found
