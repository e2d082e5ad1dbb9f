"""CPU time of reading and processing, for modelled jobs.

All values are CPU nanoseconds of one core of an AMD EPYC of 2023 without other load: the machine
with `cpu_speed = 1`, the catalog's `generic-node`. The times of a machine with another `cpu_speed`
scale with it. `benchmarks/reading_costs.py` fitted the costs of opening, pieces, steps and events
to jobs over uncompressed files of different sizes. Codecs and skims were then set from whole jobs
(`--check`; docs/profiles.md has them and the residuals). The values are constants so that a
simulation depends on its study alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.datasets.spec import Codec, Format
from headrace.readers.options import Reader


@dataclass(frozen=True)
class ReadingCosts:
    """Costs of one reader and format."""

    open_ns: int
    """Per file: opening it and reading the tree's own metadata (`bench`'s 107 columns)."""
    listed_ns: int
    """Per basket or page of the whole file, all of which the metadata list."""
    piece_ns: int
    """Per basket or page read, beyond its bytes."""
    byte_ns: float
    """Per uncompressed byte: interpretation and copies."""


READING: dict[tuple[Reader, Format], ReadingCosts] = {
    ("uproot", "ttree"): ReadingCosts(16_000_000, 170, 45_000, 0.0),
    ("uproot", "rntuple"): ReadingCosts(1_600_000, 8_000, 27_000, 0.5),
    ("rdataframe", "ttree"): ReadingCosts(18_000_000, 90, 1_900, 0.5),
    ("rdataframe", "rntuple"): ReadingCosts(11_000_000, 3_000, 0, 0.0),
    ("event-loop", "ttree"): ReadingCosts(18_000_000, 300, 0, 0.0),
    ("event-loop", "rntuple"): ReadingCosts(6_000_000, 3_000, 0, 1.5),
}

DECOMPRESSION_NS: dict[Codec, float] = {"zlib": 3.4, "lz4": 0.5, "zstd": 1.2, "lzma": 20.0}
"""Per uncompressed byte of baskets and pages. A file of compression level 0 has no such cost."""

COMPRESSION_NS: dict[Codec, float] = {"zlib": 15.0, "lz4": 15.0, "zstd": 10.0, "lzma": 250.0}
"""Per uncompressed byte that a skim writes: copy, serialise, compress at the default level."""

STEP_NS: dict[Reader, int] = {"uproot": 300_000, "rdataframe": 0, "event-loop": 0}
"""Per run of events that is read at once."""

PIECES_VARY = 0.13
"""Standard deviation over mean of the CPU times of the pieces of work between two reads: of 48
baskets of one branch, each decompressed and histogrammed with uproot on an idle machine (three
rounds, 0.11 to 0.16). Without it jobs at once are exactly alike and fall into step: on a hard disk
all wait for the same turn of the platter again and again."""

SCAN_EVENT_NS: dict[Reader, int] = {"uproot": 0, "rdataframe": 40, "event-loop": 100}
"""Per event: filling one histogram with a column."""

SEARCH_NS: dict[Reader, int] = {
    "uproot": 78_000_000,
    "rdataframe": 7_000_000,
    "event-loop": 1_000_000,
}
"""Per job: the part of the four-lepton search that does not grow with the number of events."""

SEARCH_EVENT_NS: dict[Reader, int] = {"uproot": 10_700, "rdataframe": 7_300, "event-loop": 5_200}
"""Per event: the four-lepton search."""

SELECTION_EVENT_NS: dict[Reader, int] = {"uproot": 500, "rdataframe": 5_500, "event-loop": 500}
"""Per event: counting its good leptons, and copying it when it survives."""
