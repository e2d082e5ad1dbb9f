"""Odd places for results: each works, or is one message before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.analysis.find import find
from headrace.analysis.read import read
from headrace.errors import RefusedError, UsageError, as_word
from headrace.library import default_results, load_study, resume

STUDY = """
headrace = 1
title = "one drive"
[target.local]
kind = "block"
drive = "wd-wd3200bekt"
[workload.read]
kind = "replay"
profile = "iozone-read"
data = { files = 1, file_size = "1 MB" }
[plan]
repeats = { min = 1 }
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "s.toml").write_text(STUDY)
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["a b", "ünï 😀", "-x", "deep/er/down", "../up", "[red]", "it's"])
def test_names_that_are_only_odd_work_in_every_step(place: Path, name: str) -> None:
    results = load_study("s.toml").simulate(name)
    assert (place / name / "results.json").exists()
    assert resume(results) == results
    with pytest.raises(RefusedError) as caught:
        load_study("s.toml").simulate(name)
    command = (caught.value.hint or "").partition(" goes on")[0]
    words = subprocess.run(
        ["sh", "-c", command.replace("headrace", "printf '%s\\n'")], capture_output=True, text=True
    )
    assert words.stdout.splitlines()[1].removeprefix("./") == name, (
        "the hint can be pasted into a shell"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/proc/x", "virtual file system (proc)"),
        ("/sys/kernel/x", "virtual file system (sysfs)"),
        ("/dev/null", "is a file, not a folder"),
        ("/dev/null/x", "is a file: no folder can be in it"),
        ("file", "is a file, not a folder"),
        ("file/x/y", "is a file: no folder can be in it"),
        ("loop/x", "Too many levels of symbolic links"),
        ("dangling", "is a link to nothing"),
        ("x" * 300, "File name too long"),
        ("new\nline", "without control characters"),
        ("\x1b[31m", "without control characters"),
        (os.fsdecode(b"bad\xff"), "must be UTF-8"),
        (".headrace/results", "that Headrace keeps data sets"),
    ],
)
def test_places_that_keep_no_files_are_wrong_usage(place: Path, name: str, said: str) -> None:
    before = sorted(place.iterdir())
    with pytest.raises(UsageError) as caught:
        load_study("s.toml").simulate(name)
    assert said in caught.value.message and "--results" in (caught.value.hint or "")
    assert "\n" not in caught.value.message and "\x1b" not in caught.value.message
    assert caught.value.exit_code == 2
    assert sorted(place.iterdir()) == before


FORBIDDEN = """
import os
from pathlib import Path
from headrace.errors import UsageError
from headrace.records.place import check_place
import headrace.system.mounts  # before the programs of root cannot be read
if os.getuid() == 0:
    os.setuid(65534)
try:
    check_place(Path("/nowhere/home/.cache/headrace"), "--cache-dir")
except UsageError as error:
    print(error.message)
"""


def test_a_place_of_no_permission_is_named_with_what_was_wanted_there() -> None:
    """A user without a home had never heard of the folder that is made there."""
    ended = subprocess.run([sys.executable, "-c", FORBIDDEN], capture_output=True, text=True)
    wanted = "/nowhere/home/.cache/headrace cannot be made: no permission to write to /"
    assert ended.stdout.splitlines() == [wanted], ended.stderr


@pytest.mark.parametrize("name", [".", ".."])
def test_folders_that_are_not_empty_are_refused(place: Path, name: str) -> None:
    with pytest.raises(RefusedError, match="is not empty"):
        load_study("s.toml").simulate(name)


def test_a_folder_that_was_killed_while_it_was_made_is_gone_on_with(place: Path) -> None:
    whole = load_study("s.toml").simulate("whole")
    for kept in (["trials"], ["trials", "study.toml"], ["trials", "study.toml", "plan.parquet"]):
        begun = place / f"begun-{len(kept)}"
        (begun / "trials").mkdir(parents=True)
        for name in kept[1:]:
            (begun / name).write_bytes((whole / name).read_bytes())
        if "study.toml" in kept:
            with pytest.raises(
                UsageError, match="was begun and holds no records: run its study again"
            ):
                resume(begun)
        assert load_study("s.toml").simulate(begun) == begun
        assert len(list((begun / "trials").iterdir())) == 1


def test_a_folder_with_a_study_of_the_user_alone_is_not_taken_for_a_begun_one(place: Path) -> None:
    own = place / "own"
    own.mkdir()
    (own / "study.toml").write_text("# another study, which nobody may overwrite")
    with pytest.raises(RefusedError, match="is not empty"):
        load_study("s.toml").simulate(own)
    assert (own / "study.toml").read_text() == "# another study, which nobody may overwrite"
    with pytest.raises(UsageError, match="not a results folder"):
        resume(own)


def test_two_runs_that_begin_in_one_second_have_folders_of_their_own(place: Path) -> None:
    first = default_results(Path("a study\n.toml"))
    first.mkdir(parents=True)
    second = default_results(Path("a study\n.toml"))
    assert (
        first != second and first.name.startswith("a-study-") and second.parent == Path("results")
    )


def test_words_of_a_shell() -> None:
    assert [as_word(name) for name in ("a", "-x", "a b", Path("-a b"))] == [
        "a",
        "./-x",
        "'a b'",
        "'./-a b'",
    ]


def test_a_damaged_record_is_set_aside_and_its_trial_runs_again(place: Path) -> None:
    results = load_study("s.toml").simulate("results")
    (trial,) = (results / "trials").iterdir()
    whole = (trial / "trial.json").read_bytes()
    (trial / "trial.json").write_text("junk")
    assert find(read(results)).trials_done == 0
    resume(results)
    assert (trial / "trial.json").read_bytes() == whole
    (left,) = (results / "retried").iterdir()
    assert (left / "trial.json").read_text() == "junk"


def test_a_lost_plan_is_made_again_from_the_study(place: Path) -> None:
    results = load_study("s.toml").simulate("results")
    plan = (results / "plan.parquet").read_bytes()
    (results / "plan.parquet").unlink()
    resume(results)
    assert (results / "plan.parquet").read_bytes() == plan
    (results / "plan.parquet").unlink()
    (results / "trials" / "of-another-plan").mkdir()
    with pytest.raises(RefusedError) as caught:
        resume(results)
    assert "another plan" in (caught.value.hint or "")


def test_the_hint_of_damaged_results_is_no_command_that_fails_alike(place: Path) -> None:
    results = load_study("s.toml").simulate("results")
    (results / "results.json").write_text("x")
    with pytest.raises(RefusedError) as caught:
        resume(results)
    assert "headrace resume" not in (caught.value.hint or "")
    assert "new folder" in (caught.value.hint or "")
