"""Faults: scheduled, counted misbehaviour, one file each. This file is the contract that all keep."""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    target: str | None = Field(None, description="the target that it strikes; all when not given")
    at: Seconds = Field(0.0, description="time after the release of the jobs")
    duration: Seconds | None = Field(
        None, description="how long it lasts; to the end of the trial when not given"
    )


class InjectedFault(ABC):
    """One kind of fault. A subclass is one file: `kind`, `Options`, and these methods."""

    kind: ClassVar[str]
    Options: ClassVar[type[FaultOptions]]

    def __init__(self, options: Any) -> None:
        self.options = options
        self.fired = 0
        """How many times it took effect; a scheduled fault that never fired makes the trial invalid."""

    @abstractmethod
    def check(self) -> list[Problem]:
        """What this machine lacks for it."""

    @abstractmethod
    def strike(self, location: Location, journal: Journal) -> None:
        """Takes effect on the prepared target."""

    @abstractmethod
    def lift(self) -> None:
        """Ends it. Safe to call twice."""


def kinds() -> dict[str, type[InjectedFault]]:
    """Every registered fault by kind."""
    return parts("headrace.faults", InjectedFault)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
