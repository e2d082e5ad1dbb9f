"""Probes: sample the machine and the target while jobs run. Defines the interface.

Each kind is one module. A `Sampler` (`sampler.py`) on each kernel that runs jobs calls `sample` of
every probe from one thread at one interval; the rows are in `series/KIND.parquet`. `finish` returns
totals for the trial. The job ledger (`ledger.py`) is not a sampled probe: each slot reads it before
and after a job.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.registry import Plugins, parts
from headrace.system.network_interface import Interface

if TYPE_CHECKING:
    from headrace.errors import Problem
    from headrace.probes.options import ProbeOptions


@dataclass(frozen=True)
class Watch:
    """What a probe samples."""

    device_names: tuple[str, ...]
    """Kernel names of the block devices behind the target."""
    slot_pids: tuple[int, ...]
    directory: Path | None
    """The target's directory."""
    keep: Path
    """Directory whose files are kept in the record. On a machine that does not share the record's
    file system, the agent copies them there when sampling ends."""
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
    Options: ClassVar[type[ProbeOptions] | None] = None
    """Of a probe that a study names in `[probe.NAME]`: it is created with them (`services.py`)."""
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

    @classmethod
    def combine(cls, values: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
        """Return the totals of several nodes as one; `values`: those of each node, by its name.

        Nodes are those of different kernels. Totals that cannot be added up stay by node.
        """
        return dict(values)


def kinds() -> Plugins[Probe]:
    """Return every registered probe class by kind."""
    return parts("headrace.probes", Probe)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]


def service_kinds() -> dict[str, type[Probe]]:
    """Return the probe classes that a study names with options, by kind."""
    return {kind: part for kind, part in kinds().items() if part.Options is not None}
