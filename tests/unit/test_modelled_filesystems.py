"""Unit: mount options of a study as the simulated filesystem takes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.simulate.scenario import scenario_of
from headrace.study import load_study
from headrace.study.resolve import resolve
from headrace.targets.exports import Export
from headrace.targets.scenario import filesystem

STUDY = """
headrace = 1
title = "Mount options"

[site.server.nas]
machine = "generic-server"

[target.local]
kind = "block"
drive = "wd-wd3200bekt"
filesystem = "ext3"
mount = "strictatime,commit=15"

[target.nas]
kind = "nfs"
server = "nas"
export = { drive = "wd-wd3200bekt", filesystem = "xfs", mount = "noatime, nobarrier" }

[workload.tau]
kind = "replay"
profile = "cms-tau-analysis-sample"

[factors]
target = ["local", "nas"]
"""


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ((), {}),
        (("strictatime",), {"access_time": "strict"}),
        (("relatime", "barrier=0"), {"access_time": "relative", "barrier": False}),
        (("commit=2", "barrier"), {"commit_interval_ns": 2_000_000_000, "barrier": True}),
        (("nodiratime", "data=ordered", "commit=0"), {}),
    ],
)
def test_options_that_the_model_knows_change_it(
    options: tuple[str, ...], fields: dict[str, object]
) -> None:
    assert filesystem("ext4", options) == {"kind": "ext4", **fields}


def test_options_as_text_are_a_list() -> None:
    assert Export.model_validate({"mount": "noatime, commit=3"}).mount == ("noatime", "commit=3")


def test_they_reach_local_drives_and_servers(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    study = load_study(tmp_path / "study.toml")

    def scenario(target: str) -> dict[str, object]:
        return scenario_of(resolve(study, target, "tau", {}), target, "tau", 1)

    found = str(scenario("local")["nodes"])
    assert "'access_time': 'strict'" in found and "'commit_interval_ns': 15000000000" in found
    found = str(scenario("nas")["servers"])
    assert "'access_time': 'never'" in found and "'barrier': False" in found
