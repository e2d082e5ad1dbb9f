"""Whether other programs took CPUs that the jobs of a trial needed.

Two snapshots of the machine are compared with the jobs' ledgers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

from headrace.engine.measure.job_pool import JobEnd
from headrace.engine.measure.prepared_target import PreparedTarget
from headrace.launchers import Agent, LauncherLostError
from headrace.records.interference import ForeignProgram, Interference
from headrace.system.emulator import behind
from headrace.system.identity import boot_id
from headrace.system.machine_use import MachineUse, Own, started_processes

NAMED = 5
"""Number of foreign programs listed in a record."""


class InterferenceWatch:
    """Measures CPU use by other programs from the release of the jobs to the end of the last.

    On every kernel that runs jobs, by the agent there. A node that is lost is left out.
    """

    def __init__(self, prepared: PreparedTarget, nodes: int) -> None:
        """`nodes`: how many of them run jobs."""
        self._prepared = prepared
        self._nodes = prepared.nodes.first(nodes)
        self._agents = self._nodes.by_kernel()
        self.cpus = sum(agent.watch_load(self._own(agent)) for agent in self._agents)

    def others_now(self) -> float:
        """Return how many of these CPUs other programs used since the last call.

        The value is a mean and a lower bound.
        """
        found = 0.0
        for agent in self._agents:
            with contextlib.suppress(LauncherLostError):
                found += agent.other_load()
        return found

    def finish(self) -> dict[str, MachineUse]:
        """Return the use of the CPUs available to jobs since creation, by kernel."""
        uses: dict[str, MachineUse] = {}
        for agent in self._agents:
            with contextlib.suppress(LauncherLostError):
                uses[agent.kernel] = agent.finish_load(self._own(agent))
        return uses

    def _own(self, agent: Agent) -> Own:
        """Return the processes on the agent's kernel that belong to the run: its jobs there and, on
        the engine's kernel, the engine's and the emulated drives of its target.

        An agent adds what its own process started.
        """
        prepared = self._prepared
        jobs = frozenset(
            pid
            for each in self._nodes.agents
            if each.kernel == agent.kernel
            for pid in prepared.launcher.pids(each)
        )
        if agent.kernel != boot_id():
            return Own(jobs=jobs)
        own = started_processes(prepared.context.journal)
        emulated = frozenset(behind(prepared.location.device_names))
        return replace(own, jobs=jobs, pids=own.pids | emulated)


def interference_of(use: MachineUse, jobs: Sequence[JobEnd], last_done_s: float) -> Interference:
    """Combine the CPU use of the machine with the jobs' ledgers. A pure function.

    The window of `use` is longer than the trial by the time of the snapshots; its rates are applied
    to the trial.
    """
    part = min(1.0, last_done_s / use.window_s)
    ledgers = [job.ledger for job in jobs if job.ledger is not None]
    jobs_s = sum(ledger.on_cpu_s for ledger in ledgers)
    wall_s = sum(ledger.wall_s for ledger in ledgers)
    waited_s = sum(ledger.wait_cpu_s for ledger in ledgers) + use.served_wait_s * part
    capacity_s = use.capacity_s * part
    foreign_s = min(use.foreign_s * part, max(0.0, capacity_s - use.steal_s * part - jobs_s))
    return Interference(
        cpus=use.cpus,
        capacity_s=capacity_s,
        jobs_s=jobs_s,
        own_s=max(0.0, use.own_s * part - jobs_s),
        kernel_s=use.kernel_s * part,
        foreign_s=foreign_s,
        steal_s=use.steal_s * part,
        idle_s=use.idle_s * part,
        waited_s=waited_s,
        throttled_s=use.throttled_s * part,
        wall_s=wall_s,
        lost_share=lost_share(
            wall_s=wall_s,
            on_cpu_s=jobs_s,
            # A job throttled by its own quota does not wait for other programs.
            waited_s=max(0.0, waited_s - use.throttled_s * part),
            foreign_s=foreign_s,
            steal_s=use.steal_s * part,
            capacity_s=capacity_s,
        ),
        pressure=use.pressure,
        programs=tuple(
            ForeignProgram(program.name, program.processes, program.cpu_s * part)
            for program in use.programs[:NAMED]
        ),
    )


def lost_share(
    *,
    wall_s: float,
    on_cpu_s: float,
    waited_s: float,
    foreign_s: float,
    steal_s: float,
    capacity_s: float,
) -> float:
    """Return an upper limit of the share of the jobs' time lost to foreign load, 0..1.

    A pure function. All arguments are in seconds: the jobs' wall time, their time on a CPU and
    waiting for one, and the CPU time that foreign programs and the hypervisor took of `capacity_s`.
    A job loses no more than it waited, and others cannot cost more than they used: each second of
    theirs is a second less for one job or, where all CPUs are shared in turns, the same fraction of
    every job's time. Where cores are idle, jobs do not wait and lose nothing.
    """
    if wall_s <= 0 or capacity_s <= 0:
        return 0.0

    def lost(wanted_s: float, taken_s: float) -> float:
        one_job = min(wanted_s, taken_s) / wall_s
        everybody = min(wanted_s / wall_s, taken_s / capacity_s)
        return max(one_job, everybody)

    # Stolen time counts as time on a CPU: the kernel does not know that the CPU stood still.
    busy_s = on_cpu_s + foreign_s
    stolen_from_jobs_s = steal_s * on_cpu_s / busy_s if busy_s > 0 else 0.0
    return min(1.0, lost(waited_s, foreign_s) + lost(on_cpu_s + waited_s, stolen_from_jobs_s))
