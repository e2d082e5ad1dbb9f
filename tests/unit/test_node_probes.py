"""Probes of a trial whose nodes have kernels of their own, and of one whose nodes share one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engine.measure.node_probes import NodeProbes, TrialSamples
from headrace.launchers import Clock
from headrace.launchers.local import MachineAgent
from headrace.probes.block import BlockProbe
from headrace.probes.network import NetworkProbe
from headrace.study.model import RunOptions
from headrace.system.journal import Journal
from headrace.targets import Location

LATER_S = 100.0


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[list[MachineAgent]]:
    """Three nodes; the last one has another kernel, on which all starts later."""
    with Journal.open("a test", tmp_path / "journal") as journal:
        made = [MachineAgent(journal) for _ in range(3)]
        for number, agent in enumerate(made):
            agent.name = f"node-{number}"
        made[2].kernel, made[2].clock = "another", Clock(LATER_S)
        yield made


def sampled(agents: list[MachineAgent], tmp_path: Path, **location: object) -> TrialSamples:
    probes = NodeProbes(agents, RunOptions(series_interval=0.05))
    probes.start(Location(tmp_path, **location), [], tmp_path)  # pyright: ignore[reportArgumentType]
    samples = probes.finish()
    assert probes.finish() is samples
    return samples


def test_nodes_of_one_kernel_are_sampled_once(agents: list[MachineAgent], tmp_path: Path) -> None:
    samples = sampled(agents[:2], tmp_path)
    assert samples.by_node == {}
    assert samples.failed == {}
    assert samples.totals["cpu"].values["cores"] == os.cpu_count()
    assert "free_bytes_min" in samples.totals["memory"].values
    assert samples.series["memory"]
    assert not any("node" in row for row in samples.series["memory"])


def test_each_kernel_is_sampled_and_what_can_be_added_is(
    agents: list[MachineAgent], tmp_path: Path
) -> None:
    samples = sampled(agents, tmp_path, device_names=("no-such-device",))
    assert set(samples.by_node) == {"node-0", "node-2"}
    cores = os.cpu_count() or 0
    assert samples.totals["cpu"].values["cores"] == 2 * cores
    assert samples.by_node["node-2"]["cpu"]["cores"] == cores
    assert set(samples.totals["memory"].values) == {"node-0", "node-2"}
    rows = samples.series["memory"]
    assert {row["node"] for row in rows} == {"node-0", "node-2"}
    assert all((row["time_s"] >= LATER_S - 1) == (row["node"] == "node-2") for row in rows)
    (invalid,) = samples.totals["block"].invalid
    assert invalid[0] == "device-gone"
    assert invalid[1].startswith("node-0: the counters of device no-such-device")


def test_a_probe_that_fails_on_one_node_has_no_totals(
    agents: list[MachineAgent], tmp_path: Path
) -> None:
    finish = agents[2].finish_probes

    def lost() -> None:
        finish()
        raise OSError(110, "Connection timed out")

    agents[2].finish_probes = lost  # pyright: ignore[reportAttributeAccessIssue]
    samples = sampled(agents, tmp_path)
    assert "cpu" not in samples.totals
    how = "on node-2 with the agent of its node: Connection timed out"
    assert samples.failed["cpu"] == how
    assert samples.by_node["node-0"]["cpu"]["cores"] == os.cpu_count()
    # Of memory: too little may have happened for a rate of the CPUs.
    rows = samples.series["memory"]
    assert rows and all(row["time_s"] < LATER_S for row in rows), "since its start, not the boot"


def test_totals_of_devices_and_interfaces_of_several_nodes() -> None:
    one = {"devices": ["vda"], "gone": [], "bytes_read": 3, "busy_s": 0.5}
    other = {"devices": ["vda", "vdb"], "gone": ["vdc"], "bytes_read": 4, "busy_s": 0.25}
    assert BlockProbe.combine({"a": one, "b": other, "c": {}}) == {
        "devices": ["a:vda", "b:vda", "b:vdb"],
        "gone": ["b:vdc"],
        "bytes_read": 7,
        "busy_s": 0.75,
    }
    assert BlockProbe.combine({"a": {}, "b": {}}) == {}
    links = NetworkProbe.combine({"a": {"node-0": {"dropped": 1}}, "b": {"gone": ["node-1"]}})
    assert links == {"node-0": {"dropped": 1}, "gone": ["node-1"]}
