"""Which meter counts for which part of the site, and what may be added."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.catalog.tables import MachinePower
from headrace.engine.measure.metering import SiteOfTrial, energy_of_site, site_of
from headrace.engine.measure.trial_meters import counted_once, machines_of, read_on_nodes
from headrace.launchers.local import MachineAgent
from headrace.meters.rapl import Rapl
from headrace.records.energy import ChannelEnergy, Energy
from headrace.site import Site
from headrace.study.model import NamedPlugin
from headrace.system.journal import Journal

HERE = SiteOfTrial(duration_s=100.0)
NODE_POWER = MachinePower(idle_w=50.0, awake_w=6.0, core_w=8.0)


def channel(meter: str, boundary: str, joules: float, **fields: Any) -> ChannelEnergy:
    return ChannelEnergy(
        meter,
        "shelly",
        fields.pop("name", "power"),
        boundary,
        energy_j=joules,
        uncertainty_j=fields.pop("uncertainty_j", 0.01 * joules),
        usable=fields.pop("usable", True),
        **fields,
    )


def energy(site: SiteOfTrial, *channels: ChannelEnergy, drives_j: float | None = None) -> Energy:
    return energy_of_site(Energy(drives_j=drives_j), list(channels), {}, site)


def test_a_meter_of_the_node_contains_its_drives() -> None:
    made = energy(HERE, channel("plug", "node", 9000.0))
    assert made.total_j == made.nodes_j == made.metered_j == 9000.0
    assert made.provenance == "measured" and made.uncertainty_j == pytest.approx(90.0)
    assert made.contained == {"drives": "nodes"} and made.drives_j is None


def test_an_emulated_drive_is_not_in_the_wall_socket() -> None:
    made = energy(HERE, channel("plug", "node", 9000.0), drives_j=800.0)
    assert made.total_j == 9800.0 and made.provenance == "measured+modelled"
    assert made.part_provenance == {"nodes": "measured", "drives": "modelled"}
    assert made.uncertainty_j is None and made.metered_j == 9000.0


def test_a_channel_within_another_is_not_added() -> None:
    package = channel("rapl", "socket", 4000.0, name="package-0")
    cores = channel("rapl", "socket", 2500.0, name="core", within="package-0")
    dram = channel("rapl", "socket", 600.0, name="dram")
    made = energy(HERE, package, cores, dram)
    assert made.metered_j == 4600.0 and made.metered_boundaries == ("socket",)
    assert made.total_j is None and made.nodes_j is None
    # Errors of one meter's channels go together.
    assert made.metered_uncertainty_j == pytest.approx(46.0)
    # Cores count when their package cannot be used.
    made = energy(HERE, replace(package, usable=False), cores, dram)
    assert made.metered_j == 3100.0


def test_of_two_meters_of_the_same_the_better_one_counts() -> None:
    plug = channel("plug", "node", 9000.0)
    bmc = channel("bmc", "node", 9300.0, uncertainty_j=500.0)
    assert energy(HERE, bmc, plug).total_j == 9000.0
    assert energy(HERE, plug, bmc).metered_j == 9000.0
    assert energy(HERE, replace(plug, usable=False), bmc).total_j == 9300.0
    # Processors are in the node, too.
    both = energy(HERE, plug, channel("rapl", "socket", 4000.0))
    assert both.total_j == both.metered_j == 9000.0


def test_several_nodes_need_a_meter_each() -> None:
    site = replace(HERE, nodes=("node-1", "node-2"))
    one = channel("pdu-1", "node", 9000.0, of=("node-1",))
    two = channel("pdu-2", "node", 8000.0, of=("node-2",))
    made = energy(site, one, two)
    assert made.nodes_j == 17_000.0
    assert made.uncertainty_j == pytest.approx((90**2 + 80**2) ** 0.5)
    made = energy(site, one)
    assert made.nodes_j is None and made.total_j is None and made.metered_j == 9000.0


def test_servers_and_the_switch_must_be_known_too() -> None:
    site = replace(HERE, servers=("nas",), network=True)
    node, nas = channel("a", "node", 9000.0), channel("b", "server", 20_000.0, of=("nas",))
    switch = channel("c", "device", 3000.0, of=("switch",))
    assert energy(site, node).total_j is None
    assert energy(site, node, nas).total_j is None
    made = energy(site, node, nas, switch)
    assert made.total_j == made.metered_j == 32_000.0
    assert (made.servers_j, made.switch_j) == (20_000.0, 3000.0)
    assert made.contained == {"drives": "servers"}


def test_drives_with_a_meter_of_their_own_are_not_added_twice() -> None:
    drives = channel("shelf", "device", 700.0, of=("drives",))
    made = energy(HERE, channel("plug", "node", 9000.0), drives)
    assert (made.total_j, made.drives_j, made.metered_j) == (9000.0, 700.0, 9000.0)
    assert made.contained == {"drives": "nodes"}


def test_a_part_without_a_meter_is_modelled_and_said_to_be() -> None:
    site = replace(HERE, node_power=NODE_POWER, busy_core_s=150.0)
    drives = channel("shelf", "device", 700.0, of=("drives",))
    made = energy(site, drives)
    assert made.nodes_j == 56 * 100 + 8 * 150
    assert made.part_provenance == {"nodes": "modelled", "drives": "measured"}
    assert made.total_j == made.nodes_j + 700 and made.provenance == "measured+modelled"
    assert made.uncertainty_j is None


def test_every_server_draws_power_also_those_of_one_name(tmp_path: Path) -> None:
    """[site.server.nas] count = 3 makes nas-0, nas-1 and nas-2."""
    server = {"machine": "generic-server", "count": 3}
    site = Site.model_validate({"server": {"nas": server}})
    of_site = [
        site_of(SimpleNamespace(site=site), ("node-1",), names, True, 100.0, None, tmp_path)  # pyright: ignore[reportArgumentType]
        for names in (("nas-0",), ("nas-0", "nas-1", "nas-2"))
    ]
    one, three = (energy(each) for each in of_site)
    assert one.servers_j and three.servers_j == 3 * one.servers_j
    assert [part.count for part in three.parts if part.part == "server"] == [3]


def test_a_rack_is_everything_and_a_facility_its_cooling() -> None:
    site = replace(HERE, servers=("nas",), network=True, pue=1.5)
    made = energy(site, channel("branch", "rack", 40_000.0))
    assert made.total_j == 60_000.0 and made.provenance == "measured+modelled"
    made = energy(site, channel("hall", "facility", 55_000.0), channel("branch", "rack", 40_000.0))
    assert made.total_j == made.metered_j == 55_000.0 and made.provenance == "measured"


def test_without_meters_nothing_changes() -> None:
    assert energy(HERE, drives_j=5.0) == Energy(drives_j=5.0)
    made = energy_of_site(Energy(), [], {"plug": "it does not answer"}, HERE)
    assert made.meters_failed == {"plug": "it does not answer"} and made.total_j is None


def test_meters_of_nodes_with_one_name_are_added_by_node() -> None:
    """The packages of two nodes contain their own cores, not the other's."""
    site = replace(HERE, nodes=("node-0", "node-1"))
    first, second = ({"node": name, "of": (name,)} for name in site.nodes)
    packages = [
        channel("rapl", "socket", 4000.0, name="package-0", **first),
        channel("rapl", "socket", 2500.0, name="core", within="package-0", **first),
        channel("rapl", "socket", 3000.0, name="package-0", usable=False, **second),
        channel("rapl", "socket", 2000.0, name="core", within="package-0", **second),
    ]
    made = energy(site, *packages)
    assert made.metered_j == 6000.0 and made.total_j is None
    assert made.metered_uncertainty_j == pytest.approx(math.hypot(40, 20))
    assert made.metered_nodes_j() == {"node-0": 4000.0, "node-1": 2000.0}
    # A node with a meter contains its own processors only.
    made = energy(site, *packages, channel("bmc", "node", 9000.0, **first))
    assert made.metered_j == 11_000.0 and made.nodes_j is None
    assert made.metered_nodes_j() == {"node-0": 9000.0, "node-1": 2000.0}
    two = channel("bmc", "node", 8000.0, **second)
    made = energy(site, *packages, channel("bmc", "node", 9000.0, **first), two)
    assert made.total_j == made.nodes_j == made.metered_j == 17_000.0


def test_an_outlet_of_several_nodes_and_their_own_meters_are_not_added() -> None:
    site = replace(HERE, nodes=("node-0", "node-1", "node-2"))
    outlet = channel("pdu", "node", 9000.0, of=("node-0", "node-1"))
    own = [
        channel("bmc", "node", joules, node=name, of=(name,))
        for name, joules in zip(site.nodes, (5000.0, 4000.0, 3000.0), strict=True)
    ]
    made = energy(site, *own, outlet)
    assert made.metered_j == made.nodes_j == 12_000.0


def test_nodes_of_one_kernel_are_one_machine(tmp_path: Path) -> None:
    """They have one meter, which would count twice; `of` says on which nodes a meter is read."""
    options = Rapl.Options.model_validate
    parts = {
        name: NamedPlugin(name=name, kind="rapl", written={}, options=options({"of": of}))
        for name, of in {"all": (), "last": ("node-2",)}.items()
    }
    assert read_on_nodes(parts) == parts
    with Journal.open("a test", tmp_path) as journal:
        agents = [MachineAgent(journal) for _ in range(3)]
        for number, agent in enumerate(agents):
            agent.name = f"node-{number}"
        agents[2].kernel = "another"
        shared, own = machines_of(agents, parts)
    assert (shared.agent, shared.of) == (agents[0], ("node-0", "node-1"))
    assert [part.name for part in shared.parts] == ["all"]
    assert (own.of, [part.name for part in own.parts]) == (("node-2",), ["all", "last"])


def test_a_server_that_is_also_a_node_is_not_added_twice() -> None:
    node = channel("bmc", "node", 9000.0, of=("node-1",), node="node-1")
    server = channel("psu", "server", 9000.0, of=("server-0",), node="server-0")
    site = replace(HERE, servers=("server-0",))
    assert energy(site, node, counted_once(server, "another", {"this"})).metered_j == 18000.0
    made = energy(site, node, counted_once(server, "this", {"this"}))
    assert made.metered_j == made.nodes_j == 9000.0 and made.total_j is None
    assert "servers" in made.not_covered
    assert "count twice" in made.channels[1].reasons[0]
