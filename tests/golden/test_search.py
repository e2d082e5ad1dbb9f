"""The search's histograms and the columns' means on fixed events, as they were when they were
looked at.

Libraries compute sines and logarithms to the last bit in their own ways, so a few events may
change bins. When the physics changes on purpose, run this file as a program to write
`search.json` anew.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

from headrace.datasets.collisions import BLOCK_EVENTS
from headrace.datasets.shapes import dressed_block
from headrace.datasets.table import concatenate
from headrace.workloads.higgs.columns import SEARCH_COLUMNS
from headrace.workloads.higgs.histograms import Histograms
from headrace.workloads.higgs.selection import search

GOLDEN = Path(__file__).with_name("search.json")


def present() -> dict[str, Any]:
    blocks = [dressed_block(7, block, 0.1, "bench") for block in range(4)]
    table = concatenate([block.table for block in blocks])
    columns: dict[str, Any] = {name: ak.Array(values) for name, values in table.scalars.items()}
    for name, (of, values) in table.objects.items():
        columns[name] = ak.unflatten(values, table.counts[of])
    found = Histograms()
    candidates = search({name: columns[name] for name in SEARCH_COLUMNS}, found)
    nano = dressed_block(7, 1, 0.1, "nano").table
    means = {
        name: float(np.mean(values, dtype=np.float64)) for name, values in nano.scalars.items()
    }
    means |= {
        name: float(np.mean(values, dtype=np.float64)) for name, (_, values) in nano.objects.items()
    }
    return {
        "events": len(blocks) * BLOCK_EVENTS,
        "signal_selected": int(sum(block.signal_selected.sum() for block in blocks)),
        "four_lepton_events": candidates,
        "histograms": {name: histogram["counts"] for name, histogram in found.numbers().items()},
        "means": {name: round(mean, 6) for name, mean in means.items()},
    }


def test_the_search_and_the_columns_are_as_they_were() -> None:
    expected, found = json.loads(GOLDEN.read_text()), present()
    assert found["events"] == expected["events"]
    assert found["signal_selected"] == pytest.approx(expected["signal_selected"], abs=2)
    assert found["four_lepton_events"] == pytest.approx(expected["four_lepton_events"], abs=3)
    for name, counts in expected["histograms"].items():
        moved = np.abs(np.array(found["histograms"][name]) - np.array(counts)).sum()
        assert moved <= max(4, 0.002 * sum(counts)), name
    assert found["means"].keys() == expected["means"].keys()
    for name, mean in expected["means"].items():
        assert found["means"][name] == pytest.approx(mean, rel=1e-3, abs=1e-4), name


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(present(), indent=None))
    sys.exit(0)
