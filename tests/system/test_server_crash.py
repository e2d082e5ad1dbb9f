"""A run with real servers that is killed is undone by the next command.

No process, mount, namespace, socket or loop device is left.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headrace.system.cluster import Cluster
from headrace.system.journal import Journal, pending_journals, undo
from headrace.system.owned import work_directory
from headrace.targets import TargetContext
from headrace.targets.served import client_nodes
from machine import loops_below, mounts_below
from served_targets import made, namespaces, processes_of

pytestmark = pytest.mark.usefixtures("needs_root")

OPTIONS: dict[str, dict[str, Any]] = {
    "glusterfs": {"replicas": 2},
    "hdfs": {"servers": 1, "replicas": 1, "block_size": "1 MiB"},
    "s3": {},
}


def killed_while_it_stands(kind: str, folder: Path, writer: int) -> None:
    journal = Journal.open("a run that is killed", folder / "journal")
    work, _ = work_directory(journal, folder)
    medium = {
        "export" if kind == "s3" else "bricks": {
            "image": str(folder / "disk.img"),
            "size": "64 MiB",
        }
    }
    target = made(kind, **OPTIONS[kind], **medium)
    nodes = client_nodes(None, 2)
    cluster = Cluster.build(journal, [*nodes, *target.nodes_wanted(None)])
    names = tuple(node.name for node in nodes)
    target.prepare(TargetContext(work, journal, cluster=cluster, client_nodes=names))
    os.write(writer, cluster.token.encode())
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("kind", ["glusterfs", "s3", pytest.param("hdfs", marks=pytest.mark.heavy)])
def test_killed_while_servers_run(kind: str, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            killed_while_it_stands(kind, tmp_path, writer)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    token = os.read(reader, 20).decode()
    os.close(reader)
    os.close(writer)
    assert [name for name in namespaces() if token in name], "there is something to be undone"
    (pending,) = pending_journals(tmp_path / "journal")
    sockets = [
        Path(path)
        for entry in pending.entries
        if entry.action == "remove_sockets"
        for path in entry.args["paths"]
    ]
    assert bool(sockets) == (kind == "glusterfs")
    assert [result.text for result in undo(pending.file) if not result.done] == []
    assert [name for name in namespaces() if token in name] == []
    assert processes_of(str(tmp_path)) == []
    assert mounts_below(tmp_path) == []
    assert loops_below(tmp_path) == []
    assert [path for path in sockets if path.exists()] == []
    assert [path.name for path in tmp_path.iterdir() if path.name != "journal"] == []
