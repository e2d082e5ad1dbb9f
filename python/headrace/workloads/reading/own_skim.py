"""Skims of the user's own files: read a fraction of the events, write an evenly spaced part.

Survival depends only on the event number, so every job and every run keeps the same events.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.jobs import JobInput, JobOutput
from headrace.workloads.reading.output import write_out

if TYPE_CHECKING:
    from headrace.datasets.table import Table
    from headrace.workloads.skim import SkimOptions

Phase = tuple[str, float, float]


def survives(event: Any, keep: float) -> Any:
    """Return whether events with these numbers survive: an evenly spaced fraction `keep`."""
    import numpy as np

    numbers = np.asarray(event, np.float64)
    return np.floor((numbers + 1) * keep) > np.floor(numbers * keep)


def skim_own_files(options: SkimOptions, job: JobInput) -> JobOutput:
    """Run one job with uproot. Raises HeadraceError for a file that cannot be read completely."""
    import numpy as np

    from headrace.readers.tables import table_of_own
    from headrace.readers.uproot_reading import UprootReading

    reading = UprootReading(options, job)
    phases: list[Phase] = []
    survivors = 0
    begun = time.monotonic()
    with _Output(options, job) as output:
        for chunk in reading.chunks(options.columns, options.fraction):
            first = chunk.span.first_event
            keep = survives(np.arange(first, first + chunk.events), options.keep)
            read = time.monotonic()
            table, left_out = table_of_own(chunk.columns, keep)
            reading.notes.left_out.update(dict.fromkeys(left_out))
            if table.events:
                output.write(chunk.span.file, table, reading.like_input)
            survivors += table.events
            written = time.monotonic()
            phases += [("read", begun, read), ("write", read, written)]
            begun = written
    begun = time.monotonic()
    written_files = [file for file in output.files if file.exists()]
    if options.sync:
        for file in written_files:
            write_out(file)
    phases.append(("write", begun, time.monotonic()))
    return JobOutput(
        bytes_written=sum(file.stat().st_size for file in written_files),
        phases=phases,
        results={"events_kept": survivors, **reading.notes.results()},
        **reading.output(),
    )


class _Output:
    """The output files: one per input file, in its format and codec."""

    def __init__(self, options: SkimOptions, job: JobInput) -> None:
        self._options = options
        self._job = job
        self._stack = ExitStack()
        self._open: dict[str, Any] = {}
        self.files: list[Path] = []

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)

    def write(self, source: str, table: Table, like: dict[str, Any]) -> None:
        """Append one file's survivors; `like`: fields of a data set with its format and
        compression.
        """
        from headrace.datasets import DatasetSpec
        from headrace.datasets.writing.events_file import EventsFile

        if source not in self._open:
            number = len(self.files)
            path = self._job.scratch / f"skim-{self._job.slot}-{number}.root"
            self.files.append(path)
            file = EventsFile(path, DatasetSpec.model_validate(like), number)
            self._open[source] = self._stack.enter_context(file)
        self._open[source].write(table)
