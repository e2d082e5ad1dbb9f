"""The study of a facility at 200 Gb/s at an eighth of its size: what limits it."""

from __future__ import annotations

import json
from pathlib import Path

from workspace import ROOT, Workspace

STUDY = ROOT / "studies" / "facility-200gbps.toml"
EVENTS_PER_S = 32 / 33.333e-6
"""Of a node whose cores do nothing but work: 33.333 us an event in the profiles."""


def test_an_eighth_of_the_facility(tmp_path: Path) -> None:
    text = STUDY.read_text()
    for full, small in (
        ("count = 8\n", "count = 1\n"),
        ("count = 16\n", "count = 2\n"),
        ("nodes = [2, 8, 32, 48, 64, 128]", "nodes = [1, 8]"),
        ('cache = ["warm", "cold"]', 'cache = ["warm"]'),
        ('workload = ["ttree", "rntuple"]', 'workload = ["ttree"]'),
    ):
        assert text.count(full) == 1, full
        text = text.replace(full, small)
    text = text[: text.index("[[exclude]]")] + text[text.index("[run]") :]
    workspace = Workspace(tmp_path, tmp_path / "cache")
    ended = workspace.run("simulate", workspace.study(text), "--results", "results")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rates: dict[tuple[str, int], float] = {}
    for trial in workspace.trials():
        levels, services = trial["levels"], trial["probes"]["services"]
        assert services[0]["upstream"]["missed_bytes"] == 0  # the XCaches hold every file
        (sums, nodes) = (trial["sums"], int(levels["nodes"]))
        assert sums["jobs"] == 32 * nodes and sums["bytes_asked"] > 0.8 * 833 * sums["events"]
        rates[levels["target"], nodes] = sums["events"] / trial["duration_s"]
    # One node is limited by its cores, whatever feeds it. Eight nodes ask one server for more than
    # it has, so that they lose time; two servers feed them.
    for target in ("eight", "sixteen"):
        assert 0.75 * EVENTS_PER_S < rates[target, 1] < EVENTS_PER_S, rates
    assert rates["eight", 8] < 0.9 * 8 * rates["eight", 1], rates
    assert rates["sixteen", 8] > 0.95 * 8 * rates["sixteen", 1], rates
    assert json.loads((tmp_path / "results" / "results.json").read_text())
