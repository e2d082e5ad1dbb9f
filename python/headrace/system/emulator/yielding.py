"""Makes jobs on an emulated drive leave the CPU when the kernel has a request to hand on."""

from __future__ import annotations

import os


def yield_to_kernel(pid: int = 0) -> None:
    """Gives a process (this one when 0), and what it starts later, the scheduling policy SCHED_IDLE.

    A real drive starts on a request at once. An emulated one gets it from the loop driver's worker, a thread of ordinary
    priority that has to wait for jobs which keep every CPU busy, for milliseconds. Processes of SCHED_IDLE give way to it
    immediately; among each other they share the CPUs as before (sched(7)).
    """
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
