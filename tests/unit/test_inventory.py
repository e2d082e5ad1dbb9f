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


SERVICES = """
headrace = 1
title = "services"
[site.node]
drives = { scratch = "corsair-f40" }
[site.server.storage]
count = 6
[site.server.mds]
machine = "dell-r710"
drives = { metadata = "corsair-f40" }
[target.ceph]
kind = "cephfs"
server = "storage"
metadata_server = "mds"
export = { drive = "sata-7200-500gb" }
[target.coded]
kind = "eos"
server = "storage"
export = { drive = "sata-7200-500gb" }
erasure = { data = 4, parity = 2 }
[target.local]
kind = "path"
path = "data"
[workload.scan]
kind = "scan"
data = { events = 2000, files = 3 }
[factors]
target = ["ceph", "coded", "local"]
[plan]
repeats = { min = 1 }
"""


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Inventory]:
    place = tmp_path_factory.mktemp("services")
    (place / "study.toml").write_text(SERVICES)
    records = read(headrace.simulate(place / "study.toml", place / "results"))
    return {row["target"]: row["inventory"] for row in records.trials.to_dict("records")}


@pytest.mark.parametrize(("target", "drives"), [("ceph", 2), ("coded", 4)])
def test_copies_and_parity_of_modelled_services_take_space(
    services: dict[str, Inventory], target: str, drives: int
) -> None:
    """Three copies by default; four of six with parity."""
    (item,) = [each for each in services[target] if each.usable_bytes is not None]
    assert item.name == "sata-7200-500gb" and item.size_bytes is not None
    assert item.usable_bytes == pytest.approx(drives * item.size_bytes)


def test_a_metadata_server_is_a_machine_of_its_own_without_data(
    services: dict[str, Inventory],
) -> None:
    machine, drive = [each for each in services["ceph"] if each.host == "ceph-mds"]
    assert (machine.name, drive.name, drive.usable_bytes) == ("dell-r710", "corsair-f40", None)


def test_a_drive_that_stands_for_a_folder_is_there_once(services: dict[str, Inventory]) -> None:
    assert [each.count for each in services["local"] if each.part == "drive"] == [1]


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
