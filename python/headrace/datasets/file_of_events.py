"""Write one file of a data set: its events, divided into clusters, in the requested format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.datasets.collisions import BLOCK_EVENTS
from headrace.datasets.integrity import checksum
from headrace.datasets.shapes import dressed_block
from headrace.datasets.spec import DatasetSpec, file_name
from headrace.datasets.table import Table, concatenate
from headrace.datasets.writing.events_file import EventsFile, cluster_events


@dataclass(frozen=True)
class FileFacts:
    """What the manifest says of one file."""

    name: str
    events: int
    first_event: int
    bytes: int
    bytes_uncompressed: int
    """Size of the event data in memory: values, and one offset per event and collection column.

    An offset has 4 bytes in a TTree, 8 in an RNTuple.
    """
    xxh3: str
    signal_events: int
    signal_selected: int
    """Signal events whose four leptons were all reconstructed, identified and isolated."""


def file_range(spec: DatasetSpec, number: int) -> tuple[int, int]:
    """Return the events `start <= event < stop` of the data set that file `number` holds."""
    return spec.events * number // spec.files, spec.events * (number + 1) // spec.files


def offset_bytes(spec: DatasetSpec) -> int:
    """Return the bytes of one offset of a collection's column in this format."""
    return 4 if spec.format == "ttree" else 8


def table_bytes(table: Table, bytes_an_offset: int) -> int:
    """Return the size of a table's event data (see `FileFacts.bytes_uncompressed`)."""
    values = sum(column.nbytes for column in (*table.scalars.values(), *table.counts.values()))
    objects = sum(column.nbytes for _, column in table.objects.values())
    return values + objects + len(table.objects) * table.events * bytes_an_offset


@dataclass
class _Truth:
    signal: int = 0
    selected: int = 0


def _clusters(spec: DatasetSpec, start: int, stop: int, truth: _Truth) -> Iterator[Table]:
    """Yield the events [start, stop) as tables of one cluster each."""
    size = cluster_events(spec)
    held: list[Table] = []
    count = 0
    for block in range(start // BLOCK_EVENTS, -(-stop // BLOCK_EVENTS)):
        dressed = dressed_block(spec.seed, block, spec.signal_fraction, spec.shape)
        first = block * BLOCK_EVENTS
        low, high = max(start - first, 0), min(stop - first, BLOCK_EVENTS)
        truth.signal += int(dressed.signal[low:high].sum())
        truth.selected += int(dressed.signal_selected[low:high].sum())
        held.append(dressed.table.slice(low, high))
        count += high - low
        if count >= size:
            whole = concatenate(held)
            for begin in range(0, count - size + 1, size):
                yield whole.slice(begin, begin + size)
            rest = count % size
            held, count = ([whole.slice(count - rest, count)] if rest else []), rest
    if count:
        yield concatenate(held)


def write_file(
    spec: DatasetSpec, number: int, directory: Path, progress: Callable[[int], None]
) -> FileFacts:
    """Write file `number` into `directory`; call `progress` with the events of each cluster."""
    start, stop = file_range(spec, number)
    path = directory / file_name(number)
    truth = _Truth()
    memory = 0
    with EventsFile(path, spec, number) as file:
        for table in _clusters(spec, start, stop, truth):
            file.write(table)
            memory += table_bytes(table, offset_bytes(spec))
            progress(table.events)
    return FileFacts(
        name=path.name,
        events=stop - start,
        first_event=start,
        bytes=path.stat().st_size,
        bytes_uncompressed=memory,
        xxh3=checksum(path),
        signal_events=truth.signal,
        signal_selected=truth.selected,
    )
