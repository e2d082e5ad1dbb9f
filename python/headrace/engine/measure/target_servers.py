"""Agents of the servers under test: caches, settings, probes and facts of machines that serve.

A server is a node that runs no jobs: its agent is a node process like those of nodes
(`headrace.launchers.remote`), and lives as long as a whole plot.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

from headrace import probes as probe_package
from headrace.engine.measure.clock_drift import ClockDrift, correct_series
from headrace.engine.measure.node_checks import meter_lacks
from headrace.engine.measure.node_probes import TrialSamples
from headrace.engine.measure.node_watch import ClockWatch, machine_of
from headrace.engine.measure.trial_meters import machines_of
from headrace.errors import HeadraceError, Problem, describe
from headrace.launchers import (
    Agent,
    Launchers,
    NodesWanted,
    kinds,
    split_on,
)
from headrace.launchers.remote.launcher import RemoteLauncher
from headrace.probes import Watch
from headrace.probes.sampler import SampleRows, Samples, Sampling
from headrace.records.energy import ChannelEnergy
from headrace.records.nodes import NodeFacts
from headrace.records.trial_record import JsonObject
from headrace.study.model import NamedPlugin
from headrace.study.resolve import Resolved
from headrace.system.cluster import NodeSettings
from headrace.system.journal import Journal
from headrace.system.machine_facts import MachineFacts
from headrace.system.network_interface import Interface
from headrace.system.setting_names import NAMES
from headrace.system.storage_settings import one_per_kernel
from headrace.targets import Setting, TargetContext
from headrace.targets.queue_settings import QueueSettings
from headrace.targets.server_options import PREFIX, SERVER_SETTINGS, ServerOptions

SERIES = "server-"
"""Prefix of the series of servers' probes."""


@dataclass
class TargetServers:
    """The agents of a target's servers; of none, every method does nothing."""

    target: str = ""
    agents: tuple[Agent, ...] = ()
    directory: str | None = None
    """Folder on each that holds the data."""
    _settings: QueueSettings | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the servers."""
        return tuple(agent.name for agent in self.agents)

    def kernels(self) -> tuple[Agent, ...]:
        """Return one agent for each machine."""
        return one_per_kernel(self.agents)

    def drop_caches(self) -> None:
        """Empty the page cache of every server. Raises UnsupportedLevelError without root there."""
        for agent in self.kernels():
            agent.drop_page_cache()

    def apply(self, options: object) -> list[Setting]:
        """Apply the settings that the options give, and read each one back."""
        if self._settings is None:
            return []
        wanted = {name: getattr(options, PREFIX + name) for name in NAMES}
        found = self._settings.apply(SimpleNamespace(**wanted))
        return [replace(setting, name=PREFIX + setting.name) for setting in found]

    def read_settings(self) -> dict[str, object]:
        """Return the current value of every setting, for the check after the trial."""
        found = {} if self._settings is None else self._settings.read()
        return {PREFIX + name: value for name, value in found.items()}

    def manage(self, context: TargetContext) -> None:
        """Read the settings, which `restore` sets again. Raises HeadraceError."""
        if self.directory is not None and self.agents:
            own = replace(context, agents=self.agents)
            self._settings = QueueSettings(own, Path(self.directory))

    def restore(self) -> None:
        """Restore the settings. Safe to call twice. Raises HeadraceError."""
        if self._settings is not None:
            self._settings.restore()

    def covered(self, channels: Iterable[ChannelEnergy]) -> list[ChannelEnergy]:
        """Return channels in which the name of the target stands for its servers."""
        return [
            replace(each, of=self.names)
            if self.agents and each.boundary == "server" and each.of in ((), (self.target,))
            else each
            for each in channels
        ]


@contextmanager
def servers_of(
    name: str, options: object, journal: Journal, launchers: Launchers
) -> Generator[TargetServers]:
    """Start an agent on each server that a target's options name, and end them.

    Raises HeadraceError that says which one does not start, and why.
    """
    if not isinstance(options, ServerOptions) or options.server_agents is None:
        yield TargetServers()
        return
    wanted = _wanted(options, options.server_agents)
    launcher = launchers[split_on(options.server_agents)[0]]
    if not isinstance(launcher, RemoteLauncher):
        raise TypeError(f"{launcher.kind} starts nothing on other machines")
    with launcher.agents(journal, wanted) as agents:
        yield TargetServers(name, agents, options.server_directory)


def _wanted(options: ServerOptions, on: str) -> NodesWanted:
    kind, address = split_on(on)
    part = kinds()[kind]
    if (wrong := part.misread(address)) is not None:
        raise HeadraceError(f"server_agents: {wrong}")
    count = part.node_count(address) if issubclass(part, RemoteLauncher) else 0
    names = tuple(NodeSettings(f"server-{number}") for number in range(count))
    return NodesWanted(names, address=address, python=options.server_python or "")


# -- before anything starts --


def server_problems(
    each: Iterable[tuple[str, Resolved]], meters: Mapping[str, NamedPlugin]
) -> list[Problem]:
    """Return what servers of targets lack, with their names. `each`: (target, cell).

    `meters`: those of the study that servers have for themselves.
    """
    found: list[Problem] = []
    asked: set[str] = set()
    for name, resolved in each:
        options = resolved.target_options
        if not isinstance(options, ServerOptions) or options.server_agents is None:
            continue
        changes = resolved.run.cache == "cold" or any(
            getattr(options, setting) is not None for setting in SERVER_SETTINGS
        )
        key = f"{name} {options.server_agents} {options.server_directory} {changes}"
        if key not in asked:
            asked.add(key)
            found += _problems(name, options, changes, meters)
    return found


def _problems(
    name: str, options: ServerOptions, changes: bool, meters: Mapping[str, NamedPlugin]
) -> list[Problem]:
    needed_by = f"target {name}"
    try:
        wanted = _wanted(options, options.server_agents or "")
        part = kinds()[split_on(options.server_agents or "")[0]]
        if (lack := part.check(wanted)) is not None:
            return [Problem(lack[0], needed_by, _of_servers(lack[1]))]
        with (
            Journal.open("a check of servers") as journal,
            Launchers() as launchers,
            servers_of(name, options, journal, launchers) as servers,
        ):
            found = [
                problem
                for agent in servers.kernels()
                for problem in _lacks(agent, options, needed_by, changes)
            ]
            return found + meter_lacks(machines_of(servers.agents, meters, name))
    except HeadraceError as error:
        remedy = error.hint or "install the same version of Headrace there"
        return [Problem(error.message, needed_by, _of_servers(remedy))]


def _of_servers(remedy: str) -> str:
    """Return a launcher's remedy with the fields of a target in place of those of `[run]`."""
    return remedy.replace("[run] on", "server_agents").replace("[run] python", "server_python")


def _lacks(agent: Agent, options: ServerOptions, needed_by: str, changes: bool) -> list[Problem]:
    found: list[Problem] = []
    if changes and not agent.can_drop_page_cache():
        without = "its trials that are cold or set the servers' disks are recorded as unsupported"
        what = f"{agent.name}: dropping caches and setting disks need root there"
        remedy = 'server_agents = "ssh://root@HOST", or cache = "as-is"'
        found.append(Problem(what, needed_by, remedy, fatal=False, without=without))
    if options.server_directory is not None:
        try:
            agent.devices(options.server_directory)
        except (HeadraceError, OSError) as error:
            what = f"{agent.name}: {describe(error)}"
            found.append(Problem(what, needed_by, "correct server_directory"))
    return found


# -- while jobs run --


@dataclass
class ServerWatch:
    """Samples the servers while the jobs of a trial run, and tells what happened to them."""

    servers: TargetServers
    interval_s: float
    samples: dict[str, Samples] = field(default_factory=dict[str, Samples])
    """By server."""
    _kinds: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    _started: list[Agent] = field(default_factory=list[Agent])
    _machines: list[MachineFacts] = field(default_factory=list[MachineFacts])
    _clocks: ClockWatch = field(default_factory=lambda: ClockWatch(()))

    def start(self, keep: Path) -> None:
        """Start the probes of each. Raises LauncherLostError for a server that is lost."""
        wanted = [kind for kind, part in probe_package.kinds().items() if part.default]
        self._machines = [agent.machine() for agent in self.servers.agents]
        self._clocks = ClockWatch(self.servers.agents)
        for agent in self.servers.kernels():
            lacking = agent.lacking_probes(wanted)
            chosen = tuple(kind for kind in wanted if kind not in lacking)
            self._kinds[agent.name] = chosen
            directory = self.servers.directory
            devices = () if directory is None else agent.devices(directory)
            interfaces = tuple(
                Interface(f"{agent.name} {name}", name) for name in agent.network_interfaces()
            )
            watch = Watch(devices, (), None, keep / agent.name, interfaces)
            self._started.append(agent)
            agent.start_probes(Sampling(chosen, self.interval_s, watch))

    def finish(self) -> None:
        """Stop the probes and keep their results. Never raises; can be called twice."""
        for agent in self._started:
            try:
                self.samples[agent.name] = agent.finish_probes()
            except Exception as error:
                failed = dict.fromkeys(self._kinds[agent.name], describe(error))
                self.samples[agent.name] = Samples(failed=failed)
        self._started.clear()

    def measure_clocks(self) -> None:
        """Measure the clocks again, after the jobs."""
        self._clocks.finish()

    def drifts(self) -> dict[str, ClockDrift]:
        """Return how the clocks drifted, by name of the server."""
        names = self.servers.names
        return {names[number]: drift for number, drift in self._clocks.drifts().items()}

    def put_into(self, found: TrialSamples, release_s: float) -> None:
        """Add the series, with the name of the server in each row, and what failed."""
        made: dict[str, SampleRows] = {}
        by_name = {agent.name: agent for agent in self.servers.agents}
        for name, samples in self.samples.items():
            later_s = by_name[name].clock.engine_s(samples.started_s) - release_s
            for kind, rows in samples.series.items():
                made.setdefault(SERIES + kind, []).extend(
                    {**row, "node": name, "time_s": row["time_s"] + later_s} for row in rows
                )
            for kind, error in samples.failed.items():
                found.failed[f"{kind} on {name}"] = error
        correct_series(made, self.drifts(), release_s)
        found.series |= made

    def totals(self) -> dict[str, dict[str, JsonObject]]:
        """Return the totals of each server by kind of probe."""
        return {
            name: {kind: each.values for kind, each in samples.totals.items()}
            for name, samples in self.samples.items()
        }

    def facts(self, release_s: float) -> tuple[NodeFacts, ...]:
        """Return what each server is and what happened to it, for the record."""
        return tuple(
            machine_of(number, agent, self._machines[number], self._clocks.clock(number), release_s)
            for number, agent in enumerate(self.servers.agents)
        )


def bytes_read(totals: Mapping[str, Mapping[str, JsonObject]]) -> int | None:
    """Return what the disks of all servers have read; None if that is not known of one."""
    found = [block["bytes_read"] for each in totals.values() if (block := each.get("block"))]
    return sum(map(int, found)) if found and len(found) == len(totals) else None
