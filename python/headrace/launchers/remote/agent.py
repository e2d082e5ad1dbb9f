"""The agent in a node process, as the engine sees it: every method is a call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from typing_extensions import override

from headrace.launchers import Agent, AgentEvent, Clock, LauncherLostError
from headrace.launchers.remote.connection import NodeConnection
from headrace.launchers.remote.meters import RemoteNodeMeters
from headrace.launchers.remote.node_process import NodeService
from headrace.launchers.remote.storage import RemoteNodeStorage
from headrace.probes.sampler import Samples, Sampling
from headrace.system.accounting import UseSoFar
from headrace.system.identity import boot_id
from headrace.system.machine_facts import MachineFacts
from headrace.system.machine_use import MachineUse, Own
from headrace.system.storage_settings import AppliedSetting, SettingValue


class RemoteAgent(Agent):
    """A node process as an agent. Raises LauncherLostError when the node is lost."""

    has_own_mounts = True

    def __init__(self, connection: NodeConnection) -> None:
        self.connection = connection
        self._storage = RemoteNodeStorage(connection)
        self._meters = RemoteNodeMeters(connection)
        self.name = connection.name
        self.kernel = connection.hello.kernel
        self._other_load = 0.0
        self.words_of_end: Callable[[], str] | None = None
        """Asks what can be said of the end of a lost node, beyond that its connection ended."""
        self.renew_clock()

    def renew(self, there: RemoteAgent) -> None:
        """Become the agent of the process that now runs on the node."""
        self.kernel, self.clock = there.kernel, there.clock

    @property
    @override
    def is_lost(self) -> bool:
        return self.connection.lost is not None

    @property
    @override
    def storage(self) -> RemoteNodeStorage:
        return self._storage

    @property
    @override
    def meters(self) -> RemoteNodeMeters:
        return self._meters

    @override
    def take_events(self) -> list[AgentEvent]:
        found = [*self.connection.history]
        self.connection.history.clear()
        ask = self.words_of_end
        if ask is None:
            return found
        return [
            replace(event, cause=f"{event.cause}; {ask()}") if event.what == "lost" else event
            for event in found
        ]

    @override
    def measure_clock(self) -> Clock:
        found = self.connection.clock()
        # One kernel has one monotonic clock: an offset between two of its processes is noise.
        same = self.connection.hello.kernel == boot_id()
        return Clock() if same and abs(found.offset_s) <= found.uncertainty_s else found

    @override
    def renew_clock(self) -> None:
        super().renew_clock()
        self.connection.call(NodeService.set_offset, self.clock.offset_s)

    @override
    def machine(self) -> MachineFacts:
        return self.connection.hello.machine

    @override
    def adopt(self, pid: int) -> None:
        self.connection.call(Agent.adopt, pid)

    @override
    def limit_memory(self, size: int, each: bool) -> None:
        self.connection.call(Agent.limit_memory, size, each)

    @override
    def lift_memory_limit(self) -> None:
        # A lost node ends its process, whose journal has this to undo.
        with contextlib.suppress(LauncherLostError):
            self.connection.call(Agent.lift_memory_limit)

    @override
    def has_file(self, path: str, content: str) -> bool:
        return self.connection.call(Agent.has_file, path, content)

    @override
    def out_of_memory(self) -> int:
        return self.connection.call(Agent.out_of_memory)

    @override
    def page_cache_drops(self) -> int | None:
        return self.connection.call(Agent.page_cache_drops)

    @override
    def prepare_cache(self, wanted: str, files: Sequence[str], own_device: bool) -> int | None:
        return self.connection.call(Agent.prepare_cache, wanted, files, own_device)

    @override
    def read_urls(self, urls: Sequence[str], environment: Mapping[str, str]) -> None:
        self.connection.call(Agent.read_urls, urls, dict(environment))

    @override
    def can_drop_page_cache(self) -> bool:
        return self.connection.call(Agent.can_drop_page_cache)

    @override
    def drop_page_cache(self) -> None:
        self.connection.call(Agent.drop_page_cache)

    @override
    def network_interfaces(self) -> tuple[str, ...]:
        return self.connection.call(Agent.network_interfaces)

    @override
    def devices(self, directory: str) -> tuple[str, ...]:
        return self.connection.call(Agent.devices, directory)

    @override
    def process_use(self, pids: Sequence[int]) -> dict[int, UseSoFar]:
        return self.connection.glance(Agent.process_use, pids) or {}

    @override
    def lacking_probes(self, kinds: Sequence[str]) -> dict[str, str]:
        return self.connection.call(Agent.lacking_probes, kinds)

    @override
    def start_probes(self, sampling: Sampling) -> None:
        self.connection.call(Agent.start_probes, sampling)

    @override
    def finish_probes(self) -> Samples:
        return self.connection.call(Agent.finish_probes)

    @override
    def watch_load(self, own: Own) -> int:
        self.connection.forget(Agent.other_load)
        self._other_load = 0.0
        return self.connection.call(Agent.watch_load, own)

    @override
    def other_load(self) -> float:
        found = self.connection.glance(Agent.other_load)
        self._other_load = self._other_load if found is None else found
        return self._other_load

    @override
    def finish_load(self, own: Own) -> MachineUse:
        return self.connection.call(Agent.finish_load, own)

    @override
    def read_settings(self, directory: str) -> dict[str, SettingValue]:
        return self.connection.call(Agent.read_settings, directory)

    @override
    def apply_settings(
        self, directory: str, wanted: Mapping[str, str | int]
    ) -> tuple[AppliedSetting, ...]:
        return self.connection.call(Agent.apply_settings, directory, wanted)

    @override
    def restore_settings(self, directory: str) -> None:
        with contextlib.suppress(LauncherLostError):  # as above
            self.connection.call(Agent.restore_settings, directory)
