"""Probes: sample the machine and the target while jobs run. Defines the interface.

Each kind is one module. The engine calls `sample` of every probe from one thread at one interval
and writes the rows to `series/KIND.parquet`; `finish` returns totals for the trial. The job ledger
(`ledger.py`) is no sampled probe: each slot reads it before and after a job.
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
    """What a probe samples."""

    device_names: tuple[str, ...]
    """Kernel names of the block devices behind the target."""
    slot_pids: tuple[int, ...]
    directory: Path | None
    """The target's directory."""
    keep: Path
    """Directory whose files are kept in the record."""
    interfaces: tuple[Interface, ...] = ()
    """Network interfaces that carry the target's data."""


@dataclass
class Totals:
    """A probe's result for the whole trial: JSON-compatible totals, and reasons why the trial is
    invalid."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    invalid: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """(code, sentence) pairs."""


class Probe(ABC):
    """One kind of measurement. A subclass is one module that defines `kind` and these methods."""

    kind: ClassVar[str]
    default: ClassVar[bool] = True
    """True if every trial runs it without a request in the study."""
    essential: ClassVar[bool] = True
    """True if a trial's validity or figures depend on it: a trial in which it failed is invalid."""

    def check(self) -> list[Problem]:
        """Return what this machine lacks for it."""
        return []

    @abstractmethod
    def start(self, watch: Watch) -> None:
        """Start; called just before the jobs are released."""

    @abstractmethod
    def sample(self) -> list[dict[str, Any]]:
        """Return the rows since the last call (most probes: one per device). The engine adds
        `time_s` since the release. Must be cheap: no process, hardly any allocation, well below 1
        ms."""

    @abstractmethod
    def finish(self) -> Totals:
        """Stop everything and return the totals; called after the last job ended."""


def kinds() -> dict[str, type[Probe]]:
    """Return every registered probe class by kind."""
    return parts("headrace.probes", Probe)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
