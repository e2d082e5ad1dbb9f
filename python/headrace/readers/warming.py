"""Runs a reader once over a few events made in a private place, so that a measured job pays for no first time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from headrace.datasets.spec import DatasetSpec
from headrace.readers.counts import ReadCounts
from headrace.readers.options import ReadingOptions
from headrace.readers.spans import Span

_EVENTS = 512


@contextmanager
def _few_events(spec: DatasetSpec) -> Generator[str]:
    """A small file of the same format and codec, in memory where there is such a place."""
    from headrace.datasets.file_of_events import write_file

    few = {"events": _EVENTS, "files": 1, "shape": "bench", "cluster_events": _EVENTS, "signal_fraction": 0.5}
    memory = Path("/dev/shm")
    place = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="headrace-warm-", dir=place) as directory:
        facts = write_file(spec.model_copy(update=few), 0, Path(directory), lambda events: None)
        yield str(Path(directory) / facts.name)


def warm_column(options: ReadingOptions, column: str) -> None:
    """Imports the reader and the codec, and reads one column of a few events."""
    from headrace.readers.uproot_reader import UprootReader

    with _few_events(options.data) as file:
        reader = UprootReader(options.access, _EVENTS, ReadCounts())
        for chunk in reader.read(Span(file), [column]):
            assert chunk.events == _EVENTS
        reader.close()


def warm_search(options: ReadingOptions) -> None:
    """Imports everything that the search needs and runs it, fits too, over a few events."""
    from headrace.higgs.columns import SEARCH_COLUMNS
    from headrace.higgs.fits import peaks
    from headrace.higgs.histograms import Histograms
    from headrace.higgs.selection import search
    from headrace.readers.uproot_reader import UprootReader

    histograms = Histograms()
    with _few_events(options.data) as file:
        reader = UprootReader(options.access, _EVENTS, ReadCounts())
        for chunk in reader.read(Span(file), SEARCH_COLUMNS):
            search(chunk.columns, histograms)
        reader.close()
    peaks(histograms.numbers())
