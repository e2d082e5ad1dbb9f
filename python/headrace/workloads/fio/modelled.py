"""One fio job as a profile in virtual time, with requests in fio's terms."""

from __future__ import annotations

from typing import Any

from headrace.workloads import ModelledJob

FILE = "file"
REQUEST_NS = 1_500
"""CPU time of fio itself per request, beyond the system call's.

Measured on one core of an AMD EPYC of 2023 (psync, 4 KiB, cached).
"""
START_NS = 100_000_000
"""CPU time of fio's start and end, measured on the same machine."""
JOB_MEMORY_BYTES = 30_000_000


def requests(**fields: Any) -> dict[str, Any]:
    """Return a `requests` step of the simulator (crates/simulator, `Step`) on the client's file."""
    return {"do": "requests", "file": FILE, "cpu_ns": REQUEST_NS, **fields}


def modelled_fio(steps: list[dict[str, Any]], *, file_size: int, new: bool = False) -> ModelledJob:
    """Return the whole job: start fio, open the file (`new`: create it), run the steps, close it.

    Each slot has its own file.
    """
    file: dict[str, Any] = {"name": FILE, "on": "target", "share": "new" if new else "each"}
    if not new:
        file |= {"bytes": file_size, "count": 0}
    return ModelledJob(
        steps=[
            {"do": "compute", "cpu_ns": START_NS},
            {"do": "create" if new else "open", "file": FILE},
            *steps,
            {"do": "close", "file": FILE},
        ],
        files=[file],
        memory_bytes=JOB_MEMORY_BYTES,
    )
