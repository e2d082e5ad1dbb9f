"""Columns of TTrees and RNTuples that are neither plain branches nor plain fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from headrace.datasets.trees import tree_facts
from headrace.errors import HeadraceError
from headrace.readers.own_columns import wanted_columns
from headrace.workloads import JobInput, JobOutput, Workload, kinds
from own_root_files import late_fields_by_root, leaves_by_root

pytestmark = pytest.mark.slow

READERS = ["uproot", "event-loop", "rdataframe"]
SKIMMERS = ["uproot", "rdataframe"]


def workload_of(kind: str, file: Path, tree: str | None = None, **options: Any) -> Workload:
    data = {"files": [str(file)], **({} if tree is None else {"tree": tree})}
    part = kinds()[kind]
    made = part(kind, part.Options.model_validate({"data": data, **options}))
    return part(kind, made.options_for_jobs())


def run(workload: Workload, file: Path, folder: Path) -> JobOutput:
    return workload.run(JobInput((str(file),), None, folder, slot=0, slots=1, seed=0))


def read_by_uproot(file: Path, tree: str, name: str) -> Any:
    found: Any = uproot.open({str(file): tree})
    return found[name].array()


def counts_of(values: Any) -> list[int]:
    counts, _ = np.histogram(np.asarray(ak.ravel(values), "f8"), 100, (-0.5, 1999.5))
    return [int(count) for count in counts]


def last_ranges(scan: Workload) -> Any:
    """What the model reads last."""
    job = scan.profile(None)
    assert job is not None
    steps: list[Any] = [step for step in job.steps if step["do"] == "sequence"]
    return steps[-1]["ranges_bytes"]


def requested(scan: Workload) -> int:
    """Bytes of all reads of the model."""
    job = scan.profile(None)
    assert job is not None
    steps: list[Any] = [step for step in job.steps if step["do"] == "sequence"]
    return sum(size for step in steps for _, size in step["ranges_bytes"])


def scanned(file: Path, folder: Path, **options: Any) -> JobOutput:
    return run(workload_of("scan", file, low=-0.5, high=1999.5, **options), file, folder)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("leaf", ["y", "x", "n", "v"])
def test_each_leaf_of_a_branch_is_a_column(
    reader: str, leaf: str, shared_folder: Path, tmp_path: Path
) -> None:
    file = leaves_by_root(shared_folder)
    options = {"tree": "data", "variable": f"leaves.{leaf}", "columns": "leaves"}
    output = scanned(file, tmp_path, reader=reader, **options)
    expected = read_by_uproot(file, "data", "leaves")[leaf]
    assert output.events == 300
    assert output.results["histogram"]["counts"][1:-1] == counts_of(expected)
    assert not {"columns_left_out", "columns_as_bytes"} & set(output.results)


@pytest.mark.parametrize("reader", READERS)
def test_a_tree_whose_only_branch_has_leaves_needs_no_variable(
    reader: str, shared_folder: Path, tmp_path: Path
) -> None:
    output = scanned(leaves_by_root(shared_folder), tmp_path, tree="data", reader=reader)
    assert output.results["variable"] == "leaves.y" and output.events == 300


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("columns", ["leaves.n", "leaves"])
def test_the_baskets_of_all_leaves_are_requested_once_for_any_of_them(
    reader: str, columns: str, shared_folder: Path, tmp_path: Path
) -> None:
    file = leaves_by_root(shared_folder)
    options = {"tree": "data", "variable": "leaves.n", "columns": columns, "reader": reader}
    stored = sum(column.stored_bytes for column in tree_facts(file, "data").columns)
    modelled = sum(size for _, size in last_ranges(workload_of("scan", file, **options)))
    assert modelled == pytest.approx(stored, rel=0.1)
    output = run(workload_of("scan", file, **options), file, tmp_path)
    if reader == "uproot":
        assert output.bytes_asked < stored + file.stat().st_size / 2, "not once for each leaf"


def test_a_basket_of_several_steps_is_requested_once(shared_folder: Path, tmp_path: Path) -> None:
    """As by `uproot.iterate`; the second basket has 200 events, and lists come in parts, too."""
    file = leaves_by_root(shared_folder)
    options: dict[str, Any] = {"tree": "data", "variable": "leaves.v", "low": -0.5, "high": 1999.5}
    whole = workload_of("scan", file, step_events=1000, **options)
    steps = workload_of("scan", file, step_events=30, **options)
    run(whole, file, tmp_path)  # the first file of a process has its class descriptions read, too
    once, often = run(whole, file, tmp_path), run(steps, file, tmp_path)
    assert often.results == once.results and often.events == 300
    assert often.bytes_asked == once.bytes_asked
    assert often.bytes_uncompressed == once.bytes_uncompressed
    assert requested(steps) == requested(whole)


@pytest.mark.parametrize("reader", SKIMMERS)
def test_a_skim_writes_every_leaf(reader: str, shared_folder: Path, tmp_path: Path) -> None:
    file = leaves_by_root(shared_folder)
    skim = workload_of("skim", file, tree="data", keep=0.25, fraction=1.0, reader=reader)
    assert run(skim, file, tmp_path).results == {"events_kept": 75}
    [written] = tmp_path.glob("*.root")
    source = read_by_uproot(file, "data", "leaves")[3::4]
    for leaf in ("y", "x", "n", "v"):
        kept = read_by_uproot(written, "Events", f"leaves_{leaf}")
        assert ak.to_list(kept) == ak.to_list(source[leaf])


def test_an_array_of_several_dimensions_is_a_list_for_rdataframe(
    shared_folder: Path, tmp_path: Path
) -> None:
    """What RDataFrame reads may be named, is the default, and is in the model."""
    file = leaves_by_root(shared_folder)
    scan = workload_of("scan", file, "arrays", columns="*", reader="rdataframe")
    assert scan.options.variable == "grid"
    output = run(scan, file, tmp_path)
    # ROOT has no type for the array of a branch that does not have the name of its leaf.
    assert output.results["columns_left_out"] == ["w[3]"]
    facts = tree_facts(file, "arrays")
    assert [(column.name, column.in_frames) for column in facts.columns] == [
        ("w[3]", False),
        ("grid", True),
    ]
    pieces = sum(column.pieces for column in facts.columns if column.in_frames)
    assert 0 < len(last_ranges(scan)) <= pieces


@pytest.mark.parametrize("reader", ["uproot", "event-loop"])
def test_an_array_of_a_fixed_length_has_no_offsets(
    reader: str, shared_folder: Path, tmp_path: Path
) -> None:
    file = leaves_by_root(shared_folder)
    output = scanned(file, tmp_path, tree="arrays", variable="w[3]", reader=reader)
    assert output.bytes_uncompressed == 300 * 3 * 4


@pytest.mark.parametrize("reader", ["uproot", "rdataframe"])
def test_a_std_array_is_a_column_of_numbers(
    reader: str, shared_folder: Path, tmp_path: Path
) -> None:
    file, _ = late_fields_by_root(shared_folder)
    scan = workload_of("scan", file, low=-0.5, high=1999.5, reader=reader)
    assert scan.options.variable == "point"
    output = run(scan, file, tmp_path)
    assert output.results["histogram"]["counts"][1:-1] == counts_of(
        read_by_uproot(file, "data", "point")
    )
    assert last_ranges(scan), "it is in the model"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("variable", "values"), [("late", [0] * 150), ("lists", [])])
def test_fields_that_were_added_late_are_zero_before(
    reader: str, variable: str, values: list[int], shared_folder: Path, tmp_path: Path
) -> None:
    file, _ = late_fields_by_root(shared_folder)
    output = scanned(file, tmp_path, variable=variable, columns="*", reader=reader)
    expected = [*values, *(range(150, 300) if values else ())]
    assert output.events == 300
    assert output.results["histogram"]["counts"][1:-1] == counts_of(expected)


def test_an_event_loop_says_that_it_reads_no_array_of_an_rntuple(shared_folder: Path) -> None:
    file, _ = late_fields_by_root(shared_folder)
    scan: Any = workload_of("scan", file, variable="point")
    with pytest.raises(HeadraceError, match="point does not hold one number"):
        wanted_columns(scan.scan.own, "point", None, "event-loop")


@pytest.mark.parametrize("reader", SKIMMERS)
def test_a_skim_of_an_rntuple_without_events_writes_nothing(
    reader: str, shared_folder: Path, tmp_path: Path
) -> None:
    """RDataFrame crashes on one."""
    _, empty = late_fields_by_root(shared_folder)
    output = run(workload_of("skim", empty, reader=reader), empty, tmp_path)
    assert output.events == 0 and output.results["events_kept"] == 0
