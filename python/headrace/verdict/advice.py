"""What would change it: the recorded program, simulated on the present and on other storage."""

from __future__ import annotations

from dataclasses import dataclass

TRUSTED = 0.15
"""A simulation of the present storage that is further off gives no advice."""
STORAGE_MODEL_ERROR = 0.2
"""Error of the time on a drive of the catalog: assumption, between the medians of docs/profiles.md
for disks (11 %) and SSDs (36 %, most of it CPU time)."""
SYNC_MODEL_ERROR = 1.0
"""The same of syncs on a drive of the catalog: assumption. Its flush is modelled as the programming
of what is in its buffer, and has not been compared with drives."""


@dataclass(frozen=True)
class SimulatedChange:
    """One alternative."""

    name: str
    seconds: float
    model_error: float = STORAGE_MODEL_ERROR
    """Of the time that is spent on its storage."""


@dataclass(frozen=True)
class Advice:
    """Simulated times of the program; none of alternatives if the present is not reproduced."""

    measured_s: float
    present_s: float
    at_once_s: float
    """On storage that answers at once."""
    wait_cpu_s: float = 0.0
    """Of `measured_s`: waited for a CPU. It is in all simulated times as it was."""
    changes: tuple[SimulatedChange, ...] = ()
    own_reads: int = 0

    @property
    def error(self) -> float:
        """Return how far the simulation of the present storage is off, as a fraction."""
        return self.present_s / self.measured_s - 1

    @property
    def trusted(self) -> bool:
        """Return whether the present storage is reproduced."""
        return abs(self.error) <= TRUSTED

    def saved(self, change: SimulatedChange) -> float:
        """Return the part of the time that a change saves; negative if it costs time."""
        return 1 - change.seconds / self.present_s

    def uncertainty(self, change: SimulatedChange) -> float:
        """Return how far the saved part may be off: by the error of the present simulation, by that
        of the time that is still spent on storage, and by the time that it waited for CPUs, which
        another run does not wait again."""
        waits_s = change.model_error * max(0.0, change.seconds - self.at_once_s)
        return abs(self.error) + (waits_s + self.wait_cpu_s) / self.present_s
