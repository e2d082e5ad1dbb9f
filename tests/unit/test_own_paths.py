"""The ways to name the user's own files: URLs of this machine, lists, links, folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.datasets import OwnFiles
from headrace.datasets.own_files import anchored_files
from headrace.errors import HeadraceError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sp ace").mkdir()
    for name in ("a.root", "b.root", "x%20y.root", "sp ace/c d.root"):
        (tmp_path / name).write_bytes(b"root" + name.encode())
    return tmp_path


def names_of(folder: Path, *texts: str) -> list[str]:
    data = anchored_files({"files": list(texts)}, lambda text: os.path.join(folder, text))  # noqa: PTH118
    found = OwnFiles.model_validate(data).find()
    return [str(file.path.relative_to(folder)) for file in found]


def test_urls_of_this_machine_are_paths(folder: Path) -> None:
    for begin in (f"file://{folder}", f"file:{folder}", f"FILE://localhost{folder}"):
        assert names_of(folder, f"{begin}/a.root") == ["a.root"]
    assert names_of(folder, f"file://{folder}/sp%20ace/c%20d.root") == ["sp ace/c d.root"]
    assert names_of(folder, f"file://{folder}/x%20y.root") == ["x%20y.root"], "as it is, if it is"
    for text in ("file://host/a.root", "root://host//a.root"):
        with pytest.raises(ValueError, match="is a URL; name files of this machine"):
            names_of(folder, text)


def test_a_list_names_files_relative_to_itself(folder: Path) -> None:
    lines = ["# good runs", "", "c d.root", "../b.root", f"file://{folder}/a.root", "../x*.root"]
    (folder / "sp ace" / "runs.txt").write_text("\n".join(lines))
    expected = ["sp ace/c d.root", "sp ace/../b.root", "a.root", "sp ace/../x%20y.root"]
    assert names_of(folder, "sp ace/runs.txt") == expected
    assert names_of(folder, "b.root", "sp ace/runs.txt")[:2] == ["b.root", "sp ace/c d.root"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# none\n", "this list names no file"),
        ("a.root\nroot://x//b.root", "list.txt, line 2: root://x//b.root is a URL"),
        ("none*.root", "list.txt, line 1: .*no file matches this pattern"),
        ("list.txt", "list.txt, line 1: list.txt is a list"),
        ("a.root\nmissing.root", "missing.root: no such file"),
    ],
)
def test_what_is_wrong_with_a_list_is_told(text: str, told: str, folder: Path) -> None:
    (folder / "list.txt").write_text(text)
    with pytest.raises(HeadraceError, match=told):
        names_of(folder, "list.txt")


def test_links_to_a_file_are_that_file_and_links_to_nothing_are_missing(folder: Path) -> None:
    (folder / "0-link.root").symlink_to("a.root")
    assert names_of(folder, ".") == ["0-link.root", "b.root", "x%20y.root"]
    assert names_of(folder, "b.root", "*.root", "a.root") == ["b.root", "0-link.root", "x%20y.root"]
    (folder / "gone.root").symlink_to("nowhere.root")
    for text in (".", "*.root"):
        with pytest.raises(HeadraceError, match=r"gone\.root: no such file"):
            names_of(folder, text)
