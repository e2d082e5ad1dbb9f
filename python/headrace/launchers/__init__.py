"""Launchers: where the jobs of a trial run, one module each. This module is their interface.

A launcher sets up the nodes of a whole plot, starts job processes on them, releases these together,
kills them, and reports what they say and how they end. What a trial is (its jobs, packets,
sustained load, time limits, validity) is the engine's. What must happen on a node goes through the
node's agent.

    with Launchers() as launchers:
        launcher = launchers["local"]
        with launcher.nodes(journal, NodesWanted(client_nodes(site, 1))) as nodes:
            launcher.warm("command", "mine", options)
            job = launcher.spawn(spec, nodes.agents[0])
            launcher.wait(60.0)         # [Ready(job)]
            launcher.release([job])
            launcher.wait(60.0)         # [Reported(job, ...)], then [Ended(job)]
            launcher.reap([job], 10.0)

`tests/system/test_launcher_contract.py` checks these methods for every registered launcher.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar

from headrace.launchers.agent import (
    Agent,
    AgentEvent,
    Clock,
    LauncherLostError,
    NodeInUseError,
    NodeLostError,
    NoNodesError,
    TooFewNodesError,
)
from headrace.launchers.job_events import (
    Ended,
    Event,
    Job,
    JobExit,
    JobSpec,
    PacketWanted,
    Ready,
    Reported,
)
from headrace.launchers.nodes import Nodes, NodesWanted
from headrace.registry import Plugins, parts

if TYPE_CHECKING:
    from headrace.jobs import Packet
    from headrace.launchers.batch.options import BatchOptions
    from headrace.system.journal import Journal

__all__ = [
    "Agent",
    "AgentEvent",
    "Clock",
    "Ended",
    "Event",
    "Job",
    "JobExit",
    "JobSpec",
    "Launcher",
    "LauncherLostError",
    "Launchers",
    "NoNodesError",
    "NodeInUseError",
    "NodeLostError",
    "Nodes",
    "NodesWanted",
    "PacketWanted",
    "Ready",
    "Reported",
    "TooFewNodesError",
    "kinds",
    "split_on",
]


class Launcher(ABC):
    """One way to run jobs. A subclass is one module that defines `kind` and these methods.

    It lives as long as a run of a study, and runs the jobs of one trial at a time.
    """

    kind: ClassVar[str]
    elsewhere: ClassVar[bool] = False
    """True if its nodes are other machines, so that a node's own storage is set up by its agent."""
    nodes_at_once: ClassVar[bool] = True
    """False if nodes may have to wait for a queue: they are not started for a check alone."""
    starts_python: ClassVar[bool] = False
    """True if it starts Python on the nodes: the one that `[run] python` names."""
    address_form: ClassVar[str] = ""
    """How `[run] on` names it, if it needs an address: `dask://HOST:PORT`."""

    def __init__(self, others: Launchers) -> None:
        """`others`: the launchers of the same run, for one that builds on another."""

    @classmethod
    def misread(cls, address: str) -> str | None:
        """Return what is wrong with what follows `KIND://`; None when nothing is."""
        return None

    @classmethod
    def refuses_batch(cls, batch: BatchOptions | None) -> str | None:
        """Return why `[run.batch]` does not fit this launcher; None when it does."""
        return None if batch is None else f'on = "{cls.kind}" is not a batch system'

    @classmethod
    def refuses_python(cls, python: str) -> str | None:
        """Return why a path of `[run] python` cannot be started; None when it can."""
        return None

    @classmethod
    def refuses(cls, wanted: NodesWanted) -> str | None:
        """Return why no machine could run these nodes with it; None when it can."""
        return None

    @classmethod
    def check(cls, wanted: NodesWanted) -> tuple[str, str] | None:
        """Return what is lacking for these nodes, and the remedy; None when nothing.

        May contact other machines; changes nothing.
        """
        return None

    @abstractmethod
    def nodes(self, journal: Journal, wanted: NodesWanted) -> AbstractContextManager[Nodes]:
        """Set up the nodes of a whole plot, and tear them down. Raises HeadraceError.

        Every change of a machine is in that machine's undo journal first.
        """

    def regain(self, agents: Sequence[Agent], patience_s: float) -> None:
        """Connect again to those of these nodes that were lost. Waits at most `patience_s`, and
        half as long each time until one has returned.

        Nothing of the target or of a workload is set up there. Raises NodeLostError.
        """

    @abstractmethod
    def warm(self, kind: str, name: str, options: dict[str, object]) -> str | None:
        """Prepare for jobs of this workload, so that a job starts at once and unmeasured.

        Returns the workload's error, or None. Starts anew what has died since. Raises
        LauncherLostError.
        """

    @abstractmethod
    def spawn(self, spec: JobSpec, agent: Agent) -> Job:
        """Start the process of a job on a node. It gets ready and waits for its release.

        Or `wait` raises why it cannot be started. No process is left when it raises. Raises
        LauncherLostError and what the agent raises.
        """

    @abstractmethod
    def release(self, jobs: Iterable[Job]) -> None:
        """Let ready jobs begin, all together. A job that has ended is passed over."""

    @abstractmethod
    def give(self, job: Job, packet: Packet | None) -> None:
        """Answer a job that wants a packet; None: no packet is left."""

    @abstractmethod
    def wait(self, timeout_s: float) -> list[Event]:
        """Return what has happened, as soon as something has; nothing after `timeout_s`.

        Raises LauncherLostError, and the error of a job that could not be started.
        """

    @abstractmethod
    def kill(self, jobs: Iterable[Job]) -> None:
        """Kill jobs with the processes that they started. Does not wait. Safe to call twice."""

    @abstractmethod
    def reap(self, jobs: Sequence[Job], patience_s: float) -> list[Job]:
        """Wait until the processes of jobs have ended, and fill in `Job.exit` where it is known.

        Returns the jobs that still run after `patience_s`. Messages of these jobs are discarded.
        Does not raise when what ran the jobs has died.
        """

    @abstractmethod
    def pids(self, agent: Agent) -> frozenset[int]:
        """Return the processes on a node that its jobs descend from."""

    @abstractmethod
    def close(self) -> None:
        """End the launcher and every job. Safe to call twice."""

    def __enter__(self) -> Launcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Launchers:
    """The launchers of one run by kind: each starts at its first use, all are closed together."""

    def __init__(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """`stopped`: whether the user has stopped the run, for launchers that wait for nodes."""
        self.stopped = stopped
        self._open: dict[str, Launcher] = {}
        self._stack = ExitStack()

    def __getitem__(self, kind: str) -> Launcher:
        if kind not in self._open:
            made = kinds()[kind](self)
            self._open[kind] = self._stack.enter_context(made)
        return self._open[kind]

    def __enter__(self) -> Launchers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._open.clear()


def split_on(on: str) -> tuple[str, str]:
    """Return kind and address of `[run] on`: ("dask", "HOST:PORT") of `dask://HOST:PORT`."""
    kind, _, address = on.partition("://")
    return kind, address


def kinds() -> Plugins[Launcher]:
    """Return every registered launcher class by kind."""
    return parts("headrace.launchers", Launcher)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
