"""Faults: scheduled, counted failures, one module per kind. Defines the interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from headrace.registry import Plugins, parts
from headrace.units import Seconds

if TYPE_CHECKING:
    from headrace.errors import Problem
    from headrace.scenario import DriveFaultSpec
    from headrace.system.journal import Journal
    from headrace.targets import Location


class FaultOptions(BaseModel):
    """Base of every fault's options: the fields of a `[[fault]]`. `what` names the kind."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    what: str = Field(description="the kind of fault")
    name: str | None = Field(
        None,
        description="name of it among the levels of the factor `fault`; its kind when not given",
    )
    target: str | None = Field(None, description="the target that it affects; all when not given")
    at: Seconds = Field(0.0, description="time after the release of the jobs")
    duration: Seconds | None = Field(
        None, description="how long it lasts; to the end of the trial when not given"
    )

    @property
    def label(self) -> str:
        """Its level of the factor `fault` and its name in the record."""
        return self.name or self.what


@dataclass(frozen=True)
class ModelledFault:
    """A fault as input of a scenario (crates/simulator); exactly one of the two fields is set."""

    drive: DriveFaultSpec | None = None
    """For every volume of the target (`storage.faults`, the model's `FaultSpec`)."""
    host: Mapping[str, object] | None = None
    """For the hosts of the target's servers (`what` of the scenario's `FaultSpec`)."""


class InjectedFault(ABC):
    """One kind of fault. A subclass is one module that defines `kind`, `Options` and these
    methods."""

    kind: ClassVar[str]
    Options: ClassVar[type[FaultOptions]]
    spoils: ClassVar[bool] = False
    """True if the target may be unusable afterwards: it is then set up again before the next
    trial."""

    def __init__(self, options: Any) -> None:
        self.options = options
        self.fired = 0
        """How many times it took effect; a scheduled fault that never fired makes the trial
        invalid."""
        self.seen: dict[str, Any] = {}
        """Observations of the fault, for the record. The report knows `stall_s`, `recovered_s`
        (after the fault's end), `lost_writes` out of `acknowledged_writes`, and `lost_bytes`."""

    @abstractmethod
    def check(self) -> list[Problem]:
        """Return what this machine lacks for it."""

    def check_on(self, target: str, options: Any) -> list[Problem]:
        """Return why it cannot affect this target, judged by the target's options; empty if it
        can."""
        return []

    def model(self) -> ModelledFault | None:
        """Return the same fault in virtual time; None if it has no model."""
        return None

    def begin(self, location: Location, journal: Journal) -> None:
        """Start to observe the fault's effect; called at the release of the jobs, before
        `inject`."""

    def end(self, location: Location, journal: Journal) -> None:
        """Determine what remains of the effect and fill `seen`; called when all jobs are done and
        the fault is lifted."""

    def abandon(self) -> None:
        """Stop everything that `begin` started, without observing. Called after `end`, or instead
        of it if the trial is abandoned."""

    @abstractmethod
    def inject(self, location: Location, journal: Journal) -> None:
        """Inject the fault into the prepared target."""

    @abstractmethod
    def lift(self) -> None:
        """End the fault. Safe to call twice."""


def kinds() -> Plugins[InjectedFault]:
    """Return every registered fault class by kind."""
    return parts("headrace.faults", InjectedFault)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
