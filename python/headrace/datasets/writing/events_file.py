"""Write a ROOT file of events in a data set's format, codec, cluster size and basket size."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from headrace.datasets.collisions import stream
from headrace.datasets.spec import DatasetSpec
from headrace.datasets.table import Table
from headrace.datasets.writing.placement import Placement
from headrace.datasets.writing.rntuple import NtupleWriter
from headrace.datasets.writing.rootfile import RootFile, new_root_file
from headrace.datasets.writing.ttree import TreeWriter

TREE_NAME = "Events"

CLUSTER_EVENTS = {"bench": 10_000, "nano": 5_000, "aod": 1_000}
"""Default cluster sizes, in events.

CMS flushes NanoAOD every 10 MB compressed (autoFlush of -10000000 in CMSSW's NanoAODOutputModule),
ROOT every 30 MB by default; these give the values of `nano` and `aod`. `bench` has smaller
clusters, so that files of about 10 MB have several.
"""

BASKET_BYTES = {"bench": 32_000, "nano": 64_000, "aod": 64_000}
"""Basket sizes: ROOT's default of 32 000 bytes for `bench`.

For the others, about the result of TTree::OptimizeBaskets, whose maximum is 256 000.
"""


def cluster_events(spec: DatasetSpec) -> int:
    """Return the events per cluster of this data set."""
    return spec.cluster_events or CLUSTER_EVENTS[spec.shape]


def basket_bytes(spec: DatasetSpec) -> int:
    """Return the maximum uncompressed size of a basket or page of this data set."""
    return spec.basket_size or BASKET_BYTES[spec.shape]


class EventsFile:
    """A context manager; its columns are those of the first table written."""

    def __init__(self, path: Path, spec: DatasetSpec, number: int) -> None:
        """Prepare file `number` of the data set `spec`.

        The number determines the file's identifier and the positions of scattered baskets.
        """
        self._path = path
        self._spec = spec
        self._number = number
        self._stack = ExitStack()
        self._file: RootFile | None = None
        self._writer: TreeWriter | NtupleWriter | None = None

    def __enter__(self) -> EventsFile:
        self._file = self._stack.enter_context(new_root_file(self._path, self._spec, self._number))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._stack:
            if kind is None and self._writer is not None:
                self._writer.finish()

    def write(self, table: Table) -> None:
        """Append the events of a table as one cluster."""
        if self._writer is None:
            self._writer = self._new_writer(table)
        self._writer.write_cluster(table)

    def _new_writer(self, table: Table) -> TreeWriter | NtupleWriter:
        assert self._file is not None, "written to before it was entered"
        spec = self._spec
        placement: Placement[Any] = Placement(
            spec.order, stream(spec.seed, "placement", self._number)
        )
        if spec.format == "ttree":
            return TreeWriter(
                self._file, TREE_NAME, table, basket_bytes(spec), cluster_events(spec), placement
            )
        return NtupleWriter(self._file, TREE_NAME, table, basket_bytes(spec), placement)
