"""A look at jobs as JSON. docs/watch.md lists the fields."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime

import msgspec

from headrace.watching.clients import ClientSample
from headrace.watching.own_groups import GroupUse
from headrace.watching.used import JobSample, Used
from headrace.watching.watcher import NodeSample


def line(sample: NodeSample) -> str:
    """Return one look as one line."""
    wall = datetime.fromtimestamp(time.time() - time.monotonic() + sample.time_s, UTC)
    # Ten times as fast as json: a look at 100 jobs has thousands of numbers.
    return msgspec.json.encode(
        {
            "time": wall.isoformat(timespec="milliseconds"),
            "interval_s": round(sample.interval_s, 6),
            "cost_cpu_s": round(sample.cost_s, 6),
            "foreign_cpus": sample.foreign_cpus,
            "foreign_io": {disk: moved._asdict() for disk, moved in sample.foreign_io.items()},
            "notes": sample.notes,
            "jobs": [_job(job) for job in sample.by_loss],
            "clients": [_client(client) for client in sample.clients],
        }
    ).decode()


def _client(client: ClientSample) -> dict[str, object]:
    return {
        "mount": client.mount,
        "kind": client.kind,
        "waiting": client.waiting,
        "interval": asdict(client.last),
        "total": asdict(client.total),
    }


def _job(job: JobSample) -> dict[str, object]:
    return {
        "key": job.key,
        "name": job.name,
        "processes": job.processes,
        "threads": job.threads,
        "ended": job.ended,
        "sources": job.sources,
        "lacks": job.lacks,
        "interval": _used(job.last),
        "total": _used(job.total),
        "group": None
        if job.group_last is None or job.group_total is None
        else {"interval": _group(job.group_last), "total": _group(job.group_total)},
    }


def _group(use: GroupUse) -> dict[str, object]:
    return {
        "io": {device: moved._asdict() for device, moved in use.io.items()},
        "pressure": {resource: stall._asdict() for resource, stall in use.stalls.items()},
    }


def _used(used: Used) -> dict[str, object]:
    ledger, moved = used.ledger, used.moved
    on_cpu_s, wait_cpu_s, block_s, network_s, memory_s, other_s = ledger.parts_s
    least_s, most_s = ledger.waits_bounds_s
    read, written = moved.read, moved.written
    return {
        "wall_s": ledger.wall_s,
        "cpu_s": used.cpu_s,
        "user_s": used.user_s,
        "system_s": used.system_s,
        "on_cpu_s": on_cpu_s,
        "wait_cpu_s": wait_cpu_s,
        "wait_block_s": block_s,
        "wait_network_s": network_s,
        "wait_memory_s": memory_s,
        "other_s": other_s,
        "uncertainty_s": ledger.uncertainty_s,
        "waits": [
            {"kind": wait.kind, "place": wait.place, "s": seconds}
            for wait, seconds in sorted(ledger.waits_s.items(), key=lambda each: -each[1])
        ]
        if ledger.waits_s
        else [],
        "waits_least_s": least_s,
        "waits_most_s": most_s,
        "idle": ledger.idle_s,
        "efficiency": used.cpu_s / ledger.wall_s if ledger.wall_s else None,
        "samples": used.samples,
        "bytes_requested": read + written,
        "bytes_read": read,
        "bytes_served": moved.served,
        "bytes_written": written,
        "bytes_storage_read": moved.storage_read,
        "bytes_storage_written": moved.storage_written,
        "read_calls": moved.read_calls,
    }
