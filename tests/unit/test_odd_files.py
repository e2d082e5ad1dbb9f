"""What is said of files with several trees, copied too early, or that ROOT cannot read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

from headrace.datasets import OwnFiles
from headrace.datasets.own_check import described, wrong_files
from headrace.datasets.trees import tree_facts
from headrace.errors import HeadraceError
from headrace.readers.root_reader import explained, root
from headrace.workloads import JobInput, JobOutput, Workload, kinds
from odd_root_files import copied_while_written_by_root, objects_by_root

pytestmark = pytest.mark.slow

READERS = ["uproot", "event-loop", "rdataframe"]


def write_trees(path: Path, **events: int) -> Path:
    """A file with trees of these names and numbers of events."""
    handle: Any = uproot.recreate(str(path))
    with handle as file:
        for name, count in events.items():
            file.mktree(name, {"x": "i4"})
            if count:
                file[name].extend({"x": np.arange(count, dtype="i4")})
    return path


def own_files(*files: Path) -> OwnFiles:
    return OwnFiles.model_validate({"files": [str(file) for file in files]})


def scan_of(file: Path, **options: Any) -> Workload:
    part = kinds()["scan"]
    data = {"data": {"files": [str(file)]}}
    made = part("scan", part.Options.model_validate({**data, "variable": "x", **options}))
    return part("scan", made.options_for_jobs())


def run(workload: Workload, file: Path, folder: Path) -> JobOutput:
    return workload.run(JobInput((str(file),), None, folder, slot=0, slots=1, seed=0))


@pytest.mark.parametrize("reader", READERS)
def test_of_several_trees_the_one_with_events_is_read(reader: str, tmp_path: Path) -> None:
    file = write_trees(tmp_path / "a.root", runs=0, hits=30, slices=0)
    assert wrong_files(own_files(file)) == []
    assert "30 events in hits (the only one of 3 trees with events): " in described(own_files(file))
    assert run(scan_of(file, reader=reader), file, tmp_path).events == 30


@pytest.mark.parametrize("reader", READERS)
def test_a_well_known_name_is_enough(reader: str, tmp_path: Path) -> None:
    file = write_trees(tmp_path / "a.root", Runs=7, Events=20, more=0)
    assert "20 events in Events: " in described(own_files(file))
    assert run(scan_of(file, reader=reader), file, tmp_path).events == 20
    empty = write_trees(tmp_path / "b.root", Runs=7, Events=0)
    [(_, problem)] = wrong_files(own_files(empty))
    assert "b.root: has no events" in problem, "not the runs"


def test_trees_to_choose_from_are_listed_with_their_events(tmp_path: Path) -> None:
    file = write_trees(tmp_path / "a.root", one=2, two=3000, three=0)
    [(_, problem)] = wrong_files(own_files(file))
    assert "has several trees: one (2 events), two (3,000 events); without events: 1" in problem
    none = write_trees(tmp_path / "b.root", one=0, two=0)
    [(_, problem)] = wrong_files(own_files(none))
    assert "none of its trees has events: one, two" in problem


def test_files_with_events_in_different_trees_are_refused(tmp_path: Path) -> None:
    first = write_trees(tmp_path / "a.root", one=2, two=0)
    other = write_trees(tmp_path / "b.root", one=0, two=2)
    [(_, problem)] = wrong_files(own_files(first, other))
    assert "b.root: its events are in two, those of a.root in one" in problem
    alone = write_trees(tmp_path / "c.root", two=2)
    assert wrong_files(own_files(first, alone)) == [], "as ever: each has a single tree of events"


def test_a_file_copied_while_it_was_written_is_called_that(shared_folder: Path) -> None:
    """The header still names the old place of the tree, in which there are baskets now."""
    at_first, in_between = copied_while_written_by_root(shared_folder)
    with pytest.raises(HeadraceError, match="no TTree or RNTuple: it was copied while"):
        tree_facts(at_first, None)
    with pytest.raises(HeadraceError, match=r"other data has its place .* copied while a program"):
        tree_facts(in_between, None)
    whole = tree_facts(in_between.with_name("slow.root"), None)
    assert whole.events == 100_000


@pytest.mark.parametrize(
    ("where", "said", "told"),
    [
        (
            "TBufferFile::ReadClassBuffer",
            "class: Hit, attempting to access a wrong version: 2384",
            r"ROOT cannot read it without the code of its classes: TBufferFile.*version: 2384",
        ),
        ("TBasket::ReadBasketBuffers", "no luck", "ROOT cannot read it: TBasket.*: no luck"),
    ],
)
def test_what_root_cannot_read_is_not_called_damaged(
    where: str, said: str, told: str, tmp_path: Path
) -> None:
    file = str(write_trees(tmp_path / "a.root", one=2))
    with pytest.raises(HeadraceError, match=told) as caught, explained(file):
        root().Error(where, said)
    assert "damaged" not in caught.value.message
    both = rf"a\.root: .*no such column; ROOT says {where}"
    with pytest.raises(HeadraceError, match=both), explained(file):
        root().Error(where, said)
        raise ValueError("out_of_range: no such column")


def test_what_root_says_while_it_opens_a_tree_does_not_end_the_loop(tmp_path: Path) -> None:
    """As of a leaf "that read too many bytes", in files of older uproot, which it reads rightly."""
    file = write_trees(tmp_path / "a.root", one=20)
    root().Error("TBufferFile::CheckByteCount", "object of class TLeafL read too many bytes")
    tree = root().headrace.OwnTree(str(file), "one")
    histogram = root().headrace.Histogram(10, 0, 20)
    tree.choose([0])
    assert tree.loop(0, 0, -1, histogram) == 20
    assert list(histogram.counts) == [0, *[2] * 10, 0]


@pytest.mark.parametrize("columns", [None, ["nested", "text"]])
@pytest.mark.parametrize("reader", ["uproot", "event-loop"])
def test_a_tree_of_objects_only_is_read_without_a_histogram(
    reader: str, columns: list[str] | None, shared_folder: Path, tmp_path: Path
) -> None:
    """Its baskets are requested and decompressed as those of numbers."""
    file = objects_by_root(shared_folder)
    part = kinds()["scan"]
    given = {"data": {"files": [str(file)]}, "reader": reader, "columns": columns}
    scan = part("scan", part.Options.model_validate(given))
    assert scan.options.wrong_fields() == []
    scan = part("scan", scan.options_for_jobs())
    output = run(scan, file, tmp_path)
    read = [each for each in tree_facts(file, None).columns if each.name in (columns or each.name)]
    assert output.events == 500
    assert output.bytes_asked > sum(column.stored_bytes for column in read)
    assert output.bytes_uncompressed > 0.5 * sum(column.memory_bytes for column in read)
    assert "histogram" not in output.results
    assert scan.merge([output.results, output.results]) == output.results
    assert sum(piece["do"] == "sequence" for piece in scan.profile(None).steps) >= 1


def test_rdataframe_and_a_variable_need_numbers(shared_folder: Path) -> None:
    file = objects_by_root(shared_folder)
    part = kinds()["scan"]
    for more in ({"reader": "rdataframe"}, {"variable": "nested"}):
        scan = part("scan", part.Options.model_validate({"data": {"files": [str(file)]}, **more}))
        [(_, problem)] = scan.options.wrong_fields()
        assert (
            "has no column of numbers; without a variable, reader uproot or event-loop" in problem
        )


def test_a_crash_of_root_is_explained(tmp_path: Path) -> None:
    file = write_trees(tmp_path / "a.root", one=2)
    assert "classes for which it has no code" in scan_of(file, reader="rdataframe").crash_note
    assert scan_of(file).crash_note == ""
