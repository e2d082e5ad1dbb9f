"""What headers leave of a link's rate, alike in measured and simulated studies."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.simulate.scenario import scenario_of
from headrace.site import SiteLink
from headrace.study.load import load_study_text
from headrace.study.resolve import resolve
from headrace.system.cluster.links import LinkSettings, queues_of
from headrace.targets.links import BUCKET_BYTES, ETHERNET_BYTES, data_share, link_rate, network_port
from headrace.targets.served import link_settings

STUDY = """
headrace = 1
[site.node]
count = 2
link = NODE
[site.server.nas]
link = SERVER
[target.nas]
kind = "nfs"
server = "nas"
export = { drive = "samsung-pm9a3-3.84tb", filesystem = "xfs" }
[workload.read]
kind = "sequential"
file_size = "1 GiB"
"""


def scenario(node: str, server: str = '"10 GbE"', more: str = "") -> object:
    text = STUDY.replace("NODE", node).replace("SERVER", server) + more
    study = load_study_text(text, file=Path("study.toml"), base=Path("/"))
    return scenario_of(resolve(study, "nas", "read", {}), "nas", "read", 1)


@pytest.mark.parametrize(("mtu", "megabits"), [(1500, 941.5), (9000, 990.0)])
def test_a_gigabit_of_ethernet_carries_the_data_that_everyone_measures(
    mtu: int, megabits: float
) -> None:
    """With time stamps: 1448 of 1538 bytes, and 8948 of 9038."""
    assert 1000 * data_share(mtu, ETHERNET_BYTES) == pytest.approx(megabits, abs=0.1)


def test_ports_have_the_rate_of_data() -> None:
    assert network_port("1 GbE")["rate_bytes_per_s"] == pytest.approx(117.69e6, rel=1e-4)
    assert network_port("1 Gb/s")["rate_bytes_per_s"] == pytest.approx(125e6 * 1448 / 1514)
    assert network_port(None)["rate_bytes_per_s"] == network_port("1 Gb/s")["rate_bytes_per_s"]
    bonded = network_port("4 x 1 GbE")
    assert bonded["rate_bytes_per_s"] == pytest.approx(4 * 117.69e6, rel=1e-4)
    assert bonded.get("flow_bytes_per_s") == network_port("1 GbE")["rate_bytes_per_s"]


@given(
    rate=st.floats(1e4, 1e11),
    mtu=st.integers(576, 65535),
    count=st.integers(1, 8),
)
def test_more_data_fit_with_larger_packets_and_never_more_than_the_link(
    rate: float, mtu: int, count: int
) -> None:
    link = SiteLink.model_validate({"rate": rate, "mtu": mtu, "count": count})
    port = network_port(link)
    assert 0.85 * rate * count < port["rate_bytes_per_s"] < rate * count
    larger = network_port(link.model_copy(update={"mtu": mtu + 1}))
    assert larger["rate_bytes_per_s"] > port["rate_bytes_per_s"]
    assert port.get("flow_bytes_per_s", port["rate_bytes_per_s"]) * count == pytest.approx(
        port["rate_bytes_per_s"]
    )


@pytest.mark.parametrize(
    "link",
    [
        None,
        "1 GbE",
        "4 x 1 GbE",
        "10 Gb/s",
        "25-gbe",
        {"rate": "100 Mb/s", "mtu": 9000},
        {"rate": "1 Gb/s", "count": 2},
    ],
)
def test_measured_and_simulated_links_carry_the_same_data(link: object) -> None:
    """A token bucket counts 14 bytes of each frame beside the packet."""
    of_site = SiteLink.model_validate(link) if isinstance(link, dict) else link
    measured = link_settings(of_site)
    assert measured.rate_bytes_per_s is not None
    data = measured.rate_bytes_per_s * data_share(measured.mtu, BUCKET_BYTES)
    assert data == pytest.approx(network_port(of_site)["rate_bytes_per_s"])
    if not isinstance(link, str):
        rate = link_rate(of_site)
        assert measured.rate_bytes_per_s == rate.port_bytes_per_s * rate.ports


def test_a_learnt_rate_is_of_data_already() -> None:
    learnt = '[site.calibration.target.nas]\nnetwork_rate = "80 MB/s"\n'
    made: dict = scenario('"1 GbE"', more=learnt)  # pyright: ignore
    rates = [host["network"]["rate_bytes_per_s"] for host in (*made["nodes"], *made["servers"])]
    assert rates == [80e6, 80e6]


def test_uplinks_and_connections_know_the_packets_of_the_nodes() -> None:
    more = '[site.leaf]\nnodes = 1\nuplink = "1 Gb/s"\n[site.tcp]\n'
    for mtu, least in ((9000, 9000), (1400, 1400)):
        server = "{ rate = '10 Gb/s', mtu = 9000 }"
        made: dict = scenario(f"{{ rate = '1 Gb/s', mtu = {mtu} }}", server, more)  # pyright: ignore
        uplink = 125e6 * data_share(mtu, ETHERNET_BYTES)
        assert made["leaves"]["uplink_bytes_per_s"] == pytest.approx(uplink)
        assert made["tcp"]["mtu_bytes"] == least


def test_the_queue_of_a_delayed_link_holds_what_is_on_the_way() -> None:
    link = LinkSettings(rate_bytes_per_s=125e6, delay_s=0.02, mtu=576, txqueuelen=10)
    limit = queues_of(link)[0].options["limit"]
    assert (int(limit) + 2) * 576 >= 2 * 125e6 * 0.02
