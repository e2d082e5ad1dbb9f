"""What each node of a trial is and what happened to it: `node_facts` of the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from headrace.engine.measure.clock_drift import ClockDrift, correct_series, corrected_pool
from headrace.engine.measure.job_pool import JobEnd, PoolResult
from headrace.launchers import Agent, Clock, LauncherLostError
from headrace.probes.sampler import SampleRows
from headrace.records.nodes import NodeClock, NodeEvent, NodeFacts
from headrace.system.machine_facts import MachineFacts
from headrace.system.machine_use import MachineUse

Known = TypeVar("Known")


class ClockWatch:
    """The clocks of nodes before and after the jobs of a trial."""

    def __init__(self, agents: Sequence[Agent]) -> None:
        """Measure the clocks anew, for the jobs that are started from now on."""
        self._agents = agents
        for agent in agents:
            unless_lost(agent.renew_clock)
        self._before = [agent.clock for agent in agents]
        self._after: list[Clock | None] = [None] * len(agents)
        self._begun_s = time.monotonic()
        self.span_s = 0.0
        """Time between the two measurements."""

    def finish(self) -> None:
        """Measure the clocks again."""
        self.span_s = time.monotonic() - self._begun_s
        self._after = [unless_lost(agent.measure_clock) for agent in self._agents]

    def drifts(self) -> dict[int, ClockDrift]:
        """Return how the clocks drifted, by number of the node; not those of lost nodes."""
        end_s = self._begun_s + self.span_s
        return {
            number: ClockDrift(self._begun_s, end_s, after.offset_s - before.offset_s)
            for number, (before, after) in enumerate(zip(self._before, self._after, strict=True))
            if after is not None
        }

    def clock(self, number: int) -> NodeClock:
        """Return how the clock of a node related to the engine's, for the record."""
        before, after = self._before[number], self._after[number]
        return NodeClock(
            offset_s=before.offset_s,
            uncertainty_s=max(each.uncertainty_s for each in (before, after) if each is not None),
            drift_s=None if after is None else after.offset_s - before.offset_s,
        )


class NodeWatch:
    """Observes the nodes from before a trial's jobs are started until after the last one.

    A node that is lost keeps what was known of it before.
    """

    def __init__(self, agents: Sequence[Agent], slots: int) -> None:
        """`agents`: those of the nodes that run jobs, with `slots` jobs on each at once."""
        self._agents = agents
        self._slots = slots
        self._machines = [unless_lost(agent.machine) for agent in agents]
        self._clocks = ClockWatch(agents)
        self._kills = [unless_lost(agent.out_of_memory) for agent in agents]
        self._kills_after: list[int | None] = [None] * len(agents)

    def finish(self) -> None:
        """Observe the nodes after the last job, while limits of memory still hold."""
        self._clocks.finish()
        self._kills_after = [unless_lost(agent.out_of_memory) for agent in self._agents]

    @property
    def clocks_s(self) -> float:
        """Time between the two measurements of the clocks."""
        return self._clocks.span_s

    def drifts(self) -> dict[str, ClockDrift]:
        """Return how the clocks drifted, by name of the node."""
        return {self._agents[number].name: each for number, each in self._clocks.drifts().items()}

    def corrected(
        self, pool: PoolResult, series: Mapping[str, SampleRows], begun_s: float
    ) -> PoolResult:
        """Return the result, and correct rows of probes in place, by how the clocks drifted.

        `begun_s`: engine's time from which the rows' times count.
        """
        drifts = self._clocks.drifts()
        # Rows without a node are of the only kernel: by the agent of its first node.
        unnamed = {"": drifts[0]} if 0 in drifts else {}
        correct_series(series, {**unnamed, **self.drifts()}, begun_s)
        return corrected_pool(pool, drifts, self._slots)

    def facts(self, pool: PoolResult, uses: Mapping[str, MachineUse]) -> tuple[NodeFacts, ...]:
        """Return the facts for the record. `uses`: of the CPUs of each kernel."""
        return tuple(
            self._facts(number, agent, pool, uses.get(agent.kernel))
            for number, agent in enumerate(self._agents)
        )

    def _facts(
        self, number: int, agent: Agent, pool: PoolResult, use: MachineUse | None
    ) -> NodeFacts:
        before, after = self._kills[number], self._kills_after[number]
        first_s, last_s = started(pool, number, self._slots)
        return msgspec.structs.replace(
            machine_of(
                number,
                agent,
                self._machines[number],
                self._clocks.clock(number),
                pool.release_monotonic_s,
            ),
            start_first_s=first_s,
            start_last_s=last_s,
            foreign_cpus=None if use is None else (use.foreign_s + use.steal_s) / use.window_s,
            oom_kills=None if before is None or after is None else after - before,
        )


def machine_of(
    number: int, agent: Agent, known: MachineFacts | None, clock: NodeClock, release_s: float
) -> NodeFacts:
    """Return what a node is and what happened to it since the trial before, without its jobs.

    `known`: None if the node was lost before it could be asked.
    """
    machine = known or MachineFacts()
    return NodeFacts(
        number=number,
        name=agent.name or machine.host,
        host=machine.host,
        kernel=machine.kernel,
        kernel_id=agent.kernel,
        headrace=machine.headrace,
        python=machine.python,
        cpu_model=machine.cpu_model,
        cpus=machine.cpus,
        memory_bytes=machine.memory_bytes,
        clock=clock,
        events=tuple(
            NodeEvent(what=event.what, at_s=event.at_s - release_s, cause=event.cause)
            for event in agent.take_events()
        ),
    )


def started(pool: PoolResult, node: int, slots: int) -> tuple[float | None, float | None]:
    """Return when the first and the last job of a node began, of those released together.

    In seconds since the release. (None, None) if none began.
    """
    starts = [job.start_s for job in began(pool) if job.slot // slots == node]
    return (min(starts), max(starts)) if starts else (None, None)


def began(pool: PoolResult) -> list[JobEnd]:
    """Return the jobs that were released together and began; a job that began has a ledger."""
    return [job for job in pool.jobs if job.job < pool.released and job.ledger is not None]


def unless_lost(ask: Callable[[], Known]) -> Known | None:
    """Return what a node answers; None if it is lost."""
    try:
        return ask()
    except LauncherLostError:
        return None
