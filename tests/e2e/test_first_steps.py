"""What someone meets who has just installed Headrace: no words, wrong words, the wrong place."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.library import load_study
from headrace.study.packaged import packaged_studies
from workspace import HEADRACE, ROOT, Workspace


def test_the_version(workspace: Workspace) -> None:
    ended = workspace.run("--version")
    assert ended.returncode == 0
    assert ended.stdout.startswith("headrace ") and ended.stdout.count("\n") == 1


def test_python_runs_the_package_as_the_command(workspace: Workspace) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "headrace", "--version"], capture_output=True, text=True, check=True
    )
    assert ended.stdout == workspace.run("--version").stdout


def test_without_words_it_says_how_to_begin(workspace: Workspace) -> None:
    ended = workspace.run()
    assert ended.returncode == 2
    said = " ".join((ended.stdout + ended.stderr).split())
    assert "headrace init quickstart" in said and "headrace plan" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ruin"], "Did you mean 'run'?"),
        (["run", "--result", "x"], "--results"),
        (["run", "stduy.toml"], "did you mean study.toml?"),
        (["run", "study"], "did you mean study.toml?"),
        (["run", "quickstart"], "headrace init quickstart"),
        (["plan", "nowhere/at-all.toml"], "headrace init"),
        (["run", "."], "is a directory"),
        (["init", "nowhere"], "neither a directory nor a study"),
        (["report", "nowhere"], "nowhere is not there"),
        (["report", "study.toml"], "study.toml is not a folder"),
        (["report", "."], "not a results folder"),
        (["resume", "."], "not a results folder"),
        (["compare", ".", "."], "not a results folder"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_wrong_words_are_one_message_and_exit_code_2(
    workspace: Workspace, words: list[str], said: str, tiny: str
) -> None:
    workspace.study(tiny)
    ended = workspace.run(*words)
    assert ended.returncode == 2, ended.stderr
    assert said in " ".join(ended.stderr.split())
    assert [file.name for file in workspace.place.iterdir()] == ["study.toml"]


def test_help_breaks_lines_where_the_terminal_ends(workspace: Workspace) -> None:
    """Docstrings of commands end at 100 columns; their line breaks do not reach the user."""
    workspace.environment["COLUMNS"] = "150"
    said = workspace.run("record", "--help").stdout
    assert "The command ends with the exit code of the program." in said
    assert "The program must be dynamically linked and not set-uid." in said
    assert "Its data are kept in memory." in workspace.run("drive", "--help").stdout


def test_a_results_folder_nearby_is_named(workspace: Workspace) -> None:
    folder = workspace.place / "results" / "first"
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps({"schema": 99}))
    assert "results/first" in workspace.run("report", "results").stderr
    assert "results/first" in workspace.run("report", "frist").stderr


def test_what_init_says_comes_next_is_possible(workspace: Workspace) -> None:
    written = workspace.run("init", ".")
    assert "headrace simulate study.toml" in written.stdout
    ended = workspace.run("simulate", "study.toml", "--results", "virtual")
    assert ended.returncode == 0, ended.stderr
    # A folder of a cluster, without a drive that stands for it.
    assert "headrace simulate" not in workspace.run("init", "cluster").stdout
    assert workspace.run("simulate", "cluster.toml").returncode == 2


def test_the_quickstart_comes_along(workspace: Workspace) -> None:
    assert workspace.run("init", "quickstart").returncode == 0
    assert (workspace.place / "quickstart.toml").read_text() == (
        ROOT / "studies" / "quickstart.toml"
    ).read_text()
    assert workspace.run("validate", "quickstart.toml").returncode == 0
    assert workspace.run("init", "quickstart").returncode == 4, "nothing is overwritten"
    listed = workspace.run("init", "--list").stdout
    assert all(name in listed for name in packaged_studies())


@pytest.mark.parametrize("name", sorted(packaged_studies()))
def test_every_study_that_comes_along_is_good_by_itself(tmp_path: Path, name: str) -> None:
    shutil.copy(packaged_studies()[name], tmp_path)
    assert load_study(tmp_path / f"{name}.toml").plan().trials


@pytest.mark.parametrize("words", [["doctor"], ["validate", "--schema"]], ids=" ".join)
def test_a_reader_that_has_enough_is_no_error(
    workspace: Workspace, words: list[str], tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [HEADRACE, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    said = process.stderr.read()
    assert (process.wait(), said) == (0, b"")


def test_readme_shows_what_its_simulations_answer(workspace: Workspace) -> None:
    """Equal seeds give equal bytes, so every line that README shows is one of the commands'."""
    (workspace.place / "studies").symlink_to(ROOT / "studies")
    lines = (ROOT / "README.md").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if "simulate studies/what-if" in line)
    last = next(number for number, line in enumerate(lines) if "output is shortened" in line)
    shown: list[str] = []
    said = ""
    for line in lines[first:last]:
        if line.startswith("    headrace "):
            ended = workspace.run(*shlex.split(line, comments=True)[1:])
            assert ended.returncode == 0, ended.stderr
            said += " ".join(ended.stdout.split()) + " "
        elif line.strip():
            shown.append(" ".join(line.split()))
    assert len(shown) == 8
    assert [line for line in shown if line not in said] == []


@pytest.mark.parametrize("example", ["slurm", "gridengine", "dask"])
def test_a_command_that_an_example_prints_can_be_copied(tmp_path: Path, example: str) -> None:
    """From a clone whose path has spaces and a quote, for a folder that is there already."""
    scripts = shutil.copytree(ROOT / "examples" / example, tmp_path / "it's my clone" / example)
    folder = tmp_path / "in use"
    folder.mkdir()
    ended = subprocess.run(
        [scripts / "start", folder], capture_output=True, text=True,
        env={**os.environ, "PYTHON": sys.executable},
    )  # fmt: skip
    assert ended.returncode == 4, ended.stderr
    said = ended.stderr.partition("exists already: ")[2].partition(" ends what")[0]
    assert shlex.split(said) == [str(scripts / "stop"), str(folder)]
