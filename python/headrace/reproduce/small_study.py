"""Reproduction in real time: small studies, and published, simulated and emulated values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from headrace.reproduce.published import Published


@dataclass(frozen=True)
class SmallStudyRow:
    """One number: published, simulated and emulated."""

    table: str
    label: str
    unit: str
    published: str
    """As published, on the study's own machine; empty where nothing was published."""
    simulated: float | None
    emulated: float | None


@dataclass(frozen=True)
class JudgedClaim:
    """A published claim about order or shape, judged on simulated and on emulated values.

    None: a number is missing.
    """

    id: str
    claim: str
    simulated: bool | None
    emulated: bool | None
    why: str
    """The numbers that decide it, simulated and emulated."""


@dataclass
class SmallCells:
    """Rates of the cells of a small study."""

    _rates: dict[tuple[str, tuple[tuple[str, str], ...]], list[tuple[float, float]]] = field(
        default_factory=dict[tuple[str, tuple[tuple[str, str], ...]], "list[tuple[float, float]]"]
    )

    def add(
        self, file: str, levels: dict[str, object], bytes_per_s: float, events_per_s: float
    ) -> None:
        """Add one valid trial."""
        self._rates.setdefault(_key(file, levels), []).append((bytes_per_s, events_per_s))

    def bytes_per_s(self, file: str, **levels: Any) -> float | None:
        """Return the mean bytes per second over the repeats of the cell with exactly these
        levels; None without a valid trial."""
        found = self._rates.get(_key(file, levels))
        return fmean(rate for rate, _ in found) if found else None

    def events_per_s(self, file: str, **levels: Any) -> float | None:
        """Return the same for events per second."""
        found = self._rates.get(_key(file, levels))
        return fmean(rate for _, rate in found) if found else None


def _key(file: str, levels: dict[str, object]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return file, tuple(
        sorted((name, str(level)) for name, level in levels.items() if level is not None)
    )


@dataclass(frozen=True)
class SmallStudy:
    """One of the source studies, reduced to minutes of real time."""

    id: str
    files: tuple[str, ...]
    """Study files below `studies/`."""
    rows: Callable[[SmallCells, SmallCells, Published], list[SmallStudyRow]]
    """Makes the rows from simulated cells, emulated cells and published results."""
    findings: Callable[[SmallCells, SmallCells, Published], list[JudgedClaim]]
    notes: tuple[str, ...] = ()


Rates = dict[Any, float | None]


def judged(
    id: str,
    claim: str,
    test: Callable[[Rates], bool],
    say: Callable[[Rates], str],
    simulated: Rates,
    emulated: Rates,
) -> JudgedClaim:
    """Test a claim on both; without a number the result for that side is None."""
    whole = {
        way: all(rate is not None for rate in rates.values())
        for way, rates in (("s", simulated), ("e", emulated))
    }
    said = [
        f"{name} {say(rates) if whole[way] else 'lacks a valid trial'}"
        for name, way, rates in (("simulated", "s", simulated), ("emulated", "e", emulated))
    ]
    return JudgedClaim(
        id,
        claim,
        bool(test(simulated)) if whole["s"] else None,
        bool(test(emulated)) if whole["e"] else None,
        "; ".join(said),
    )


def best(rates: Rates) -> Any:
    """Return the key of the highest rate."""
    return max(rates, key=lambda key: rates[key] or 0.0)


def spread(values: Sequence[float | None]) -> float:
    """Return best over worst - 1."""
    given = [value for value in values if value]
    return max(given) / min(given) - 1 if given else 0.0
