"""Let idle virtual CPUs poll before they halt, so that completions do not wait for a wake-up.

The host wakes a halted virtual CPU, which takes tens of microseconds, several times on a request's
path through the kernel. Linux's `haltpoll` idle governor (drivers/cpuidle/governors/haltpoll.c)
polls for up to `guest_halt_poll_ns` first, but stops polling where idle times are longer than that.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace.system.journal import Journal, JournalEntry
from headrace.system.shared_settings import set_file

_GOVERNOR = Path("/sys/devices/system/cpu/cpuidle/current_governor")
_LOOK_OUT = Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")
LOOK_OUT_NS = 20_000_000
"""About a disk's service time: one seek and one rotation."""


def keep_awake(journal: Journal) -> list[JournalEntry]:
    """Raise the polling time; return the entries that restore it.

    Empty with another governor, or when CPUs already poll that long.
    """
    try:
        if _GOVERNOR.read_text().strip() != "haltpoll" or not os.access(_LOOK_OUT, os.W_OK):
            return []
        entry = set_file(
            journal,
            _LOOK_OUT,
            str(LOOK_OUT_NS),
            is_set=lambda: int(_LOOK_OUT.read_text()) >= LOOK_OUT_NS,
        )
    except (OSError, ValueError):
        return []
    return [] if entry is None else [entry]
