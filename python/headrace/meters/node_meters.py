"""Meters of one machine, read by its agent: the interface, and what does it in this process.

Arguments and results are plain data, as those of `headrace.launchers.Agent`. Times are those of the
machine's monotonic clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import override

from headrace.meters import Meter, MeterChannel, kinds
from headrace.meters.sampling import MeterLog, MeterSampler


@dataclass(frozen=True)
class MeterOfNode:
    """A meter as data, from which the node makes it."""

    kind: str
    name: str
    options: dict[str, object]
    """Fields of `[meter.NAME]`, those that were written."""

    def make(self) -> Meter:
        """Return the meter; nothing is opened. Raises ValueError for options that it lacks."""
        part = kinds()[self.kind]
        return part(self.name, part.Options.model_validate(self.options))


@dataclass(frozen=True)
class MeterLack:
    """What the machine lacks to read a meter (`headrace.errors.Problem`)."""

    what: str
    needed_by: str
    remedy: str


@dataclass(frozen=True)
class PowerNow:
    """The last reading of one channel."""

    meter: str
    channel: MeterChannel
    power_w: float


class NodeMeters(ABC):
    """Reads the meters of its machine while the jobs of a trial run."""

    @abstractmethod
    def check(self, meters: Sequence[MeterOfNode]) -> list[MeterLack]:
        """Return what is missing to read them. Changes nothing."""

    @abstractmethod
    def begin(self, meters: Sequence[MeterOfNode]) -> None:
        """Start to read; return at once. Ends what was begun before."""

    @abstractmethod
    def wait(self, patience_s: float) -> None:
        """Wait for the first reading of each, for a bounded time."""

    @abstractmethod
    def now(self) -> list[PowerNow]:
        """Return the last reading of each channel. Never waits for another machine."""

    @abstractmethod
    def end(self) -> None:
        """Let each take its last reading; return at once."""

    @abstractmethod
    def logs(self, patience_s: float) -> list[MeterLog]:
        """End the readings and return them. A second call returns the same."""


class LocalNodeMeters(NodeMeters):
    """The meters of this machine."""

    def __init__(self) -> None:
        self._sampler = MeterSampler({})

    @override
    def check(self, meters: Sequence[MeterOfNode]) -> list[MeterLack]:
        return [
            MeterLack(problem.what, problem.needed_by, problem.remedy)
            for each in meters
            for problem in each.make().check()
        ]

    @override
    def begin(self, meters: Sequence[MeterOfNode]) -> None:
        self._sampler.end()
        self._sampler = MeterSampler({each.name: each.make() for each in meters})
        self._sampler.begin()

    @override
    def wait(self, patience_s: float) -> None:
        self._sampler.wait(patience_s)

    @override
    def now(self) -> list[PowerNow]:
        return [PowerNow(*each) for each in self._sampler.latest()]

    @override
    def end(self) -> None:
        self._sampler.end()

    @override
    def logs(self, patience_s: float) -> list[MeterLog]:
        self._sampler.stop(patience_s)
        return self._sampler.logs()
