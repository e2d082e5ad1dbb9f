"""The power meters of a trial, read while its jobs run: here, and by the agents of its nodes.

A meter that reads the machine on which it runs (`Meter.in_band`) is read on every node that is
another machine; all others are read here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace import meters as meter_package
from headrace.engine.live import PowerLive
from headrace.engine.measure.clock_drift import ClockDrift
from headrace.engine.measure.cpu_load import CpuLoad
from headrace.errors import HeadraceError, Problem, describe
from headrace.launchers import Agent
from headrace.meters import Meter, MeterWindow
from headrace.meters.node_meters import MeterOfNode
from headrace.meters.sampling import (
    FIRST_READING_S,
    LAST_READING_S,
    NO_ANSWER,
    ChannelResult,
    MeterLog,
    MeterSampler,
    PowerRow,
    results_of,
)
from headrace.records.energy import ChannelEnergy
from headrace.study.model import NamedPlugin
from headrace.system.identity import boot_id
from headrace.system.waiting import remaining

_OF_NODES = frozenset({None, "device", "socket", "node"})
"""What an in-band meter covers (`covers`) if it is a meter of nodes."""


def meter_of(part: NamedPlugin) -> Meter:
    """Return a meter of a study; nothing is opened."""
    return meter_package.kinds()[part.kind](part.name, part.options)


def meter_problems(parts: Collection[NamedPlugin]) -> list[Problem]:
    """Return what is missing here to read these meters."""
    return [problem for part in parts for problem in meter_of(part).check()]


def read_on_nodes(parts: Mapping[str, NamedPlugin]) -> dict[str, NamedPlugin]:
    """Return the meters that each node has for itself."""
    return {
        name: part
        for name, part in parts.items()
        if part.options.covers in _OF_NODES and meter_of(part).in_band()
    }


def read_on_servers(parts: Mapping[str, NamedPlugin]) -> dict[str, NamedPlugin]:
    """Return the meters that each server with an agent has for itself."""
    return {
        name: part
        for name, part in parts.items()
        if part.options.covers == "server" and meter_of(part).in_band()
    }


def as_data(part: NamedPlugin) -> MeterOfNode:
    """Return a meter in the form that an agent receives."""
    options = part.options.model_dump(mode="json", exclude_unset=True)
    return MeterOfNode(part.kind, part.name, options)


@dataclass
class MeteredMachine:
    """Another machine whose meters its agent reads."""

    agent: Agent
    of: tuple[str, ...]
    """Names of the nodes, or servers, that it is."""
    parts: tuple[NamedPlugin, ...]
    error: str | None = None
    """Why its agent gives nothing."""
    logs: list[MeterLog] = field(default_factory=list[MeterLog])

    def ask(self, call: Callable[[], object]) -> None:
        """Call its agent, unless that has failed before."""
        if self.error is None:
            try:
                call()
            except (HeadraceError, OSError) as error:
                self.error = describe(error)

    def take_logs(self) -> None:
        """End the readings, and convert their times by the clock as it was before the jobs."""
        found = self.agent.meters.logs(LAST_READING_S)
        self.logs = [log.converted(self.agent.clock.engine_s) for log in found]

    def correct(self, drift: ClockDrift) -> None:
        """Correct the times of the readings by how the clock drifted while jobs ran."""
        self.logs = [log.converted(drift.corrected) for log in self.logs]


def machines_of(
    agents: Sequence[Agent], parts: Mapping[str, NamedPlugin], target: str = ""
) -> list[MeteredMachine]:
    """Return the machines on which these meters are read: nodes of one kernel are one machine.

    `target`: for servers, the name that stands for all of them.
    """
    by_kernel: dict[str, list[Agent]] = {}
    for agent in agents:
        by_kernel.setdefault(agent.kernel, []).append(agent)
    found: list[MeteredMachine] = []
    for each in by_kernel.values():
        names = tuple(agent.name for agent in each)
        known = {*names, target}
        wanted = tuple(
            part
            for part in parts.values()
            if part.options.covers == "device" or not part.options.of or {*part.options.of} & known
        )
        if wanted:
            found.append(MeteredMachine(each[0], names, wanted))
    return found


class Metering:
    """The meters of one trial, read from just before the release to the end of its jobs."""

    def __init__(
        self,
        parts: Mapping[str, NamedPlugin],
        nodes: Sequence[Agent] = (),
        servers: Sequence[Agent] = (),
        target: str = "",
    ) -> None:
        """`nodes` and `servers` (of `target`): agents that read the meters of their own machines;
        if none, all are read here."""
        of_nodes = read_on_nodes(parts) if nodes else {}
        of_servers = read_on_servers(parts) if servers else {}
        there = {**of_nodes, **of_servers}
        self.parts = parts
        self.rows: list[PowerRow] = []
        """The series of watts, after `finish`."""
        self._machines = [
            *machines_of(nodes, of_nodes),
            *machines_of(servers, of_servers, target),
        ]
        self._node_kernels = {each.agent.kernel for each in machines_of(nodes, of_nodes)}
        """Machines whose meters count as those of nodes."""
        if not nodes and read_on_nodes(parts):
            self._node_kernels = {boot_id()}
        here = {name: meter_of(part) for name, part in parts.items() if name not in there}
        self._sampler = MeterSampler(here)
        self._load = None if all(meter.live for meter in here.values()) else CpuLoad()
        """For meters whose readings are aligned with the trial afterwards."""
        self._idle: tuple[float, float] | None = None
        self._running = False

    def start(self) -> None:
        """Start to read, and measure idle power if a meter asks for it."""
        if not self.parts:
            return
        self._running = True
        if self._load is not None:
            self._load.start()
        for each in self._machines:
            meters = [as_data(part) for part in each.parts]
            each.ask(lambda each=each, meters=meters: each.agent.meters.begin(meters))
        self._sampler.start()
        for each, left_s in zip(self._machines, remaining(FIRST_READING_S), strict=False):
            each.ask(lambda each=each, left_s=left_s: each.agent.meters.wait(left_s))
        idle_s = max(part.options.idle for part in self.parts.values())
        if idle_s > 0:
            begin_s = time.monotonic()
            time.sleep(idle_s)
            self._idle = (begin_s, time.monotonic())

    def stop(self) -> None:
        """Take the last readings and end the threads. Can be called twice."""
        if not self._running:
            return
        self._running = False
        if self._load is not None:
            self._load.stop()
        for each in self._machines:
            each.ask(each.agent.meters.end)
        self._sampler.stop()
        for each in self._machines:
            each.ask(each.take_logs)

    def live(self) -> tuple[PowerLive, ...]:
        """Return the last reading of each channel of the meters that are read while jobs run."""
        return (
            *(
                PowerLive(name, channel.name, channel.boundary, channel.of, power_w)
                for name, channel, power_w in self._sampler.latest()
            ),
            *(power for each in self._machines for power in _live_on(each)),
        )

    def finish(
        self, release_s: float, duration_s: float, drifts: Mapping[str, ClockDrift]
    ) -> tuple[list[ChannelEnergy], dict[str, str]]:
        """Return the energy of each channel, and the meters that failed.

        `drifts`: of the clocks of nodes and servers, by name.
        """
        if not self.parts:
            return [], {}
        for each in self._machines:
            if (drift := drifts.get(each.agent.name)) is not None:
                each.correct(drift)
        load = () if self._load is None else self._load.periods
        window = MeterWindow(release_s, release_s + duration_s, load)
        results, self.rows = self._sampler.results(window, self._idle)
        failed = dict(self._sampler.failed)
        found = [channel_energy(result) for result in results]
        for each in self._machines:
            found += self._of_machine(each, window, failed)
        if self._machines:
            for row in self.rows:
                row.setdefault("node", "")
        return [_whole(each, failed) for each in found], failed

    def _of_machine(
        self, machine: MeteredMachine, window: MeterWindow, failed: dict[str, str]
    ) -> Iterator[ChannelEnergy]:
        """Return the energy of the channels that were read on a machine; add to `failed`."""
        logs = {log.meter: log for log in machine.logs}
        for part in machine.parts:
            log = logs.get(part.name)
            if log is None or not log.channels:
                why = machine.error or (NO_ANSWER if log is None else log.error or NO_ANSWER)
                failed[f"{part.name} on {machine.agent.name}"] = why
                continue
            results, rows = results_of(log, part.kind, window, self._idle)
            for row in rows:
                row["node"] = machine.agent.name
            self.rows += rows
            for result in results:
                made = channel_energy(_on(machine, result))
                yield counted_once(made, machine.agent.kernel, self._node_kernels)


def _live_on(machine: MeteredMachine) -> list[PowerLive]:
    if machine.error is not None:
        return []
    with contextlib.suppress(HeadraceError, OSError):  # shown only
        return [
            PowerLive(
                each.meter, each.channel.name, each.channel.boundary, machine.of, each.power_w
            )
            for each in machine.agent.meters.now()
        ]
    return []


def _on(machine: MeteredMachine, result: ChannelResult) -> ChannelResult:
    """Return a result with its node. A device keeps its names (`drives`): these are no nodes."""
    channel = result.channel
    if channel.boundary != "device":
        channel = replace(channel, of=machine.of)
    return replace(result, channel=channel, node=machine.agent.name)


def counted_once(
    channel: ChannelEnergy, kernel: str, node_kernels: Collection[str]
) -> ChannelEnergy:
    """Return a server's channel, not usable if its machine is metered as a node as well."""
    if channel.boundary != "server" or kernel not in node_kernels:
        return channel
    why = "its machine also runs jobs and has a meter as a node: it would count twice"
    return replace(channel, usable=False, reasons=(*channel.reasons, why))


def _whole(channel: ChannelEnergy, failed: Collection[str]) -> ChannelEnergy:
    """Return a channel that is not usable if it is of the drives of some nodes only."""
    missing = [name for name in failed if name.startswith(f"{channel.meter} on ")]
    if channel.boundary != "device" or not channel.node or not missing:
        return channel
    return replace(channel, usable=False, reasons=(*channel.reasons, f"missing: {missing[0]}"))


def channel_energy(result: ChannelResult) -> ChannelEnergy:
    """Return the result of a channel as the record states it."""
    channel, made = result.channel, result.integral
    return ChannelEnergy(
        meter=result.meter,
        kind=result.kind,
        node=result.node,
        channel=channel.name,
        boundary=channel.boundary,
        of=channel.of,
        within=channel.within,
        energy_j=made.energy_j,
        mean_power_w=made.mean_power_w,
        idle_power_w=None if result.idle is None else result.idle.mean_power_w,
        uncertainty_j=made.uncertainty_j,
        accuracy=channel.accuracy,
        accuracy_source=channel.accuracy_source,
        interval_s=channel.interval_s,
        samples=made.samples,
        lost=made.lost,
        gaps=made.gaps,
        wraps=made.wraps,
        negatives=made.negatives,
        implausible=made.implausible,
        repeats=made.repeats,
        clock_jumps=made.clock_jumps,
        unmeasured_s=made.unmeasured_s,
        usable=made.usable,
        reasons=made.reasons,
        notes=result.notes,
    )
