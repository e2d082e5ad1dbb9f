"""Base layer: emulated drives: block devices with the timing of the simulator's drive models.

    headrace-emulator (one process per device): FUSE file <- loop device (direct I/O) <- /dev/loopN

`attach` creates one from a drive of the catalog, through the undo journal. The `EmulatedDevice`
reports completion delays, accepts faults, and is detached. Its data is in memory and is lost with
it.
"""

from __future__ import annotations

from headrace.system.emulator.attaching import attach, cannot_emulate
from headrace.system.emulator.device import EmulatedDevice
from headrace.system.emulator.limits import Limits, limits, refusal
from headrace.system.emulator.queue_shape import QueueShape, queue_shape
from headrace.system.emulator.report import CompletionDelay, Floor, KernelWake, Report
from headrace.system.emulator.running import Running, behind, running, unseen
from headrace.system.emulator.yielding import yield_to_kernel

__all__ = [
    "CompletionDelay",
    "EmulatedDevice",
    "Floor",
    "KernelWake",
    "Limits",
    "QueueShape",
    "Report",
    "Running",
    "attach",
    "behind",
    "cannot_emulate",
    "limits",
    "queue_shape",
    "refusal",
    "running",
    "unseen",
    "yield_to_kernel",
]
