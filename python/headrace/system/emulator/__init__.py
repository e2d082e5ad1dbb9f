"""Ground: emulated drives. A drive of the catalog as a block device of the real kernel, timed by the simulator's own models.

    headrace-emulator (one process a device): FUSE file <- loop device with direct I/O <- whoever uses /dev/loopN

`attach` makes one, through the undo journal; the `EmulatedDevice` reports how late it was, takes faults, and is detached.
What lies on it lies in memory and is gone with it.
"""

from __future__ import annotations

from headrace.system.emulator.attaching import attach, cannot_emulate
from headrace.system.emulator.device import EmulatedDevice
from headrace.system.emulator.limits import Limits, limits, refusal
from headrace.system.emulator.queue_shape import QueueShape, queue_shape
from headrace.system.emulator.report import Floor, KernelWake, Lateness, Report
from headrace.system.emulator.running import Running, running
from headrace.system.emulator.yielding import yield_to_kernel

__all__ = [
    "EmulatedDevice",
    "Floor",
    "KernelWake",
    "Lateness",
    "Limits",
    "QueueShape",
    "Report",
    "Running",
    "attach",
    "cannot_emulate",
    "limits",
    "queue_shape",
    "refusal",
    "running",
    "yield_to_kernel",
]
