"""Target `xrootd` on real servers: alone, behind a redirector, behind XCache.

Vectored reads; PROOF's local files; faults; nothing left.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import headrace
from headrace.errors import HeadraceError, InterruptedRunError
from headrace.system.cluster import Cluster, call_inside
from headrace.system.cluster.namespaces import Counters
from headrace.system.journal import Journal
from headrace.system.owned import work_directory
from headrace.system.servers import xrootd
from headrace.targets import Held, Location, TargetContext
from headrace.targets.remote_url import remove
from headrace.targets.served import client_nodes
from headrace.targets.xrootd import Xrootd, XrootdOptions
from ports import free_port

pytestmark = pytest.mark.usefixtures("needs_root")


@contextlib.contextmanager
def prepared(
    context: TargetContext, clients: int = 1, **options: Any
) -> Generator[tuple[Xrootd, Location, TargetContext]]:
    target = Xrootd("se", XrootdOptions.model_validate(options))
    assert [problem.what for problem in target.check(frozenset())] == []
    nodes = client_nodes(None, clients)
    with Cluster.build(context.journal, [*nodes, *target.nodes_wanted(None)]) as cluster:
        within = replace(context, cluster=cluster, client_nodes=tuple(node.name for node in nodes))
        location = target.prepare(within)
        pids = [pid for server in location.servers.values() for pid in server.pids]
        assert pids
        try:
            yield target, location, within
        finally:
            target.release(within)
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat")
        assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def files_of(folder: Path, count: int, size: int = 1 << 20) -> list[Path]:
    folder.mkdir()
    made = [folder / f"file-{number}.dat" for number in range(count)]
    for file in made:
        file.write_bytes(os.urandom(size))
    return made


READ = """
import sys
from XRootD import client
file = client.File()
status, _ = file.open(sys.argv[1])
assert status.ok, status.message
status, data = file.read()
assert status.ok, status.message
status, chunks = file.vector_read([(4096 * n, 100) for n in range(64)])
assert status.ok, status.message
assert [chunk.buffer for chunk in chunks] == [data[4096 * n : 4096 * n + 100] for n in range(64)]
sys.stdout.buffer.write(data)
"""


def read(location: Location, within: TargetContext, held: Held, node: str = "node-0") -> bytes:
    """A file whole, and 64 pieces of it in one request, by XRootD's own client on a node."""
    assert within.cluster is not None
    argv = within.cluster[node].command([sys.executable, "-c", READ, held.url])
    done = subprocess.run(
        argv, capture_output=True, timeout=60, env={**os.environ, **location.environment}
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def read_at_last(location: Location, within: TargetContext, held: Held) -> bytes:
    """The same, again while the redirector does not know that a server is back."""
    for _ in range(10):
        with contextlib.suppress(AssertionError):
            return read(location, within, held)
        time.sleep(0.5)
    return read(location, within, held)


def silent(_: str) -> None:
    """What is said to the user while files are copied."""


def test_a_server_alone_gives_what_was_put_on_it_over_the_link(
    context: TargetContext, tmp_path: Path
) -> None:
    (file,) = files_of(tmp_path / "files", 1)
    with prepared(context, bricks={"size": "64 MiB"}) as (target, location, within):
        (held,) = target.upload([file], "data/set", within, silent)
        assert held.url.startswith(location.url or "nowhere")
        counters = Counters(within.cluster.switch if within.cluster else None)
        before = counters.read()
        assert read(location, within, held) == file.read_bytes()
        after = counters.read()
        counters.close()
        assert within.cluster is not None
        port = within.cluster["node-0"].port.name
        assert after[port]["tx_bytes"] - before[port]["tx_bytes"] >= file.stat().st_size
        assert location.device_names
        again = target.upload(
            [file], "data/set", within, lambda text: pytest.fail(f"copied again: {text}")
        )
        assert again == [held]
        (stored,) = (
            each for folder in target._storages.values() for each in folder.rglob(file.name)
        )
        damaged(stored)
        assert target.upload([file], "data/set", within, silent) == [held]
        assert read(location, within, held) == file.read_bytes(), (
            "the same size with other contents"
        )


def damaged(file: Path) -> None:
    """Changes one byte in place."""
    with file.open("r+b") as opened:
        opened.seek(1000)
        byte = opened.read(1)
        opened.seek(1000)
        opened.write(bytes([byte[0] ^ 1]))


def test_the_temporary_directory_may_have_a_long_path(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than the address of a socket, which has at most 107 bytes."""
    place = tmp_path / ("temporary-" * 20)
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    files = files_of(tmp_path / "files", 1)
    work, _ = work_directory(journal)
    with prepared(TargetContext(work, journal), servers=2) as (target, location, within):
        (held,) = target.upload(files, "data", within, silent)
        assert read(location, within, held) == files[0].read_bytes()


def test_a_redirector_finds_the_server_of_each_file(context: TargetContext, tmp_path: Path) -> None:
    files = files_of(tmp_path / "files", 3)
    with prepared(context, servers=2) as (target, location, within):
        assert set(location.servers) == {"se-redirector", "se-0-data", "se-1-data"}
        held = target.upload(files, "data", within, silent)
        assert [each.server for each in held] == ["se-0", "se-1", "se-0"]
        located = target.locate([each.url for each in held], within)
        assert [located[each.url] for each in held] == [("se-0",), ("se-1",), ("se-0",)]
        for each, file in zip(held, files, strict=True):
            assert read(location, within, each) == file.read_bytes()
        # One of two servers is lost: its files fail soon, the other's go on; then it comes back.
        location.servers["se-1-data"].kill()
        assert read(location, within, held[0]) == files[0].read_bytes()
        with pytest.raises(AssertionError):
            read(location, within, held[1])
        location.servers["se-1-data"].restart()
        assert read_at_last(location, within, held[1]) == files[1].read_bytes()


def test_a_folder_is_removed_from_every_server_behind_a_redirector(
    context: TargetContext, tmp_path: Path
) -> None:
    """A redirector passes the removal of a folder on to one server: the others kept theirs, empty,
    after `metadata` on servers of somebody else."""
    with prepared(context, servers=2) as (target, location, within):
        files = files_of(tmp_path / "files", 2)
        held = target.upload(files, "jobs/one/deep", within, silent)
        assert {each.server for each in held} == {"se-0", "se-1"}
        folders = [each for each in tmp_path.rglob("jobs") if each.is_dir()]
        assert len(folders) == 2, "one on each server"
        assert location.cluster is not None
        url = f"{location.url}/jobs"
        remove(url, location.cluster["node-0"], within, location.environment)
        assert not [each for each in folders if each.exists()]
        remove(url, location.cluster["node-0"], within, location.environment)


@pytest.mark.parametrize("which", [0, 1])
def test_a_removal_that_a_data_server_refuses_says_what_and_why(
    context: TargetContext, tmp_path: Path, which: int
) -> None:
    """What the other servers may remove is gone all the same, and a second try removes the rest."""
    with prepared(context, servers=2) as (target, location, within):
        files = files_of(tmp_path / "files", 2)
        held = target.upload(files, "jobs/one", within, silent)
        assert {each.server for each in held} == {"se-0", "se-1"}
        found = [next(tmp_path.rglob(f"jobs/one/{file.name}")) for file in files]
        kept, gone = found[which], found[1 - which]
        subprocess.run(["chattr", "+i", str(kept)], check=True)
        try:
            assert location.cluster is not None
            node, url = location.cluster["node-0"], f"{location.url}/jobs"
            with pytest.raises(HeadraceError) as refused:
                remove(url, node, within, location.environment)
            said = refused.value.message
            assert f"/jobs/one/{kept.name}: " in said and "not permitted" in said, said
            assert kept.exists() and not gone.exists()
        finally:
            subprocess.run(["chattr", "-i", str(kept)], check=True)
        remove(url, node, within, location.environment)
        assert not kept.exists()
        assert not [each for each in tmp_path.rglob("jobs") if each.is_dir()]


def test_a_cache_fetches_a_file_once_and_can_be_emptied(
    context: TargetContext, tmp_path: Path
) -> None:
    (file,) = files_of(tmp_path / "files", 1, 2 << 20)
    with prepared(context, cache={}) as (target, location, within):
        (held,) = target.upload([file], "data", within, silent)
        cluster = within.cluster
        assert cluster is not None
        counters = Counters(cluster.switch)

        def fetched() -> int:
            before = counters.read()
            assert read(location, within, held) == file.read_bytes()
            port = cluster["se-0"].port.name
            return counters.read()[port]["rx_bytes"] - before[port]["rx_bytes"]

        assert fetched() >= 2 << 20
        assert fetched() < 200_000, "now it has it"
        target.drop_caches(within)
        assert fetched() >= 2 << 20
        counters.close()


def test_data_servers_on_the_nodes_hand_out_their_files(
    context: TargetContext, tmp_path: Path
) -> None:
    files = files_of(tmp_path / "files", 2)
    with prepared(context, clients=2, bricks={"on": "node"}) as (target, location, within):
        held = target.upload(files, "data", within, silent)
        assert [each.server for each in held] == ["node-0", "node-1"]
        for each, file in zip(held, files, strict=True):
            assert each.local is not None
            assert each.local.read_bytes() == file.read_bytes()
            assert read(location, within, each, "node-0") == file.read_bytes()


def test_a_server_that_is_there_is_found_and_used(context: TargetContext, tmp_path: Path) -> None:
    """With `address`, from the machine's own network: a server on the loopback interface."""
    port = free_port()
    store = tmp_path / "theirs" / "store"
    store.mkdir(parents=True)
    (tmp_path / "theirs.cfg").write_text(
        f"all.export /store r/w\noss.localroot {store.parent}\nall.adminpath {tmp_path}/admin\n"
        f"all.pidpath {tmp_path}/admin\n"
        f"xrd.port {port}\nxrd.network nodnr\n"
    )
    server = subprocess.Popen(
        [
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
            *("--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override"),
            *(
                "xrootd",
                "-c",
                str(tmp_path / "theirs.cfg"),
                "-l",
                str(tmp_path / "log"),
                "-I",
                "v4",
            ),
        ]
    )
    try:
        (file,) = files_of(tmp_path / "files", 1)
        options = XrootdOptions.model_validate({"address": f"127.0.0.1:{port}", "path": "/store"})
        target = Xrootd("theirs", options)
        assert target.check(frozenset()) == []
        assert not target.needs_cluster()
        wait_for(port)
        location = target.prepare(context)
        (held,) = target.upload([file], ".headrace/data", context, silent)
        assert (store / ".headrace" / "data" / file.name).read_bytes() == file.read_bytes()
        assert target.upload([file], ".headrace/data", context, lambda text: pytest.fail(text)) == [
            held
        ]
        damaged(store / ".headrace" / "data" / file.name)
        assert target.upload([file], ".headrace/data", context, silent) == [held]
        assert (store / ".headrace" / "data" / file.name).read_bytes() == file.read_bytes()
        with pytest.raises(InterruptedRunError):
            target.upload([big_file(tmp_path)], ".headrace/data", stopping(context), silent)
        assert [each.name for each in (store / ".headrace" / "data").iterdir()] == [file.name]
        assert location.servers == {}
        with pytest.raises(HeadraceError, match="does not show /elsewhere"):
            Xrootd("wrong", options.model_copy(update={"path": "/elsewhere"})).prepare(context)
        target.release(context)
        assert server.poll() is None, "what was there before stays"
    finally:
        server.kill()
        server.wait()


def big_file(folder: Path) -> Path:
    """2 GB that take no room: what a client sends for longer than it takes to stop it."""
    file = folder / "big.dat"
    with file.open("wb") as opened:
        opened.truncate(2_000_000_000)
    return file


def stopping(context: TargetContext) -> TargetContext:
    """The run is stopped as soon as a transfer has begun."""
    asked = itertools.count()
    return replace(context, stop=lambda: next(asked) > 3)


def wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)


def test_an_address_that_refuses_is_named(context: TargetContext) -> None:
    port = free_port()
    target = Xrootd("se", XrootdOptions.model_validate({"address": f"127.0.0.1:{port}"}))
    with pytest.raises(HeadraceError, match=rf"127\.0\.0\.1:{port} does not show /store"):
        target.prepare(context)
    target.release(context)


def test_a_port_that_is_taken_is_named(context: TargetContext) -> None:
    target = Xrootd("se", XrootdOptions.model_validate({}))
    nodes = client_nodes(None, 1)
    with Cluster.build(context.journal, [*nodes, *target.nodes_wanted(None)]) as cluster:
        taken = call_inside(
            cluster["se-0"].namespace, lambda: socket.create_server(("", xrootd.PORT))
        )
        within = replace(context, cluster=cluster, client_nodes=("node-0",))
        with pytest.raises(HeadraceError, match="port 1094 of se-0"):
            target.prepare(within)
        taken.close()


def without(missing: str) -> Callable[[str], str | None]:
    """A search for programs that finds all but one."""

    def find(name: str) -> str | None:
        return None if name == missing else f"/bin/{name}"

    return find


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.system.servers.find_program", without("xrootd"))
    problems = Xrootd("se", XrootdOptions.model_validate({})).check(frozenset())
    assert [problem.remedy for problem in problems] == ["apt-get install xrootd-server"]


READERS = """
headrace = 1
title = "readers"
[site.node]
link = { rate = "1 Gb/s" }
[target.se]
kind = "xrootd"
[workload.search]
kind = "analysis"
data = { shape = "bench", events = 30_000, files = 1 }
[factors]
reader = ["uproot", "rdataframe", "event-loop"]
[plan]
repeats = { min = 1 }
[run]
cache = "cold"
shortest = 0
"""


@pytest.mark.heavy
def test_what_every_reader_reads_comes_over_the_wire(tmp_path: Path) -> None:
    pytest.importorskip("ROOT")
    (tmp_path / "study.toml").write_text(READERS)
    results = headrace.load_study(tmp_path / "study.toml").run(tmp_path / "results")
    trials = [json.loads(file.read_text()) for file in results.glob("trials/*/trial.json")]
    asked = headrace.records(results).df().set_index("trial")["bytes_asked"].to_dict()
    assert len(trials) == 3
    for trial in trials:
        # Other programs may be at work on a shared machine.
        reasons = [each for each in trial["validity"]["reasons"] if each["code"] != "foreign-load"]
        assert (trial["status"], trial["cause"], reasons) == ("done", None, [])
        received = trial["probes"]["network"]["node-0"]["bytes_received"]
        assert received > asked[trial["id"]] > 100_000
    assert_simulated_messages_are_as_many(results, tmp_path)


def assert_simulated_messages_are_as_many(results: Path, folder: Path) -> None:
    """uproot reads by vectored reads, which the simulated client does, too."""
    modelled = READERS.replace('kind = "xrootd"', 'kind = "xrootd"\nbricks = { drive = "DRIVE" }')
    modelled = modelled.replace("DRIVE", "samsung-870-evo-1tb").replace(', "rdataframe"', "")
    (folder / "modelled.toml").write_text(modelled.replace(', "event-loop"', ""))
    made = jobs_of(headrace.simulate(folder / "modelled.toml", folder / "made"))
    # ROOT's readers do not see how long files took to open.
    real = [job for job in jobs_of(results) if job["open_s"] is not None]
    assert len(real) == len(made) == 1 and real[0]["open_s"] > 0
    assert made[0]["read_calls"] == real[0]["read_calls"] < 20


def jobs_of(results: Path) -> list[dict[str, Any]]:
    return [
        job
        for file in sorted(results.glob("trials/*/jobs.parquet"))
        for job in pq.read_table(file).to_pylist()
    ]


PACKETS = """
headrace = 1
[target.se]
kind = "xrootd"
[workload.scan]
kind = "scan"
data = { events = 20_000, files = 4 }
[run]
feed = "packets"
shortest = 0
[plan]
repeats = { min = 1 }
"""


def test_workers_fed_by_packets_have_their_client_before_the_release(tmp_path: Path) -> None:
    """Their cold trial neither measures its import nor counts the pages of its libraries."""
    study = tmp_path / "study.toml"
    study.write_text(PACKETS)
    results = headrace.load_study(study).run(tmp_path / "results")
    (file,) = results.glob("trials/*/trial.json")
    trial = json.loads(file.read_text())
    assert trial["status"] == "done", trial["cause"]
    assert trial["sums"]["bytes_served"] < trial["sums"]["bytes_asked"] + 1_000_000
