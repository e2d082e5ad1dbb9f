"""Reproduction in real time: what a small study provides, and published, simulated and emulated values beside each other. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from headrace.reproduce.published import Published


@dataclass(frozen=True)
class Row:
    """One number three times."""

    table: str
    label: str
    unit: str
    published: str
    """As published, on the study's own machine; empty where nothing was."""
    simulated: float | None
    emulated: float | None


@dataclass(frozen=True)
class Judged:
    """A published claim as to order or shape, on what was simulated and on what was emulated. None: a number is missing."""

    id: str
    claim: str
    simulated: bool | None
    emulated: bool | None
    why: str
    """The numbers that decide it, both."""


@dataclass
class SmallCells:
    """Rates of the cells of a small study."""

    _rates: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[float, float]]] = field(
        default_factory=dict[tuple[str, tuple[tuple[str, str], ...]], "list[tuple[float, float]]"]
    )

    def add(self, file: str, levels: dict[str, Any], bytes_per_s: float, events_per_s: float) -> None:
        """One valid trial."""
        self._rates.setdefault(_key(file, levels), []).append((bytes_per_s, events_per_s))

    def bytes_per_s(self, file: str, **levels: Any) -> float | None:
        """Mean over the repeats of the one cell with exactly these levels; None without a valid trial."""
        found = self._rates.get(_key(file, levels))
        return fmean(rate for rate, _ in found) if found else None

    def events_per_s(self, file: str, **levels: Any) -> float | None:
        """The same in events."""
        found = self._rates.get(_key(file, levels))
        return fmean(rate for _, rate in found) if found else None


def _key(file: str, levels: dict[str, Any]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return file, tuple(sorted((name, str(level)) for name, level in levels.items() if level is not None))


@dataclass(frozen=True)
class SmallStudy:
    """One of the source studies, small enough for minutes of real time."""

    id: str
    files: tuple[str, ...]
    """Study files below `studies/`."""
    rows: Callable[[SmallCells, SmallCells, Published], list[Row]]
    """From what was simulated and what was emulated."""
    findings: Callable[[SmallCells, SmallCells, Published], list[Judged]]
    notes: tuple[str, ...] = ()


Rates = dict[Any, float | None]


def judged(
    id: str,
    claim: str,
    test: Callable[[Rates], bool],
    say: Callable[[Rates], str],
    simulated: Rates,
    emulated: Rates,
) -> Judged:
    """A claim tested on both; a side that lacks a number is neither true nor false."""
    whole = {
        way: all(rate is not None for rate in rates.values())
        for way, rates in (("s", simulated), ("e", emulated))
    }
    said = [
        f"{name} {say(rates) if whole[way] else 'lacks a valid trial'}"
        for name, way, rates in (("simulated", "s", simulated), ("emulated", "e", emulated))
    ]
    return Judged(
        id,
        claim,
        bool(test(simulated)) if whole["s"] else None,
        bool(test(emulated)) if whole["e"] else None,
        "; ".join(said),
    )


def best(rates: Rates) -> Any:
    """Where the highest rate is."""
    return max(rates, key=lambda key: rates[key] or 0.0)


def spread(values: Sequence[float | None]) -> float:
    """How much the best is above the worst, as a fraction."""
    given = [value for value in values if value]
    return max(given) / min(given) - 1 if given else 0.0
