"""The inventory of trials: what the study and the catalog say that a site consists of."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from headrace.analysis.read import read
from headrace.raid import drives_of_data
from headrace.records.inventory import Inventory

STUDY = """
headrace = 1
title = "inventory"
[site.node]
count = 3
machine = "dell-r210"
drives = { os = "sata-7200-250gb" }
[site.server.nas]
machine = "dell-r710"
[target.nas]
kind = "nfs"
server = "nas"
software = "nfs-2010"
export = { drive = "wd-wd3200bekt", raid = { level = 5, drives = 4 }, filesystem = "ext4" }
[target.bricks]
kind = "glusterfs"
replicas = 2
bricks = { drive = "corsair-f40" }
[target.local]
kind = "block"
drive = "corsair-f40"
raid = { level = 0, drives = 2 }
[workload.scan]
kind = "scan"
data = { events = 2000, files = 3 }
[factors]
target = ["nas", "bricks", "local"]
[plan]
repeats = { min = 1 }
"""


@pytest.fixture(scope="module")
def inventories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Inventory]:
    place = tmp_path_factory.mktemp("inventory")
    (place / "study.toml").write_text(STUDY)
    records = read(headrace.simulate(place / "study.toml", place / "results"))
    return {row["target"]: row["inventory"] for row in records.trials.to_dict("records")}


def _counts(inventory: Inventory) -> set[tuple[str, str, str, int]]:
    return {(item.part, item.name, item.host, item.count) for item in inventory}


def test_a_file_server_has_its_machine_and_drives(inventories: dict[str, Inventory]) -> None:
    assert _counts(inventories["nas"]) == {
        ("node", "dell-r210", "node", 3),
        ("drive", "sata-7200-250gb", "node", 3),
        ("server", "dell-r710", "nas-server", 1),
        ("drive", "wd-wd3200bekt", "nas-server", 4),
    }
    (holding,) = [item for item in inventories["nas"] if item.usable_bytes is not None]
    assert holding.size_bytes is not None
    assert holding.usable_bytes == 3 * holding.size_bytes and holding.raid_level == 5


def test_copies_take_space_and_nodes_have_drives_each(inventories: dict[str, Inventory]) -> None:
    for target, drives, holds in (("bricks", 3, 1.5), ("local", 6, 6.0)):
        (item,) = [each for each in inventories[target] if each.name == "corsair-f40"]
        assert item.size_bytes is not None
        assert item.count == drives and item.usable_bytes == holds * item.size_bytes


@pytest.mark.parametrize(
    ("level", "drives", "data"),
    [(None, 1, 1), (0, 3, 3), (1, 2, 1), (5, 4, 3), (6, 6, 4), (10, 4, 2)],
)
def test_drives_of_data(level: int | None, drives: int, data: float) -> None:
    assert drives_of_data(level, drives) == data


def test_a_measured_trial_has_an_inventory(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        'headrace = 1\ntitle = "here"\n[target.here]\nkind = "path"\npath = "data"\n'
        'create = true\n[workload.busy]\nkind = "command"\ncommand = ["true"]\n'
        '[run]\nshortest = 0\nforeign_load = "warning"\n[plan]\nrepeats = { min = 1 }\n'
    )
    records = read(headrace.run(tmp_path / "study.toml", tmp_path / "results"))
    (row,) = records.trials.to_dict("records")
    node = row["inventory"][0]
    assert node.part == "node" and node.count == 1 and node.source == "device"
    assert node.name == records.environments[row["environment"]]["cpu_model"]
