"""Names in brackets are shown as they are: Rich takes `[red]` for a style, `[/red]` for its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.catalog.load import ROOT as CATALOG
from workspace import Workspace

NAME = "[/red] [bold]x"


@pytest.fixture
def odd(workspace: Workspace) -> Workspace:
    """A workspace with a folder, a drive and a recorded job of that name."""
    # A slash is in each closing tag: `[` is the folder, and the rest is a file in it.
    (workspace.place / NAME).mkdir(parents=True)
    drive = (CATALOG / "drives" / "sata-7200-500gb.toml").read_text()
    drive = drive.replace('about = "', 'about = "[b]drive: ')
    (workspace.place / NAME / "[b]drive.toml").write_text(drive)
    return workspace


def test_a_study_is_validated_and_planned(odd: Workspace, tiny: str) -> None:
    paths = [str(odd.place / NAME / each) for each in ("[b]one", "[b]two")]
    text = tiny.replace("slots = [1, 2]", f'slots = [1]\n"target.here.path" = {paths}')
    study = odd.study(text, f"{NAME}/study.toml")
    assert odd.run("validate", study).stdout.startswith(f"{study} is good")
    planned = odd.run("plan", study)
    assert planned.returncode == 0
    assert all("".join(each.split()) in "".join(planned.stdout.split()) for each in paths)
    assert str(study) in odd.run("doctor", study).stdout


def test_files_of_drives(odd: Workspace) -> None:
    drive, trace = Path(NAME, "[b]drive.toml"), odd.place / "trace.iolog"
    assert "[b]drive" in odd.run("drive", "show", drive).stdout
    run = odd.run("drive", "run", drive, "--runtime", "0.1", "--size", "1m")
    assert run.returncode == 0
    trace.write_text("fio version 3 iolog\n0 d add\n0 d open\n1 d read 0 4096\n2 d close\n")
    replayed = odd.run("drive", "replay", drive, trace, "--out", Path(NAME, "[b]times.csv"))
    assert f"written: {NAME}/[b]times.csv" in replayed.stderr


def test_a_recorded_command(odd: Workspace) -> None:
    job = Path(NAME, "[b]job.toml")
    assert odd.run("record", "--out", job, "--", "echo", "[/b] [bold]y").returncode == 0
    assert "echo [/b] [bold]y" in " ".join(odd.run("profile", "show", job).stdout.split())


def test_a_drive_of_the_current_folder_for_a_job_in_another(odd: Workspace) -> None:
    (odd.place / "my-drive.toml").write_bytes((odd.place / NAME / "[b]drive.toml").read_bytes())
    job = Path(NAME, "job.toml")
    assert odd.run("record", "--out", job, "--", "cat", "my-drive.toml").returncode == 0
    simulate = ("profile", "simulate", job, "--slots", "1", "--drive")
    done = odd.run(*simulate, "my-drive.toml")
    assert done.returncode == 0, done.stderr
    missing = odd.run(*simulate, "none.toml")
    assert missing.returncode == 2 and "command line: --drive:" in missing.stderr
