"""One fio job as a profile in virtual time, with requests in fio's terms."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.scenario import Access, FileSet, Requests, Step
from headrace.workloads import ModelledJob

FILE = "file"
REQUEST_NS = 1_500
"""CPU time of fio itself per request, beyond the system call's.

Measured on one core of an AMD EPYC of 2023 (psync, 4 KiB, cached).
"""
START_NS = 100_000_000
"""CPU time of fio's start and end, measured on the same machine."""
START_WAIT_NS = 100_000_000
"""Sleep of fio's main thread between starting its clients and letting them run (`run_threads` in
its backend.c)."""
END_WAIT_NS = 5_000_000
"""Mean sleep at the end: fio looks every 10 ms whether its clients have ended (the same)."""
JOB_MEMORY_BYTES = 30_000_000


def requests(
    *,
    length_bytes: int,
    span_bytes: int,
    shuffled: bool,
    access: Access,
    read_fraction: float,
    in_flight: int = 1,
) -> Requests:
    """Return a step on the client's file; without a count or a duration."""
    return {
        "do": "requests",
        "file": FILE,
        "cpu_ns": REQUEST_NS,
        "length_bytes": length_bytes,
        "span_bytes": span_bytes,
        "order": {"kind": "shuffled" if shuffled else "sequential"},
        "access": access,
        "read_fraction": read_fraction,
        "in_flight": in_flight,
    }


def modelled_fio(steps: Sequence[Step], *, file_size: int, new: bool = False) -> ModelledJob:
    """Return the whole job: start fio, open the file (`new`: create it), run the steps, close it,
    end fio.

    Each slot has its own file.
    """
    file: FileSet = {"name": FILE, "on": "target", "share": "new" if new else "each"}
    if not new:
        file["bytes"], file["count"] = file_size, 0
    return ModelledJob(
        steps=[
            {"do": "compute", "cpu_ns": START_NS},
            {"do": "wait", "wait_ns": START_WAIT_NS},
            {"do": "create" if new else "open", "file": FILE},
            *steps,
            {"do": "close", "file": FILE},
            {"do": "wait", "wait_ns": END_WAIT_NS},
        ],
        files=[file],
        memory_bytes=JOB_MEMORY_BYTES,
    )
