"""Let jobs on an emulated drive yield the CPU to the kernel thread that submits their requests."""

from __future__ import annotations

import os


def yield_to_kernel(pid: int = 0) -> None:
    """Set the scheduling policy SCHED_IDLE for a process (0: this one) and its later children.

    A real drive starts a request at once. An emulated one gets it from the loop driver's worker, a
    thread of ordinary priority, which waits for milliseconds while jobs keep every CPU busy.
    SCHED_IDLE processes yield to it immediately; among each other they share the CPUs as before
    (sched(7)).
    """
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
