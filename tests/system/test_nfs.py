"""Target `nfs` on a real server.

Both versions, several clients, what it moves, faults, bad input, and nothing left after a crash.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from headrace.errors import HeadraceError, MissingError
from headrace.system import journal as journals
from headrace.system import page_cache
from headrace.system.cluster import Cluster
from headrace.system.cluster.namespaces import Counters
from headrace.system.mounts import read_mounts
from headrace.system.servers import nfs
from headrace.targets import Location, TargetContext
from headrace.targets.block import BlockOptions, BlockTarget
from headrace.targets.nfs import Nfs, NfsOptions
from headrace.targets.served import client_nodes
from machine import mounts_below

pytestmark = pytest.mark.usefixtures("needs_root")


@contextlib.contextmanager
def prepared(
    context: TargetContext, clients: int = 2, **options: Any
) -> Generator[tuple[Nfs, Location, Cluster]]:
    target = Nfs("nas", NfsOptions.model_validate(options))
    assert [problem.what for problem in target.check(frozenset())] == []
    nodes = client_nodes(None, clients)
    with Cluster.build(context.journal, [*nodes, *target.nodes_wanted(None)]) as cluster:
        within = replace(context, cluster=cluster, client_nodes=tuple(node.name for node in nodes))
        location = target.prepare(within)
        try:
            yield target, location, cluster
        finally:
            target.release(within)
    assert mounts_below(context.work_dir) == []


@pytest.mark.parametrize("version", [3, 4])
def test_files_and_folders_keep_what_is_done_to_them(context: TargetContext, version: int) -> None:
    with prepared(context, version=version) as (_, location, _cluster):
        first, second = location.node_directories
        data = os.urandom(3 << 20) + b"end"
        (first / "a").mkdir()
        (first / "a" / "file").write_bytes(data)
        assert (second / "a" / "file").read_bytes() == data
        (first / "a" / "file").rename(first / "a" / "other")
        os.link(first / "a" / "other", first / "hard")
        (first / "soft").symlink_to("a/other")
        assert (first / "soft").stat().st_size == len(data)
        (first / "hard").chmod(0o640)
        assert (second / "a" / "other").stat().st_mode & 0o777 == 0o640
        os.utime(first / "hard", ns=(10**18, 2 * 10**18))
        assert (first / "hard").stat().st_mtime_ns == 2 * 10**18
        os.truncate(first / "hard", 5)
        assert (second / "hard").read_bytes() == data[:5]
        assert sorted(path.name for path in first.iterdir()) == ["a", "hard", "soft"]
        with pytest.raises(OSError) as caught:
            (first / "a").rmdir()
        assert caught.value.errno == errno.ENOTEMPTY
        with pytest.raises(FileNotFoundError):
            (first / "missing").read_bytes()
        for name in ("a/other", "hard", "soft"):
            (first / name).unlink()
        (first / "a").rmdir()
        space = os.statvfs(first)
        assert 0 < space.f_bavail <= space.f_blocks


def test_writes_in_any_order_are_read_back(context: TargetContext) -> None:
    with prepared(context, clients=1) as (_, location, _cluster):
        file = location.node_directories[0] / "file"
        wanted = bytearray(1 << 20)
        with file.open("w+b", buffering=0) as opened:
            for place in (700_000, 0, 4096, 8192, 300_000, 12_288, 1_000_000):
                piece = os.urandom(4096)
                opened.seek(place)
                opened.write(piece)
                wanted[place : place + 4096] = piece
            os.fsync(opened.fileno())
            length = 1_004_096
            opened.seek(0)
            assert opened.read(1 << 20) == bytes(wanted[:length])
        assert file.stat().st_size == length


def test_the_data_cross_the_link(context: TargetContext) -> None:
    with prepared(context, clients=1, export={"size": "64 MiB"}, rsize="64 KiB") as (
        _,
        location,
        cluster,
    ):
        file = location.node_directories[0] / "file"
        file.write_bytes(os.urandom(8 << 20))
        page_cache.drop_all()
        counters = Counters(cluster.switch)
        before = counters.read()
        assert len(file.read_bytes()) == 8 << 20
        after = counters.read()
        counters.close()
        port = cluster["node-0"].port.name
        moved = after[port]["tx_bytes"] - before[port]["tx_bytes"]
        assert 8 << 20 <= moved < 1.15 * (8 << 20)
        assert location.network
        assert location.device_names
        assert location.description["network"]["kind"] == "nfs"
        assert {interface.label for interface in location.interfaces} == {"node-0", "nas-0"}


def test_a_server_that_is_killed_comes_back_and_nothing_is_lost(context: TargetContext) -> None:
    with prepared(context, clients=1) as (_, location, _cluster):
        directory = location.node_directories[0]
        (server,) = location.servers.values()
        data = os.urandom(1 << 20)
        (directory / "before").write_bytes(data)
        with (directory / "before").open("rb") as opened:
            os.fsync(opened.fileno())
        assert server.kill()
        assert server.pids == []
        # A hard mount waits for it.
        reader = subprocess.Popen([sys.executable, "-c",
        f"print(len(open({str(directory / 'before')!r}, 'rb').read()))"],
                                  stdout=subprocess.PIPE)  # fmt: skip
        page_cache.drop_all()
        time.sleep(0.5)
        server.restart()
        said, _ = reader.communicate(timeout=60)
        assert said == b"1048576\n"
        page_cache.drop_all()
        assert (directory / "before").read_bytes() == data


def test_a_soft_mount_gives_up(context: TargetContext) -> None:
    with prepared(context, clients=1, patience="1 s") as (_, location, _cluster):
        (server,) = location.servers.values()
        server.kill()
        with pytest.raises(OSError) as caught:
            (location.node_directories[0] / "new").write_bytes(b"x")
        assert caught.value.errno == errno.EIO
        server.restart()


def test_a_server_that_is_stalled_goes_on(context: TargetContext) -> None:
    with prepared(context, clients=1) as (_, location, _cluster):
        (server,) = location.servers.values()
        file = location.node_directories[0] / "file"
        assert server.pause()
        begun = time.monotonic()
        resume = subprocess.Popen(
            ["sh", "-c", f"sleep 0.7; kill -CONT {' '.join(map(str, server.pids))}"]
        )
        file.write_bytes(b"x")
        assert time.monotonic() - begun > 0.6
        resume.wait()


def test_a_server_holds_no_file_system_but_its_own(context: TargetContext, tmp_path: Path) -> None:
    """Version 3 has a mount namespace of its own, which must not keep others' mounts alive."""
    other = tmp_path / "other"
    block = BlockTarget(
        "disk", BlockOptions.model_validate({"image": str(other), "size": "64 MiB"})
    )
    before = block.prepare(context)
    with prepared(context, clients=1, export={"size": "64 MiB"}) as (_, location, _cluster):
        (server,) = location.servers.values()
        for pid in server.pids:
            seen = [str(mount.directory) for mount in read_mounts(pid)]
            assert str(before.directory) not in seen
            assert server.context is not None
            assert str(server.context.storage.parent) in seen
        block.release(context)


def test_an_export_that_is_read_only_is_refused(context: TargetContext) -> None:
    with (
        pytest.raises(HeadraceError, match="cannot be written to: Read-only file system"),
        prepared(context, read_only=True),
    ):
        pass


def test_a_port_that_is_taken_is_named(context: TargetContext) -> None:
    import socket

    from headrace.system.cluster import call_inside

    target = Nfs("nas", NfsOptions.model_validate({}))
    nodes = client_nodes(None, 1)
    with Cluster.build(context.journal, [*nodes, *target.nodes_wanted(None)]) as cluster:
        taken = call_inside(
            cluster["nas-0"].namespace, lambda: socket.create_server(("", nfs.NFS_PORT))
        )
        within = replace(context, cluster=cluster, client_nodes=("node-0",))
        with pytest.raises(HeadraceError, match="port 2049 of nas-0"):
            target.prepare(within)
        taken.close()
    assert mounts_below(context.work_dir) == []


def test_a_server_that_is_there_already_is_mounted(context: TargetContext, tmp_path: Path) -> None:
    """What a study with `address` does, from the machine's own network.

    A server on an address of it.
    """
    with prepared(context, clients=1) as (_, location, cluster):
        node = cluster["node-0"]
        (server,) = location.servers.values()
        assert server.context is not None
        export = server.context.storage
        (export / "there").write_text("before us")
        mine = tmp_path / "mine"
        mine.mkdir()
        settings = nfs.ClientSettings(
            cluster["nas-0"].address, str(export), str(mine), mount_port=nfs.MOUNT_PORT
        )
        mount = nfs.mount_nfs(context.journal, node, settings, "fuse", tmp_path / "log")
        assert (mine / "there").read_text() == "before us"
        mount.unmount()
        assert not os.path.ismount(mine)


def test_an_address_that_nobody_answers_at_is_named(context: TargetContext) -> None:
    target = Nfs(
        "nas",
        NfsOptions.model_validate({"address": "127.0.0.1", "export": "/nowhere", "client": "fuse"}),
    )
    with pytest.raises(HeadraceError, match=r"127\.0\.0\.1:/nowhere"):
        target.prepare(context)
    target.release(context)
    assert mounts_below(context.work_dir) == []


def test_options_that_do_not_go_together_are_refused() -> None:
    for wrong in (
        {"address": "nas"},
        {"export": "/vol"},
        {"address": "nas", "export": {"size": "1 GiB"}},
        {"version": 2},
        {"export": {"sizes": 1}},
    ):
        with pytest.raises(ValidationError):
            NfsOptions.model_validate(wrong)


def without(missing: str) -> Callable[[str], str | None]:
    """A search for programs that finds all but one."""

    def find(name: str) -> str | None:
        return None if name == missing else f"/bin/{name}"

    return find


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "headrace.system.servers.find_program",
        without("ganesha.nfsd"),
    )
    problems = Nfs("nas", NfsOptions.model_validate({})).check(frozenset())
    assert [problem.remedy for problem in problems] == [
        "apt-get install nfs-ganesha nfs-ganesha-vfs"
    ]
    if nfs.why_no_kernel_client() is not None:
        with pytest.raises(MissingError, match="NFS"):
            nfs.choose_client("kernel")


CRASHING = """
import os, signal
from dataclasses import replace
from pathlib import Path
from headrace.system.cluster import Cluster
from headrace.system.journal import Journal
from headrace.system.owned import work_directory
from headrace.targets import TargetContext
from headrace.targets.block import BlockOptions, BlockTarget
from headrace.targets.nfs import Nfs, NfsOptions
from headrace.targets.served import client_nodes
journal = Journal.open("a crash")
work, _ = work_directory(journal)
target = Nfs("nas", NfsOptions.model_validate({"export": {"size": "64 MiB"}}))
nodes = client_nodes(None, 1)
cluster = Cluster.build(journal, [*nodes, *target.nodes_wanted(None)])
context = replace(TargetContext(work, journal), cluster=cluster, client_nodes=("node-0",))
location = target.prepare(context)
(location.directory / "file").write_bytes(b"x" * 100000)
print(work, *[pid for server in location.servers.values() for pid in server.pids], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_leaves_is_undone(journal_place: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASHING], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    work, *pids = done.stdout.split()
    assert pids
    (pending,) = journals.pending_journals()
    results = journals.undo(pending.file)
    assert all(result.done for result in results), results
    assert not Path(work).exists()
    assert mounts_below(Path(work)) == []
    for pid in pids:
        stat = Path(f"/proc/{pid}/stat")
        assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"
    assert journals.pending_journals() == []
