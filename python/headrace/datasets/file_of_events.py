"""Writes one file of a data set: which events it holds, cut into clusters, in the format asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.datasets.collisions import BLOCK_EVENTS, SIGNAL, stream
from headrace.datasets.integrity import checksum
from headrace.datasets.shapes import TREE_NAME, dressed_block
from headrace.datasets.spec import DatasetSpec
from headrace.datasets.table import Table, concatenate
from headrace.datasets.writing.placement import Placement
from headrace.datasets.writing.rootfile import new_root_file
from headrace.datasets.writing.ttree import TreeWriter

CLUSTER_EVENTS = {"bench": 10_000, "nano": 5_000, "aod": 500}
"""About 10 MB compressed a cluster for `nano` and `aod`, as CMS flushes NanoAOD (autoFlush of -10000000 in
NanoAODOutputModule); smaller for `bench`, so that files of some 10 MB have several."""

BASKET_BYTES = {"bench": 32_000, "nano": 64_000, "aod": 64_000}
"""ROOT's default of 32 000 bytes for `bench`; for the others what TTree::OptimizeBaskets comes to (at most 256 000)."""


@dataclass(frozen=True)
class FileFacts:
    """What the manifest says of one file."""

    name: str
    events: int
    first_event: int
    bytes: int
    bytes_uncompressed: int
    """Event data in memory: values, and an offset an event of each column of a collection (4 bytes in a TTree, 8 in an
    RNTuple)."""
    xxh3: str
    signal_events: int
    signal_selected: int
    """Signal events whose four leptons were all reconstructed, identified and isolated."""


def file_name(number: int) -> str:
    """Name of file `number` of any data set."""
    return f"events-{number:04d}.root"


def file_range(spec: DatasetSpec, number: int) -> tuple[int, int]:
    """Events `start <= event < stop` of the data set that file `number` holds."""
    return spec.events * number // spec.files, spec.events * (number + 1) // spec.files


def cluster_events(spec: DatasetSpec) -> int:
    """Events a cluster of this data set."""
    return spec.cluster_events or CLUSTER_EVENTS[spec.shape]


def basket_bytes(spec: DatasetSpec) -> int:
    """Uncompressed bytes a basket of this data set at most."""
    return spec.basket_size or BASKET_BYTES[spec.shape]


def offset_bytes(spec: DatasetSpec) -> int:
    """Bytes of one offset of a collection's column in this format."""
    return 4 if spec.format == "ttree" else 8


def table_bytes(table: Table, bytes_an_offset: int) -> int:
    """Bytes of the event data of a table (see `FileFacts.bytes_uncompressed`)."""
    values = sum(column.nbytes for column in (*table.scalars.values(), *table.counts.values()))
    objects = sum(column.nbytes for _, column in table.objects.values())
    return values + objects + len(table.objects) * table.events * bytes_an_offset


@dataclass
class _Truth:
    signal: int = 0
    selected: int = 0


def _clusters(spec: DatasetSpec, start: int, stop: int, truth: _Truth) -> Iterator[Table]:
    """The events [start, stop) as tables of one cluster each."""
    size = cluster_events(spec)
    held: list[Table] = []
    count = 0
    for block in range(start // BLOCK_EVENTS, -(-stop // BLOCK_EVENTS)):
        table, selected, process = dressed_block(spec.seed, block, spec.signal_fraction, spec.shape)
        first = block * BLOCK_EVENTS
        low, high = max(start - first, 0), min(stop - first, BLOCK_EVENTS)
        truth.signal += int((process[low:high] == SIGNAL).sum())
        truth.selected += int(selected[low:high].sum())
        held.append(table.slice(low, high))
        count += high - low
        if count >= size:
            whole = concatenate(held)
            for begin in range(0, count - size + 1, size):
                yield whole.slice(begin, begin + size)
            rest = count % size
            held, count = ([whole.slice(count - rest, count)] if rest else []), rest
    if count:
        yield concatenate(held)


def write_file(spec: DatasetSpec, number: int, directory: Path, progress: Callable[[int], None]) -> FileFacts:
    """Writes file `number` into `directory`; `progress` is told the events of each cluster written."""
    start, stop = file_range(spec, number)
    path = directory / file_name(number)
    truth = _Truth()
    memory = 0
    placement: Placement[Any] = Placement(spec.order, stream(spec.seed, "placement", number))
    with new_root_file(path, spec, number) as file:
        writer: TreeWriter | None = None
        for table in _clusters(spec, start, stop, truth):
            if writer is None:
                writer = TreeWriter(
                    file, TREE_NAME, table, basket_bytes(spec), cluster_events(spec), placement
                )
            writer.write_cluster(table)
            memory += table_bytes(table, offset_bytes(spec))
            progress(table.events)
        if writer is not None:
            writer.finish()
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
