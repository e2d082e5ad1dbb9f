"""The common part of all uproot jobs: go through the spans, count, verify, close."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from headrace.readers.counted_source import AccessMethod
from headrace.readers.counts import ReadCounts
from headrace.readers.options import ReadingOptions
from headrace.readers.own_file import OpenOwnFile, OwnNotes
from headrace.readers.spans import spans_of
from headrace.readers.uproot_reader import Chunk, OpenFile, Share, UprootReader
from headrace.readers.verification import verify

if TYPE_CHECKING:
    from headrace.jobs import JobInput, JobOutput, ReadFields


class UprootReading:
    """The reading of one job."""

    def __init__(self, options: ReadingOptions, job: JobInput) -> None:
        self._options = options
        self._job = job
        self._counts = ReadCounts()
        self._notes = OwnNotes()
        self._events_by_file: dict[str, int] = {}
        self.like_input: dict[str, object] = {}
        """Fields of a data set with the format and compression of the file being read."""

    def chunks(
        self,
        columns: Sequence[str] | None,
        fraction: float = 1.0,
        so_far: Callable[[], JobOutput] | None = None,
    ) -> Iterator[Chunk]:
        """Yield everything that the job reads, in order.

        Raises HeadraceError as `UprootReader.read` does.

        `columns` None means all columns of a file. With a `fraction` below 1, whole clusters are
        left out so that this fraction of the events is read. `so_far`: as of `spans_of`.
        """
        options = self._options
        reader = UprootReader(options.access, options.step_events, self._counts, self._opener())
        share = Share(fraction)
        try:
            for span in spans_of(self._job, so_far):
                self._events_by_file.setdefault(span.file, 0)
                for chunk in reader.read(span, columns, share):
                    self._events_by_file[span.file] += chunk.events
                    yield chunk
        finally:
            reader.close()
        if self._options.verify:
            whole = self._job.packets is None and math.isclose(fraction, 1.0)
            verify(self._events_by_file, whole=whole, key=own.key if (own := options.own) else None)

    def _opener(self) -> Callable[[str, AccessMethod, ReadCounts], OpenFile] | None:
        own = self._options.own
        if own is None:
            return None

        def opened(file: str, access: AccessMethod, counts: ReadCounts) -> OpenFile:
            found = OpenOwnFile(file, access, counts, own.tree, self._notes)
            self.like_input = found.like
            return found

        return opened

    @property
    def notes(self) -> OwnNotes:
        """The notes on the columns of the user's own files."""
        return self._notes

    @property
    def events(self) -> int:
        """Number of events read so far."""
        return sum(self._events_by_file.values())

    def output(self) -> ReadFields:
        """Return the reading fields of JobOutput."""
        counts = self._counts
        return {
            "events": self.events,
            "bytes_uncompressed": counts.bytes_uncompressed,
            "bytes_asked": counts.bytes_asked,
            "bytes_unique": counts.bytes_unique,
            "read_calls": counts.read_calls,
            "read_wait_s": counts.read_wait_s,
            "open_s": counts.open_s,
        }
