"""The events that a job reads: those of its own files, or of the packets it requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.jobs import JobInput, JobOutput


@dataclass(frozen=True)
class Span:
    """A run of events of one file. `events` None means all events from `first_event` on."""

    file: str
    first_event: int = 0
    events: int | None = None


def spans_of(job: JobInput, so_far: Callable[[], JobOutput] | None = None) -> Iterator[Span]:
    """Yield what a job reads, in order; request the next packet after the last was read.

    `so_far` returns the output of what was read until then; None: it is known at the end only.
    """
    if job.packets is None:
        for file in job.files:
            yield Span(file)
        return
    for packet in job.packets():
        yield Span(packet.file, packet.first_event, packet.events)
        if so_far is not None and job.report_so_far is not None:
            job.report_so_far(so_far())
