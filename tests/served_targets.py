"""Targets with servers of their own, brought up for a test on a small cluster and taken down after
it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.faults import InjectedFault
from headrace.faults import kinds as fault_kinds
from headrace.system import processes
from headrace.system.cluster import Cluster
from headrace.targets import Location, Target, TargetContext, kinds
from headrace.targets.served import client_nodes
from machine import mounts_below


def made(kind: str, **options: Any) -> Target:
    return kinds()[kind]("store", kinds()[kind].Options.model_validate(options))


@contextmanager
def standing(
    target: Target, context: TargetContext, clients: int = 1
) -> Iterator[tuple[Location, TargetContext]]:
    nodes = client_nodes(None, clients)
    with Cluster.build(context.journal, [*nodes, *target.nodes_wanted(None)]) as cluster:
        within = replace(context, cluster=cluster, client_nodes=tuple(node.name for node in nodes))
        location = target.prepare(within)
        try:
            yield location, within
        finally:
            target.release(within)


def fault(kind: str, **options: Any) -> InjectedFault:
    part = fault_kinds()[kind]
    return part(part.Options.model_validate({"what": kind, "patience": "60 s", **options}))


def namespaces() -> set[str]:
    listed = subprocess.run(
        ["ip", "netns", "list"], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[0] for line in listed.splitlines() if line.strip()}


def namespaces_of(journals: Path) -> set[str]:
    """The namespaces that runs with undo journals in this folder have made and not yet removed."""
    texts = [file.read_text() for file in journals.glob("*")]
    return {name for name in namespaces() if any(f'"{name}"' in text for text in texts)}


def processes_of(word: str) -> list[str]:
    """Command lines that hold a word."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and processes.state(int(entry.name)) not in ("Z", "X", "gone"):
            try:
                line = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
            except OSError:
                continue
            if word in line:
                found.append(line)
    return found


def assert_gone(location: Location, context: TargetContext) -> None:
    """No namespace, process or mount of a released target is left."""
    assert location.cluster is not None
    token = location.cluster.token
    assert [name for name in namespaces() if token in name] == []
    assert processes_of(str(context.work_dir)) == []
    assert mounts_below(context.work_dir) == []


def accepts(port: int) -> bool:
    """Whether a server on this machine accepts connections."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True
