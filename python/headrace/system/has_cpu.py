"""Base layer: whether a thread in state R has a CPU or waits for one, which its state doesn't tell.

The kernel shows the stack of a thread that it has switched away from, and an empty one of a thread
that runs (x86: `task_on_another_cpu` in arch/x86/kernel/unwind_orc.c). Only root may read it.
"""

from __future__ import annotations

import os
import platform
from functools import cache

from headrace.system.accounting import CounterFile

_ENOUGH = 16
"""Bytes: whether there are any is all that counts."""


def has_cpu(thread: int) -> bool | None:
    """Return whether a thread that can run does so; None if that is not known."""
    if not _shown():
        return None
    try:
        with CounterFile(f"/proc/{thread}/stack", _ENOUGH) as file:
            return not file.read()
    except OSError:  # it has ended, or a container does not show it
        return None


@cache
def _shown() -> bool:
    """Return whether stacks can be read, and those of running threads are empty."""
    return os.geteuid() == 0 and platform.machine() == "x86_64"
