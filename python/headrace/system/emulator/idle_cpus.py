"""Keeps a CPU of a virtual machine that falls idle awake for a while, so that no answer waits for one to leave its halt.

A halted virtual CPU is woken by way of the host, which takes tens of microseconds, several times in a request's way through
the kernel. Linux's `haltpoll` governor of idle CPUs (drivers/cpuidle/governors/haltpoll.c) looks out for work for up to
`guest_halt_poll_ns` first, and stops doing so where its idle times are longer than that.
"""

from __future__ import annotations

import os
from pathlib import Path

from headrace.system.journal import Entry, Journal

_GOVERNOR = Path("/sys/devices/system/cpu/cpuidle/current_governor")
_LOOK_OUT = Path("/sys/module/haltpoll/parameters/guest_halt_poll_ns")
LOOK_OUT_NS = 20_000_000
"""As long as a disk takes for a request: seek, and a turn."""


def keep_awake(journal: Journal) -> list[Entry]:
    """The entry that puts the setting back; none where another governor rules, or CPUs look out that long anyway."""
    try:
        before = int(_LOOK_OUT.read_text())
        ruling = _GOVERNOR.read_text().strip() == "haltpoll"
    except (OSError, ValueError):
        return []
    if not ruling or before >= LOOK_OUT_NS or not os.access(_LOOK_OUT, os.W_OK):
        return []
    entry = journal.begin("write_setting", path=str(_LOOK_OUT), value=str(before))
    _LOOK_OUT.write_text(str(LOOK_OUT_NS))
    return [entry]
