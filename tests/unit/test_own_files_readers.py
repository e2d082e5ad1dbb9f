"""How files that Headrace did not write are read by every reader, and what the model says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from headrace.datasets.trees import tree_facts
from headrace.errors import HeadraceError
from headrace.readers.counts import ReadCounts
from headrace.readers.root_steps import compiled_steps, said_in_child
from headrace.workloads import JobInput, JobOutput, Packet, Workload, kinds
from own_root_files import (
    friends_by_root,
    tuples_by_root,
    unflushed_by_root,
    write_user_file,
    written_by_root,
)

pytestmark = pytest.mark.slow

READERS = ["uproot", "event-loop", "rdataframe"]
SKIMMERS = ["uproot", "rdataframe"]


def workload_of(kind: str, file: Path, **options: Any) -> Workload:
    part = kinds()[kind]
    made = part(kind, part.Options.model_validate({"data": {"files": [str(file)]}, **options}))
    return part(kind, made.options_for_jobs())


def run(workload: Workload, file: Path, folder: Path) -> JobOutput:
    folder.mkdir(exist_ok=True)
    return workload.run(JobInput((str(file),), None, folder, slot=0, slots=1, seed=0))


@pytest.fixture(scope="module")
def by_root(shared_folder: Path) -> tuple[Path, Path]:
    return written_by_root(shared_folder)


@pytest.mark.parametrize("reader", READERS)
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
    left_out = set(output.results.get("columns_left_out", ()))
    columns = [each for each in tree_facts(tree, None).columns if each.name not in left_out]
    assert output.bytes_asked > 0.8 * sum(column.stored_bytes for column in columns)
    if reader == "rdataframe":
        assert left_out == {"hits", "p4", "text"}
        assert {column.name for column in columns if column.flat} == {each.name for each in columns}
    assert output.bytes_uncompressed > 2 * 8 * len(values) * (variable == "x")


@pytest.mark.parametrize("reader", READERS)
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
    assert told == ["text"] if reader == "uproot" else "nested" in told, "what was not taken apart"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("tree", ["single", "twice"])
def test_ntuples_of_numbers_by_root_are_read(
    tree: str, reader: str, shared_folder: Path, tmp_path: Path
) -> None:
    """A TNtupleD's numbers are doubles: these would be one bin of a float's histogram."""
    file = tuples_by_root(shared_folder)
    data = {"files": [str(file)], "tree": tree}
    first, step = (0.0, 1.0) if tree == "single" else (1.0, 1e-9)
    low, high = first - 0.5 * step, first + 199.5 * step
    options = {"variable": "x", "columns": "*", "low": low, "high": high, "bins": 20}
    scan = workload_of("scan", file, data=data, reader=reader, **options)
    output = run(scan, file, tmp_path)
    assert output.events == 200
    assert output.results["histogram"]["counts"][1:-1] == [10] * 20


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("reader", READERS)
def test_a_friend_of_a_tree_is_not_read(
    reader: str,
    beside: bool,
    shared_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor missed: a copy on a target has no file of friends, and RDataFrame crashes without."""
    file = friends_by_root(shared_folder)
    if beside:
        monkeypatch.chdir(file.parent)
    output = run(workload_of("scan", file, columns="*", reader=reader), file, tmp_path)
    assert output.events == 50
    assert output.bytes_uncompressed == 50 * 4, "x alone"


@pytest.mark.parametrize("compression", [0, 301, 404, 505, 207])
def test_every_compression_that_root_had_and_has(
    compression: int, shared_folder: Path, tmp_path: Path
) -> None:
    """3 is that of before 2005, which uproot by itself refuses."""
    tree, _ = written_by_root(shared_folder, compression)
    output = run(workload_of("scan", tree, variable="v", columns="*"), tree, tmp_path / "scratch")
    counts = output.results["histogram"]["counts"]
    assert output.events == 1000 and sum(counts) == 2000
    facts = tree_facts(tree, None)
    assert (facts.level == 0) == (compression == 0)


@pytest.mark.parametrize("reader", SKIMMERS)
@pytest.mark.parametrize("which", [0, 1])
def test_a_skim_writes_what_it_keeps(
    which: int, reader: str, by_root: tuple[Path, Path], tmp_path: Path
) -> None:
    file = by_root[which]
    skim = workload_of("skim", file, keep=0.25, fraction=1.0, reader=reader)
    output = run(skim, file, tmp_path)
    assert output.events == 1000
    assert output.results["events_kept"] == 250
    [written] = tmp_path.glob("*.root")
    with uproot.open({str(written): None}) as opened, uproot.open({str(file): None}) as source:
        kept = opened["Events"]
        for column in ("v", *(("n", "x", "hits.fX"), ("l",))[which]):
            name = column.replace(".", "_")
            expected = source["data"][column].array()[3::4]
            assert ak.to_list(kept[name].array()) == ak.to_list(expected), column
        assert str(kept.classname).endswith("RNTuple") == bool(which)
    assert output.bytes_written == written.stat().st_size


@pytest.mark.parametrize("which", [0, 1])
def test_two_threads_read_and_write_as_much_as_one(
    which: int, by_root: tuple[Path, Path], tmp_path: Path
) -> None:
    file = by_root[which]
    options = {"variable": "v", "columns": "*", "low": -0.5, "high": 1999.5}
    scans = [
        run(workload_of("scan", file, reader="rdataframe", threads=threads, **options), file, place)
        for threads, place in ((1, tmp_path / "one"), (2, tmp_path / "two"))
    ]
    assert scans[0].results == scans[1].results
    assert scans[0].bytes_uncompressed == scans[1].bytes_uncompressed > 0
    skim = workload_of("skim", file, keep=0.25, fraction=1.0, reader="rdataframe", threads=2)
    output = run(skim, file, tmp_path / "skim")
    assert output.events == 1000
    assert output.results["events_kept"] == 250
    [written] = (tmp_path / "skim").glob("*.root")
    kept = Counter(map(str, ak.to_list(uproot.open({str(written): "Events"})["v"].array())))
    read = Counter(map(str, ak.to_list(uproot.open({str(file): "data"})["v"].array())))
    assert kept.total() == 250 and kept <= read


@pytest.mark.parametrize("compression", [0, 404, 505])
def test_a_skim_by_rdataframe_compresses_like_the_file(
    compression: int, shared_folder: Path, tmp_path: Path
) -> None:
    tree, _ = written_by_root(shared_folder, compression)
    scratch = tmp_path / "scratch"
    run(workload_of("skim", tree, keep=0.5, reader="rdataframe", columns="x"), tree, scratch)
    [written] = scratch.glob("*.root")
    facts, source = tree_facts(written, None), tree_facts(tree, None)
    assert (facts.codec, facts.level) == (source.codec, source.level)
    assert [column.name for column in facts.columns] == ["n", "x"], "with the counter of x[n]"


@pytest.mark.parametrize("reader", SKIMMERS)
def test_a_skim_that_keeps_nothing(reader: str, by_root: tuple[Path, Path], tmp_path: Path) -> None:
    """ROOT's Snapshot crashed on columns like `x[n]` when no event survived."""
    tree, _ = by_root
    output = run(workload_of("skim", tree, keep=0.0001, reader=reader), tree, tmp_path)
    assert output.results["events_kept"] == 0


@pytest.mark.parametrize("which", [0, 1])
def test_a_part_of_a_file_is_skimmed_by_rdataframe(
    which: int, by_root: tuple[Path, Path], tmp_path: Path
) -> None:
    file = by_root[which]
    skim = workload_of("skim", file, keep=0.25, fraction=0.5, reader="rdataframe", columns="v")

    def packets() -> Any:
        yield Packet(str(file), 100, 300)
        yield Packet(str(file), 700, 40)

    output = skim.run(JobInput((), None, tmp_path, slot=0, slots=1, seed=0, packets=packets))
    assert output.events == 150 + 20
    source = uproot.open({str(file): "data"})["v"].array()
    for number, events in enumerate((range(103, 250, 4), range(703, 720, 4))):
        kept = uproot.open({str(tmp_path / f"skim-0-{number}.root"): "Events"})["v"].array()
        assert ak.to_list(kept) == ak.to_list(source[list(events)])


def test_a_job_compiles_no_step_of_rdataframe(tmp_path: Path) -> None:
    """Also for types that the generated file has not, with which the workload is warmed."""
    file = tmp_path / "shorts.root"
    with uproot.recreate(str(file)) as made:
        made.mktree("Events", {"short": "i2", "lists": "var * uint16"})
        lists = ak.unflatten(np.arange(20, dtype="u2"), np.full(10, 2))
        made["Events"].extend({"short": np.arange(10, dtype="i2"), "lists": lists})
    workload = workload_of("skim", file, reader="rdataframe", fraction=1.0, keep=0.5)
    workload.warm()
    compiled = compiled_steps()
    assert {("taking", "short"), ("copying", "list of unsigned short")} <= compiled
    assert run(workload, file, tmp_path / "scratch").results["events_kept"] == 5
    assert compiled_steps() == compiled


def test_types_of_a_file_that_ends_the_process_are_not_known() -> None:
    assert said_in_child(lambda: ["short", "int", "short"]) == ["int", "short"]
    assert said_in_child(lambda: os.kill(os.getpid(), signal.SIGKILL) or []) == []
    assert said_in_child(lambda: [str(1 / 0)]) == []


@pytest.mark.parametrize("reader", READERS)
def test_a_part_of_a_file_is_read(reader: str, by_root: tuple[Path, Path], tmp_path: Path) -> None:
    tree, _ = by_root
    scan = workload_of("scan", tree, variable="n", low=-0.5, high=9.5, bins=10, reader=reader)

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


@pytest.mark.parametrize("reader", READERS)
def test_baskets_within_the_metadata_of_a_tree_are_read_with_it(
    reader: str, shared_folder: Path, tmp_path: Path
) -> None:
    file = unflushed_by_root(shared_folder)
    scan = workload_of("scan", file, variable="n", columns="*", reader=reader)
    # A process reads the descriptions of classes that uproot does not know yet once.
    run(scan, file, tmp_path)
    output = run(scan, file, tmp_path)
    made = scan.profile(None)
    modelled = [
        each for step in made.steps if step["do"] == "sequence" for each in step["ranges_bytes"]
    ]
    assert output.events == made.events == 10
    assert all(size > 0 and at + size <= file.stat().st_size for at, size in modelled)
    if reader == "uproot":
        assert sum(size for _, size in modelled) == pytest.approx(output.bytes_asked, rel=0.05)


@pytest.mark.parametrize("reader", ["event-loop", "rdataframe"])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("columns", [None, "*"])
def test_the_model_asks_for_as_much_as_root_does(
    which: int, columns: str | None, reader: str, by_root: tuple[Path, Path], tmp_path: Path
) -> None:
    file = by_root[which]
    options = {"columns": columns, "variable": "v" if which else "hits.fX", "reader": reader}
    scan = workload_of("scan", file, **options)
    run(scan, file, tmp_path)  # what the interpreter reads the first time is not of the job
    output = run(scan, file, tmp_path)
    made = scan.profile(None)
    modelled = sum(
        size for step in made.steps if step["do"] == "sequence" for _, size in step["ranges_bytes"]
    )
    # ROOT's counter leaves out the gaps that it reads over; pages of an RNTuple are read besides.
    assert modelled == pytest.approx(output.bytes_asked, rel=0.1, abs=8_000)


def test_rdataframe_is_modelled_to_request_a_split_collection_whole(
    by_root: tuple[Path, Path],
) -> None:
    tree, _ = by_root

    def asked(reader: str) -> int:
        made = workload_of("scan", tree, variable="hits.fX", reader=reader).profile(None)
        ranges = [each for step in made.steps for each in step.get("ranges_bytes", ())]
        return sum(size for _, size in ranges)

    assert asked("rdataframe") > asked("event-loop") + 2000, "the other members of hits too"


_WARMED = """
import json, sys, time
from pathlib import Path
from headrace.workloads import JobInput, kinds
file, folder = sys.argv[1:]
part = kinds()["scan"]
options = {"data": {"files": [file]}, "columns": "*", "reader": "event-loop"}
scan = part("scan", part.Options.model_validate(options))
begun = time.process_time()
scan.warm()
warmed_s = time.process_time() - begun
scan = part("scan", scan.options_for_jobs())
begun = time.process_time()
output = scan.run(JobInput((file,), None, Path(folder), slot=0, slots=1, seed=0))
used_s = time.process_time() - begun
print(json.dumps([output.events, output.bytes_asked, warmed_s, used_s]))
"""


def test_a_job_does_not_compile_the_loop_over_an_rntuple(
    by_root: tuple[Path, Path], tmp_path: Path
) -> None:
    """What it would read and compute for that, 0.1 MB and 1.6 s, would count as the job's."""
    _, ntuple = by_root
    command = [sys.executable, "-P", "-c", _WARMED, str(ntuple), str(tmp_path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    events, bytes_asked, warmed_s, used_s = json.loads(said.splitlines()[-1])
    assert events == 1000
    assert bytes_asked < 2 * ntuple.stat().st_size + 10_000
    assert used_s < warmed_s / 3, "what was warmed compiled the loop"


@pytest.mark.parametrize(("which", "variable"), [(0, "text"), (0, "hits"), (1, "text")])
def test_a_column_that_the_reader_cannot_histogram_is_named(
    which: int, variable: str, by_root: tuple[Path, Path]
) -> None:
    scan = workload_of("scan", by_root[which], variable=variable, reader="rdataframe")
    [(place, problem)] = scan.options.wrong_fields()
    assert place == ("variable",)
    assert f"column {variable} " in problem


ODD_NAMES = [
    "a b.root",
    "a*b[1].root",
    "no ending",
    "a:b.root",
    "a#b.root",
    "a?b.root",
    "a|b.root",
    "$HOME ~ ä%20.root",
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose name is not odd."""
    return write_user_file(tmp_path_factory.mktemp("plain") / "plain.root")


@pytest.fixture(scope="module", params=READERS)
def reader_and_expected(request: pytest.FixtureRequest, plain: Path) -> tuple[str, JobOutput]:
    """A reader, and what a job reads with it of the plain file.

    The second time: what the interpreter reads the first time is not of the job.
    """
    scan = workload_of("scan", plain, reader=request.param)
    run(scan, plain, plain.with_name("scratch"))
    return request.param, run(scan, plain, plain.with_name("scratch"))


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_read_where_they_are(
    name: str, plain: Path, reader_and_expected: tuple[str, JobOutput], tmp_path: Path
) -> None:
    reader, expected = reader_and_expected
    odd = tmp_path / "odd #1?" / name
    odd.parent.mkdir()
    odd.write_bytes(plain.read_bytes())  # a file holds its name when it is written
    output = run(workload_of("scan", odd, reader=reader), odd, tmp_path / "scratch")
    assert output.events == 600
    assert output.results == expected.results
    assert (output.bytes_asked, output.read_calls) == (expected.bytes_asked, expected.read_calls)


@pytest.mark.parametrize("reader", READERS)
def test_an_rntuple_with_an_odd_name_is_read(
    reader: str, by_root: tuple[Path, Path], tmp_path: Path
) -> None:
    odd = tmp_path / "a#b?c.root"
    odd.write_bytes(by_root[1].read_bytes())
    assert run(workload_of("scan", odd, reader=reader), odd, tmp_path / "scratch").events == 1000


@pytest.mark.parametrize("reader", SKIMMERS)
def test_a_skim_of_and_into_folders_with_odd_names(reader: str, tmp_path: Path) -> None:
    odd = write_user_file(tmp_path / "a#b" / "c?d.root")
    scratch = tmp_path / "scratch #1?"
    skim = workload_of("skim", odd, keep=0.5, fraction=1.0, reader=reader)
    output = run(skim, odd, scratch)
    [written] = scratch.iterdir()
    assert output.results["events_kept"] == 300
    assert output.bytes_written == written.stat().st_size


def test_a_damaged_file_with_an_odd_name_is_named(tmp_path: Path) -> None:
    odd = write_user_file(tmp_path / "a#b.root", 6000)
    scan = workload_of("scan", odd, reader="rdataframe")
    odd.write_bytes(odd.read_bytes()[:20_000])
    with pytest.raises(HeadraceError, match=r"a#b\.root: damaged") as caught:
        run(scan, odd, tmp_path / "scratch")
    assert "/proc" not in str(caught.value)
