"""An attached emulated drive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError, RefusedError
from headrace.scenario import DriveFaultSpec
from headrace.system import signatures
from headrace.system.emulator.control import ask
from headrace.system.emulator.report import Report
from headrace.system.identity import is_alive
from headrace.system.journal import Journal, JournalEntry
from headrace.system.waiting import wait_until


@dataclass(frozen=True)
class EmulatedDevice:
    """A block device, the process behind it, and the journal entries that undo them."""

    device: Path
    """Its device file."""
    name: str
    """Kernel name, such as `loop3`."""
    entries: list[JournalEntry]
    """Oldest first. Undoing them in reverse order removes the device completely."""
    control: Path
    pid: int
    start_ticks: int
    size_bytes: int
    floor_ns: int
    """Time of a 4 KiB request outside the drive; subtracted."""
    memory_bytes: int
    """Maximum use of the machine's memory."""
    data_limit_bytes: int
    """Maximum data; writes beyond it fail and are counted in `Report.full`."""
    journal: Journal

    def report(self) -> Report:
        """Return statistics since the last `reset_report`.

        Raises NoAnswerError when its process is gone.
        """
        return Report.of(ask(self.control, "report"))

    def reset_report(self) -> None:
        """Reset the statistics at the start of a trial, except those of faults."""
        ask(self.control, "reset")

    def inject(self, fault: DriveFaultSpec) -> int:
        """Inject a fault (`FaultSpec` of crates/model) and return its number.

        `from_s` and `until_s` count from now; the number is the index in `Report.faults_fired`. A
        stall or spike must be shorter than the kernel's timeout of the device (10 s). Raises
        HeadraceError that names the invalid field.
        """
        return int(ask(self.control, "inject", fault=fault)["fault"])

    def lift(self, fault: int) -> int:
        """End a fault now; return how often it took effect."""
        return int(ask(self.control, "lift", fault=fault)["fired"])

    def power_loss(self, off_s: float | None = None) -> int:
        """Cut the power now; return the fault's number.

        Acknowledged data that is not on stable storage is lost, writes in flight are torn at a
        sector boundary, and every request fails until the power returns, after `off_s` seconds or
        by `lift`.
        """
        fault: DriveFaultSpec = {"fault": {"kind": "power_loss"}, "from_s": 0.0}
        if off_s is not None:
            fault["until_s"] = off_s
        return self.inject(fault)

    @property
    def alive(self) -> bool:
        """Whether its process exists."""
        return is_alive(self.pid, self.start_ticks)

    def detach(self, patience_s: float = 8.0) -> None:
        """Remove the device with its data. Safe to call twice.

        Raises RefusedError while it is in use, HeadraceError when something of it is left
        (`headrace undo` then retries).
        """
        users: list[str] = []

        def free() -> bool:
            users[:] = signatures.holders(self.device) if self.alive else []
            return users != [signatures.ANOTHER_PROGRAM]

        # What looks at devices in passing (udev, blkid, a mount namespace about to end) is waited
        # for; a mount or swap space stays and is told at once.
        wait_until(free, patience_s, 0.05)
        if users:
            raise RefusedError(
                f"{self.device} is in use: {'; '.join(users)}", hint="unmount it and try again"
            )
        self.undo(patience_s)

    def undo(self, patience_s: float = 8.0) -> None:
        """Remove the device as `detach` does, even while it is in use."""
        failed: list[str] = []
        for entry in reversed(self.entries):
            if entry.action == "end_process":
                # Without the loop device its file is unused, and the process ends by itself.
                wait_until(lambda: not self.alive, patience_s, 0.005)
            result = self.journal.undo(entry)
            if not result.done:
                failed.append(result.text)
        if failed:
            raise HeadraceError(f"{self.device} could not be detached: {'; '.join(failed)}")
