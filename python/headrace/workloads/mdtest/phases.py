"""mdtest's phases: their names, and the merge of what a trial's clients report.

Names are those of mdtest's own table (https://github.com/hpc/ior, src/mdtest.c). Each phase has two
rates:

- last done: all operations over the time until the last client finished (mdtest's rate, without
  barriers);
- stonewall: operations of all clients until the first one finished, over that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.workloads.fio.results import merge_histograms, percentile_ns

TITLES: dict[str, str] = {
    "directory_creation": "Directory creation",
    "directory_stat": "Directory stat",
    "directory_rename": "Directory rename",
    "directory_removal": "Directory removal",
    "file_creation": "File creation",
    "file_stat": "File stat",
    "file_read": "File read",
    "file_removal": "File removal",
    "tree_creation": "Tree creation",
    "tree_removal": "Tree removal",
}
"""Phase -> its title in mdtest's table, in the table's order."""

_PERCENTILES = ((50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99_9"))


def rate_name(phase: str) -> str:
    """Return the metric of a phase: `file_creations_per_s`."""
    return f"{phase}s_per_s"


def merge_phases(processes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the client processes' reports (crates/metadata, `Report`) into one result.

    `phases`: phase -> operations, seconds, both rates, slowest and fastest client, CPU share (of
    one core per client), percentiles and the histogram of latencies in ns. `rates`: metric ->
    operations per second until the last client finished.
    """
    order: list[str] = []
    for process in processes:
        order += [each["phase"] for each in process["phases"] if each["phase"] not in order]
    phases: dict[str, dict[str, Any]] = {}
    for name in order:
        parts = [
            each for process in processes for each in process["phases"] if each["phase"] == name
        ]
        merged = _merge(parts)
        if merged is not None:
            phases[name] = merged
    return {
        "clients": sum(int(process["clients"]) for process in processes),
        "phases": phases,
        "rates": {
            rate_name(name): phase["rate_ops_per_s"]
            for name, phase in phases.items()
            if not name.startswith("tree_")
        },
    }


def _merge(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    operations = sum(int(part["operations"]) for part in parts)
    if not operations:
        return None
    last_done_s = max(int(part["last_done_ns"]) for part in parts) / 1e9
    # The same in every process: the first client that finishes counts it once.
    stonewall_s = max(int(part["stonewall_ns"]) for part in parts) / 1e9
    stonewall_operations = max(int(part["stonewall_operations"]) for part in parts)
    histogram = merge_histograms(part["latency_histogram"] for part in parts)
    each = [count / (ns / 1e9) for part in parts for count, ns in part["each"] if ns]
    active = sum(len(part["each"]) for part in parts)
    mean = (
        sum(float(part["latency_ns_mean"]) * int(part["operations"]) for part in parts) / operations
    )
    return {
        "operations": operations,
        "last_done_s": last_done_s,
        "rate_ops_per_s": operations / last_done_s if last_done_s else None,
        "stonewall_s": stonewall_s,
        "stonewall_operations": stonewall_operations,
        "stonewall_rate_ops_per_s": stonewall_operations / stonewall_s if stonewall_s else None,
        "client_rate_ops_per_s_min": min(each, default=None),
        "client_rate_ops_per_s_max": max(each, default=None),
        "cpu_share": sum(int(part["cpu_ns"]) for part in parts) / 1e9 / (active * last_done_s)
        if last_done_s and active
        else None,
        "bytes_written": sum(int(part["written_bytes"]) for part in parts),
        "bytes_read": sum(int(part["read_bytes"]) for part in parts),
        "latency_ns_mean": mean,
        "latency_ns_max": max(int(part["latency_ns_max"]) for part in parts),
        **{
            f"latency_ns_{ending}": percentile_ns(histogram, share)
            for share, ending in _PERCENTILES
        },
        "latency_histogram": histogram,
    }
