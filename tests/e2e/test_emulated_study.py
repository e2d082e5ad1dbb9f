"""The same study on emulated drives and in virtual time.

One vocabulary, faults that fired, a report that says what they did.
"""

from __future__ import annotations

import os

import pytest

from headrace.errors import ExitCode
from workspace import Workspace, documented_fields

STUDY = """
headrace = 1
title = "What a fault does"
[target.disk]
kind = "block"
drive = "seagate-st3750640ns"
size = "256 MiB"
[workload.reads]
kind = "random"
file_size = "16 MiB"
duration = "2 s"
[factors]
fault = ["none", "slow-drive", "drop-off"]
[[fault]]
what = "slow-drive"
factor = 5
at = "500 ms"
duration = "60 s"
[[fault]]
what = "drop-off"
at = "500 ms"
duration = "60 s"
[plan]
repeats = { min = 1 }
[run]
shortest = 0
series_interval = "100 ms"
"""


def faults_of(workspace: Workspace, results: str) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for trial in workspace.trials(results):
        found[trial["levels"]["fault"]] = trial
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_faults_measured_on_an_emulated_drive(workspace: Workspace) -> None:
    study = workspace.study(STUDY)
    ended = workspace.measure(study, "measured")
    # A machine with other work to do makes trials invalid; they are recorded all the same.
    assert ended.returncode in (0, int(ExitCode.INVALID_TRIALS)), ended.stderr
    trials = faults_of(workspace, "measured")
    assert {trial["provenance"] for trial in trials.values()} == {"emulated"}
    assert trials["none"]["faults"] == []
    for name in ("slow-drive", "drop-off"):
        (fault,) = trials[name]["faults"]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        assert fault["fired"] > 0 and fault["struck_s"] >= 0.5, fault
    assert trials["drop-off"]["status"] == "failed"
    for trial in trials.values():
        (emulator,) = trial["emulators"]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        assert emulator["reads"] > 0 and emulator["lateness_ns"]["timed"] > 0
        assert set(trial) == documented_fields()
        # A disk of 3.5 inches idles at 9 W and works at 13 W; it was there for longer before the
        # jobs than for them.
        watts = trial["energy"]["drives_j"] / trial["last_done_s"]
        assert 8 < watts < 20 and trial["energy"]["total_j"] is None, trial["energy"]
        assert trial["energy"]["drives_j"] < emulator["energy_j"]
    assert "What faults did" in ended.stdout and "1 of 1" in ended.stdout, ended.stdout
    assert 'id="faults"' in (workspace.place / "measured" / "report.html").read_text()


def test_the_same_faults_in_virtual_time(workspace: Workspace) -> None:
    study = workspace.study(STUDY)
    ended = workspace.run("simulate", study, "--results", "simulated")
    assert ended.returncode == 0, ended.stderr
    trials = faults_of(workspace, "simulated")
    for name in ("slow-drive", "drop-off"):
        (fault,) = trials[name]["faults"]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
        assert fault["fired"] > 0 and fault["struck_s"] == 0.5, fault
    assert trials["drop-off"]["status"] == "failed" and trials["slow-drive"]["status"] == "done"
    table = [
        line for line in ended.stdout.splitlines() if "slow-drive" in line and "disk s" in line
    ]
    assert table and "0 of 1" in table[0], ended.stdout
