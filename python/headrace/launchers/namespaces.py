"""Jobs on nodes that are network namespaces of this machine, joined by links of a given rate.

The processes are those of the launcher `local`; a job enters the network of its node before it gets
ready, on the node's CPUs and under its memory limit. All nodes share this machine's kernel: the
page cache, I/O schedulers and read-ahead are common to them, so one agent stands for all of them
there (`Nodes.by_kernel`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace

from typing_extensions import override

from headrace.jobs import Packet
from headrace.launchers import (
    Agent,
    Event,
    Job,
    JobSpec,
    Launcher,
    Launchers,
    Nodes,
    NodesWanted,
)
from headrace.launchers.local import MachineAgent
from headrace.system import cluster as clusters
from headrace.system.cluster import Cluster, Node
from headrace.system.journal import Journal
from headrace.system.machine_facts import MachineFacts


class NamespaceAgent(MachineAgent):
    """A node that is a network namespace."""

    def __init__(self, journal: Journal, node: Node) -> None:
        super().__init__(journal, node.memory)
        self._node = node
        self.name = node.name
        self.namespace = node.namespace
        self.cpus = None if node.settings.cpus is None else frozenset(node.settings.cpus)

    @override
    def machine(self) -> MachineFacts:
        found = super().machine()
        limit = self._node.settings.memory_bytes
        return replace(
            found,
            cpus=found.cpus if self.cpus is None else len(self.cpus),
            memory_bytes=found.memory_bytes if limit is None else limit,
        )

    @override
    def adopt(self, pid: int) -> None:
        self._node.adopt(pid)
        super().adopt(pid)

    @override
    def _command(self, argv: Sequence[str]) -> Sequence[str]:
        return self._node.command(argv)

    @override
    def out_of_memory(self) -> int:
        memory = self._node.memory
        return super().out_of_memory() + (memory.killed() if memory is not None else 0)


class Namespaces(Launcher):
    """Runs jobs in network namespaces of this machine."""

    kind = "namespaces"

    def __init__(self, others: Launchers) -> None:
        super().__init__(others)
        self._local = others["local"]

    @override
    @classmethod
    def check(cls, wanted: NodesWanted) -> tuple[str, str] | None:
        return clusters.why_not(
            "name nodes that are there already ([run] on, docs/cluster.md); headrace simulate "
            "needs no root"
        )

    @override
    @contextmanager
    def nodes(self, journal: Journal, wanted: NodesWanted) -> Generator[Nodes]:
        with Cluster.build(journal, [*wanted.clients, *wanted.servers]) as cluster:
            nodes = [cluster[client.name] for client in wanted.clients]
            agents = tuple(NamespaceAgent(journal, node) for node in nodes)
            pinned = [agent.cpus for agent in agents]
            if None not in pinned:
                cpus = frozenset(cpu for each in pinned for cpu in each or ())
                for agent in agents:
                    agent.load_cpus = cpus
            yield Nodes(agents, cluster)

    @override
    def warm(self, kind: str, name: str, options: dict[str, object]) -> str | None:
        return self._local.warm(kind, name, options)

    @override
    def spawn(self, spec: JobSpec, agent: Agent) -> Job:
        return self._local.spawn(spec, agent)

    @override
    def release(self, jobs: Iterable[Job]) -> None:
        self._local.release(jobs)

    @override
    def give(self, job: Job, packet: Packet | None) -> None:
        self._local.give(job, packet)

    @override
    def wait(self, timeout_s: float) -> list[Event]:
        return self._local.wait(timeout_s)

    @override
    def kill(self, jobs: Iterable[Job]) -> None:
        self._local.kill(jobs)

    @override
    def reap(self, jobs: Sequence[Job], patience_s: float) -> list[Job]:
        return self._local.reap(jobs, patience_s)

    @override
    def pids(self, agent: Agent) -> frozenset[int]:
        return self._local.pids(agent)

    @override
    def close(self) -> None:
        """Do nothing: `Launchers` closes the launcher `local`."""
