"""The user's own ROOT files in a study.

What is wrong with them is named, what they hold is discovered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import headrace
from headrace.datasets import OwnFiles
from headrace.datasets.own_check import described
from headrace.datasets.own_files import copy_names
from headrace.datasets.trees import tree_facts, tree_names
from headrace.errors import ExitCode, HeadraceError, StudyError
from headrace.units import format_bytes
from own_root_files import write_empty_tree, write_user_file

STUDY = """
headrace = 1
title = "own files"
[target.here]
kind = "path"
path = "storage"
create = true
[workload.mine]
kind = "scan"
variable = "Hit_pt"
data = {data}
{more}
"""
LINE_OF_DATA = 11


def study(folder: Path, data: str, more: str = "") -> Path:
    file = folder / "study.toml"
    file.write_text(STUDY.format(data=data, more=more))
    return file


def make_nothing(folder: Path) -> None:
    pass


def make_text(folder: Path) -> None:
    (folder / "a.root").write_text(
        "this is not a ROOT file, but it is long enough to look like one\n" * 20
    )


def make_truncated(folder: Path) -> None:
    whole = write_user_file(folder / "a.root").read_bytes()
    (folder / "a.root").write_bytes(whole[: len(whole) // 2])


def make_short_text(folder: Path) -> None:
    (folder / "a.root").write_text("a.root\n")


def make_zero(folder: Path) -> None:
    (folder / "a.root").touch()


def make_folder(folder: Path) -> None:
    (folder / "a.root").mkdir()


def make_pipe(folder: Path) -> None:
    os.mkfifo(folder / "a.root")


def make_dangling(folder: Path) -> None:
    (folder / "a.root").symlink_to(folder / "gone")


def make_good(folder: Path) -> None:
    write_user_file(folder / "a.root")


def make_without_events(folder: Path) -> None:
    write_empty_tree(folder / "a.root")


def make_without_tree(folder: Path) -> None:
    import uproot

    with uproot.recreate(str(folder / "a.root")) as file:
        file["text"] = "a string alone"


WRONG: dict[str, tuple[Callable[[Path], None], str, str, str]] = {
    "missing": (make_nothing, '["a.root"]', "data.files[0]", "no such file"),
    "missing, not in an array": (make_nothing, '"a.root"', "data.files", "no such file"),
    "no ROOT file": (make_text, '["a.root"]', "data.files[0]", "no ROOT file"),
    "a list of files": (make_short_text, '["a.root"]', "data.files[0]", "no ROOT file"),
    "truncated": (make_truncated, '["a.root"]', "data.files[0]", "truncated"),
    "of no bytes": (make_zero, '["a.root"]', "data.files[0]", "is empty"),
    "a folder without files": (
        make_folder,
        '["a.root"]',
        "data.files[0]",
        "no *.root file in this directory",
    ),
    "a pipe": (make_pipe, '["a.root"]', "data.files[0]", "is not a file"),
    "a dangling link": (make_dangling, '["a.root"]', "data.files[0]", "no such file"),
    "a pattern without files": (
        make_good,
        '["b*.root"]',
        "data.files[0]",
        "no file matches this pattern",
    ),
    "the second": (make_good, '["a.root", "b.root"]', "data.files[1]", "no such file"),
    "without such a tree": (
        make_good,
        '["a.root"], tree = "Event"',
        "data.tree",
        "deep/Events, Runs",
    ),
    "without events": (make_without_events, '["a.root"]', "data.files", "has no events"),
    "without a tree": (make_without_tree, '["a.root"]', "data.files[0]", "no TTree or RNTuple"),
    "a URL": (make_nothing, '["root://server//a.root"]', "data.files", "is a URL"),
    "an empty name": (make_nothing, '[""]', "data.files", "must not be empty"),
    "no name": (make_nothing, "[]", "data.files", "must not be empty"),
    "a number": (make_nothing, "[3]", "data.files[0]", "must be text"),
    "a variable that is not set": (
        make_nothing,
        '["$NO_SUCH_NAME/a.root"]',
        "data",
        "NO_SUCH_NAME is not set",
    ),
    "a field of generated data": (
        make_good,
        '["a.root"], codec = "zstd"',
        "data.codec",
        "unknown field",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_files_is_one_message_with_file_line_and_field(
    name: str, tmp_path: Path
) -> None:
    make, files, field, words = WRONG[name]
    make(tmp_path)
    file = study(tmp_path, f"{{ files = {files} }}")
    with pytest.raises(StudyError) as caught:
        headrace.load_study(file)
    assert caught.value.exit_code == ExitCode.BAD_INPUT
    [fault] = caught.value.problems
    assert str(fault).startswith(f"{file}:{LINE_OF_DATA}: workload.mine.{field}: ")
    assert words in fault.problem
    assert "\n" not in str(fault)


@pytest.mark.parametrize(
    ("more", "field", "words"),
    [
        ('columns = ["Hit_pt", "Nothing_*"]', "columns", "has no column Nothing_*"),
        ('columns = ["Hit_p"]', "columns", "did you mean Hit_pt?"),
    ],
)
def test_what_is_wrong_with_the_columns_is_named(
    more: str, field: str, words: str, tmp_path: Path
) -> None:
    write_user_file(tmp_path / "a.root")
    with pytest.raises(StudyError) as caught:
        headrace.load_study(study(tmp_path, '{ files = ["a.root"] }', more))
    [fault] = caught.value.problems
    assert fault.field == f"workload.mine.{field}".rstrip(".")
    assert words in str(fault)


def test_a_file_that_is_cut_anywhere_is_truncated(tmp_path: Path) -> None:
    whole = write_user_file(tmp_path / "whole.root").read_bytes()
    cut = tmp_path / "cut.root"
    for end in (5, 40, 100, 300, 500, len(whole) // 2, len(whole) - 200, len(whole) - 1):
        cut.write_bytes(whole[:end])
        with pytest.raises(HeadraceError, match=f"cut.root: truncated: {end} bytes long"):
            tree_facts(cut, None)


def test_every_damaged_file_is_named_up_to_five(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.root").write_text("no ROOT file\n" * 100)
    with pytest.raises(StudyError) as caught:
        headrace.load_study(study(tmp_path, '{ files = "*.root" }'))
    assert len(caught.value.problems) == 5


def test_levels_of_a_factor_are_looked_at_too(tmp_path: Path) -> None:
    write_user_file(tmp_path / "a.root")
    file = study(tmp_path, '{ files = ["a.root"] }', '[factors]\nfiles = ["a.root", "b.root"]')
    with pytest.raises(StudyError, match=r"factors\.files\[1\].*b\.root: no such file"):
        headrace.load_study(file)


def test_files_are_relative_to_the_study_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_user_file(tmp_path / "my data" / "a b.root")
    write_user_file(tmp_path / "my data" / "c.root")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for files in (
        '["../my data/*.root"]',
        '"../my data"',
        '["../my data/a b.root", "../my data/[c].root"]',
    ):
        folder = tmp_path / "elsewhere"
        loaded = headrace.load_study(study(folder, f"{{ files = {files} }}"))
        data = loaded.study.workloads["mine"].options.data
        assert [each.path for each in data.find()] == [
            tmp_path / "my data" / "a b.root",
            tmp_path / "my data" / "c.root",
        ]


def test_copies_have_names_that_every_storage_takes_and_no_two_the_same() -> None:
    names = [
        "a.root",
        "a.root",
        "a b.root",
        "a_b.root",
        "ä#?%.root",
        ".hidden.root",
        "n" * 250,
        "manifest.json",
    ]
    found = copy_names([Path(f"/{number}/{name}") for number, name in enumerate(names)])
    assert len(set(found)) == len(names)
    assert found[0] == "a.root" and found[1] == "0001-a.root"
    assert all(name.isascii() and not set(name) & set(" #?%*[]:/") for name in found)
    assert all(
        name.endswith(".root") and len(name) < 128 and not name.startswith(".") for name in found
    )


def test_the_tree_of_events_is_found_and_described(tmp_path: Path) -> None:
    file = write_user_file(tmp_path / "a.root", events=600)
    facts = tree_facts(file, None)
    assert (facts.name, facts.events, facts.clusters) == ("deep/Events", 600, 3)
    assert {column.name: column.kind for column in facts.columns} == {
        "number": "numbers",
        "nHit_pt": "numbers",
        "Hit_pt": "numbers",
        "weight": "numbers",
    }
    assert tree_facts(file, "Runs").events == 2
    text = described(OwnFiles.model_validate({"files": [str(file)]}))
    assert "600 events in deep/Events: 4 columns" in text
    assert "12 baskets, 3 clusters" in text
    with pytest.raises(HeadraceError, match="no tree Nothing; it has: "):
        tree_facts(file, "Nothing")


def test_ntuples_of_numbers_are_trees() -> None:
    """TNtuple and TNtupleD derive from TTree; TH1F and others do not."""

    class Handle:
        def classnames(self, **_: bool) -> dict[str, str]:
            kinds = {"a;1": "TNtuple", "DTT/b;1": "TNtupleD", "c;2": "TTree", "h;1": "TH1F"}
            return {**kinds, "d;1": "ROOT::RNTuple", "DTT;1": "TDirectory"}

    assert list(tree_names(Handle())) == ["a", "DTT/b", "c", "d"]


def test_the_analysis_refuses_files_of_ones_own(tmp_path: Path) -> None:
    write_user_file(tmp_path / "a.root")
    file = study(tmp_path, '{ files = ["a.root"] }')
    file.write_text(
        file.read_text().replace('"scan"', '"analysis"').replace('variable = "Hit_pt"\n', "")
    )
    with pytest.raises(StudyError, match="the search is for generated data"):
        headrace.load_study(file)


def test_a_plan_describes_every_set_of_files(tmp_path: Path) -> None:
    from headrace.engine.estimate import estimate

    write_user_file(tmp_path / "a.root", 600)
    write_user_file(tmp_path / "b.root", 300)
    levels = '[factors]\nfiles = ["a.root", "b.root"]'
    loaded = headrace.load_study(study(tmp_path, '{ files = ["a.root"] }', levels))
    guess = estimate(loaded.study, loaded.plan())
    assert guess.cache_bytes == 0
    found = {(name, text.split(" events")[0]) for name, text in guess.own_data}
    size_of = {
        name: format_bytes((tmp_path / name).stat().st_size) for name in ("a.root", "b.root")
    }
    assert found == {
        ("mine", f"1 file of {size_of['a.root']}; a.root has 600"),
        ("mine", f"1 file of {size_of['b.root']}; b.root has 300"),
    }
