"""Targets: emulated drives as the medium of a measured target.

Catalog drive (RAID by the model) -> one emulated device; RAID by the kernel -> one emulated device
per drive.
"""

from __future__ import annotations

import itertools
import zlib
from typing import TYPE_CHECKING, Any

from headrace.catalog import entry
from headrace.errors import HeadraceError, Problem
from headrace.scenario import StorageSpec
from headrace.system.emulator import EmulatedDevice, attach, cannot_emulate, limits, refusal
from headrace.system.emulator.limits import memory_bytes
from headrace.system.owned import make_directories
from headrace.targets import TargetContext
from headrace.targets.scenario import storage as modelled
from headrace.units import format_bytes

if TYPE_CHECKING:
    from headrace.system.journal import JournalEntry

_NUMBERS = itertools.count()
SIZE_BYTES = 2 << 30
"""Size of an emulated device if none is given."""


class EmulatedMedium:
    """The emulated devices of one target. `options` are those of a target with `drive`, `raid`,
    `size`, `memory`."""

    def __init__(self, target: str, options: Any) -> None:
        self._target = target
        self._options = options
        self.devices: tuple[EmulatedDevice, ...] = ()
        self._entries: list[JournalEntry] = []

    @property
    def by_kernel(self) -> bool:
        """True if the kernel assembles the RAID."""
        return self._options.raid is not None and self._options.raid.by == "kernel"

    @property
    def size_bytes(self) -> int:
        """Total size, as the study requests it."""
        return self._options.size or SIZE_BYTES

    def storages(self) -> list[StorageSpec]:
        """Return the timing model of each device (crates/model, `StorageSpec`). Raises StudyError
        for an unknown drive."""
        drive = entry("drives", self._options.drive).table
        raid = self._options.raid
        if self.by_kernel:
            return [modelled(drive)] * raid.drives
        return [modelled(drive, raid)]

    def device_sizes(self) -> list[int]:
        """Return the size of each device, in bytes, so that the whole has `size_bytes`."""
        if not self.by_kernel:
            return [self.size_bytes]
        raid = self._options.raid
        shares = {0: 1, 1: raid.drives, 10: 2}[raid.level]
        each = self.size_bytes * shares // raid.drives
        return [each - each % (1 << 20)] * raid.drives

    def data_limits(self) -> list[int]:
        """Return the most data that each device keeps in memory, in bytes."""
        sizes = self.device_sizes()
        if self._options.memory is None:
            return sizes
        return [min(size, self._options.memory * size // sum(sizes)) for size in sizes]

    def memory_bytes(self) -> int:
        """Return the most memory that all devices take."""
        parts = zip(self.storages(), self.data_limits(), strict=True)
        return sum(memory_bytes(storage, limit) for storage, limit in parts)

    def capacity_bytes(self) -> int:
        """Return the capacity of the modelled drives."""
        return _capacity(self.storages()[0]) * len(self.storages())

    def problems(self) -> list[Problem]:
        """Return what this machine lacks for the emulation, and which requests the drive cannot
        meet."""
        needed_by = f"target {self._target}"
        without = "headrace simulate takes it in virtual time, with no such need"
        if found := cannot_emulate(needed_by):
            return found
        first = self.storages()[0]
        if (reason := refusal(first)) is not None:
            return [
                Problem(
                    reason,
                    needed_by,
                    "name a slower drive, or simulate the study",
                    without="headrace simulate",
                )
            ]
        room, needs = limits().data_bytes, sum(self.data_limits())
        if needs > room:
            what = (
                f"an emulated drive that holds {format_bytes(needs)} is kept in memory, and only "
                f"{format_bytes(room)} can be taken"
            )
            remedy = (
                'give a smaller size (size = "1 GiB"), or let it hold less than its size '
                f'(memory = "{_round(room // 2)}")'
            )
            return [Problem(what, needed_by, remedy, without=without)]
        if (size := max(self.device_sizes())) > (capacity := _capacity(first)):
            what = (
                f"size = {format_bytes(size)}, and {self._options.drive} holds "
                f"{format_bytes(capacity)}"
            )
            return [Problem(what, needed_by, "give a smaller size")]
        return []

    def attach(self, context: TargetContext) -> tuple[EmulatedDevice, ...]:
        """Attach the devices. Raises HeadraceError; `release` removes those that were attached
        before."""
        for number, (storage, size, limit) in enumerate(
            zip(self.storages(), self.device_sizes(), self.data_limits(), strict=True)
        ):
            folder = context.work_dir.resolve() / f"d{next(_NUMBERS)}"
            self._entries.extend(make_directories(context.journal, folder))
            seed = zlib.crc32(f"{self._target}/{number}".encode())
            made = attach(context.journal, storage, size, folder, seed=seed, data_limit_bytes=limit)
            self.devices = (*self.devices, made)
        return self.devices

    def release(self, context: TargetContext) -> None:
        """Detach every device. Safe to call twice. Raises HeadraceError that names what could not
        be detached; a second call retries it."""
        left: list[EmulatedDevice] = []
        failed: list[str] = []
        for device in reversed(self.devices):
            try:
                device.undo()
            except HeadraceError as error:
                left.insert(0, device)
                failed.append(error.message)
        self.devices = tuple(left)
        try:
            context.journal.put_back(self._entries)
        except HeadraceError as error:
            failed.append(error.message)
        if failed:
            raise HeadraceError("; ".join(failed), hint="headrace undo")

    def description(self) -> dict[str, object]:
        """Return facts for the record: what is emulated, and the limits of the emulation."""
        raid = self._options.raid
        return {
            "medium": f"emulated {self._options.drive}",
            "drive": self._options.drive,
            "raid": raid,
            "emulated_size_bytes": self.size_bytes,
            "emulator_memory_bytes": self.memory_bytes(),
            "emulator_floor_ns": [device.floor_ns for device in self.devices],
        }


def _capacity(storage: StorageSpec) -> int:
    one = int(storage["drives"][0]["capacity_bytes"])
    raid = storage.get("raid")
    if raid is None:
        return one
    data = {
        0: raid["drives"],
        1: 1,
        5: raid["drives"] - 1,
        6: raid["drives"] - 2,
        10: raid["drives"] // 2,
    }
    return one * data[raid["level"]]


def _round(size: int) -> str:
    return f"{max(1, size >> 30)} GiB" if size >= 1 << 30 else f"{max(1, size >> 20)} MiB"
