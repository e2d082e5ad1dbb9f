"""A study on two machines reached by SSH whose meters are read there: from the study to the report.

The second machine is this one with another boot id and other counters of its processors.
"""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from power_simulators import PowercapTree, Profile, steady
from ssh_server import SshServer, ssh_server
from workspace import Workspace

# They measure energy over time, in trials that must be valid. Namespaces of their nodes would hold
# what others mount.
pytestmark = [
    pytest.mark.quiet,
    pytest.mark.usefixtures("needs_root"),
]

STUDY = """
headrace = 1
title = "energy of nodes"
[target.shared]
kind = "path"
path = "{storage}"
create = true
[workload.wait]
kind = "command"
command = ["sleep", "2"]
[meter.cpu]
kind = "rapl"
tree = "{tree}"
idle = "1 s"
[plan]
repeats = {{ min = 1 }}
[run]
on = "ssh://{hosts}"
nodes = {nodes}
cache = "as-is"
foreign_load = "warning"
start_spread = 100
"""
BETA = """\
#!/bin/sh
exec unshare --mount --propagation slave sh -ec '
mount --bind "{place}/boot-id" /proc/sys/kernel/random/boot_id
mount --bind "{beta}" "{alpha}"
eval "$SSH_ORIGINAL_COMMAND"'
"""


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture
def workspace(workspace: Workspace, memory: Path, hosts: SshServer) -> Workspace:
    workspace.environment["PATH"] = hosts.path
    for name in ("alpha", "beta"):
        shutil.rmtree(memory / name, ignore_errors=True)
    return workspace


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, memory: Path) -> Iterator[SshServer]:
    place = tmp_path_factory.mktemp("ssh")
    (place / "boot-id").write_text("00000000-1111-2222-3333-444444444444\n")
    with ssh_server(place / "ssh", {"HEADRACE_JOURNAL_DIR": str(place / "journals")}) as found:
        script = BETA.format(place=place, beta=memory / "beta", alpha=memory / "alpha")
        found.enter_beta.write_text(script)
        yield found


def watts(node: float, package: float) -> dict[str, tuple[str, Profile]]:
    return {
        "intel-rapl:0": ("package-0", steady(package)),
        "intel-rapl:1": ("psys", steady(node)),
    }


def study(memory: Path, hosts: str, nodes: int) -> str:
    return STUDY.format(storage=memory / "data", tree=memory / "alpha", hosts=hosts, nodes=nodes)


def test_the_energy_of_each_node_is_read_there_and_added(
    workspace: Workspace, memory: Path
) -> None:
    with (
        PowercapTree(memory / "alpha", watts(60.0, 40.0), 200_000_000),
        PowercapTree(memory / "beta", watts(90.0, 50.0), 200_000_000),
    ):
        file = workspace.study(study(memory, "alpha,beta", 2))
        ended = workspace.run("run", file, "--results", "results")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (trial,) = workspace.trials()
    energy, seconds = trial["energy"], trial["last_done_s"]
    assert trial["validity"]["valid"] and energy["meters_failed"] == {}, trial
    found = {(each["node"], each["channel"]): each for each in energy["channels"]}
    expected = {
        ("node-0", "psys"): 60.0,
        ("node-0", "package-0"): 40.0,
        ("node-1", "psys"): 90.0,
        ("node-1", "package-0"): 50.0,
    }
    assert set(found) == set(expected)
    for key, power_w in expected.items():
        assert found[key]["usable"] and found[key]["of"] == [key[0]], found[key]
        assert found[key]["energy_j"] == pytest.approx(power_w * seconds, rel=0.02)
        assert found[key]["idle_power_w"] == pytest.approx(power_w, rel=0.02)
    # Packages are within psys; of both nodes together nothing is missing.
    assert energy["total_j"] == energy["nodes_j"] == energy["metered_j"]
    assert energy["total_j"] == pytest.approx(150 * seconds, rel=0.02)
    assert energy["provenance"] == "measured"
    # Two instruments: their errors are independent.
    squares = sum(found[name, "psys"]["uncertainty_j"] ** 2 for name in ("node-0", "node-1"))
    assert energy["uncertainty_j"] == pytest.approx(squares**0.5)
    by_node = {part["name"]: part["energy_j"] for part in energy["parts"]}
    assert by_node == {name: found[name, "psys"]["energy_j"] for name in ("node-0", "node-1")}
    (series,) = workspace.place.glob("results/trials/*/series/power.parquet")
    rows = pq.read_table(series).to_pylist()
    assert {(row["node"], row["channel"]) for row in rows} == set(expected)
    assert workspace.run("report", "results", "--format", "csv").returncode == 0
    with (workspace.place / "results" / "report.csv").open() as table:
        reported_rows = list(csv.DictReader(table))
    (reported,) = [row for row in reported_rows if row["metric"] == "energy_wh_per_job"]
    assert float(reported["value"]) == pytest.approx(energy["total_j"] / 2 / 3600)
    assert reported["provenance"] == "measured"
    powers = [float(row["value"]) for row in reported_rows if row["metric"] == "metered_power_w"]
    assert powers == pytest.approx([60.0, 90.0], rel=0.02)
    assert "Metered power, W" in (workspace.place / "results" / "report.html").read_text()


def test_a_node_without_the_meter_is_named_before_anything_starts(
    workspace: Workspace, memory: Path
) -> None:
    (memory / "beta").mkdir()
    with PowercapTree(memory / "alpha", watts(60.0, 40.0), 200_000_000):
        file = workspace.study(study(memory, "alpha,beta", 2))
        for command in (("run", file, "--results", "results"), ("doctor", file)):
            ended = workspace.run(*command)
            said = " ".join((ended.stdout + ended.stderr).split())
            assert ended.returncode == 3, said
            assert "node-1: no RAPL counters" in said and "meter cpu" in said, said
            assert "node-0: no RAPL" not in said, said
    assert not workspace.trials()
