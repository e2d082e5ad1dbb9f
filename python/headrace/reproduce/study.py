"""Reproduction: the interface of the four studies' modules, and their shared judging code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.reproduce.cells import ObtainedCells, StudyCell
from headrace.reproduce.origins import ORIGINS
from headrace.reproduce.published import Finding, Number, Published
from headrace.study.packaged import STUDIES


@dataclass(frozen=True)
class FreeParameter:
    """A field of a catalog entry that no source states, fitted to calibrate rows of one study."""

    name: str
    shelf: str
    entry: str
    path: tuple[str | int, ...]
    """Path in the entry's table."""
    unit: str
    low: float
    high: float
    rows: str
    """The calibrate rows used for the fit."""
    followers: tuple[tuple[str, tuple[str | int, ...]], ...] = ()
    """(entry, path) of other fields of the shelf that describe the same quantity and take the
    same value …"""
    followers_times: int = 1
    """… times this factor."""

    @property
    def field(self) -> str:
        """Key in the entry's `[source]`: the path without list indices."""
        return ".".join(str(part) for part in self.path if not isinstance(part, int))


@dataclass(frozen=True)
class Series:
    """One line or row of bars of a figure."""

    label: str
    x: tuple[Any, ...]
    y: tuple[float, ...]
    published: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure of the study, redrawn with obtained and published values."""

    title: str
    x_label: str
    y_label: str
    kind: str
    """`lines` or `bars`."""
    series: tuple[Series, ...]


@dataclass(frozen=True)
class StudyModule:
    """One of the four studies."""

    id: str
    files: tuple[str, ...]
    """Study files below `studies/`."""
    parameters: tuple[FreeParameter, ...]
    numbers: Callable[[ObtainedCells, Published], list[Number]]
    findings: Callable[[ObtainedCells, Published], list[Finding]]
    figures: Callable[[ObtainedCells, Published], list[Figure]]
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """Finding or table -> the assumption that the study does not state, where a number cannot be
    obtained."""
    calibration: Callable[[StudyCell], bool] | None = None
    """Selects the cells that calibrate rows use; fitting runs no others."""

    @property
    def paths(self) -> Sequence[Path]:
        """The study files."""
        return [STUDIES / file for file in self.files]


class Judge:
    """Collects findings: each is a predicate on numbers with an explanation."""

    def __init__(
        self,
        published: Published,
        missing: dict[str, str] | None = None,
        evidence: dict[str, str] | None = None,
    ) -> None:
        self._published = published
        self._missing = missing or {}
        self._evidence = evidence or {}
        self.findings: list[Finding] = []

    def says(self, id: str, holds: bool, why: str) -> None:
        """Add the judgement of one claim. `why` gives the numbers that decide it.

        The missing assumption is appended where the claim does not hold, the assumption it depends
        on where it does.
        """
        if not holds and id in self._missing:
            why += f". {self._missing[id]}"
        if holds and id in self._evidence:
            why += f". Evidence: {self._evidence[id]}"
        origin = ORIGINS[self._published.id][id]
        claim = self._published.findings[id]
        self.findings.append(Finding(id, claim, bool(holds), why, origin.kind, origin.why))

    def done(self) -> list[Finding]:
        """Return all findings in the order of publication.

        Raises RuntimeError when one was forgotten (a defect).
        """
        order = list(self._published.findings)
        if sorted(finding.id for finding in self.findings) != sorted(order):
            raise RuntimeError(f"findings judged differ from those published: {order}")
        return sorted(self.findings, key=lambda finding: order.index(finding.id))
