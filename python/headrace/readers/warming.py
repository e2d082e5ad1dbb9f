"""Runs a reader once over a few events made in a private place, so that a measured job pays for no first time."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headrace.datasets.spec import DatasetSpec


def warm_uproot(spec: DatasetSpec) -> None:
    """Imports uproot, awkward and the codec, and reads one small file of the same format and codec."""
    from headrace.datasets.file_of_events import write_file
    from headrace.readers.counts import ReadCounts
    from headrace.readers.spans import Span
    from headrace.readers.uproot_reader import UprootReader

    few = spec.model_copy(update={"events": 64, "files": 1, "shape": "bench", "cluster_events": 64})
    with tempfile.TemporaryDirectory(
        prefix="headrace-warm-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None
    ) as place:
        facts = write_file(few, 0, Path(place), lambda events: None)
        for access in ("pread", "mmap"):
            reader = UprootReader(access, 64, ReadCounts())
            for chunk in reader.read(Span(str(Path(place) / facts.name)), ["Muon_pt", "MET_pt"]):
                assert chunk.events == 64
            reader.close()
