"""Nodes and links built on this machine.

Addresses, rates as stated, settings read back, cut and mended, memory, and nothing left over.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError, MissingError, UnsupportedLevelError
from headrace.launchers.namespaces import NamespaceAgent
from headrace.system import journal as journals
from headrace.system.cluster import Cluster, LinkSettings, Node, NodeSettings, call_inside
from headrace.system.cluster.links import has_netem, queues_of, read_link
from headrace.system.cluster.namespaces import Counters
from headrace.system.cluster.netlink import LinkQueue, Network, in_network
from headrace.system.journal import Journal
from headrace.system.network_namespaces import FOLDER
from headrace.system.waiting import wait_until

pytestmark = pytest.mark.usefixtures("needs_root")


def namespaces_of(cluster: Cluster) -> list[str]:
    return (
        [path.name for path in FOLDER.glob(f"headrace-{cluster.token}-*")]
        if FOLDER.is_dir()
        else []
    )


def send(sender: Node, receiver: Node, size: int) -> float:
    """Bytes a second of one TCP connection from one node to another."""
    server = call_inside(receiver.namespace, lambda: socket.create_server((receiver.address, 5001)))
    client = call_inside(
        sender.namespace, lambda: socket.create_connection((receiver.address, 5001), timeout=60)
    )
    taken, _ = server.accept()
    if os.fork() == 0:
        block = bytes(1 << 16)
        for _ in range(size // len(block)):
            client.sendall(block)
        os._exit(0)
    client.close()
    got, begun = 0, time.monotonic()
    while piece := taken.recv(1 << 18):
        got += len(piece)
    seconds = time.monotonic() - begun
    os.wait()
    taken.close()
    server.close()
    return got / seconds


def test_a_cluster_comes_to_be_and_goes_away(journal: Journal) -> None:
    with Cluster.build(journal, [NodeSettings("node-0"), NodeSettings("nas")]) as cluster:
        assert len(namespaces_of(cluster)) == 3
        assert [node.name for node in cluster] == ["node-0", "nas"]
        assert cluster["node-0"].address != cluster["nas"].address
        assert cluster.find("node-7") is None
        with pytest.raises(HeadraceError, match="no node node-7; it has: node-0, nas"):
            cluster["node-7"]
    assert namespaces_of(cluster) == []
    assert journal.open_entries == ()
    cluster.close()


@pytest.mark.quiet  # a rate is measured
@pytest.mark.parametrize("rate_bytes_per_s", [2.5e6, 12.5e6])
def test_a_link_has_its_rate_and_both_ends_count_the_same(
    journal: Journal, rate_bytes_per_s: float
) -> None:
    slow = LinkSettings(rate_bytes_per_s=rate_bytes_per_s)
    with Cluster.build(journal, [NodeSettings("node-0"), NodeSettings("nas", slow)]) as cluster:
        counters = Counters(cluster.switch)
        before = counters.read()
        size = int(rate_bytes_per_s)
        measured = send(cluster["node-0"], cluster["nas"], size)
        after = counters.read()
        counters.close()
        # Never faster: the bucket lets 2 ms of data through at once. Slower only where the machine
        # is busy.
        assert 0.4 * rate_bytes_per_s < measured < 1.15 * rate_bytes_per_s
        port = cluster["nas"].port.name
        to_it = after[port]["tx_bytes"] - before[port]["tx_bytes"]
        assert size <= to_it < 1.1 * size


def test_settings_of_a_link_are_read_back_and_can_be_changed(journal: Journal) -> None:
    link = LinkSettings(rate_bytes_per_s=1e6, mtu=9000, txqueuelen=77, socket_buffer_bytes=65536)
    with Cluster.build(journal, [NodeSettings("node-0", link)]) as cluster:
        node = cluster["node-0"]
        found: dict[str, Any] = read_link(node.namespace)
        assert found["mtu"] == 9000
        assert found["txqueuelen"] == 77
        bucket, queue = found["queues"]
        assert (bucket["kind"], bucket["rate_bytes_per_s"]) == ("tbf", 1_000_000)
        assert bucket["burst_bytes"] == pytest.approx(16 << 10, rel=0.01)
        assert queue == {"kind": "pfifo", "limit_packets": 77}
        assert found["socket_buffers"] == {"tcp_rmem": "65536", "tcp_wmem": "65536"}
        cluster.set_link("node-0", LinkSettings())
        assert read_link(node.namespace)["queues"] == [{"kind": "noqueue"}]


def test_a_delay_needs_netem(journal: Journal) -> None:
    settings = [NodeSettings("node-0", LinkSettings(delay_s=0.01)), NodeSettings("nas")]
    if not has_netem():
        with pytest.raises(UnsupportedLevelError, match="netem"):
            Cluster.build(journal, settings)
        assert journal.open_entries == ()
        return
    with Cluster.build(journal, settings) as cluster:
        begun = time.monotonic()
        assert not cluster["node-0"].accepts(cluster["nas"].address, 9)
        assert time.monotonic() - begun >= 0.02


def test_a_link_above_32_bits_of_bytes_per_second_has_its_rate(journal: Journal) -> None:
    """100 Gb/s: pyroute2's own token bucket ends at 34 Gb/s."""
    fast = LinkSettings(rate_bytes_per_s=12.5e9)
    with Cluster.build(journal, [NodeSettings("node-0", fast)]) as cluster:
        found: dict[str, Any] = read_link(cluster["node-0"].namespace)
        bucket = found["queues"][0]
        assert bucket["rate_bytes_per_s"] == 12_500_000_000
        assert bucket["burst_bytes"] == pytest.approx(256 << 10, rel=0.01)
        shown = subprocess.run(
            ["tc", "-n", cluster.switch, "qdisc", "show", "dev", cluster["node-0"].port.name],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "rate 100Gbit" in shown


def test_queues_of_a_link_follow_each_other() -> None:
    link = LinkSettings(rate_bytes_per_s=125e6, delay_s=1e-3, txqueuelen=500)
    delay, bucket, queue = queues_of(link)
    assert (delay.kind, delay.parent, delay.options["delay"]) == ("netem", None, 1000)
    assert (bucket.kind, bucket.parent, bucket.options["rate"]) == ("tbf", "1:1", 125_000_000)
    assert (queue.kind, queue.parent, queue.options) == ("pfifo", "2:1", {"limit": 500})
    (bucket, _) = queues_of(LinkSettings(rate_bytes_per_s=125e6))
    assert bucket.parent is None
    assert queues_of(LinkSettings()) == []


def test_a_refusal_of_the_kernel_names_interface_namespace_and_reason(journal: Journal) -> None:
    with Cluster.build(journal, [NodeSettings("node-0")]) as cluster:
        node = cluster["node-0"]

        def refused(work: Callable[[Network], object]) -> str:
            with pytest.raises(HeadraceError) as caught:
                in_network(node.namespace, work)
            return caught.value.message

        unknown = LinkQueue("nothing", "1:")
        assert refused(lambda network: network.set_queues("eth0", [unknown])) == (
            f"a queue nothing of eth0 in network namespace {node.namespace} cannot be set: "
            "the kernel has no sch_nothing (No such file or directory)"
        )
        again = refused(lambda network: network.add_bridge("eth0"))
        assert again.startswith("a bridge eth0 in network namespace")
        assert again.endswith("File exists")
        assert refused(lambda network: network.set("eth1", mtu=9000)) == (
            f"network namespace {node.namespace} has no interface eth1"
        )


UNPRIVILEGED = """
import ctypes
from headrace.errors import HeadraceError
from headrace.system import network_namespaces
# A user namespace's root without its own network: root's name, none of its rights here.
assert ctypes.CDLL(None).unshare(0x10000000) == 0
try:
    network_namespaces.create("headrace-test-unprivileged")
except HeadraceError as error:
    print(error.message)
"""


def test_a_missing_privilege_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[0].startswith("the network namespace headrace-test")
    assert done.stdout.splitlines()[0].endswith(("Permission denied", "Operation not permitted")), (
        done
    )
    assert not (FOLDER / "headrace-test-unprivileged").exists()


def test_a_cable_is_pulled_and_plugged_in_again(journal: Journal) -> None:
    with Cluster.build(journal, [NodeSettings("node-0"), NodeSettings("nas")]) as cluster:
        server = call_inside(cluster["nas"].namespace, lambda: socket.create_server(("", 5002)))
        reaches = lambda: cluster["node-0"].accepts(cluster["nas"].address, 5002, timeout_s=0.3)  # noqa: E731
        assert reaches()
        cluster.cut("nas")
        assert not reaches()
        cluster.mend("nas")
        deadline = time.monotonic() + 60
        while not reaches() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert reaches()
        with pytest.raises(HeadraceError, match="port 5002 of nas"):
            cluster["nas"].check_port_free(5002, needed_by="a server")
        server.close()
        cluster["nas"].check_port_free(5002, needed_by="a server")


@pytest.mark.machine  # its kill for memory would be taken for that of another test's killed job
def test_a_program_on_a_node_has_its_network_processors_and_memory(
    journal: Journal, tmp_path: Path
) -> None:
    settings = NodeSettings("node-0", cpus=(0,), memory_bytes=64 << 20)
    with Cluster.build(journal, [settings]) as cluster:
        node = cluster["node-0"]
        said = tmp_path / "said"
        told = (
            "import os, time; print(sorted(os.sched_getaffinity(0)), "
            "open('/proc/net/dev').read().count('eth0'), flush=True); "
            "time.sleep(1); print(len(b'x' * (256 << 20)))"
        )
        with said.open("wb") as output:
            started = node.start(journal, [sys.executable, "-c", told], output=output)
        assert started.process.wait(120) == -signal.SIGKILL, "its memory is bounded"
        started.stop()
        assert said.read_text().split("\n")[0] == "[0] 1"
        assert node.memory is not None
        assert node.memory.killed() == 1


HOLD = "import sys; input(); held = b'x' * (40 << 20); print(len(held), flush=True); input()"


def test_jobs_with_limits_of_their_own_stay_under_the_limit_of_their_node(journal: Journal) -> None:
    """Each has less than its own limit; together they have more than the node has."""
    settings = NodeSettings("node-0", memory_bytes=64 << 20)
    with Cluster.build(journal, [settings]) as cluster:
        agent = NamespaceAgent(journal, cluster["node-0"])
        agent.limit_memory(60 << 20, True)
        jobs = [
            subprocess.Popen([sys.executable, "-c", HOLD], stdin=-1, stdout=-1) for _ in range(2)
        ]
        try:
            for job in jobs:
                agent.adopt(job.pid)
                assert job.stdin is not None and job.stdout is not None
                job.stdin.write(b"\n")
                job.stdin.flush()
                job.stdout.readline()  # it holds its memory, or has been killed
            assert wait_until(lambda: any(job.poll() is not None for job in jobs), 60, 0.02)
            assert sorted(job.poll() or 0 for job in jobs) == [-signal.SIGKILL, 0]
            assert agent.out_of_memory() == 1
        finally:
            for job in jobs:
                job.kill()
                job.communicate()
            agent.lift_memory_limit()


def test_two_nodes_of_one_name_and_too_many_are_refused(journal: Journal) -> None:
    with pytest.raises(HeadraceError, match="one name"):
        Cluster.build(journal, [NodeSettings("node-0"), NodeSettings("node-0")])
    with pytest.raises(HeadraceError, match="more than"):
        Cluster.build(journal, [NodeSettings(f"node-{number}") for number in range(300)])
    assert journal.open_entries == ()


def test_a_missing_program_is_named(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.system.requirements._SYSTEM_FOLDERS", "")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(MissingError) as caught:
        Cluster.build(journal, [NodeSettings("node-0")])
    assert caught.value.hint == "apt-get install util-linux"


CRASHING = """
import os, signal, sys
from headrace.system.cluster import Cluster, NodeSettings
from headrace.system.cluster.netlink import Network, LinkQueue, in_network
from headrace.system.journal import Journal
from headrace.system.network_namespaces import FOLDER
from headrace.system.waiting import wait_until
journal = Journal.open("a crash")
nas = NodeSettings("nas", memory_bytes=64 << 20)
cluster = Cluster.build(journal, [NodeSettings("node-0"), nas])
sleeps = "import time; time.sleep(60)"
server = cluster["nas"].start(journal, [sys.executable, "-c", sleeps], output=None)
print(cluster.token, server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_leaves_is_undone(journal_place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASHING], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    token, pid = done.stdout.split()
    assert len(list(FOLDER.glob(f"headrace-{token}-*"))) == 3
    (pending,) = journals.pending_journals()
    results = journals.undo(pending.file)
    assert all(result.done for result in results), results
    assert list(FOLDER.glob(f"headrace-{token}-*")) == []
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX"
    assert journals.pending_journals() == []


def test_a_namespace_of_an_earlier_version_is_undone(journal: Journal) -> None:
    """Headrace 0.1 created namespaces with `ip netns add`, under the same entry."""
    name = f"headrace-{os.urandom(3).hex()}-node-0"
    entry = journal.begin("delete_netns", name=name)
    subprocess.run(["ip", "netns", "add", name], check=True)
    result = journal.undo(entry)
    assert (result.done, result.text) == (True, f"network namespace {name}: deleted")
    assert not (FOLDER / name).exists()
