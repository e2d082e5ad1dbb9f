"""`headrace record -- COMMAND` runs the very program that a shell would.

Same file, words, descriptors, signals and exit code.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from workspace import HEADRACE, Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, tmp_path / "cache")


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_path_with_a_slash_is_that_file_and_never_looked_up(workspace: Workspace) -> None:
    script(workspace.place / "date", "#!/bin/sh\necho the local one, as $0\n")
    ended = workspace.run("record", "--out", "job.toml", "--", "./date")
    assert (ended.stdout, ended.returncode) == ("the local one, as ./date\n", 0), ended.stderr
    # Without a slash it is the system's, though the local one is nearer.
    ended = workspace.run("record", "--out", "job.toml", "--", "date", "+%%")
    assert (ended.stdout, ended.returncode) == ("%\n", 0), ended.stderr


@pytest.mark.parametrize(
    "name", ["./my tools/a job", "my tools/a job", "my tools/../my tools/a job"]
)
def test_relative_paths_with_spaces(workspace: Workspace, name: str) -> None:
    script(workspace.place / "my tools" / "a job", '#!/bin/sh\necho "ran $0 with $#"\nexit 9\n')
    ended = workspace.run("record", "--out", "a job.toml", "--", name, "1 2", "3")
    assert (ended.stdout, ended.returncode) == (f"ran {name} with 2\n", 9), ended.stderr
    assert (workspace.place / "a job.toml").exists()


def test_the_current_directory_in_path(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(workspace.place / "my-own-tool", "#!/bin/sh\necho found\n")
    monkeypatch.setenv("PATH", os.environ["PATH"] + ":")
    ended = workspace.run("record", "--out", "job.toml", "--", "my-own-tool")
    assert (ended.stdout, ended.returncode) == ("found\n", 0), ended.stderr


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("echo no first line\n", "./tool", "neither a program nor a script that begins with #!"),
        ("echo no first line\n", "./tool", "sh ./tool"),
        ("#!/no/such/interpreter\n", "./tool", "its interpreter is not there"),
        ("#!/bin/sh\n", "tool", "tool: no such program"),
        ("#!/bin/sh\n", "tool", "for the one in this directory: ./tool"),
        ("#!/bin/sh\n", "./tools", "./tools: no such program"),
        ("#!/bin/sh\n", "./", "./: is a directory, not a program"),
        ("#!/bin/sh\n", "", "the empty name: no such program"),
    ],
)
def test_what_cannot_be_run_is_said(workspace: Workspace, text: str, name: str, words: str) -> None:
    script(workspace.place / "tool", text)
    ended = workspace.run("record", "--out", "job.toml", "--", name)
    assert ended.returncode == 2, ended.stderr
    assert words in " ".join(ended.stderr.split())
    assert [path.name for path in workspace.place.iterdir()] == ["tool"]


def test_inherited_descriptors_stay_open(workspace: Workspace) -> None:
    (workspace.place / "in.txt").write_text("from descriptor 7\n")
    command = f"exec 7<in.txt; exec {HEADRACE} record --out job.toml -- sh -c 'cat <&7'"
    ended = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        cwd=workspace.place,
        timeout=60,
    )
    assert (ended.stdout, ended.returncode) == ("from descriptor 7\n", 0), ended.stderr


@pytest.mark.parametrize("command", ["record --out job.toml", "why"])
def test_closed_descriptors_stay_closed(workspace: Workspace, command: str) -> None:
    """A program whose output is closed fails, as without Headrace."""
    program = "ls -l /proc/$$/fd > fds; echo lost || exit 7"
    ended = subprocess.run(
        ["sh", "-c", f'exec {HEADRACE} {command} -- sh -c "$1" <&- >&-', "sh", program],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=workspace.place,
        timeout=60,
    )
    assert ended.returncode == 7, ended.stderr
    assert " 0 -> /dev/null" not in (workspace.place / "fds").read_text()


def test_ignored_signals_stay_ignored_and_others_act_as_without(workspace: Workspace) -> None:
    shown = ["--", "grep", "^SigIgn", "/proc/self/status"]
    plain = subprocess.run(shown[1:], capture_output=True, text=True, check=True).stdout
    assert workspace.run("record", "--out", "job.toml", *shown).stdout == plain
    command = f"trap '' HUP; exec {HEADRACE} record --out job.toml {' '.join(shown)}"
    ended = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=True,
        cwd=workspace.place,
        timeout=60,
    )
    assert int(ended.stdout.split()[1], 16) == int(plain.split()[1], 16) | 1 << (signal.SIGHUP - 1)


def test_signals_are_passed_on_and_ctrl_c_is_the_programs(workspace: Workspace) -> None:
    code = (
        "trap 'echo term' TERM; trap 'echo int; exit 5' INT; echo ready; while :; do sleep "
        "0.02; done"
    )
    process = workspace.start_anew("record", "--out", "job.toml", "--", "bash", "-c", code)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "term\n"
    # As a terminal does it: to both.
    child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
    process.send_signal(signal.SIGINT)
    os.kill(child, signal.SIGINT)
    assert process.stdout.readline() == "int\n"
    assert process.wait(timeout=120) == 5
    assert (workspace.place / "job.toml").exists()
