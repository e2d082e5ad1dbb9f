"""Faults: scheduled, counted misbehaviour, one file each. This file is the contract that all keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from headrace.errors import Problem
from headrace.registry import parts
from headrace.system.journal import Journal
from headrace.targets import Location
from headrace.units import Seconds


class FaultOptions(BaseModel):
    """Base of every fault's options: the fields of a `[[fault]]`. `what` names the kind."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    what: str = Field(description="the kind of fault")
    name: str | None = Field(
        None, description="name of it among the levels of the factor `fault`; its kind when not given"
    )
    target: str | None = Field(None, description="the target that it strikes; all when not given")
    at: Seconds = Field(0.0, description="time after the release of the jobs")
    duration: Seconds | None = Field(
        None, description="how long it lasts; to the end of the trial when not given"
    )

    @property
    def label(self) -> str:
        """Its level in the factor `fault`, and its name in the record."""
        return self.name or self.what


@dataclass(frozen=True)
class ModelledFault:
    """A fault as a scenario takes it (crates/simulator); exactly one of the two is given."""

    drive: dict[str, Any] | None = None
    """For every volume of the target (`storage.faults`, the model's `FaultSpec`)."""
    host: dict[str, Any] | None = None
    """For the hosts of the target's servers (`what` of the scenario's `FaultSpec`)."""


class InjectedFault(ABC):
    """One kind of fault. A subclass is one file: `kind`, `Options`, and these methods."""

    kind: ClassVar[str]
    Options: ClassVar[type[FaultOptions]]
    spoils: ClassVar[bool] = False
    """Whether the target may be no good afterwards, so that it comes to be anew before the next trial."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.fired = 0
        """How many times it took effect; a scheduled fault that never fired makes the trial invalid."""
        self.seen: dict[str, Any] = {}
        """What the fault itself found out, for the record. The report knows `stall_s`, `recovered_s` (after the fault's
        end), `lost_writes` of `acknowledged_writes`, and `lost_bytes`."""

    @abstractmethod
    def check(self) -> list[Problem]:
        """What this machine lacks for it."""

    def check_on(self, target: str, options: Any) -> list[Problem]:
        """Why it cannot strike this target, by the target's options; nothing when it can."""
        return []

    def model(self) -> ModelledFault | None:
        """The same in virtual time; None when it has no model."""
        return None

    def begin(self, location: Location, journal: Journal) -> None:
        """At the release of the jobs, before it strikes: to watch from outside what it does."""

    def end(self, location: Location, journal: Journal) -> None:
        """When all jobs are done and it is lifted: to look what is left. Fills `seen`."""

    @abstractmethod
    def strike(self, location: Location, journal: Journal) -> None:
        """Takes effect on the prepared target."""

    @abstractmethod
    def lift(self) -> None:
        """Ends it. Safe to call twice."""


def kinds() -> dict[str, type[InjectedFault]]:
    """Every registered fault by kind."""
    return parts("headrace.faults", InjectedFault)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
