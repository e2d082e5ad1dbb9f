"""Count the jobs of a trial by node while they run: for displays and monitoring.

A job pool tells it of every job that starts and ends. A snapshot also asks the agent of each node
how much CPU time and I/O its running jobs have used. That takes time, so snapshots are rarer the
longer one takes: together they cost less than 0.5 % of a core.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.engine.live import NodeLive
from headrace.errors import HeadraceError
from headrace.launchers import Agent, Job, LauncherLostError
from headrace.system.accounting import UseSoFar

if TYPE_CHECKING:
    from headrace.engine.measure.job_pool import JobEnd

INTERVAL_S = 1.0
COST = 250
"""Time between snapshots, as a multiple of the time that the last one took."""
THIS_MACHINE = "node-1"
"""Name of the only node, when it is this machine (`SiteOfTrial.nodes`)."""


@dataclass
class _Node:
    agent: Agent
    slots: int
    running: dict[int, Job] = field(default_factory=dict[int, Job])
    """By number within the trial."""
    use: dict[int, UseSoFar] = field(default_factory=dict[int, UseSoFar])
    """Of running jobs, as last seen."""
    done: int = 0
    failed: int = 0
    events: int = 0
    ended: UseSoFar = field(default_factory=UseSoFar)
    wall_s: float = 0.0
    shown_wall_s: float = 0.0
    """The largest wall time that was shown: it may not fall when a job's own times are known."""
    lost: bool = False

    def look(self) -> None:
        """Ask the agent for the use of running jobs. What cannot be asked stays as last seen."""
        numbers = {job.pid: number for number, job in self.running.items() if job.released_s}
        if not numbers or self.lost:
            return
        try:
            found = self.agent.process_use(list(numbers))
        except LauncherLostError:
            self.lost = True
        except (HeadraceError, OSError):
            return  # shown only: the jobs go on
        else:
            for pid, use in found.items():
                if (number := numbers.get(pid)) is None:
                    continue  # it has ended since the agent was asked
                self.use[number] = use.at_least(self.use.get(number, UseSoFar()))

    def live(self, now_s: float, waiting: int) -> NodeLive:
        """Return the present state."""
        released = [job.released_s for job in self.running.values() if job.released_s]
        total = sum(self.use.values(), self.ended)
        wall_s = self.wall_s + sum(now_s - begin for begin in released)
        self.shown_wall_s = max(self.shown_wall_s, wall_s)
        return NodeLive(
            name=self.agent.name or THIS_MACHINE,
            slots=self.slots,
            running=len(released),
            busy=max(0, len(released) - waiting),
            done=self.done,
            failed=self.failed,
            events=self.events,
            read_bytes=total.read_bytes,
            written_bytes=total.written_bytes,
            cpu_s=total.cpu_s,
            wall_s=self.shown_wall_s,
            lost=self.lost,
        )


class LiveJobs:
    """The jobs of one trial by node."""

    def __init__(self, agents: Iterable[Agent]) -> None:
        """`agents`: that of each slot's node."""
        self._nodes: dict[Agent, _Node] = {}
        for agent in agents:
            self._nodes.setdefault(agent, _Node(agent, 0)).slots += 1
        self._due_s = 0.0

    def started(self, number: int, job: Job) -> None:
        """A job was started; it counts as running from its release."""
        self._nodes[job.agent].running[number] = job

    def ended(self, job: Job, end: JobEnd, *, node_lost: bool = False) -> None:
        """A job has ended."""
        node = self._nodes[job.agent]
        node.running.pop(end.job, None)
        seen = node.use.pop(end.job, UseSoFar())
        node.ended += seen.at_least(_use_of(end))
        node.wall_s += max(0.0, end.end_s - end.start_s)
        node.events += 0 if end.output is None else end.output.events
        node.done += end.exit == "ok"
        node.failed += end.exit != "ok"
        node.lost = node.lost or node_lost

    @property
    def due(self) -> bool:
        """Whether it is time for a snapshot."""
        return time.monotonic() >= self._due_s

    def snapshot(self, waiting: Mapping[Agent, int]) -> tuple[NodeLive, ...]:
        """Return the state of each node. `waiting`: jobs of a node that wait for a packet."""
        begin_s = time.monotonic()
        for node in self._nodes.values():
            node.look()
        now_s = time.monotonic()
        self._due_s = now_s + max(INTERVAL_S, COST * (now_s - begin_s))
        return tuple(node.live(now_s, waiting.get(agent, 0)) for agent, node in self._nodes.items())


def _use_of(end: JobEnd) -> UseSoFar:
    """Return what an ended job has used, by its ledger and its own counts."""
    output, ledger = end.output, end.ledger
    read = written = 0
    if output is not None:
        read, written = output.bytes_asked, output.bytes_written
    if ledger is None:
        return UseSoFar(0.0, read, written)
    return UseSoFar(ledger.on_cpu_s, max(read, ledger.bytes_served), written)
