"""`headrace calibrate` as a user has it: real jobs, also on an emulated drive, and a rehearsal."""

from __future__ import annotations

import json
import os

import pytest

from headrace.errors import ExitCode
from workspace import Workspace

STUDY = """
headrace = 1
[target.here]
kind = "path"
path = "my data"
create = true
[target.ssd]
kind = "block"
drive = "mtron-msp-sata7035064"
size = "256 MiB"
[site.node]
drives = { here = "samsung-870-evo-1tb" }
[workload.scan]
kind = "scan"
data = { events = 8_000, files = 2 }
[factors]
target = TARGETS
slots = [1, 2]
[plan]
repeats = { min = 1 }
[run]
shortest = 0
foreign_load = "warning"
"""
TRUTH = """
[site.calibration]
cpu = { scan = 2.0 }
"""


def test_a_site_is_learnt_from_real_jobs(workspace: Workspace) -> None:
    targets = ["here", "ssd"] if os.geteuid() == 0 else ["here"]
    study = workspace.study(STUDY.replace("TARGETS", json.dumps(targets)))
    arguments = ("calibrate", study, "--results", "my records", "--out", "my site.toml", "--json")
    ended = workspace.run(*arguments)
    for attempt in range(4):
        # 5: on a machine with other work to do cells differ by more than the limit, or are invalid.
        assert ended.returncode in (0, int(ExitCode.INVALID_TRIALS)), ended.stderr
        found = json.loads(ended.stdout)
        if not found["not_measured"] or attempt == 3:
            break
        assert ended.returncode == int(ExitCode.INVALID_TRIALS)
        workspace.run("resume", "my records", "--retry-invalid")
        ended = workspace.run(*arguments)
    roles = {(each["target"], each["role"]) for each in found["cells"]}
    assert roles >= {(target, "learnt") for target in targets}
    scan = next(each for each in found["parameters"]["learnt"] if each["name"] == "cpu.scan")
    assert 0.05 < scan["low"] <= scan["value"] <= scan["high"] < 20
    for each in found["cells"]:
        if each["role"] == "checked":
            assert each["error"] == pytest.approx(each["predicted_s"] / each["measured_s"] - 1)
    simulated = workspace.run("simulate", study, "--site", "my site.toml", "--results", "virtual")
    assert simulated.returncode == 0, simulated.stderr
    # Every trial is recorded: nothing runs a second time.
    again = workspace.run(*arguments)
    assert again.returncode == ended.returncode, again.stderr
    assert json.loads(again.stdout)["parameters"] == found["parameters"]


def test_a_rehearsal_says_what_would_be_learnt(workspace: Workspace) -> None:
    study = workspace.study(STUDY.replace("TARGETS", '["ssd"]'))
    workspace.study(TRUTH, "truth.toml")
    ended = workspace.run("calibrate", study, "--rehearse", "truth.toml", "--results", "rehearsal")
    assert ended.returncode == 0, ended.stderr
    said = " ".join(ended.stdout.split())
    assert "cpu.scan x 2" in said and "undetermined: target.ssd.drive_read" in said
    assert "do not trust it beyond 2 slots" in said
    assert "study.toml --site rehearsal/site.toml" in said


def test_records_without_a_valid_trial_name_the_way_on(workspace: Workspace) -> None:
    """As a busy machine leaves them."""
    study = workspace.study(STUDY.replace("TARGETS", '["ssd"]'))
    workspace.study(TRUTH, "truth.toml")
    arguments = ("calibrate", study, "--rehearse", "truth.toml", "--results", "rehearsal")
    assert workspace.run(*arguments).returncode == 0
    for file in (workspace.place / "rehearsal").glob("trials/*/trial.json"):
        record = json.loads(file.read_text())
        record["validity"]["valid"] = False
        file.write_text(json.dumps(record))
    ended = workspace.run(*arguments)
    assert ended.returncode == int(ExitCode.RUN_FAILED)
    said = " ".join(ended.stderr.split())
    assert "headrace resume rehearsal --retry-invalid" in said
    # Without a name, `--results` is another folder each time: the same command would start anew.
    assert "--results rehearsal" in said


def test_a_cell_without_a_valid_trial_is_named(workspace: Workspace) -> None:
    study = workspace.study(STUDY.replace("TARGETS", '["ssd"]'))
    workspace.study(TRUTH, "truth.toml")
    arguments = ("calibrate", study, "--rehearse", "truth.toml", "--results", "rehearsal", "--json")
    ended = workspace.run(*arguments)
    assert ended.returncode == 0 and json.loads(ended.stdout)["not_measured"] == []
    for file in (workspace.place / "rehearsal").glob("trials/*/trial.json"):
        record = json.loads(file.read_text())
        record["validity"]["valid"] = record["levels"]["slots"] != 2
        file.write_text(json.dumps(record))
    (lost,) = json.loads(workspace.run(*arguments).stdout)["not_measured"]
    assert (lost["target"], lost["workload"], lost["levels"]["slots"]) == ("ssd", "scan", 2)
