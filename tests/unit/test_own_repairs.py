"""Files that uproot or ROOT read wrongly, or not at all, without repairs of Headrace's."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from headrace.datasets.trees import tree_facts
from headrace.errors import HeadraceError
from headrace.workloads import JobInput, JobOutput, Packet, Workload, kinds
from odd_root_files import offsetless_by_root, pointed_by_root

pytestmark = pytest.mark.slow

READERS = ["uproot", "event-loop", "rdataframe"]


def scan_of(file: Path, variable: str, tree: str | None = None, **options: Any) -> Workload:
    part = kinds()["scan"]
    data = {"files": [str(file)], "tree": tree}
    made = part.Options.model_validate({"data": data, "variable": variable, **options})
    return part("scan", made)


def run(workload: Workload, file: Path, folder: Path, packets: list[Packet]) -> JobOutput:
    def given() -> Iterator[Packet]:
        return iter(packets)

    files = () if packets else (str(file),)
    packed = given if packets else None
    return workload.run(JobInput(files, None, folder, slot=0, slots=1, seed=0, packets=packed))


def values_in(first: int, stop: int) -> list[int]:
    """The histogram of `offsetless_by_root`: how many values each of 2000 events has."""
    root: Any = pytest.importorskip("ROOT")
    random = root.TRandom3(1)
    counts = [max(0, int(random.Integer(8)) - 2) for _ in range(2000)]
    return [count if first <= event < stop else 0 for event, count in enumerate(counts)]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("variable", ["x", "pairs"])
@pytest.mark.parametrize("ranges", [[], [(0, 7), (330, 450), (1201, 2000)]])
def test_lists_without_stored_offsets_are_those_of_their_events(
    ranges: list[tuple[int, int]],
    variable: str,
    reader: str,
    shared_folder: Path,
    tmp_path: Path,
) -> None:
    """Their counter has its baskets at other events; packets begin within baskets."""
    file = offsetless_by_root(shared_folder)
    axis: dict[str, Any] = {"bins": 2000, "low": 0.0, "high": 2000.0}
    scan = scan_of(file, variable, reader=reader, columns="*", **axis)
    if variable == "pairs" and reader != "uproot":
        [(_, problem)] = scan.options.wrong_fields()
        assert "a list of arrays without stored offsets" in problem
        return
    packets = [Packet(str(file), first, stop - first) for first, stop in ranges]
    output = run(scan, file, tmp_path, packets)
    per_event = 2 if variable == "pairs" else 1
    expected = np.sum([values_in(*each) for each in ranges or [(0, 2000)]], axis=0) * per_event
    assert output.results["histogram"]["counts"][1:-1] == list(expected)
    assert "columns_as_bytes" not in output.results


def test_threads_refuse_lists_without_stored_offsets(shared_folder: Path, tmp_path: Path) -> None:
    file = offsetless_by_root(shared_folder)
    scan = scan_of(file, "x", reader="rdataframe", threads=2)
    with pytest.raises(HeadraceError, match=r"column x has no stored offsets .* wrong events"):
        run(scan, file, tmp_path, [])
    numbers = scan_of(file, "n", reader="rdataframe", threads=2, bins=6, low=-0.5, high=5.5)
    assert sum(run(numbers, file, tmp_path, []).results["histogram"]["counts"][1:-1]) == 2000


@pytest.mark.parametrize("reader", READERS)
def test_arrays_to_which_members_point(reader: str, shared_folder: Path, tmp_path: Path) -> None:
    """RDataFrame takes them for one number and, in a collection, then reads no column at all."""
    file = pointed_by_root(shared_folder)
    axis: dict[str, Any] = {"bins": 256, "low": -0.5, "high": 255.5}
    output = run(scan_of(file, "x", reader=reader, columns="*", **axis), file, tmp_path, [])
    assert output.results["histogram"]["counts"][1:101] == [1] * 100
    left_out = output.results.get("columns_left_out", [])
    if reader == "rdataframe":
        assert {"bits.fAllBits", "many.fAllBits"} <= set(left_out)
        assert not {"bits.fNbits", "many.fNbits", "x"} & set(left_out)
        [(_, problem)] = scan_of(file, "bits.fAllBits", reader=reader).options.wrong_fields()
        assert "one list of numbers" in problem
        return
    assert left_out == []
    output = run(scan_of(file, "bits.fAllBits", reader=reader, **axis), file, tmp_path, [])
    tree: Any = uproot.open({str(file): "data"})
    values: Any = ak.ravel(tree["bits.fAllBits"].array())
    expected = np.bincount(np.asarray(values), minlength=256)
    assert output.results["histogram"]["counts"][1:-1] == list(expected)


@pytest.mark.parametrize("reader", READERS)
def test_members_of_objects_in_a_clones_array(
    reader: str, shared_folder: Path, tmp_path: Path
) -> None:
    """RDataFrame takes `tracks.bits.fNbits` from other places; `tracks.energy` it reads rightly."""
    file = pointed_by_root(shared_folder)
    axis: dict[str, Any] = {"bins": 600, "low": -0.5, "high": 599.5}
    output = run(
        scan_of(file, "tracks.energy", reader=reader, columns="*", **axis), file, tmp_path, []
    )
    assert output.results["histogram"]["counts"][501] == 200
    nested = scan_of(file, "tracks.bits.fNbits", reader=reader, **axis)
    if reader == "rdataframe":
        assert "tracks.bits.fNbits" in output.results["columns_left_out"]
        [(_, problem)] = nested.options.wrong_fields()
        assert "one list of numbers" in problem
        return
    output = run(nested, file, tmp_path, [])
    assert output.results["histogram"]["counts"][2:102] == [2] * 100


@pytest.mark.parametrize("reader", READERS)
def test_branches_of_root_4_are_read(reader: str, tmp_path: Path) -> None:
    """As in a file of 2004 that comes with ROOT; ROOT itself writes no such branches any more."""
    found = importlib.util.find_spec("ROOT")
    file = Path(str(found and found.origin)).with_name("tutorials") / "math/quadp/stock.root"
    assert file.exists(), "it comes with ROOT"
    facts = tree_facts(file, "GE")
    assert (facts.events, len(facts.columns)) == (974, 8)
    axis: dict[str, Any] = {"bins": 60, "low": 0.0, "high": 6000.0}
    scan = scan_of(file, "fClose", "GE", reader=reader, columns="*", **axis)
    counts = run(scan, file, tmp_path, []).results["histogram"]["counts"]
    assert sum(counts[1:-1]) == 974
    assert counts[24:30] == [29, 21, 32, 41, 48, 85]
