"""Learns a drive from itself: requests, what follows from their times, and a drive file.

The script runs on a block device, or on a model in virtual time (`modelled_device`), so that tests
can learn drives whose values they know.
"""

from __future__ import annotations

import time
from typing import Literal

import numpy as np

from headrace.drives.learning.device import (
    LearntDevice,
    NotLearntError,
    Say,
    modelled_device,
)
from headrace.drives.learning.disk import learn_disk
from headrace.drives.learning.flash import learn_flash
from headrace.drives.learning.loads import (
    LoadResult,
    ScriptLoad,
    check_of,
    modelled_loads,
    run_load,
)
from headrace.drives.learning.opening import block_device, share_of_zeros
from headrace.drives.learning.serving_order import served_in_order
from headrace.drives.learning.values import LearntDrive, LearntValue, LoadCheck, Unknown

__all__ = [
    "LearntDevice",
    "LearntDrive",
    "LearntValue",
    "LoadCheck",
    "LoadResult",
    "NotLearntError",
    "ScriptLoad",
    "Unknown",
    "block_device",
    "check_of",
    "learn_drive",
    "modelled_device",
    "modelled_loads",
    "run_load",
    "served_in_order",
    "share_of_zeros",
]

Kind = Literal["hdd", "ssd"]

SLOW_S = 1e-3
"""Median of random reads above which a drive is a disk: no SSD takes as long, no disk less."""


def kind_of(device: LearntDevice) -> Kind:
    """Return whether random reads take as long as those of a disk."""
    response_s = device.reads(device.random_sectors(100)).response_s
    return "hdd" if float(np.median(response_s)) > SLOW_S else "ssd"


def learn_drive(
    device: LearntDevice, *, name: str, seconds: float, kind: Kind | None, say: Say
) -> LearntDrive:
    """Learn a drive by requests that take about `seconds`, and return its table with the evidence.

    They are reads, and writes if the device was opened for them. Raises NotLearntError if it does
    not answer as a drive of its kind.
    """
    begun_s = device.elapsed_s
    begun_cpu_s = time.process_time() - device.request_cpu_s
    found = kind or kind_of(device)
    learn = learn_disk if found == "hdd" else learn_flash
    learnt = learn(device, seconds=seconds, say=say)
    learnt.table["name"] = name
    learnt.seconds = device.elapsed_s - begun_s
    learnt.fit_cpu_s = time.process_time() - device.request_cpu_s - begun_cpu_s
    learnt.read_bytes, learnt.written_bytes = device.read_bytes, device.written_bytes
    return learnt
