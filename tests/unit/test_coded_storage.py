"""Simulated CephFS, EOS and dispersed GlusterFS, metadata servers and TCP, from the words of a
study."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace import _core
from headrace.engine.simulate import Simulate
from headrace.engine.simulate.checking import check_simulated_only
from headrace.engine.simulate.scenario import scenario_of
from headrace.errors import HeadraceError, StudyError
from headrace.plan.order import make_plan
from headrace.study import load_study_text
from headrace.study.resolve import resolve

FILE_BYTES = 32 << 20
STUDY = """
headrace = 1
title = "Copies and codes"

[site.node]
link = "10 GbE"

[site.server.storage]
link = "10 GbE"
count = 6

[site.server.mds]
link = "10 GbE"
drives = { metadata = "samsung-pm9a3-3.84tb" }

[target.eos]
kind = "eos"
server = "storage"
export = { drive = "wd-wd3200bekt" }
erasure = { data = 4, parity = 2 }

[target.ceph]
kind = "cephfs"
server = "storage"
metadata_server = "mds"
export = { drive = "wd-wd3200bekt" }

[target.ceph-coded]
kind = "cephfs"
server = "storage"
export = { drive = "wd-wd3200bekt" }
erasure = { data = 4, parity = 2 }

[target.gluster]
kind = "glusterfs"
bricks = { on = "storage", drive = "wd-wd3200bekt" }
disperse = { data = 4, redundancy = 2 }

[workload.read]
kind = "sequential"
file_size = "32 MiB"
record_size = "1 MiB"

[workload.write]
kind = "sequential"
file_size = "32 MiB"
record_size = "1 MiB"
mode = "write"

[factors]
target = ["eos", "ceph", "ceph-coded", "gluster"]
workload = ["read", "write"]

[run]
slots = 1
"""


def scenario(target: str, workload: str = "read", text: str = STUDY) -> dict[str, Any]:
    study = load_study_text(text, file=Path("study.toml"), base=Path("/base"))
    return scenario_of(resolve(study, target, workload, {}), target, workload, 1)


def simulated(made: dict[str, Any]) -> dict[str, Any]:
    return json.loads(_core.simulate_json(json.dumps(made)))


@pytest.mark.parametrize("target", ["eos", "ceph-coded", "gluster"])
def test_a_coded_file_survives_two_of_six_servers(target: str) -> None:
    made = scenario(target)
    whole = simulated(made)
    assert whole["services"][0]["stored_bytes"] == [FILE_BYTES // 4] * 6
    made["faults"] = [
        {"at_ns": 0, "host": f"{target}-server[{n}]", "what": {"kind": "server-down"}}
        for n in (0, 1)
    ]
    degraded = simulated(made)
    assert "degraded_reads" not in whole["services"][0]
    assert degraded["services"][0]["degraded_reads"] > 0
    assert degraded["jobs"][0]["bytes"]["asked_bytes"] == FILE_BYTES
    assert not degraded["broken_off"] and degraded["end_ns"] > whole["end_ns"]


@pytest.mark.parametrize(
    ("target", "copies"), [("eos", 1.5), ("ceph", 3.0), ("ceph-coded", 1.5), ("gluster", 1.5)]
)
def test_written_bytes_take_their_copies_or_parity(target: str, copies: float) -> None:
    outcome = simulated(scenario(target, "write"))
    received = sum(
        host["received_bytes"]
        for host in outcome["hosts"]
        if host["name"].startswith(f"{target}-server")
    )
    assert received == pytest.approx(copies * FILE_BYTES, rel=0.02)


def test_metadata_operations_use_the_named_server() -> None:
    outcome = simulated(scenario("ceph", "write"))
    mds = next(host for host in outcome["hosts"] if host["name"] == "ceph-mds")
    drive = next(drive for drive in outcome["drives"] if drive["host"] == "ceph-mds")
    assert mds["busy_core_ns"] > 0 and drive["writes"] > 0
    for wrong, said in (
        ('metadata_server = "md"', r"there is no \[site.server.md\]; there are: storage, mds"),
        ('metadata_server = "storage"', "what does storage store on"),
    ):
        with pytest.raises(HeadraceError, match=said):
            scenario("ceph", text=STUDY.replace('metadata_server = "mds"', wrong))


ERASURE = "erasure = { data = 4, parity = 2 }"
NONSENSE = 'server = "storage"\ntuning = { nonsense = 1 }'


@pytest.mark.parametrize(
    ("target", "given", "wrong", "field"),
    [
        ("eos", ERASURE, "erasure = { data = 4, parity = 3 }", "erasure"),
        ("eos", ERASURE, "replicas = 7", "replicas"),
        ("gluster", "redundancy = 2", "redundancy = 3", "disperse"),
        ("ceph", 'server = "storage"', NONSENSE, "tuning.nonsense"),
        ("ceph", '"mds"\n', '"md"\n', "kind"),
    ],
)
def test_what_does_not_go_together_is_refused_by_line(
    target: str, given: str, wrong: str, field: str
) -> None:
    """Before anything runs, and by `headrace validate` where a target is simulated only."""
    begin = STUDY.index(f"[target.{target}]")
    text = STUDY[:begin] + STUDY[begin:].replace(given, wrong, 1)
    study = load_study_text(text, file=Path("study.toml"), base=Path("/base"))
    plan = make_plan(study)
    lines = text.splitlines()
    line = 1 + next(
        number
        for number, each in enumerate(lines)
        if number >= lines.index(f"[target.{target}]") and each.startswith(field.split(".")[0])
    )
    place = f"study.toml:{line}: target.{target}.{field}: "
    checks = [lambda: Simulate().check(study, plan, frozenset())]
    if target == "ceph" and field == "kind":
        checks.clear()  # said without a line, as all parts that have no model
    if target != "gluster":
        checks.append(lambda: check_simulated_only(study, plan.trials))
    for check in checks:
        with pytest.raises(StudyError) as caught:
            check()
        assert str(caught.value).startswith(place)
        assert "allowed: " in str(caught.value) or field == "kind"


def test_the_words_of_tcp_reach_the_simulator() -> None:
    assert "tcp" not in scenario("eos")
    text = STUDY + '[site.tcp]\nport_buffer = "64 KiB"\nrto_min = "1 ms"\ninitial_window = 3\n'
    made = scenario("eos", text=text)
    assert made["tcp"] == {
        "initial_window_packets": 3,
        "min_rto_ns": 1_000_000,
        "port_buffer_bytes": 64 << 10,
        "recovery": "rack",
        "congestion": "cubic",
    }
    assert simulated(made)["counters"]["tcp"]["timeouts"] >= 0
    made = scenario("eos", text=text + 'recovery = "newreno"\ncongestion = "reno"\n')
    assert (made["tcp"]["recovery"], made["tcp"]["congestion"]) == ("newreno", "reno")
    simulated(made)
    made = scenario("eos", text=text + 'delayed_ack = "40 ms"\nrestart = "request"\n')
    assert (made["tcp"]["delayed_ack_ns"], made["tcp"]["restart"]) == (40_000_000, "request")
    simulated(made)


def test_nodes_of_a_leaf_share_its_uplink_to_the_servers() -> None:
    def seconds(site: str) -> float:
        text = STUDY.replace(
            '[site.node]\nlink = "10 GbE"', f'[site.node]\nlink = "10 GbE"\n{site}'
        )
        return simulated(scenario("eos", text=text))["end_ns"] * 1e-9

    eight = "count = 8\n"
    free = seconds(eight)
    wide = seconds(eight + '[site.leaf]\nnodes = 4\nuplink = "40 Gb/s"\n')
    narrow = seconds(eight + '[site.leaf]\nnodes = 4\nuplink = "200 Mb/s"\n')
    assert wide == pytest.approx(free, rel=0.02)
    assert narrow > 4 * FILE_BYTES / 25e6 > 1.5 * free
