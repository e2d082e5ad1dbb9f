"""The probes of a trial on every kernel that runs its jobs, sampled there by the nodes' agents."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace import probes as probe_package
from headrace.errors import UnsupportedLevelError, describe
from headrace.launchers import Agent, Job, LauncherLostError
from headrace.probes import Totals, Watch
from headrace.probes.sampler import SampleRows, Samples, Sampling
from headrace.study.model import RunOptions
from headrace.system.identity import boot_id
from headrace.system.storage_settings import one_per_kernel
from headrace.targets import Location


@dataclass
class TrialSamples(Samples):
    """Results of the probes of a trial, of all its nodes together."""

    by_node: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Totals by node and kind of probe; empty if all nodes share one kernel."""


class NodeProbes:
    """Samples probes on each kernel: start right before the release, finish after the last job."""

    def __init__(self, agents: Sequence[Agent], run: RunOptions) -> None:
        """Choose the default probes that a kernel supports, and the requested ones.

        `agents`: those of the nodes that run jobs. Raises UnsupportedLevelError when a requested
        probe is not available.
        """
        self._agents = agents
        self._interval_s = run.series_interval
        self._kinds: dict[str, tuple[str, ...]] = {}
        """By kernel."""
        self._started: list[Agent] = []
        """Whose probes are not stopped yet."""
        self._samples: TrialSamples | None = None
        asked = {"trace"} if run.trace else set[str]()
        wanted = [
            kind for kind, part in probe_package.kinds().items() if part.default or kind in asked
        ]
        for agent in one_per_kernel(agents):
            lacking = agent.lacking_probes(wanted)
            if missing := [what for kind, what in lacking.items() if kind in asked]:
                raise UnsupportedLevelError("; ".join(missing))
            self._kinds[agent.kernel] = tuple(kind for kind in wanted if kind not in lacking)

    def start(self, location: Location, jobs: Sequence[Job], keep: Path) -> None:
        """Start the probes. Raises the error of a probe that cannot start."""
        here = boot_id()
        for agent in one_per_kernel(self._agents):
            pids = tuple(job.pid for job in jobs if job.agent.kernel == agent.kernel)
            watch = Watch(
                location.device_names, pids, location.directory, keep, location.interfaces
            )
            if agent.kernel != here:
                watch = self._watch_elsewhere(agent, watch, location)
            self._started.append(agent)
            agent.start_probes(Sampling(self._kinds[agent.kernel], self._interval_s, watch))

    def _watch_elsewhere(self, agent: Agent, watch: Watch, location: Location) -> Watch:
        """Return what is sampled on a kernel that is not the engine's.

        Devices have names of their own there. What was built for a target is on this machine.
        """
        if location.elsewhere:
            names = {
                name
                for each, devices in zip(self._agents, location.node_devices, strict=False)
                if each.kernel == agent.kernel
                for name in devices
            }
            return _watch_there(agent, watch, names)
        directories = {
            location.on_node(number)
            for number, each in enumerate(self._agents)
            if each.kernel == agent.kernel
        }
        names = {
            name
            for directory in directories
            if directory is not None
            for name in agent.devices(str(directory))
        }
        return _watch_there(agent, watch, names)

    def finish(self) -> TrialSamples:
        """Take the last sample, stop every probe and return the results of all nodes.

        Never raises; a second call returns the same result.
        """
        if self._samples is None:
            self._samples = combined([(agent, self._finish(agent)) for agent in [*self._started]])
        return self._samples

    def _finish(self, agent: Agent) -> Samples:
        try:
            samples = agent.finish_probes()
        except Exception as error:
            kinds = self._kinds[agent.kernel]
            return Samples({kind: [] for kind in kinds}, {}, dict.fromkeys(kinds, _lost(error)))
        self._started.remove(agent)
        return samples

    def stop(self) -> None:
        """Stop the probes that still run. Safe to call twice.

        Raises the error of an agent that cannot stop them; a second call retries it.
        """
        self.finish()
        while self._started:
            with contextlib.suppress(LauncherLostError):  # a lost node has no probes any more
                self._started[-1].finish_probes()
            self._started.pop()


def _watch_there(agent: Agent, watch: Watch, names: set[str]) -> Watch:
    return replace(
        watch, device_names=tuple(sorted(names)), keep=watch.keep / agent.name, interfaces=()
    )


def _lost(error: Exception) -> str:
    return f"with the agent of its node: {describe(error)}"


def combined(each: Sequence[tuple[Agent, Samples]]) -> TrialSamples:
    """Return the results of several nodes as one.

    Rows of series and errors get the name of their node, unless there is one node only. Times count
    from the start of the first node's probes.
    """
    if not each:
        return TrialSamples()
    if len(each) == 1:
        agent, only = each[0]
        return TrialSamples(only.series, only.totals, only.failed, _started_s(agent, only))
    # A lost node returns nothing, not even when its probes were started.
    begun_s = [_started_s(agent, samples) for agent, samples in each if samples.started_s]
    found = TrialSamples(started_s=min(begun_s, default=0.0))
    totals: dict[str, dict[str, Totals]] = {}
    for agent, samples in each:
        later_s = _started_s(agent, samples) - found.started_s
        for kind, rows in samples.series.items():
            found.series.setdefault(kind, []).extend(_rows(agent.name, later_s, rows))
        for kind, error in samples.failed.items():
            also = f"{found.failed[kind]}; " if kind in found.failed else ""
            found.failed[kind] = f"{also}on {agent.name} {error}"
        for kind, total in samples.totals.items():
            totals.setdefault(kind, {})[agent.name] = total
        found.by_node[agent.name] = {kind: each.values for kind, each in samples.totals.items()}
    known = probe_package.kinds()
    for kind, of_nodes in totals.items():
        if kind not in found.failed:  # a sum without one node is no sum
            found.totals[kind] = _combined_totals(known[kind], of_nodes)
    return found


def _started_s(agent: Agent, samples: Samples) -> float:
    return agent.clock.engine_s(samples.started_s)


def _rows(node: str, later_s: float, rows: SampleRows) -> SampleRows:
    return [{**row, "node": node, "time_s": row["time_s"] + later_s} for row in rows]


def _combined_totals(part: type[probe_package.Probe], of_nodes: Mapping[str, Totals]) -> Totals:
    return Totals(
        part.combine({node: totals.values for node, totals in of_nodes.items()}),
        [
            (code, f"{node}: {text}")
            for node, totals in of_nodes.items()
            for code, text in totals.invalid
        ],
    )
