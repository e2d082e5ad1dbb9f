"""Two nodes of a study, each with a file system of its own on a drive of its own.

What each reads comes from its own device.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest

import headrace

pytestmark = pytest.mark.usefixtures("needs_root")

STUDY = """
headrace = 1
title = "local drives"
[site.node]
count = 2
[target.local]
kind = "block"
{medium}
[workload.stream]
kind = "sequential"
mode = "read"
file_size = "24 MiB"
[workload.scan]
kind = "scan"
data = {{ events = 40_000, files = 4 }}
[workload.names]
kind = "metadata"
items = 20
clients = 2
[factors]
workload = {workloads}
nodes = {nodes}
[plan]
repeats = {{ min = 1 }}
[run]
slots = 2
shortest = 0
cache = "cold"
timeout = "1 min"
series_interval = "50 ms"
"""


def measured(
    tmp_path: Path, medium: str, workloads: list[str], nodes: list[int]
) -> list[dict[str, Any]]:
    """The records, by nodes and workload; every trial did its jobs."""
    tmp_path.mkdir(exist_ok=True)
    study = tmp_path / "study.toml"
    study.write_text(STUDY.format(medium=medium, workloads=json.dumps(workloads), nodes=nodes))
    results = headrace.load_study(study).run(tmp_path / "results", cache_dir=tmp_path / "cache")
    trials = [json.loads(file.read_text()) for file in sorted(results.glob("trials/*/trial.json"))]
    assert [(trial["status"], trial["cause"]) for trial in trials] == [("done", None)] * len(trials)
    return sorted(
        trials,
        key=lambda trial: (trial["levels"]["nodes"], workloads.index(trial["workload"]["name"])),
    )


def table(tmp_path: Path, trial: dict[str, Any], name: str) -> Any:
    return duckdb.sql(
        f"SELECT * FROM '{tmp_path}/results/trials/{trial['id']}/{name}.parquet'"
    ).df()


def shares_read(tmp_path: Path, trial: dict[str, Any]) -> list[float]:
    """Of the bytes read, what the block probe saw on each of the target's devices. (Their sum is in
    the record to the byte; the rates of the series are each over a moment that is known to a
    millisecond.)"""
    series = table(tmp_path, trial, "series/block").sort_values("time_s")
    read: list[float] = []
    for device in trial["location"]["devices"]:
        rows = series[series["device"] == device]
        read.append(
            float((rows["read_bytes_per_s"] * rows["time_s"].diff().fillna(rows["time_s"])).sum())
        )
    return [each / sum(read) for each in read]


def left_over(place: Path) -> list[str]:
    """Return the loop devices of files in a folder; other tests have theirs elsewhere."""
    listed = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if str(place) in line]


def test_each_nodes_jobs_read_from_its_own_image(tmp_path: Path) -> None:
    medium = f'image = "{tmp_path}/disk.img"\nsize = "256 MiB"\nfilesystem = "ext4"'
    one, two, scan, names = measured(tmp_path, medium, ["stream"], [1, 2]) + measured(
        tmp_path / "more", medium, ["scan", "names"], [2]
    )
    assert not left_over(tmp_path)
    assert not list(tmp_path.glob("*.img"))
    # One node: the first drive alone. Two: each reads its own two files, none the other's.
    files = 2 * (24 << 20)
    assert len(one["location"]["devices"]) == len(two["location"]["devices"]) == 2
    assert files <= one["device"]["bytes_read"] < 1.2 * files
    assert shares_read(tmp_path, one)[0] > 0.99
    assert 2 * files <= two["device"]["bytes_read"] < 1.2 * 2 * files
    assert shares_read(tmp_path, two)[1] == pytest.approx(0.5, abs=0.05)
    places = [node["directory"] for node in two["location"]["nodes"]]
    assert len(set(places)) == 2
    for row in table(tmp_path, two, "jobs").to_dict("records"):
        assert row["file"].startswith(f"{places[row['node']]}/")
    # A data set is dealt out: each of the four files is read once, on its node's drive.
    rows = table(tmp_path / "more", scan, "jobs").to_dict("records")
    assert sum(row["events"] for row in rows) == 40_000
    assert len({Path(row["file"]).name for row in rows}) == 4
    # A tree that clients share is each node's own.
    phases = names["results"]["phases"]
    assert (
        phases["file_creation"]["operations"]
        == phases["directory_removal"]["operations"]
        == 2 * 2 * 2 * 20
    )


def test_each_node_has_an_emulated_drive(tmp_path: Path) -> None:
    medium = 'drive = "mtron-msp-sata7035064"\nsize = "128 MiB"\nfilesystem = "ext4"'
    (two,) = measured(tmp_path, medium, ["stream"], [2])
    assert two["provenance"] == "emulated"
    assert two["run"]["on"] == "namespaces"
    assert [report["reads"] > 100 for report in two["emulators"]] == [True, True]
    assert two["device"]["bytes_read"] >= 2 * 2 * (24 << 20)
    assert shares_read(tmp_path, two)[1] == pytest.approx(0.5, abs=0.05)


def test_items_of_another_nodes_clients_cannot_be_had(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    medium = f'image = "{tmp_path}/disk.img"\nsize = "64 MiB"'
    text = STUDY.format(medium=medium, workloads='["names"]', nodes=[2])
    study.write_text(text.replace("clients = 2", "clients = 2\nstride = 1"))
    results = headrace.load_study(study).run(tmp_path / "results")
    (file,) = results.glob("trials/*/trial.json")
    trial = json.loads(file.read_text())
    assert trial["status"] == "unsupported"
    assert "lie on that node's own drive" in trial["cause"]
