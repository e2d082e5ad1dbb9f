"""Wrong usage of every command: exit code 2, one message, and nothing is written."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import cli
from workspace import Workspace

STUDY = """
headrace = 1
title = "small"
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
WRONG = """
nosuch
--nosuch
doctor nosuch.toml
doctor broken.toml
doctor a b
init nosuchname/x
init /proc/nosuch
init quickstart -o /proc/x
init quickstart -o nodir/x.toml
validate
validate nosuch.toml
validate folder
validate broken.toml
validate /dev/null
plan
plan nosuch.toml
plan folder
plan study.toml --cache-dir /dev/null
run nosuch.toml
run broken.toml
run folder
run study.toml --results /dev/null
run study.toml --results /proc/x
run study.toml --cache-dir /dev/null
run study.toml --force-device nosuch
run study.toml --force-device folder
resume nosuch
resume folder
resume broken.toml
resume results --cache-dir /dev/null
resume results --force-device nosuch
report nosuch
report folder
report broken.toml
report results --format nosuch
report results --output /dev/null
report results --output /proc/x
report results --series nosuch
compare results
compare results nosuch
gate results
gate results --against nosuch
gate folder --against results
compare folder results
undo nosuch
simulate nosuch.toml
simulate broken.toml
simulate study.toml --results /dev/null
simulate study.toml --threads 0
reproduce nosuch
drive nosuch
drive list extra
drive show nosuch
drive run nosuch
drive replay wd-wd3200bekt nosuch
drive fit nosuch
drive attach nosuch
drive attach wd-wd3200bekt --size 0
drive attach wd-wd3200bekt --size "1e308 TB"
drive attach wd-wd3200bekt --size 64MiB --raid 9
drive attach wd-wd3200bekt --size 64MiB --read-ahead x
drive detach nosuch
drive detach /dev/null
record
record --out x.toml
record --out x.toml -- nosuchprogram
record --out x.toml -- ./nosuch
record --out /proc/x.toml -- true
profile show nosuch
profile show broken.toml
profile simulate nosuch.toml --drive wd-wd3200bekt
profile simulate study.toml
profile import nosuch
trace run
trace run --out x -- nosuchprogram
trace plot nosuch
trace plot broken.toml --out x.png
trace show folder
metadata nosuch
metadata folder
metadata broken.toml
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wrong")
    (place / "study.toml").write_text(STUDY)
    (place / "broken.toml").write_text("x = [\n")
    (place / "folder").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert _code(patch, "simulate study.toml --results results") == 0
    return place


def _code(patch: pytest.MonkeyPatch, line: str) -> int:
    """Run a command of `headrace` as its program does; return the exit code."""
    patch.setattr(sys, "argv", ["headrace", *shlex.split(line)])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("line", WRONG.strip().splitlines())
def test_wrong_usage(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], line: str
) -> None:
    monkeypatch.chdir(place)
    before = sorted(place.rglob("*"))
    code = _code(monkeypatch, line)
    said = capfd.readouterr()
    assert code == 2, said.out + said.err
    assert said.err.strip() and "Traceback" not in said.err
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("name", ["file", "n" * 300])
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_home_that_keeps_no_data_sets_is_one_message(
    workspace: Workspace, command: str, name: str, tiny: str
) -> None:
    (workspace.place / "file").touch()
    workspace.environment["HOME"] = str(workspace.place / name)
    ended = workspace.run(command, workspace.study(tiny))
    assert ended.returncode == 2
    assert ended.stderr.endswith("name another folder with --cache-dir\n")
    assert not (workspace.place / "results").exists()


def test_a_wrong_option_is_an_error_though_the_reader_of_its_message_has_ended() -> None:
    """As in `headrace run --nosuch 2>&1 | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "headrace", "run", "--nosuch"]
        ended = subprocess.run(command, stdout=writer, stderr=writer, check=False)
    finally:
        os.close(writer)
    assert ended.returncode == 2
