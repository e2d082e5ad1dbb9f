"""Launchers for tests and benchmarks/dispatch.py whose nodes are node processes of this machine.

Nothing that the engine, an agent or a job does depends on memory that they share. On `elsewhere`
the nodes have another monotonic clock than the engine, as on another machine.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from typing_extensions import override

from headrace.launchers import Launchers, NodesWanted
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.launcher import RemoteAgent, RemoteLauncher
from headrace.launchers.remote.streams import ENTRY, connected
from headrace.system.journal import Journal
from headrace.system.owned import work_directory

HERE = Path(__file__).parent
AHEAD_S = 5000
"""By how much the clock of `elsewhere` is ahead of the engine's."""


class Process(RemoteLauncher):
    """A node process for each node."""

    kind = "process"
    before: tuple[str, ...] = ()

    def __init__(self, others: Launchers) -> None:
        super().__init__(others)
        self.commands: dict[str, list[str]] = {}
        """What starts the process of a node, now and when it was lost."""

    @override
    @contextmanager
    def connect(self, journal: Journal, wanted: NodesWanted) -> Generator[list[NodeConnection]]:
        place, entry = work_directory(journal)
        with contextlib.ExitStack() as stack:
            stack.callback(journal.put_back, [entry])
            found: list[NodeConnection] = []
            for node in wanted.clients:
                argv = self.commands[node.name] = [
                    *self.before,
                    sys.executable,
                    "-c",
                    ENTRY,
                    str(journal.file.parent),
                ]
                found.append(connected(node.name, argv, place / f"{node.name}.log"))
                stack.callback(found[-1].close)
            yield found


class Elsewhere(Process):
    """The same on another clock."""

    kind = "elsewhere"
    before = (
        *("unshare", "--time", "--monotonic", str(AHEAD_S), "--fork", "--kill-child"),
        *("setpriv", "--pdeathsig", "KILL"),
    )

    @override
    def agent(self, connection: NodeConnection) -> RemoteAgent:
        agent = super().agent(connection)
        agent.kernel += f" {AHEAD_S} s ahead"
        return agent


def installed_in(place: Path) -> dict[str, str]:
    """Make a package in a folder that registers `on = "process"`; return what finds it there."""
    added = place / "processes-1.0.dist-info"
    added.mkdir()
    (added / "METADATA").write_text("Metadata-Version: 2.1\nName: processes\nVersion: 1.0\n")
    (added / "entry_points.txt").write_text(
        "[headrace.launchers]\nprocess = agent_process:Process\n"
    )
    return {"PYTHONPATH": f"{place}:{HERE}:{os.environ.get('PYTHONPATH', '')}"}
