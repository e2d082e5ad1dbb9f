"""What every job that reads with uproot does: go through its spans, count, verify, close."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.readers.counts import ReadCounts
from headrace.readers.options import ReadingOptions
from headrace.readers.spans import spans_of
from headrace.readers.uproot_reader import Chunk, Share, UprootReader
from headrace.readers.verification import verify

if TYPE_CHECKING:
    from headrace.workloads import JobInput


class UprootReading:
    """The reading of one job."""

    def __init__(self, options: ReadingOptions, job: JobInput) -> None:
        self._options = options
        self._job = job
        self._counts = ReadCounts()
        self._events_by_file: dict[str, int] = {}

    def chunks(self, columns: Sequence[str] | None, fraction: float = 1.0) -> Iterator[Chunk]:
        """All that the job is to read, in order, chunk by chunk. Raises HeadraceError as `UprootReader.read` does.

        `columns` None stands for all that a file has. With a `fraction` below 1, whole clusters are left out so that
        this share of the events is read.
        """
        reader = UprootReader(self._options.access, self._options.step_events, self._counts)
        share = Share(fraction)
        try:
            for span in spans_of(self._job):
                self._events_by_file.setdefault(span.file, 0)
                for chunk in reader.read(span, columns, share):
                    self._events_by_file[span.file] += chunk.events
                    yield chunk
        finally:
            reader.close()
        if self._options.verify:
            verify(self._events_by_file, whole=self._job.packets is None and math.isclose(fraction, 1.0))

    @property
    def events(self) -> int:
        """Events read so far."""
        return sum(self._events_by_file.values())

    def output(self) -> dict[str, Any]:
        """The fields of a JobOutput that reading gives."""
        counts = self._counts
        return {
            "events": self.events,
            "bytes_uncompressed": counts.bytes_uncompressed,
            "bytes_asked": counts.bytes_asked,
            "bytes_unique": counts.bytes_unique,
            "read_calls": counts.read_calls,
            "read_wait_s": counts.read_wait_s,
        }
