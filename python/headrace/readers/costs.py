"""What reading and working cost in CPU time, for jobs that are modelled and not run.

All values are CPU nanoseconds of one core of an AMD EPYC of 2023 that nobody else used, the machine that `cpu_speed = 1` of the catalog's
`generic-node` stands for; a machine of the catalog with another `cpu_speed` takes as much longer or shorter. `benchmarks/reading_costs.py`
fitted what opening, pieces, steps and events cost to jobs over uncompressed files of different sizes; codecs and skims were then set by whole
jobs (`--check`; docs/profiles.md has them and what is left over). They are constants so that a simulation depends on its study alone.
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
    listed_ns: int
    """Each basket or page of the whole file, which the metadata list."""
    piece_ns: int
    """Each basket or page, beyond its bytes."""
    byte_ns: float
    """Each uncompressed byte: interpretation, copies."""


READING: dict[tuple[Reader, Format], ReadingCosts] = {
    ("uproot", "ttree"): ReadingCosts(16_000_000, 170, 45_000, 0.0),
    ("uproot", "rntuple"): ReadingCosts(1_600_000, 8_000, 27_000, 0.5),
    ("rdataframe", "ttree"): ReadingCosts(18_000_000, 90, 1_900, 0.5),
    ("rdataframe", "rntuple"): ReadingCosts(11_000_000, 3_000, 0, 0.0),
    ("event-loop", "ttree"): ReadingCosts(18_000_000, 300, 0, 0.0),
    ("event-loop", "rntuple"): ReadingCosts(6_000_000, 3_000, 0, 1.5),
}

DECOMPRESSION_NS: dict[Codec, float] = {"zlib": 3.4, "lz4": 0.5, "zstd": 1.2, "lzma": 20.0}
"""Each uncompressed byte of baskets and pages. A file of level 0 costs none."""

COMPRESSION_NS: dict[Codec, float] = {"zlib": 15.0, "lz4": 15.0, "zstd": 10.0, "lzma": 250.0}
"""Each uncompressed byte of what a skim writes: copied, laid out and compressed at the codec's usual level."""

STEP_NS: dict[Reader, int] = {"uproot": 300_000, "rdataframe": 0, "event-loop": 0}
"""Each run of events that is read at once."""

SCAN_EVENT_NS: dict[Reader, int] = {"uproot": 0, "rdataframe": 40, "event-loop": 100}
"""Filling one histogram with a column, an event."""

SEARCH_NS: dict[Reader, int] = {"uproot": 78_000_000, "rdataframe": 7_000_000, "event-loop": 1_000_000}
"""The four-lepton search, a job: what does not grow with its events."""

SEARCH_EVENT_NS: dict[Reader, int] = {"uproot": 10_700, "rdataframe": 7_300, "event-loop": 5_200}
"""The four-lepton search, an event."""

SELECTION_EVENT_NS: dict[Reader, int] = {"uproot": 500, "rdataframe": 5_500, "event-loop": 500}
"""Counting an event's good leptons and copying it when it survives."""
