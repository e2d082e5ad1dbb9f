"""A profile replayed on the files that it was recorded on: these stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.profiles.primitives import Primitive
from headrace.profiles.replaying import Replayer
from headrace.workloads.replay import Replay, ReplayOptions

HEAD = """
name = "hand"
about = "written by hand"
source = { memory_bytes = "x", files = "x", steps = "x" }
memory_bytes = 1000
"""
READ = 'do = "read", offset_bytes = 0, length_bytes = 4'


def replay(folder: Path, path: object, *steps: str) -> Replay:
    tables = ", ".join(f'{{ file = "a", {step} }}' for step in steps)
    (folder / "hand.toml").write_text(
        f'{HEAD}steps = [{tables}]\nfiles = [{{ name = "a", path = "{path}", bytes = 4 }}]\n'
    )
    options = {"profile": str(folder / "hand.toml"), "place": "recorded"}
    return Replay("job", ReplayOptions.model_validate(options))


@pytest.mark.parametrize(
    "step",
    [
        'do = "create"',
        'do = "delete"',
        'do = "write", offset_bytes = 0, length_bytes = 2',
        'do = "pattern", op = "write", count = 1, length_bytes = 2',
        'do = "sequence", op = "write", ranges_bytes = [[0, 2]]',
        'do = "requests", count = 1, length_bytes = 2, read_fraction = 0.5',
    ],
)
def test_a_profile_written_by_hand_that_would_change_the_users_file_is_refused(
    step: str, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"data")
    assert not replay(tmp_path, kept, READ).check()
    (problem,) = replay(tmp_path, kept, READ, step).check()
    assert f"{kept}: the profile hand writes to this file" in problem.what


def test_one_that_does_not_say_where_its_files_are_is_refused(tmp_path: Path) -> None:
    (problem,) = replay(tmp_path, "", READ).check()
    assert "does not say where its files" in problem.what


@pytest.mark.parametrize("do", ["create", "delete", "write", "truncate", "allocate", "reserve"])
def test_whatever_a_profile_says_the_users_files_are_not_changed(do: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"data")
    replayer = Replayer({"a": kept}, kept=frozenset({"a"}))
    try:
        replayer.run([Primitive(do, "a", 0, 2)])
    except HeadraceError as error:
        assert str(kept) in error.message
    assert kept.read_bytes() == b"data"
