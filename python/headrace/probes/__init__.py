"""Probes: watch while jobs run, one file each. This file is the contract that all keep.

The engine calls `sample` of every probe from one thread at one interval and writes the rows to `series/KIND.parquet`;
`finish` gives totals for the trial. The job ledger (`ledger.py`) is read around each job instead, by its slot.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from headrace.errors import Problem
from headrace.registry import parts
from headrace.system.cluster import Interface


@dataclass(frozen=True)
class Watch:
    """What a probe is to watch."""

    device_names: tuple[str, ...]
    """Kernel names of the block devices behind the target."""
    slot_pids: tuple[int, ...]
    directory: Path | None
    """The target's directory."""
    keep: Path
    """A directory whose files are kept in the record."""
    interfaces: tuple[Interface, ...] = ()
    """Network interfaces that carry the target's data."""


@dataclass
class Totals:
    """What a probe says of the whole trial: JSON-able totals, and reasons why the trial cannot be trusted."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    invalid: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """(code, sentence)."""


class Probe(ABC):
    """One way to watch. A subclass is one file: `kind` and these methods."""

    kind: ClassVar[str]
    default: ClassVar[bool] = True
    """True when every trial has it without being asked."""

    def check(self) -> list[Problem]:
        """What this machine lacks for it."""
        return []

    @abstractmethod
    def start(self, watch: Watch) -> None:
        """Called just before the jobs are released."""

    @abstractmethod
    def sample(self) -> list[dict[str, Any]]:
        """Rows since the last call (most probes: one a device). The engine adds `time_s` since the release. Cheap: no process,
        no allocation worth the name, well below a millisecond."""

    @abstractmethod
    def finish(self) -> Totals:
        """Called when the last job is done. Stops whatever was started."""


def kinds() -> dict[str, type[Probe]]:
    """Every registered probe by kind."""
    return parts("headrace.probes", Probe)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
