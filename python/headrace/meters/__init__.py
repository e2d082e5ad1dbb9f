"""Power meters: read watts or joules while jobs run. Defines the interface.

Each kind is one module. A meter has channels (a package of a processor, an outlet); `read` returns
one reading per channel. `sampling.py` reads meters in the background, `integration.py` turns their
readings into energy. A meter depends on its options alone, which can be pickled: a meter that is
read on a node can be made there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic import Field

from headrace.errors import HeadraceError, Problem
from headrace.registry import Plugins, parts
from headrace.site import Section
from headrace.units import Seconds

Boundary = Literal["device", "socket", "node", "server", "rack", "facility"]
"""What the power of a channel flows into, from the smallest to the largest."""

BOUNDARIES: tuple[Boundary, ...] = ("device", "socket", "node", "server", "rack", "facility")


class MeterError(HeadraceError):
    """A meter gives no reading: not reachable, refused, or an answer that is not power."""


class MeterOptions(Section):
    """Fields of every `[meter.NAME]`."""

    path_fields: ClassVar[tuple[str, ...]] = ()
    """Fields that hold a path. A relative path is relative to the study file."""

    covers: Boundary | None = Field(
        None,
        description="what the metered power flows into: device (drives or switch, as `of` says), "
        "socket, node, server, rack (all nodes, servers, drives and switches) or facility (with "
        "cooling); that of the kind when not given",
    )
    of: tuple[str, ...] = Field(
        (),
        description='names of what it covers: servers of the site; nodes; "drives" or "switch" '
        "for a device; all of that boundary when not given",
    )
    interval: Seconds | None = Field(
        None, ge=0.02, description="time between readings; that of the kind when not given"
    )
    idle: Seconds = Field(
        0.0, ge=0, le=3600, description="measure idle power for this long before each trial's jobs"
    )
    accuracy: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="largest relative error that the meter's maker states, such as 0.015; that of "
        "the kind when not given",
    )


@dataclass(frozen=True)
class MeterChannel:
    """One quantity that a meter reads."""

    name: str
    boundary: Boundary
    interval_s: float
    """Time between readings."""
    accuracy: float
    """Half width of its relative error."""
    accuracy_source: str
    counter: bool = False
    """Whether readings are cumulative joules, not watts."""
    resolution_w: float = 0.0
    resolution_j: float = 0.0
    """Smallest step of a counter."""
    of: tuple[str, ...] = ()
    """Names of what it covers; empty for all of its boundary."""
    within: str | None = None
    """The channel of the same meter that contains it: energy of both must not be added."""
    wraps_at_j: float | None = None
    """Where a counter begins again at 0; None if it never does."""
    power_max_w: float = 100_000.0
    """Power that this channel cannot exceed: larger values are implausible."""
    rests: bool = False
    """Whether it can be 0 W for any time, as an idle battery."""

    def fits(self, value: float) -> bool:
        """Return whether a value can be one of this channel; a counter's is judged by its steps."""
        return self.counter or 0 <= value <= self.power_max_w

    def misfit(self, value_w: float) -> str:
        """Return why a power that does not fit is discarded."""
        return "negative" if value_w < 0 else f"more than {self.power_max_w:g} W"

    def stuck_after_s(self, value_w: float) -> float:
        """Return how long equal values are believed.

        Noise changes a finely resolved value at once; a value of few digits can stay for minutes,
        one in steps of 10 W (many PDUs) for longer.
        """
        if self.rests and value_w == 0:
            return math.inf
        step = 0.0 if self.counter else self.resolution_w / max(abs(value_w), 1e-9)
        believed_s = 15.0 if step <= 1e-3 else 120.0 if step <= 1e-2 else 600.0
        return max(10 * self.interval_s, believed_s)


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of one channel: power, or a cumulative energy."""

    channel: str
    time_s: float
    """On this machine's monotonic clock."""
    power_w: float | None = None
    energy_j: float | None = None


@dataclass(frozen=True)
class MeterWindow:
    """The time of a trial's jobs, for a meter whose readings are fetched afterwards."""

    begin_s: float
    """On the monotonic clock, as `end_s`."""
    end_s: float
    load: Sequence[tuple[float, float]] = ()
    """Ends of periods on the monotonic clock, and the share of the CPUs that was busy in each.

    The first entry only begins the first period.
    """


@dataclass(frozen=True)
class History:
    """Readings fetched after a trial."""

    readings: tuple[Reading, ...]
    notes: tuple[str, ...] = ()
    """How they were aligned with the trial, one sentence each."""
    refused: tuple[str, ...] = ()
    """Why they cannot be used for this trial."""
    lost: Mapping[str, int] = field(default_factory=dict[str, int])
    """By channel: rows without a value while the jobs ran."""
    time_error_s: float = 0.0
    """Standard uncertainty of their times."""


@dataclass(frozen=True)
class Found:
    """A meter of this machine, or what it lacks to have one."""

    what: str
    gives: str
    """What it reads."""
    lacks: str = ""
    """What is missing to read it, with the remedy; empty if it can be read."""
    meter: Meter | None = None
    """Reads it, if it can be read."""
    covered: bool = True
    """Whether it is known what its power flows into."""


class Meter(ABC):
    """One kind of power meter. A subclass is one module that defines `kind` and these methods."""

    kind: ClassVar[str]
    Options: ClassVar[type[MeterOptions]] = MeterOptions
    live: ClassVar[bool] = True
    """Whether `read` returns the present power; otherwise `history` returns that of the past."""

    def __init__(self, name: str, options: Any) -> None:
        self.name = name
        self.options = options

    @classmethod
    def on_this_machine(cls) -> list[Found]:
        """Return the meters of this kind that the machine itself has. Changes nothing."""
        return []

    def in_band(self) -> bool:
        """Return whether it reads the machine on which it runs: each node then reads its own."""
        return False

    def check(self) -> list[Problem]:
        """Return what is missing to read it. May contact the meter; changes nothing."""
        try:
            self.channels()
            if self.live:
                self.read()
        except MeterError as error:
            return [self.problem(error.message, error.hint or "see docs/energy.md")]
        finally:
            self.close()
        return []

    @abstractmethod
    def channels(self) -> tuple[MeterChannel, ...]:
        """Return what it reads; opens it if necessary. Raises MeterError."""

    def read(self) -> list[Reading]:
        """Return one reading per channel, in a bounded time. Raises MeterError."""
        raise MeterError(f"meter {self.name} has no present power")

    def history(self, window: MeterWindow) -> History:
        """Return the readings of a past window, for a meter that is not live. Raises MeterError."""
        return History(())

    def close(self) -> None:
        """Release files and connections; the meter may be used again."""

    def problem(self, what: str, remedy: str) -> Problem:
        """Return a problem of this meter."""
        return Problem(what, f"meter {self.name}", remedy)

    def channel(
        self,
        name: str,
        boundary: Boundary,
        interval_s: float,
        accuracy: tuple[float, str],
        **fields: Any,
    ) -> MeterChannel:
        """Return a channel in which the options given by the user replace those of the kind."""
        options = self.options
        given = options.accuracy is not None
        return MeterChannel(
            name,
            options.covers or boundary,
            options.interval if options.interval is not None else interval_s,
            options.accuracy if given else accuracy[0],
            "stated in the study" if given else accuracy[1],
            of=options.of,
            **fields,
        )


POWER_UNITS_W = {"uW": 1e-6, "mW": 1e-3, "W": 1.0, "kW": 1e3, "MW": 1e6}
ENERGY_UNITS_J = {"uJ": 1e-6, "mJ": 1e-3, "J": 1.0, "kJ": 1e3, "Wh": 3600.0, "kWh": 3.6e6}
_SPELLED = {"watts": "W", "watt": "W", "microwatts": "uW", "milliwatts": "mW", "kilowatts": "kW"}


def factor_of(unit: str, power_factor: float | None = None) -> tuple[bool, float]:
    """Return whether a unit is one of energy, and its size in W or J.

    Apparent power (VA) is power only times a stated power factor. Raises ValueError.
    """
    plain = _SPELLED.get(unit.strip().lower(), unit.strip().replace("µ", "u"))
    if plain in ("VA", "kVA"):
        if power_factor is None:
            raise ValueError(
                f"{unit} is apparent power, not power in W; state power_factor (W = VA x power "
                "factor), or read the active power"
            )
        return False, power_factor * (1e3 if plain == "kVA" else 1.0)
    if plain in POWER_UNITS_W:
        return False, POWER_UNITS_W[plain]
    if plain in ENERGY_UNITS_J:
        return True, ENERGY_UNITS_J[plain]
    raise ValueError(
        f"unknown unit {unit}; allowed: {', '.join((*POWER_UNITS_W, *ENERGY_UNITS_J))}"
    )


def number_of(value: object, what: str) -> float:
    """Return a finite number of a meter's answer. Raises MeterError."""
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        raise MeterError(f"{what}: {value!r} is not a number") from None
    if not math.isfinite(number):
        raise MeterError(f"{what}: {value!r} is not a finite number")
    return number


def found_here(meter: Meter, what: str, *, covered: bool = True) -> Found:
    """Return what a meter of this machine reads, or lacks. `covered`: see `Found`."""
    problems = meter.check()
    if problems:
        return Found(what, "power", f"{problems[0].what}: {problems[0].remedy}")
    try:
        names = ", ".join(channel.name for channel in meter.channels())
    finally:
        meter.close()
    gives = f'{names} ([meter.NAME] kind = "{meter.kind}")'
    return Found(what, gives, meter=meter, covered=covered)


def kinds() -> Plugins[Meter]:
    """Return every registered meter class by kind."""
    return parts("headrace.meters", Meter)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
