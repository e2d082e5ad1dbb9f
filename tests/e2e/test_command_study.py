"""A user's own program, beside the study that runs it, run from another folder."""

from __future__ import annotations

import json

from workspace import Workspace

STUDY = """
headrace = 1
title = "my program"
[target.here]
kind = "path"
path = "storage"
create = true
[workload.mine]
kind = "command"
command = ["./count.sh", "{file}", "{study}/factor.txt"]
files = "*.dat"
events_pattern = "counted ([0-9]+)"
environment = { BESIDE = "{study}/factor.txt" }
[plan]
repeats = { min = 1 }
[run]
cache = "as-is"
shortest = 0
"""


def test_a_program_and_its_files_are_found_beside_the_study(workspace: Workspace) -> None:
    folder = workspace.place / "my studies" / "first"
    (folder / "storage").mkdir(parents=True)
    (folder / "storage" / "one.dat").write_text("x" * 30)
    (folder / "factor.txt").write_text("1")
    program = folder / "count.sh"
    program.write_text('#!/bin/sh\ncmp "$2" "$BESIDE" && echo counted $(wc -c < "$1")\n')
    program.chmod(0o755)
    (folder / "study.toml").write_text(STUDY)
    ended = workspace.run("run", "my studies/first/study.toml", "--results", "results")
    assert ended.returncode in (0, 5), ended.stderr
    (trial,) = workspace.trials()
    assert trial["status"] == "done", json.dumps(trial["cause"])
    assert trial["sums"]["events"] == 30
