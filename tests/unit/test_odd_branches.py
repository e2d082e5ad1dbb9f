"""Branches of a TTree that uproot or RDataFrame takes for something else, or cannot read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.datasets.trees import tree_facts
from headrace.errors import HeadraceError
from headrace.readers.own_columns import wanted_columns
from headrace.workloads import JobInput, JobOutput, Workload, kinds
from odd_root_files import branches_by_root, map_by_root
from own_root_files import written_by_root

pytestmark = pytest.mark.slow

READERS = ["uproot", "event-loop", "rdataframe"]

EVENTS = np.arange(100)


def scan_of(file: Path, **options: Any) -> Workload:
    part = kinds()["scan"]
    axis = {"bins": 400, "low": -0.5, "high": 1999.5}
    data = {"data": {"files": [str(file)]}}
    made = part("scan", part.Options.model_validate({**data, **axis, **options}))
    return part("scan", made.options_for_jobs())


def run(workload: Workload, file: Path, folder: Path) -> JobOutput:
    return workload.run(JobInput((str(file),), None, folder, slot=0, slots=1, seed=0))


def counts_of(values: Any) -> list[int]:
    counts, _ = np.histogram(np.ravel(values), 400, (-0.5, 1999.5))
    return [int(count) for count in counts]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        ("arr.a1", np.repeat(EVENTS, 4)),
        ("arr.a2", np.tile(np.arange(4), 100)),
        ("pair.q", EVENTS[:, None] + np.arange(3)),
        ("mixed.p", 10 * EVENTS[:, None] + np.arange(4)),
        ("mixed.n", EVENTS),
    ],
)
def test_leaves_that_are_arrays_are_read(
    leaf: str, expected: Any, reader: str, shared_folder: Path, tmp_path: Path
) -> None:
    """uproot takes one length for that of all leaves, and two dimensions for one."""
    file = branches_by_root(shared_folder)
    output = run(scan_of(file, variable=leaf, reader=reader), file, tmp_path)
    assert output.events == 100
    assert output.results["histogram"]["counts"][1:-1] == counts_of(expected)


@pytest.mark.parametrize("reader", READERS)
def test_a_branch_that_cannot_be_read_leaves_the_others_readable(
    reader: str, shared_folder: Path, tmp_path: Path
) -> None:
    file = branches_by_root(shared_folder)
    output = run(scan_of(file, variable="x", columns="*", reader=reader), file, tmp_path)
    assert output.results["histogram"]["counts"][1:-1] == counts_of(EVENTS)
    if reader == "uproot":
        assert output.results["columns_as_bytes"] == ["text.s", "text.k", "late"]


def test_the_default_variable_is_a_column_that_the_reader_reads(
    shared_folder: Path, tmp_path: Path
) -> None:
    """The largest is vm, of which RDataFrame says RVec<std::array<Float_t, 3>>."""
    file = branches_by_root(shared_folder)
    assert scan_of(file).options_for_jobs().variable == "vm"
    scan = scan_of(file, reader="rdataframe")
    assert scan.options_for_jobs().variable != "vm"
    assert run(scan, file, tmp_path).events == 100
    own = scan.options_for_jobs().own
    with pytest.raises(HeadraceError, match=r"vm does not hold .* which reader rdataframe needs"):
        wanted_columns(own, "vm", None, "rdataframe")


def test_a_branch_without_some_events_has_no_histogram(shared_folder: Path) -> None:
    """ROOT repeats the last number for the events that such a branch lacks."""
    file = branches_by_root(shared_folder)
    kinds_of = {column.name: column.kind for column in tree_facts(file, None).columns}
    assert kinds_of["late"] == "unknown" and kinds_of["x"] == "numbers"
    own = scan_of(file).options_for_jobs().own
    with pytest.raises(HeadraceError, match="late holds no numbers, or not for every event"):
        wanted_columns(own, "late", None, "event-loop")


def test_members_of_a_map(tmp_path: Path) -> None:
    """An event loop of ROOT's finds one number, 0, in every event, however many the map has."""
    file = map_by_root(tmp_path)
    keys = [event + number for event in range(50) for number in range(event % 4)]
    for reader in ("uproot", "rdataframe"):
        output = run(scan_of(file, variable="map.first", reader=reader), file, tmp_path)
        assert output.results["histogram"]["counts"][1:-1] == counts_of(keys)
    own = scan_of(file).options_for_jobs().own
    with pytest.raises(HeadraceError, match=r"map\.first is a member of a map.*reader event-loop"):
        wanted_columns(own, "map.first", None, "event-loop")
    loop = run(scan_of(file, reader="event-loop", columns="*"), file, tmp_path)
    assert loop.results["variable"] == "x" and loop.events == 50


@pytest.mark.parametrize("reader", ["uproot", "event-loop"])
def test_a_collection_with_branches_of_its_own_has_one_number(
    reader: str, shared_folder: Path, tmp_path: Path
) -> None:
    file, _ = written_by_root(shared_folder)
    output = run(scan_of(file, variable="hits", bins=2000, reader=reader), file, tmp_path)
    expected, _ = np.histogram(np.arange(1000) % 3, 2000, (-0.5, 1999.5))
    assert output.results["histogram"]["counts"][1:-1] == list(expected)
