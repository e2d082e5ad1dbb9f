"""Which events of which files a job reads: its own files whole, or the packets that it pulls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.workloads import JobInput


@dataclass(frozen=True)
class Span:
    """A run of events of one file. `events` is None for all that the file has from `first_event` on."""

    file: str
    first_event: int = 0
    events: int | None = None


def spans_of(job: JobInput) -> Iterator[Span]:
    """What a job is to read, in order. With packets, the next is asked for only when the last was read."""
    if job.packets is not None:
        for packet in job.packets():
            yield Span(packet.file, packet.first_event, packet.events)
    else:
        for file in job.files:
            yield Span(file)
