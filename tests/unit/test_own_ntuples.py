"""How RNTuples of records, arrays and strings that Headrace did not write are read and modelled."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from headrace.datasets.trees import tree_facts
from headrace.errors import HeadraceError
from headrace.workloads import JobInput, JobOutput, Workload, kinds
from own_root_files import bits_by_root, records_by_root, short_numbers_by_root

pytestmark = pytest.mark.slow

READERS = ["uproot", "event-loop", "rdataframe"]
MEMBERS = ["tracks.pt", "best.x", "best.id", "best.charges", "vector"]
"""Columns of one number, or one list of numbers, per event."""
NESTED = ["tracks.hits.x", "tracks.hits.id", "tracks.hits.charges", "point"]


def workload_of(kind: str, file: Path, **options: Any) -> Workload:
    part = kinds()[kind]
    made = part(kind, part.Options.model_validate({"data": {"files": [str(file)]}, **options}))
    return part(kind, made.options_for_jobs())


def run(workload: Workload, file: Path) -> JobOutput:
    with tempfile.TemporaryDirectory() as folder:
        return workload.run(JobInput((str(file),), None, Path(folder), slot=0, slots=1, seed=0))


@pytest.fixture(scope="module")
def records(shared_folder: Path) -> Path:
    return records_by_root(shared_folder)


def opened(file: Path, name: str) -> Any:
    return uproot.open({str(file): name})


def values_of(file: Path, column: str) -> Any:
    """What uproot's own reading of the RNTuple finds."""
    array = opened(file, "data").arrays()
    for name in column.split("."):
        array = array[name]
    return np.asarray(ak.ravel(array), "f8")


def test_members_of_records_are_columns_as_rdataframe_names_them(records: Path) -> None:
    facts = tree_facts(records, None)
    kinds_of = {column.name: (column.kind, column.flat) for column in facts.columns}
    assert kinds_of == {
        **dict.fromkeys(MEMBERS, ("numbers", True)),
        **dict.fromkeys(NESTED, ("numbers", False)),
        **dict.fromkeys(("text", "either"), ("objects", False)),
    }
    ntuple = opened(records, "data")
    pages = [page for link in ntuple.page_link_list for column in link for page in column.pages]
    stored = sum(int(page.locator.num_bytes) for page in pages)
    assert sum(column.stored_bytes for column in facts.columns) == stored, "no page twice"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("variable", [*MEMBERS, *NESTED])
def test_a_member_of_records_is_histogrammed(variable: str, reader: str, records: Path) -> None:
    options = {"variable": variable, "columns": "*", "low": -0.5, "high": 999.5, "reader": reader}
    scan = workload_of("scan", records, **options)
    takes_arrays = reader == "rdataframe" and variable == "point"
    if reader != "uproot" and variable in NESTED and not takes_arrays:
        [(place, problem)] = scan.options.wrong_fields()
        assert place == ("variable",) and f"column {variable} does not hold one" in problem
        return
    output = run(scan, records)
    expected, _ = np.histogram(values_of(records, variable), 100, (-0.5, 999.5))
    assert output.events == 300
    assert output.results["histogram"]["counts"][1:-1] == list(expected)
    if reader == "uproot":
        assert output.results["columns_as_bytes"] == ["text", "either"]
    else:
        left_out = set(output.results["columns_left_out"])
        assert {*NESTED, "text", "either"} - {"point"} <= left_out
        assert not left_out & set(MEMBERS)


@pytest.mark.parametrize("reader", READERS)
def test_a_record_is_named_whole(reader: str, records: Path) -> None:
    options = {"variable": "vector", "columns": "best", "reader": reader}
    alone = run(workload_of("scan", records, **{**options, "columns": None}), records)
    output = run(workload_of("scan", records, **options), records)
    per_event = 4 + 4 + 8 + 4  # x, id, the offset and the mean of the numbers of charges
    assert output.bytes_uncompressed - alone.bytes_uncompressed == pytest.approx(
        300 * per_event, rel=0.01
    )
    scan = workload_of("scan", records, **{**options, "variable": "best"})
    [(_, problem)] = scan.options.wrong_fields()
    assert "best has several columns: best.x, best.id, best.charges; name one" in problem


def test_the_model_requests_the_pages_of_members_and_of_their_lists(records: Path) -> None:
    for variable in ("tracks.pt", "tracks.hits.charges", "best.x", "point"):
        scan = workload_of("scan", records, variable=variable)
        run(scan, records)
        output = run(scan, records)
        made = scan.profile(None)
        ranges = [each for step in made.steps for each in step.get("ranges_bytes", ())]
        modelled = sum(size for _, size in ranges)
        assert modelled == pytest.approx(output.bytes_asked, rel=0.05), variable


@pytest.mark.parametrize("reader", ["uproot", "rdataframe"])
def test_a_skim_keeps_members(reader: str, records: Path, tmp_path: Path) -> None:
    skim = workload_of("skim", records, keep=0.25, fraction=1.0, reader=reader)
    skim.run(JobInput((str(records),), None, tmp_path, slot=0, slots=1, seed=0))
    [written] = tmp_path.glob("*.root")
    kept = opened(written, "Events").arrays()
    source = opened(records, "data").arrays()[3::4]
    assert ak.to_list(kept["tracks_pt"]) == ak.to_list(source["tracks"]["pt"])
    assert ak.to_list(kept["best_charges"]) == ak.to_list(source["best"]["charges"])


def test_an_rntuple_that_rdataframe_cannot_open_says_so(shared_folder: Path) -> None:
    file = bits_by_root(shared_folder)
    with pytest.raises(HeadraceError, match=r"RDataFrame cannot take a field .* std::bitset"):
        run(workload_of("scan", file, reader="rdataframe"), file)
    for reader in ("uproot", "event-loop"):
        assert run(workload_of("scan", file, variable="x", reader=reader), file).events == 1


@pytest.mark.parametrize("reader", READERS)
def test_numbers_that_are_shorter_on_disk(reader: str, shared_folder: Path) -> None:
    file = short_numbers_by_root(shared_folder)
    options = {"variable": "d", "columns": "f", "low": -0.5, "high": 99.5, "reader": reader}
    output = run(workload_of("scan", file, **options), file)
    assert output.results["histogram"]["counts"][1:-1] == [1] * 100
    assert "columns_left_out" not in output.results
