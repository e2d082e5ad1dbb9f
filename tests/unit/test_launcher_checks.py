"""What launchers lack is asked once per check of a study, and again by the next check."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from headrace.engine.measure import Measure
from headrace.launchers.remote.ssh_client import MARK
from headrace.plan.order import make_plan
from headrace.study import load_study_text

STUDY = """
headrace = 1
[target.shared]
kind = "path"
path = "."
[workload.job]
kind = "command"
command = ["true"]
[run]
on = "ssh://alpha"
[factors]
slots = [1, 2]
"""
SSH = f"""#!/bin/sh
echo asked >> "$0.calls"
test -e "$0.up" || exit 255
printf '%s' '{MARK.decode()}{version("headrace")}'
"""


def test_a_host_that_came_back_is_accepted_by_the_next_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    study = load_study_text(STUDY, file=tmp_path / "study.toml", base=tmp_path)
    plan = make_plan(study)
    assert len({trial.levels["slots"] for trial in plan.trials}) == 2
    (problem,) = Measure().check(study, plan, frozenset())
    assert "alpha" in problem.what
    assert ssh.with_name("ssh.calls").read_text().split() == ["asked"], "once for all trials"
    ssh.with_name("ssh.up").touch()
    # Nodes are not asked for a program of Headrace itself; this host cannot start one.
    text = STUDY.replace('"command"\ncommand = ["true"]', '"metadata"')
    study = load_study_text(text, file=tmp_path / "study.toml", base=tmp_path)
    plan = make_plan(study)
    assert Measure().check(study, plan, frozenset()) == []


def test_nodes_that_need_root_are_not_answered_with_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a user without root can do: nodes elsewhere, or virtual time."""
    monkeypatch.setattr("os.geteuid", lambda: 65534)
    text = STUDY.replace('on = "ssh://alpha"', "nodes = 4")
    study = load_study_text(text, file=tmp_path / "study.toml", base=tmp_path)
    found = Measure().check(study, make_plan(study), frozenset())
    (problem,) = [each for each in found if each.needed_by == "nodes = 4"]
    assert "[run] on" in problem.remedy and "headrace simulate" in problem.remedy
    assert "server" not in problem.remedy
