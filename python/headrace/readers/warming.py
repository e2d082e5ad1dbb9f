"""Runs a workload once over a few events made in a private place, so that a measured job pays for no first time."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.datasets.spec import DatasetSpec

if TYPE_CHECKING:
    from headrace.workloads import Workload

_EVENTS = 256


def warm_by_running(workload: Workload, spec: DatasetSpec) -> None:
    """Makes a small file of the same shape, format and codec, and runs the workload's job on it.

    That imports what the job imports and takes every path that it takes; the data set itself is not touched.
    """
    from headrace.datasets.file_of_events import write_file
    from headrace.workloads import JobInput

    few = {"events": _EVENTS, "files": 1, "cluster_events": _EVENTS, "signal_fraction": 0.5}
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="headrace-warm-", dir=place) as directory:
        facts = write_file(spec.model_copy(update=few), 0, Path(directory), lambda events: None)
        file, scratch = Path(directory) / facts.name, Path(directory) / "scratch"
        scratch.mkdir()
        output = workload.run(JobInput((str(file),), None, scratch, slot=0, slots=1, seed=0))
        workload.merge([output.results])
