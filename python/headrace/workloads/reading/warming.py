"""Run a workload once over a few generated events: measured jobs have no first-use costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from headrace.datasets.own_files import OwnFiles
from headrace.datasets.spec import DatasetSpec, Format
from headrace.system.memory_folder import memory_folder

if TYPE_CHECKING:
    from headrace.workloads import Workload

_EVENTS = 256


def warm_by_running(
    workload: Workload, data: DatasetSpec | OwnFiles, instead: Mapping[str, Any] | None = None
) -> None:
    """Make a small file of the same shape, format and codec, and run the workload's job on it.

    This imports what the job imports and takes the same code paths; the data set itself is not
    touched. For the user's own files, it makes a small `bench` file of each format and reads them
    like the user's. `instead` holds options for this run.
    """
    from headrace.datasets.file_of_events import write_file

    few = {"events": _EVENTS, "files": 1, "cluster_events": _EVENTS, "signal_fraction": 0.5}
    own = isinstance(data, OwnFiles)
    if (workload.threads or 1) > 1:  # a process that forks jobs must have no other threads
        from headrace.readers.root_reader import load_threads

        load_threads()
        instead = {**(instead or {}), "threads": 1}
    # The user's files may be of either format, and not all of them of the same.
    formats: tuple[Format, ...] = get_args(Format) if own else (data.format,)
    spec = DatasetSpec.model_validate({}) if own else data
    for format_ in formats:
        with memory_folder("warm") as directory:
            small = spec.model_copy(update={**few, "format": format_})
            facts = write_file(small, 0, directory, lambda events: None)
            _run_on(workload, directory / facts.name, instead, own=own)


def _run_on(
    workload: Workload, file: Path, instead: Mapping[str, Any] | None, *, own: bool
) -> None:
    from headrace.workloads import JobInput

    scratch = file.with_name("scratch")
    scratch.mkdir()
    if own or instead:
        update = {
            **(instead or {}),
            **({"data": OwnFiles.model_validate({"files": [str(file)]})} if own else {}),
        }
        workload = type(workload)(workload.name, workload.options.model_copy(update=update))
    output = workload.run(JobInput((str(file),), None, scratch, slot=0, slots=1, seed=0))
    workload.merge([output.results])
