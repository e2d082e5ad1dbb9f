"""Servers before other ones in a simulated site: gateways and XCache, from the words of a study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace import _core
from headrace.engine.measure.nodes import nodes_wanted
from headrace.engine.measure.whole_plot import make_target
from headrace.engine.simulate.scenario import scenario_of
from headrace.errors import HeadraceError, StudyError
from headrace.study import Study, load_study_text
from headrace.study.resolve import resolve

FILE_BYTES = 64 << 20
STUDY = """
headrace = 1
title = "Before a remote store"

[site.node]
link = "10 GbE"

[site.server.store]
link = { rate = "80 Mb/s", latency = "5 ms" }

[site.server.gateway]
link = "10 GbE"
upstream = "store"

[site.server.xcache]
link = "10 GbE"
upstream = "store"
drives = { cache = "samsung-pm9a3-3.84tb" }

[target.direct]
kind = "xrootd"
server = "store"
bricks = { on = "server", drive = "wd-wd3200bekt" }

[target.gateway]
kind = "xrootd"
server = "gateway"
bricks = { on = "server", drive = "wd-wd3200bekt" }

[target.xcache]
kind = "xrootd"
server = "xcache"
bricks = { on = "server", drive = "wd-wd3200bekt" }
cache = { block = "256 KiB", prefetch = 2 }

[workload.read]
kind = "sequential"
file_size = "64 MiB"
record_size = "1 MiB"

[factors]
target = ["direct", "gateway", "xcache"]

[run]
load = "sustained"
slots = 1
jobs = 2
"""


def load(text: str) -> Study:
    return load_study_text(text, file=Path("study.toml"), base=Path("/base"))


def scenario(target: str, text: str = STUDY) -> dict[str, Any]:
    study = load(text)
    return scenario_of(resolve(study, target, "read", {}), target, "read", 1)


def read_twice(target: str, text: str = STUDY) -> dict[str, Any]:
    """Simulate two jobs that read the same file one after the other."""
    made = scenario(target, text)
    made["files"][0].update(count=1, bytes=FILE_BYTES)
    return json.loads(_core.simulate_json(json.dumps(made)))


@pytest.mark.parametrize("target", ["gateway", "xcache"])
def test_the_second_reading_is_served_by_the_front_server(target: str) -> None:
    outcome = read_twice(target)
    front, behind = outcome["services"]
    assert front["name"] == target
    assert (front["read_bytes"], behind["read_bytes"]) == (2 * FILE_BYTES, FILE_BYTES)
    first, second = ((job["end_ns"] - job["start_ns"]) * 1e-9 for job in outcome["jobs"])
    # 80 Mb/s lie between both; the direct target passes them twice.
    assert FILE_BYTES / first < 10e6
    assert FILE_BYTES / second > 100e6
    reads = front["upstream"]
    assert (reads["service"], reads["read_bytes"]) == (behind["name"], FILE_BYTES)
    # Fetched ahead: 2 blocks of 256 KiB of every second request of 1 MiB and more are there.
    had = (2 if target == "xcache" else 0) * FILE_BYTES
    assert reads["hit_bytes"] + reads["missed_bytes"] == had
    assert reads["hit_bytes"] >= had / 2
    direct = read_twice("direct")
    assert all(FILE_BYTES / (job["end_ns"] - job["start_ns"]) < 10e-3 for job in direct["jobs"])


@pytest.mark.parametrize("target", ["gateway", "xcache"])
def test_no_byte_is_lost_or_counted_twice(target: str) -> None:
    outcome = read_twice(target)
    served = [job["bytes"]["served_bytes"] for job in outcome["jobs"]]
    assert served == [FILE_BYTES, FILE_BYTES]
    sent = {host["name"]: (host["sent_bytes"], host["received_bytes"]) for host in outcome["hosts"]}
    assert sent == {
        "node": (0, 2 * FILE_BYTES),
        f"{target}-{target}": (2 * FILE_BYTES, FILE_BYTES),
        f"{target}-server": (FILE_BYTES, 0),
    }


def test_equal_seeds_give_equal_bytes() -> None:
    text = json.dumps(scenario("xcache"))
    assert _core.simulate_json(text) == _core.simulate_json(text)


def test_the_words_of_a_study_reach_the_simulator() -> None:
    made = scenario("xcache")
    front, behind = made["services"]
    cache = {"volume": "cache", "block_bytes": 256 << 10, "prefetch_blocks": 2}
    assert front["targets"] == [
        {"host": "xcache-xcache", "upstream": behind["name"], "cache": cache}
    ]
    assert behind["targets"] == [{"host": "xcache-server", "volume": "data"}]
    links = {host["name"]: host["network"]["rate_bytes_per_s"] for host in made["servers"]}
    of_data = {"xcache-xcache": 1.25e9 * 1448 / 1538, "xcache-server": 10e6 * 1448 / 1514}
    assert links == pytest.approx(of_data)
    assert "cache" not in scenario("gateway")["services"][0]["targets"][0]


def test_each_machine_reclaims_pages_as_its_kernel_does() -> None:
    def rules(text: str) -> dict[str, str]:
        made = scenario("gateway", text)
        return {host["name"]: host["page_reclaim"] for host in made["nodes"] + made["servers"]}

    today = dict.fromkeys(("node", "gateway-gateway", "gateway-server"), "workingset")
    assert rules(STUDY) == today
    old = 'page_reclaim = "two_lists"\nlink = '
    for place, name in [
        ("[site.node]", "node"),
        ("[site.server.gateway]", "gateway-gateway"),
        ("[site.server.store]", "gateway-server"),
    ]:
        stated = STUDY.replace(f"{place}\nlink = ", f"{place}\n{old}")
        assert rules(stated) == today | {name: "two_lists"}
    # A machine of the catalog with an old kernel, and a study that gives it a new one.
    machine = STUDY.replace("[site.node]", '[site.node]\nmachine = "dell-r710"')
    assert rules(machine) == today | {"node": "two_lists"}
    for rule in ("workingset", "mglru"):
        stated = machine.replace('dell-r710"', f'dell-r710"\npage_reclaim = "{rule}"')
        assert rules(stated) == today | {"node": rule}
    with pytest.raises(StudyError, match="page_reclaim"):
        load(STUDY.replace("[site.node]", '[site.node]\npage_reclaim = "clock"'))


def test_an_xcache_of_a_target_is_simulated_where_it_stores() -> None:
    """`cache = { … }` of a target, which is also measured, was left out of a simulation."""
    text = STUDY.replace(
        'cache = { block = "256 KiB", prefetch = 2 }',
        'cache = { block = "256 KiB", drive = "samsung-pm9a3-3.84tb" }',
    ).replace('server = "xcache"\n', 'server = "store"\n')
    outcome = read_twice("xcache", text)
    assert [service["read_bytes"] for service in outcome["services"]] == [
        2 * FILE_BYTES,
        FILE_BYTES,
    ]
    with pytest.raises(HeadraceError, match="what does its XCache store on"):
        scenario("xcache", text.replace(', drive = "samsung-pm9a3-3.84tb"', ""))


def test_faults_affect_the_server_that_stores_the_data() -> None:
    made = scenario(
        "xcache",
        STUDY + '[[fault]]\nwhat = "media-error"\n[[fault]]\nwhat = "link-slowed"\nat = "1 s"\n',
    )
    drives = {
        host["name"]: host["volumes"][0]["storage"].get("faults", []) for host in made["servers"]
    }
    assert [len(faults) for faults in drives.values()] == [0, 1]
    assert [fault["host"] for fault in made["faults"]] == ["xcache-server"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('upstream = "store"', 'upstream = "stor"', "there is no [site.server.stor]"),
        (
            '[site.server.store]\nlink = { rate = "80 Mb/s", latency = "5 ms" }\n',
            '[site.server.store]\nupstream = "gateway"\n',
            "a circle of servers (store -> gateway -> store)",
        ),
        ('upstream = "store"', 'upstream = "gateway"', "(gateway -> gateway)"),
    ],
)
def test_upstreams_that_lead_nowhere_are_refused(old: str, new: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        load(STUDY.replace(old, new, 1))
    assert said in str(caught.value.problems[0])


def test_a_server_with_an_upstream_is_not_measured() -> None:
    resolved = resolve(load(STUDY), "gateway", "read", {})
    target = make_target("gateway", resolved, 1)
    with pytest.raises(HeadraceError, match="simulated only"):
        nodes_wanted(target, resolved, 1, ())


OWN_DRIVES = """
headrace = 1
title = "a storage element, and a file server, whose drives are those of the site"

[site.node]
machine = "generic-node"

[site.server.se]
link = "10 GbE"
drives = { data = "samsung-pm9a3-3.84tb" }

[target.scratch]
kind = "block"
drive = "samsung-870-evo-1tb"

[target.nas]
kind = "nfs"
server = "se"

[workload.read]
kind = "replay"
source = "se"
profile = "atlas-filestager"
"""


@pytest.mark.parametrize(("target", "host"), [("scratch", "se-server"), ("nas", "nas-server")])
def test_a_server_of_the_site_stores_on_its_own_drive(target: str, host: str) -> None:
    """Not on the storage of the software that a source runs by default: disks of 2010."""
    made = scenario(target, OWN_DRIVES)
    (server,) = (each for each in made["servers"] if each["name"] == host)
    (volume,) = server["volumes"]
    assert volume["storage"]["drives"][0]["name"] == "samsung-pm9a3-3.84tb"
    bare = OWN_DRIVES.replace('drives = { data = "samsung-pm9a3-3.84tb" }', "")
    if target == "nas":
        with pytest.raises(HeadraceError, match="drives of the server in"):
            scenario(target, bare)
    else:
        assert "ideal" in scenario(target, bare)["servers"][0]["volumes"][0]


def test_what_an_export_says_counts_before_the_drives_of_its_server() -> None:
    text = OWN_DRIVES.replace('server = "se"', 'server = "se"\nexport = { drive = "corsair-f40" }')
    servers = {each["name"]: each for each in scenario("nas", text)["servers"]}
    stored = servers["nas-server"]["volumes"][0]["storage"]["drives"][0]
    assert stored["name"] == "corsair-f40"
