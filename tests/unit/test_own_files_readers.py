"""How files that Headrace did not write are read: by uproot and in ROOT's event loop, and what the model says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from headrace.datasets.trees import tree_facts
from headrace.errors import HeadraceError
from headrace.readers.counts import ReadCounts
from headrace.workloads import JobInput, JobOutput, Packet, Workload, kinds
from own_root_files import write_by_root, write_user_file


def workload_of(kind: str, file: Path, **options: Any) -> Workload:
    part = kinds()[kind]
    made = part(kind, part.Options.model_validate({"data": {"files": [str(file)]}, **options}))
    return part(kind, made.options_for_jobs())


def run(workload: Workload, file: Path, folder: Path) -> JobOutput:
    folder.mkdir(exist_ok=True)
    return workload.run(JobInput((str(file),), None, folder, slot=0, slots=1, seed=0))


@pytest.fixture(scope="module")
def by_root(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_by_root(tmp_path_factory.mktemp("root"))


@pytest.mark.parametrize("reader", ["uproot", "event-loop"])
@pytest.mark.parametrize("variable", ["v", "x", "n"])
def test_every_branch_of_a_tree_by_root_is_read(
    reader: str, variable: str, by_root: tuple[Path, Path], tmp_path: Path
) -> None:
    tree, _ = by_root
    options = {"variable": variable, "columns": "*", "low": -0.5, "high": 1999.5, "reader": reader}
    output = run(workload_of("scan", tree, **options), tree, tmp_path)
    values = ak.ravel(uproot.open({str(tree): "data"})[variable].array())
    expected, _ = np.histogram(np.asarray(values, "f8"), 100, (-0.5, 1999.5))
    assert output.events == 1000
    assert output.results["histogram"]["counts"][1:-1] == list(expected)
    stored = sum(column.stored_bytes for column in tree_facts(tree, None).columns)
    assert output.bytes_asked > 0.8 * stored
    assert output.bytes_uncompressed > 2 * 8 * len(values) * (variable == "x")


@pytest.mark.parametrize("reader", ["uproot", "event-loop"])
@pytest.mark.parametrize("variable", ["v", "l"])
def test_every_field_of_an_rntuple_by_root_is_read(
    reader: str, variable: str, by_root: tuple[Path, Path], tmp_path: Path
) -> None:
    _, ntuple = by_root
    options = {"variable": variable, "columns": "*", "low": -0.5, "high": 1999.5, "reader": reader}
    output = run(workload_of("scan", ntuple, **options), ntuple, tmp_path)
    values = ak.ravel(uproot.open({str(ntuple): "data"})[variable].array())
    expected, _ = np.histogram(np.asarray(values, "f8"), 100, (-0.5, 1999.5))
    assert output.events == 1000
    assert output.results["histogram"]["counts"][1:-1] == list(expected)
    told = output.results["columns_as_bytes" if reader == "uproot" else "columns_left_out"]
    assert "nested" in told, "what was not taken apart is said"


@pytest.mark.parametrize("compression", [0, 301, 404, 505, 207])
def test_every_compression_that_root_had_and_has(compression: int, tmp_path: Path) -> None:
    """3 is that of before 2005, which uproot by itself refuses."""
    tree, _ = write_by_root(tmp_path, compression)
    output = run(workload_of("scan", tree, variable="v", columns="*"), tree, tmp_path / "scratch")
    counts = output.results["histogram"]["counts"]
    assert output.events == 1000 and sum(counts) == 2000
    facts = tree_facts(tree, None)
    assert (facts.level == 0) == (compression == 0)


@pytest.mark.parametrize("which", [0, 1])
def test_a_skim_writes_what_it_keeps(
    which: int, by_root: tuple[Path, Path], tmp_path: Path
) -> None:
    file = by_root[which]
    output = run(workload_of("skim", file, keep=0.25, fraction=1.0), file, tmp_path)
    assert output.results["events_kept"] == 250
    [written] = tmp_path.glob("*.root")
    kept = uproot.open({str(written): "Events"})
    source = uproot.open({str(file): "data"})["v"].array()[3::4]
    assert ak.to_list(kept["v"].array()) == ak.to_list(source)
    assert str(kept.classname).endswith("RNTuple") == bool(which)
    assert output.bytes_written == written.stat().st_size


def test_a_part_of_a_file_is_read(by_root: tuple[Path, Path], tmp_path: Path) -> None:
    tree, _ = by_root
    scan = workload_of("scan", tree, variable="n", low=-0.5, high=9.5, bins=10)

    def packets() -> Any:
        yield Packet(str(tree), 100, 300)
        yield Packet(str(tree), 700, 50)

    output = scan.run(JobInput((), None, tmp_path, slot=0, slots=1, seed=0, packets=packets))
    assert output.events == 350
    assert output.results["histogram"]["counts"][1:-1] == [35] * 10


def test_the_largest_column_of_numbers_is_the_variable(tmp_path: Path) -> None:
    file = write_user_file(tmp_path / "a.root")
    assert workload_of("scan", file).options.variable == "Hit_pt"


def test_an_object_is_no_variable(by_root: tuple[Path, Path]) -> None:
    with pytest.raises(HeadraceError, match="text holds no numbers"):
        workload_of("scan", by_root[0], variable="text").profile(None)


def reads_of(
    workload: Workload, file: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    seen: list[tuple[int, int]] = []
    add = ReadCounts.add

    def noted(
        counts: ReadCounts, path: str, start: int, stop: int, calls: int, wait_s: float
    ) -> None:
        seen.append((start, stop - start))
        add(counts, path, start, stop, calls, wait_s)

    monkeypatch.setattr(ReadCounts, "add", noted)
    run(workload, file, folder)
    return seen


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("columns", [None, "*"])
def test_the_model_asks_for_what_the_job_asks_for(
    which: int,
    columns: str | None,
    by_root: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = [*by_root, write_user_file(tmp_path / "user.root", 3000)][which]
    scan = workload_of("scan", file, columns=columns, step_events=1000)
    seen = reads_of(scan, file, tmp_path / "scratch", monkeypatch)
    made = scan.profile(None)
    modelled = [
        each for step in made.steps if step["do"] == "sequence" for each in step["ranges_bytes"]
    ]
    assert made.events == tree_facts(file, None).events
    assert all(at >= 0 and at + size <= file.stat().st_size for at, size in modelled)
    # Of the events the very same reads; of what is read when the file is opened, about as much.
    events = {place for place in seen if place in set(map(tuple, modelled))}
    assert sum(size for _, size in modelled) == pytest.approx(
        sum(size for _, size in seen), rel=0.15, abs=12_000
    )
    assert sum(size for _, size in events) > 0.5 * sum(size for _, size in seen)
    assert made.files[0]["bytes"] == file.stat().st_size


@pytest.mark.parametrize("name", ["a b.root", "a*b[1].root", "no ending", "a:b.root"])
def test_odd_names_are_read_by_root_where_they_are(name: str, tmp_path: Path) -> None:
    file = write_user_file(tmp_path / name)
    output = run(workload_of("scan", file, reader="event-loop"), file, tmp_path / "scratch")
    assert output.events == 600


@pytest.mark.parametrize("name", ["a#b.root", "a?b.root"])
def test_a_name_that_root_cannot_open_is_told(name: str, tmp_path: Path) -> None:
    file = write_user_file(tmp_path / name)
    with pytest.raises(HeadraceError, match="part of a URL; rename it"):
        run(workload_of("scan", file, reader="event-loop"), file, tmp_path / "scratch")
    assert run(workload_of("scan", file), file, tmp_path / "scratch").events == 600
