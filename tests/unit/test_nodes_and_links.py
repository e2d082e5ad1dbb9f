"""Nodes of a study's site as they are built: links from the words of a study, processors dealt out.

What full links mean for a trial.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.measure import validity
from headrace.engine.measure.job_pool import JobEnd
from headrace.engine.measure.nodes import launcher_of, launcher_problems, nodes_wanted
from headrace.engine.measure.packet_files import FilePlace, QueryFile
from headrace.engine.measure.packets import Packetiser
from headrace.engine.measure.target_servers import bytes_read
from headrace.engine.measure.whole_plot import make_target
from headrace.engine.packet_sizes import Sizes
from headrace.errors import StudyError
from headrace.launchers import NodesWanted
from headrace.plan import make_plan
from headrace.site import Site
from headrace.study import load_study_text
from headrace.study.model import RunOptions
from headrace.study.resolve import resolve
from headrace.targets.nfs import Nfs, NfsOptions
from headrace.targets.served import client_nodes, link_settings, processors
from headrace.targets.xrootd import Xrootd, XrootdOptions
from headrace.workloads import JobOutput, Packet


def test_links_are_what_the_study_says() -> None:
    site = Site.model_validate(
        {
            "node": {
                "link": {
                    "rate": "100 Mb/s",
                    "mtu": 9000,
                    "txqueuelen": 50,
                    "socket_buffer": "64 KiB",
                }
            },
            "server": {"nas": {"link": "4 x 1 GbE"}},
        }
    )
    link = link_settings(site.node.link)
    assert link.rate_bytes_per_s == 12.5e6
    assert (link.mtu, link.txqueuelen, link.socket_buffer_bytes) == (9000, 50, 65536)
    # A bucket that counts neither preamble nor gap gives Ethernet's rate of data.
    of_ethernet = (1500 + 14) / (1500 + 38)
    bonded = link_settings(site.server["nas"].link).rate_bytes_per_s
    assert bonded == pytest.approx(500e6 * of_ethernet)
    assert link_settings(None).rate_bytes_per_s == 125e6
    assert link_settings(None, site.node.link) == link
    assert [node.name for node in client_nodes(site, 3)] == ["node-0", "node-1", "node-2"]


@pytest.mark.parametrize(
    ("drives", "said"),
    [
        ("count = 2, raid = 7", "allowed: 0, 1, 5, 6, 10"),
        ("count = 2, raid = 5", "RAID 5 takes 3 drives at least"),
        ("raid = 1", "RAID 1 takes 2 drives at least"),
        ("count = 5, raid = 10", "an even number"),
        ("count = 2, raid = 0, chunk = 17", "chunk"),
    ],
)
def test_a_raid_that_cannot_be_is_refused_when_the_study_is_read(drives: str, said: str) -> None:
    with pytest.raises(StudyError) as caught:
        load_study_text(
            f"""
headrace = 1
title = "t"
[target.here]
kind = "path"
path = "/tmp"
[site.node]
drives = {{ here = {{ drive = "mtron-msp-sata7035064", {drives} }} }}
[workload.read]
kind = "sequential"
file_size = "1 MiB"
""",
            file=Path("study.toml"),
            base=Path(),
        )
    assert said in str(caught.value)


def test_processors_are_dealt_out_in_turn() -> None:
    own = sorted(os.sched_getaffinity(0))
    assert processors(None, 0) is None
    dealt = [processors(1, number) for number in range(2 * len(own))]
    assert dealt == [(cpu,) for cpu in [*own, *own]]
    assert processors(len(own) + 5, 0) == tuple(own)


def test_a_target_names_the_nodes_of_its_servers() -> None:
    site = Site.model_validate({"server": {"store": {"count": 3, "link": "10 GbE"}}})
    nas = Nfs("nas", NfsOptions.model_validate({}))
    assert [node.name for node in nas.nodes_wanted(site)] == ["nas-0"]
    options = {"bricks": {"on": "store"}, "cache": {}}
    wanted = Xrootd("se", XrootdOptions.model_validate(options)).nodes_wanted(site)
    assert [node.name for node in wanted] == [
        "store-0",
        "store-1",
        "store-2",
        "se-redirector",
        "se-cache",
    ]
    assert wanted[0].link.rate_bytes_per_s == pytest.approx(1.25e9 * (1500 + 14) / (1500 + 38))
    farm = Xrootd("se", XrootdOptions.model_validate({"bricks": {"on": "node"}}))
    assert [node.name for node in farm.nodes_wanted(None)] == ["se-redirector"]
    found = Nfs("nas", NfsOptions.model_validate({"address": "filer", "export": "/vol"}))
    assert not found.needs_cluster()
    assert found.nodes_wanted(site) == ()


STUDY = """
headrace = 1
[target.nas]
kind = "nfs"
[workload.scan]
kind = "scan"
data = { shape = "bench", events = 1000, files = 1, format = "ttree", codec = "zlib" }
[factors]
link.rate = ["10 Mb/s", "1 Gb/s"]
nodes = [1, 2]
"""


def test_the_rate_of_links_is_a_factor() -> None:
    study = load_study_text(STUDY, file=Path("study.toml"), base=Path("/"))
    resolved = resolve(study, "nas", "scan", {"link.rate": "10 Mb/s", "nodes": 2})
    assert resolved.run.nodes == 2
    assert client_nodes(resolved.site, 1)[0].link.rate_bytes_per_s == 1.25e6


ON_A_FOLDER = STUDY.partition("[factors]")[0].replace('kind = "nfs"', 'kind = "path"\npath = "."')
ON_A_SERVER = STUDY.partition("[factors]")[0]


def resolved_run(text: str, run: str) -> tuple[RunOptions, NodesWanted]:
    study = load_study_text(f"{text}[run]\n{run}\n", file=Path("study.toml"), base=Path("/"))
    resolved = resolve(study, "nas", "scan", {})
    target = make_target("nas", resolved, resolved.run.nodes)
    return resolved.run, nodes_wanted(target, resolved, resolved.run.nodes)


@pytest.mark.parametrize(
    ("text", "run", "launcher"),
    [
        (ON_A_FOLDER, "", "local"),
        (ON_A_FOLDER, 'on = "namespaces"', "namespaces"),
        (ON_A_FOLDER, "nodes = 2", "namespaces"),
        (ON_A_SERVER, "", "namespaces"),
        (ON_A_FOLDER, 'on = "local"', "local"),
        (ON_A_FOLDER, 'on = "dask://127.0.0.1:8786"\nnodes = 2', "dask"),
        (ON_A_FOLDER, 'on = "ssh://alpha,me@beta:2222"\nnodes = 2', "ssh"),
    ],
)
def test_jobs_run_on_built_nodes_where_a_study_has_nodes(
    text: str, run: str, launcher: str
) -> None:
    options, wanted = resolved_run(text, run)
    assert launcher_of(options, wanted) == launcher
    assert len(wanted.clients) == options.nodes
    assert [node.name for node in wanted.servers] == (["nas-0"] if text == ON_A_SERVER else [])


@pytest.mark.parametrize(
    ("text", "run", "why", "allowed"),
    [
        (
            *(ON_A_FOLDER, 'on = "local"\nnodes = 2', "nodes = 2"),
            'on = "dask://HOST:PORT" or on = "htcondor" or on = "namespaces" or on = "pbs" '
            'or on = "sge" or on = "slurm" or on = "ssh://HOST,HOST"',
        ),
        (ON_A_SERVER, 'on = "local"', "target nas starts servers", 'on = "namespaces"'),
        (
            *(ON_A_SERVER, 'on = "dask://127.0.0.1:8786"', "target nas starts servers"),
            'on = "namespaces"',
        ),
    ],
)
def test_nodes_that_the_named_launcher_cannot_have_are_refused(
    text: str, run: str, why: str, allowed: str
) -> None:
    options, wanted = resolved_run(text, run)
    (problem,) = launcher_problems(options, wanted, {})
    assert problem.what.startswith(f'on = "{launcher_of(options, wanted)}": {why}')
    assert problem.remedy == f"allowed here: {allowed}, or no `on`"


def test_a_launcher_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(StudyError) as refused:
        resolved_run(ON_A_FOLDER, 'on = "namespace"')
    (fault,) = refused.value.problems
    assert (fault.field, fault.given) == ("run.on", '"namespace"')
    assert fault.problem == 'not one of the allowed values; did you mean "namespaces"?'
    assert fault.allowed == (
        '"dask://HOST:PORT", "htcondor", "local", "namespaces", "pbs", "sge", "slurm", '
        '"ssh://HOST,HOST"'
    )


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ('on = "ssh://alpha,-oProxyCommand=x"', '"-oProxyCommand=x" is not a host'),
        ('on = "ssh://alpha,,beta"', '"" is not a host'),
        ('on = "ssh://alpha;reboot"', '"alpha;reboot" is not a host'),
        ('on = "ssh://alpha:70000"', "ports are 1 to 65535"),
        ('on = "ssh://alpha"\npython = "-c"', "python"),
    ],
)
def test_hosts_of_ssh_are_checked_with_the_study(run: str, said: str) -> None:
    with pytest.raises(StudyError) as refused:
        resolved_run(ON_A_FOLDER, run)
    assert said in str(refused.value)


def test_the_launcher_is_a_factor_between_whole_plots() -> None:
    text = ON_A_FOLDER + '[factors]\non = ["local", "namespaces"]\nslots = [1, 2]\n'
    plan = make_plan(load_study_text(text, file=Path("study.toml"), base=Path("/")))
    plots = {(trial.whole_plot, trial.levels["on"]) for trial in plan.trials}
    assert len(plots) == len({plot for plot, _ in plots}), "one launcher in each whole plot"
    assert {on for _, on in plots} == {"local", "namespaces"}


def test_a_link_that_was_full_is_named() -> None:
    network: dict[str, Any] = {
        "node-0": {"bytes_received": 90, "bytes_sent": 1},
        "nas-0": {"bytes_received": 1, "bytes_sent": 99},
    }
    rates = {"node-0": 100.0, "nas-0": 10.0, "nas-1": 10.0, "node-1": None}
    assert validity.full_links(network, rates, 10.0) == ["nas-0 (sent)"]
    assert validity.full_links(network, rates, 0.0) == []
    assert validity.full_links(None, rates, 10.0) == []


def ended(unique: int) -> JobEnd:
    return JobEnd(0, 0, "f", "ok", None, 0.0, 1.0, JobOutput(bytes_unique=unique), None, 0.0)


@pytest.mark.parametrize(
    ("received", "codes"), [(1000, []), (950, []), (800, ["not-over-the-network"])]
)
def test_data_that_came_another_way_make_a_cold_trial_invalid(
    received: int, codes: list[str]
) -> None:
    network = {"node-0": {"bytes_received": received, "bytes_sent": 0}}
    cold, warm = RunOptions.model_validate({}), RunOptions.model_validate({"cache": "warm"})
    found = validity.over_network(cold, [ended(1000)], network, ("node-0",))
    assert [reason.code for reason in found] == codes
    assert validity.over_network(warm, [ended(1000)], network, ("node-0",)) == []
    assert validity.over_network(cold, [ended(1000)], None, ("node-0",)) == []


@pytest.mark.parametrize(
    ("blocks", "codes"),
    [
        ([{"bytes_read": 600}, {"bytes_read": 400}], []),
        ([{"bytes_read": 600}, {"bytes_read": 200}], ["cache-not-cold"]),
        ([{"bytes_read": 100}, {}], []),  # no disk of the second is known
        ([{}], []),
        ([], []),
    ],
)
def test_data_that_no_disk_of_a_server_read_make_a_cold_trial_invalid(
    blocks: list[dict[str, int]], codes: list[str]
) -> None:
    totals = {f"server-{number}": {"block": each} for number, each in enumerate(blocks)}
    cold = RunOptions.model_validate({"cache": "cold"})
    found = validity.cold_servers(cold, [ended(1000)], bytes_read(totals))
    assert [reason.code for reason in found] == codes


@pytest.mark.parametrize(
    ("read", "codes"), [(None, []), (0, []), (100, []), (300, ["cache-not-warm"])]
)
def test_a_warm_trial_that_reads_from_drives_has_a_warning(
    read: int | None, codes: list[str]
) -> None:
    cold, warm = (RunOptions.model_validate({"cache": cache}) for cache in ("cold", "warm"))
    assert [reason.code for reason in validity.warm(warm, [ended(1000)], read)] == codes
    assert validity.warm(cold, [ended(1000)], read) == []
    assert validity.warm(warm, [ended(0)], read) == []


def test_a_worker_reads_the_files_of_its_own_node_first() -> None:
    def held(name: str, node: str) -> QueryFile:
        return QueryFile(f"root://{name}", 100, FilePlace((node,), {node: f"/{name}"}))

    packets = Packetiser(
        [held("a", "node-0"), held("b", "node-1"), held("c", "node-0")],
        homes=["node-0", "node-1"],
        sizes=Sizes(first_events=100, shortest_s=0.1, longest_s=10.0),
    )

    def taken(worker: int, home: str) -> str:
        packet = packets.next(worker, 1.0, home)
        assert isinstance(packet, Packet)
        return packet.file

    assert taken(1, "node-1") == "/b"
    assert taken(0, "node-0") in ("/a", "/c")
    assert taken(1, "node-1").startswith("root://"), "nothing is left on its own node"
    assert packets.next(0, 2.0, "node-0") is None
