"""One result of a metadata test by mdtest, IOR or Headrace, in a common form for comparison."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

OPERATIONS = "ops/s"
BYTES = "bytes/s"
ACCESSES = ("write", "read")
MIB = 1 << 20
_MOST = 1e100
"""Upper limit of a rate: its square is still finite."""


@dataclass(frozen=True)
class Rate:
    """One phase over its iterations: operations, or bytes, per second."""

    mean: float
    max: float
    min: float
    stddev: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Rate:
        """Summarise the rates of single iterations; unknown when one of them is not a number."""
        if not all(abs(each) < _MOST for each in values):
            return cls(math.nan, math.nan, math.nan, math.nan)
        return cls(statistics.fmean(values), max(values), min(values), statistics.pstdev(values))

    @property
    def is_known(self) -> bool:
        """Whether all four are numbers; programs print `nan` after a division by zero."""
        return all(abs(each) < _MOST for each in (self.mean, self.max, self.min, self.stddev))


@dataclass
class Imported:
    """One result: its program, its number of clients, and its rates by phase."""

    program: str
    """Name and version; for a Headrace result also its levels."""
    clients: int | None
    nodes: int | None
    rates: dict[str, Rate] = field(default_factory=dict[str, Rate])
    """Phase (`write`, `read` for IOR) -> rate, for phases that were run."""
    unit: str = OPERATIONS
    """`ops/s` or `bytes/s`."""
    unknown: list[str] = field(default_factory=list[str])
    """Phases that were run and have no rate: the program printed `nan` or `inf` for one."""
    highest: list[str] = field(default_factory=list[str])
    """Phases of which only the highest rate of perhaps several iterations is known."""
    about: dict[str, object] = field(default_factory=dict[str, object])
    """Further facts: `items` of mdtest, `levels` and `metric` of Headrace."""
    whole: bool = True
    """False when the output ends before its program had finished."""
    left_out: int = 0
    """Failed and invalid trials of a Headrace result, which enter no rate."""


def of_transfers(
    program: str, clients: int | None, per_node: int | None, nodes: int | None = None
) -> Imported:
    """Return a result of IOR, in bytes per second, without rates yet."""
    if nodes is None and clients is not None and per_node:
        nodes = -(-clients // per_node)
    return Imported(program, clients, nodes, unit=BYTES)


class OutputError(ValueError):
    """An output's problem, its line (1-based; 0 for none), and what is allowed."""

    def __init__(self, problem: str, *, line: int = 0, given: str = "", allowed: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.given = given
        self.allowed = allowed


_MOST_COUNT = 10**9
MOST_ITEMS = 10**15


def count(text: str, *, line: int, what: str, most: int = _MOST_COUNT) -> int:
    """Return a number of tasks, nodes or items. Raises OutputError for one that no run has."""
    if len(text) > 16 or int(text) > most:
        raise OutputError(
            f"too large a number of {what}",
            line=line,
            given=text if len(text) <= 20 else f"{text[:20]}…",
            allowed=f"at most {most}",
        )
    return int(text)
