"""A chain of tasks whose files stay in the page cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comparisons.root_reads import simulated
from rows import Comparison, Kind, Row, relative

FILE_BYTES = 20_000_000_000
WORK_S = 28.0
FIRST_TOUCH_BYTES_PER_S = 4096 / 575e-9
MEASURED: tuple[tuple[str, float, Kind], ...] = (
    ("read 1", 39.2, "predicted"),
    ("write 1", 6.5, "predicted"),
    ("read 2", 6.0, "assumption"),
    ("write 2", 6.5, "predicted"),
    ("read 3", 6.0, "assumption"),
    ("write 3", 6.5, "predicted"),
)
"""Seconds, in the order of the operations."""
RATES = {"disk read": 510e6, "memory read": 6860e6, "memory write": 2764e6}
BLOCK = 1_000_000


def _steps() -> list[list[Any]]:
    """Return the steps of each operation; a task releases its memory and starts the next one."""
    found: list[list[Any]] = []
    for task in range(3):
        blocks = {"count": FILE_BYTES // BLOCK, "length_bytes": BLOCK}
        begin: list[Any] = [{"do": "memory", "bytes": 0}] if task else []
        read = {"do": "pattern", "file": f"file{task}", **blocks, "hold": True}
        write = {"do": "pattern", "file": f"file{task + 1}", "op": "write", **blocks}
        work = {"do": "compute", "cpu_ns": round(WORK_S * 1e9)}
        found += [[*begin, read], [work, {"do": "create", "file": f"file{task + 1}"}, write]]
    return found


def scenario(operations: int) -> Any:
    """Return the chain up to its first `operations` reads and writes."""
    steps = [step for each in _steps()[:operations] for step in each]
    new = [
        {"name": f"file{number}", "on": {"volume": "data"}, "share": "new"} for number in (1, 2, 3)
    ]
    return {
        "name": "page-cache",
        "seed": 1,
        "nodes": [
            {
                "name": "node",
                "cores": 32,
                "memory_bytes": 250 << 30,
                "copy_bytes_per_s": RATES["memory read"],
                "write_copy_bytes_per_s": RATES["memory write"],
                "first_touch_bytes_per_s": FIRST_TOUCH_BYTES_PER_S,
                "volumes": [
                    {
                        "name": "data",
                        "ideal": {
                            "capacity_bytes": 450_000_000_000,
                            "read_ns": 0,
                            "write_ns": 0,
                            "read_bytes_per_s": RATES["disk read"],
                            "write_bytes_per_s": 420e6,
                            "idle_w": 0.0,
                            "active_w": 0.0,
                        },
                        "filesystem": {"kind": "xfs"},
                        "read_ahead_bytes": 4 << 20,
                        "max_request_bytes": 1_310_720,
                    }
                ],
            }
        ],
        "files": [{"name": "file0", "on": {"volume": "data"}, "bytes": FILE_BYTES}, *new],
        "profiles": [{"name": "job", "steps": steps}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}},
    }


def rows(_data: Path | None) -> list[Row]:
    """Return one row per read and write of the chain."""
    outcomes = simulated([scenario(count) for count in range(1, len(MEASURED) + 1)])
    ends = [outcome["end_ns"] / 1e9 for outcome in outcomes]
    found: list[Row] = []
    for number, (name, measured, kind) in enumerate(MEASURED):
        took = ends[number] - (ends[number - 1] if number else 0.0)
        took -= WORK_S if name.startswith("write") else 0.0
        rate = "memory write" if name.startswith("write") else "memory read"
        null = FILE_BYTES / RATES["disk read" if number == 0 else rate]
        found.append(relative(f"{name}, 20 GB", "s", took, measured, null, kind))
    return found


COMPARISON = Comparison(
    title="Files in the page cache",
    model="page cache and memory of jobs",
    source="three tasks in a chain on a machine with 250 GiB of memory: each reads the file that "
    "the one before wrote, holds it in memory, computes for 28 s, and writes as much",
    null="bytes at the stated rate of the disk (first read) or of memory",
    rows=rows,
    notes=(
        "Rates are those stated with the measurement: disk 510 MB/s read and 420 MB/s written, "
        "memory 6860 MB/s read and 2764 MB/s written.",
        "A task reads into memory that it touches for the first time. The cost of that, 575 ns "
        "per 4 KiB, is a page fault of another machine (least of 100, Linux 6.6, a Core i7 of the "
        "11th generation), chosen when the reads were known: an assumption. Huge pages at "
        "11.8 GB/s (AMD Milan) give 4.6 s, faults of 1013 ns (the median there) 7.9 s.",
    ),
)
