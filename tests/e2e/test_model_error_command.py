"""`headrace compare --model` as a user has it.

One study, run and simulated, and how far the one is from the other.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workspace import Workspace

STUDY = """
headrace = 1
title = "how far"
[target.here]
kind = "path"
path = "data"
create = true
[site.node]
drives = { here = "samsung-870-evo-1tb" }
[workload.scan]
kind = "scan"
data = { events = 20_000, files = 1 }
[workload.search]
kind = "analysis"
data = { events = 20_000, files = 1 }
[factors]
workload = ["scan", "search"]
[run]
cache = "warm"
foreign_load = "warning"
shortest = 0
[plan]
repeats = { min = 2 }
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(
        tmp_path, tmp_path / "cache", {"HEADRACE_JOURNAL_DIR": str(tmp_path / "journal")}
    )


@pytest.mark.machine  # a trial that others disturb is left out of the comparison
def test_a_study_measured_and_simulated_is_laid_side_by_side(workspace: Workspace) -> None:
    study = workspace.study(STUDY)
    ended = workspace.run("run", study, "--results", "measured")
    # 5: on a machine with busy neighbours a trial may be invalid.
    assert ended.returncode in (0, 5), ended.stderr
    assert workspace.run("simulate", study, "--results", "simulated").returncode == 0
    found = workspace.run("compare", "measured", "simulated", "--model", "--json")
    assert found.returncode == 0, found.stderr
    cells = json.loads(found.stdout)["cells"]
    assert {cell["workload"] for cell in cells} == {"scan", "search"}
    for cell in cells:
        assert cell["provenance"] == "measured" and cell["real_s"] > 0 and cell["simulated_s"] > 0
        assert cell["error"] == pytest.approx(cell["simulated_s"] / cell["real_s"] - 1)
    shown = workspace.run("compare", "simulated", "measured", "--model")
    assert shown.returncode == 0 and "The simulated time is within" in " ".join(
        shown.stdout.split()
    )
    for arguments, words in (
        (("measured", "measured", "--model"), "not one measured and one simulated"),
        (("measured", "simulated", "--model", "--force"), "does not go with --model"),
        (("measured", "simulated", "--json"), "goes with --model"),
    ):
        refused = workspace.run("compare", *arguments)
        assert refused.returncode != 0
        assert words in " ".join(refused.stderr.split()), refused.stderr
