"""What reading and working cost in CPU time, for jobs that are modelled and not run.

All values are CPU nanoseconds of one core of an AMD EPYC of 2023, the machine that `cpu_speed = 1` of the catalog's `generic-node`
stands for; a machine of the catalog with another `cpu_speed` takes as much longer or shorter. They were fitted by hand to the least CPU
times of whole jobs over 60 000 events of `bench` on a machine that was not idle (docs/profiles.md has the jobs and what is left over);
`benchmarks/reading_costs.py` fits such a table anew. They are constants so that a simulation depends on its study alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.datasets.spec import Codec, Format
from headrace.readers.options import Reader


@dataclass(frozen=True)
class ReadingCosts:
    """Of one reader and format."""

    open_ns: int
    """Opening a file and reading the tree's own metadata (`bench`'s 107 columns)."""
    step_ns: int
    """Each run of events that is read at once."""
    piece_ns: int
    """Each basket or page, beyond its bytes."""
    byte_ns: float
    """Each uncompressed byte: interpretation, copies."""


READING: dict[tuple[Reader, Format], ReadingCosts] = {
    ("uproot", "ttree"): ReadingCosts(28_000_000, 500_000, 80_000, 0.4),
    ("uproot", "rntuple"): ReadingCosts(28_000_000, 500_000, 80_000, 1.0),
    ("rdataframe", "ttree"): ReadingCosts(60_000_000, 0, 2_000, 1.0),
    ("rdataframe", "rntuple"): ReadingCosts(60_000_000, 0, 2_000, 4.0),
    ("event-loop", "ttree"): ReadingCosts(10_000_000, 0, 2_000, 1.0),
    ("event-loop", "rntuple"): ReadingCosts(10_000_000, 0, 2_000, 4.0),
}

DECOMPRESSION_NS: dict[Codec, float] = {"zlib": 3.4, "lz4": 0.5, "zstd": 1.2, "lzma": 20.0}
"""Each uncompressed byte of baskets and pages. A file of level 0 costs none."""

COMPRESSION_NS: dict[Codec, float] = {"zlib": 25.0, "lz4": 25.0, "zstd": 10.0, "lzma": 250.0}
"""Each uncompressed byte of what a skim writes: copied, laid out and compressed at the codec's usual level."""

SCAN_EVENT_NS: dict[Reader, int] = {"uproot": 60, "rdataframe": 100, "event-loop": 60}
"""Filling one histogram with a column, an event."""

SEARCH_EVENT_NS: dict[Reader, int] = {"uproot": 17_000, "rdataframe": 7_500, "event-loop": 7_000}
"""The four-lepton search, an event."""

FIT_NS = 60_000_000
"""Fitting the peaks of the search's histograms, once a job."""

SELECTION_EVENT_NS: dict[Reader, int] = {"uproot": 2_000, "rdataframe": 500, "event-loop": 500}
"""Counting an event's good leptons and copying it when it survives."""
