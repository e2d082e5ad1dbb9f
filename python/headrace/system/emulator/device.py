"""An emulated drive that is attached."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, RefusedError
from headrace.system import signatures
from headrace.system.emulator.control import ask
from headrace.system.emulator.report import Report
from headrace.system.identity import is_alive
from headrace.system.journal import Entry, Journal


@dataclass(frozen=True)
class EmulatedDevice:
    """A block device, the process behind it, and the journal's entries that would undo them."""

    device: Path
    """Its device file."""
    name: str
    """Kernel name, such as `loop3`."""
    entries: list[Entry]
    """Oldest first. Undone in reverse order they leave nothing."""
    control: Path
    pid: int
    start_ticks: int
    size_bytes: int
    floor_ns: int
    """What a 4 KiB request takes besides the drive; subtracted."""
    memory_bytes: int
    """What it takes of the machine's memory at most."""
    data_limit_bytes: int
    """What it holds of data at most; a write beyond fails, and is counted in `Report.full`."""
    journal: Journal

    def report(self) -> Report:
        """What it did and how late, since the last `reset_report`. Raises NoAnswerError when its process is gone."""
        return Report.of(ask(self.control, "report"))

    def reset_report(self) -> None:
        """Counts anew: at the start of a trial. Faults go on counting."""
        ask(self.control, "reset")

    def inject(self, fault: dict[str, Any]) -> int:
        """Injects a fault (`FaultSpec` of crates/model), its `from_s` and `until_s` counted from now; returns its number,
        which is its place in `Report.faults_fired`. Raises HeadraceError naming the field that cannot be.

        A stall or spike must be shorter than the kernel's patience with the device (10 s).
        """
        return int(ask(self.control, "inject", fault=fault)["fault"])

    def lift(self, fault: int) -> int:
        """Ends a fault now; returns how often it took effect."""
        return int(ask(self.control, "lift", fault=fault)["fired"])

    def power_loss(self, off_s: float | None = None) -> int:
        """Cuts the power now: what is acknowledged and not on stable storage is lost, writes under way are torn at some
        sector, every request fails until the power is back, after `off_s` seconds or by `lift` of the returned number."""
        until = {} if off_s is None else {"until_s": off_s}
        return self.inject({"fault": {"kind": "power_loss"}, **until})

    @property
    def alive(self) -> bool:
        """Whether its process is there."""
        return is_alive(self.pid, self.start_ticks)

    def detach(self, patience_s: float = 8.0) -> None:
        """Takes the device away with all that lies on it. Raises RefusedError while someone uses it, HeadraceError when
        something of it stays (`headrace undo` then tries again). Safe to call twice."""
        if self.alive and (users := signatures.holders(self.device)):
            raise RefusedError(
                f"{self.device} is in use: {'; '.join(users)}", hint="unmount it and try again"
            )
        self.undo(patience_s)

    def undo(self, patience_s: float = 8.0) -> None:
        """As `detach`, whoever uses it."""
        failed: list[str] = []
        for entry in reversed(self.entries):
            if entry.action == "end_process":
                # Without the loop device nobody holds its file: it ends by itself.
                deadline = time.monotonic() + patience_s
                while self.alive and time.monotonic() < deadline:
                    time.sleep(0.005)
            result = self.journal.undo(entry)
            if not result.done:
                failed.append(result.text)
        if failed:
            raise HeadraceError(f"{self.device} could not be detached: {'; '.join(failed)}")
