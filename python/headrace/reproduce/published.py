"""Reproduction: the published results of a study, from `headrace/published/*.toml`: tables with
their roles, findings, notes. Pure."""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from headrace.reproduce.origins import Kind
from headrace.units import format_amount, format_bytes_per_s, format_seconds

Role = Literal["calibrate", "predict"]
POINTS_SCALE = 5.0
"""An error of 2 points weighs as much as one of 10 %."""
FOLDER = Path(__file__).parents[1] / "published"


@dataclass(frozen=True)
class PublishedTable:
    """One table or figure."""

    id: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    role: Role
    calibrate_rows: frozenset[int]
    calibrate_cells: frozenset[tuple[int, str]]

    def role_of(self, row: int, column: str) -> Role:
        """Return whether a value may be used for fitting (`calibrate`) or only for judging
        (`predict`)."""
        if row in self.calibrate_rows or (row, column) in self.calibrate_cells:
            return "calibrate"
        return self.role

    def value(self, row: int, column: str) -> Any:
        """Return the value of a cell."""
        return self.rows[row][self.columns.index(column)]

    def row(self, row: int) -> dict[str, Any]:
        """Return a row by column name."""
        return dict(zip(self.columns, self.rows[row], strict=True))

    def compared(
        self,
        row: int,
        column: str,
        label: str,
        unit: str,
        obtained: float,
        *,
        given: float | None = None,
        points: bool = False,
        shown: float | None = None,
        reading: str = "",
    ) -> Number:
        """Return the number of a cell with the obtained one, and the relative error or the
        difference in points.

        The published value is that of the cell, or `given` where the cell needs interpretation.
        """
        value = float(self.value(row, column)) if given is None else given
        error = obtained - value if points else error_of(value, obtained)
        return Number(
            self.id,
            row,
            column,
            label,
            unit,
            value if shown is None else shown,
            obtained,
            error,
            "points" if points else "relative",
            self.role_of(row, column),
            reading,
            target=(value, value),
        )


@dataclass(frozen=True)
class Published:
    """One study as published."""

    id: str
    title: str
    tables: dict[str, PublishedTable]
    findings: dict[str, str]
    """Id -> claim."""
    notes: dict[str, str]


@cache
def published(study: str) -> Published:
    """Return the published results of a study, by its id."""
    values = tomllib.loads((FOLDER / f"{study}.toml").read_text("utf-8"))
    tables = {
        table["id"]: PublishedTable(
            table["id"],
            tuple(table["columns"]),
            tuple(tuple(row) for row in table["rows"]),
            table["role"],
            frozenset(table.get("calibrate_rows", [])),
            frozenset((row, column) for row, column in table.get("calibrate_cells", [])),
        )
        for table in values["table"]
    }
    return Published(
        values["study"]["id"],
        values["study"]["title"],
        tables,
        {finding["id"]: finding["claim"] for finding in values["finding"]},
        {note["about"]: note["text"] for note in values.get("note", [])},
    )


@dataclass(frozen=True)
class Number:
    """A published number and the obtained one."""

    table: str
    row: int
    column: str
    label: str
    """What the row is, for readers."""
    unit: str
    published: float | str
    obtained: float
    error: float
    """Relative (obtained/published - 1); for efficiencies and variations the difference in
    points (0.03 is 3 points)."""
    error_in: Literal["relative", "points"]
    role: Role
    other_reading: str = ""
    """Another reading of the same number (the corrected energy per job)."""
    target: tuple[float, float] = (math.nan, math.nan)
    """Lowest and highest value without error: the same twice, or the ends of a range or bound."""
    null_error: float | None = None
    """Error of the study's null model (null_models.py); None for calibrate rows."""
    aim: float | None = None
    """Value to fit to where the publication gives a bound (the most that its authors saw) or a
    range (its middle)."""

    @property
    def residual(self) -> float:
        """The residual of a fit: the error, or the distance from `aim` where the publication
        gives a bound or a range."""
        return self.error if self.aim is None else self.obtained / self.aim - 1.0

    def error_of(self, value: float) -> float:
        """Return the error that another value would have."""
        low, high = self.target
        return value - low if self.error_in == "points" else range_error(low, high, value)

    @property
    def within(self) -> bool:
        """Whether the error is within 25 %, or 3 points."""
        return abs(self.error) <= (0.03 + 1e-9 if self.error_in == "points" else 0.25)


def error_of(given: float, obtained: float, relation: str = "~=") -> float:
    """Return the relative error; 0 for a bound that is met."""
    if math.isnan(obtained):
        return math.inf
    if (relation in ("<", "<=") and obtained <= given) or (
        relation in (">", ">=") and obtained >= given
    ):
        return 0.0
    return obtained / given - 1.0


def error_text(error: float, number: Number) -> str:
    """Return an error as the number's is given: `+3.2 %` or `-1.4 points`."""
    return f"{error * 100:+.1f} {'points' if number.error_in == 'points' else '%'}"


def bound_of(given: float, relation: str) -> tuple[float, float]:
    """Return the values that a bound allows, lowest and highest."""
    low = -math.inf if relation in ("<", "<=") else given
    return low, math.inf if relation in (">", ">=") else given


def range_error(low: float, high: float, obtained: float) -> float:
    """Return 0 inside a range, otherwise the error relative to the nearer end."""
    if low <= obtained <= high:
        return 0.0
    return obtained / (low if obtained < low else high) - 1.0


@dataclass(frozen=True)
class Finding:
    """A published claim, judged on the obtained values."""

    id: str
    claim: str
    holds: bool
    why: str
    """The numbers that decide it."""
    origin: Kind = "predicted"
    origin_why: str = ""
    """What the judgement depends on (origins.py)."""


@dataclass(frozen=True)
class FittedParameter:
    """A parameter of the catalog that was fitted to calibrate rows."""

    parameter: str
    value: float
    unit: str
    rows: str

    @property
    def text(self) -> str:
        """The value as text, with a unit that suits its size."""
        if self.unit == "ns":
            return format_seconds(self.value / 1e9)
        forms = {"bytes": format_amount, "bytes/s": format_bytes_per_s}
        form = forms.get(self.unit)
        return f"{self.value:,g} {self.unit}" if form is None else form(self.value)


@dataclass(frozen=True)
class Reproduced:
    """One study, reproduced."""

    id: str
    title: str
    fitted: tuple[FittedParameter, ...]
    numbers: tuple[Number, ...]
    findings: tuple[Finding, ...]
    notes: dict[str, str]
    figures: tuple[Any, ...] = ()

    @property
    def predicted(self) -> list[Number]:
        """Numbers used only for judging."""
        return [number for number in self.numbers if number.role == "predict"]


def minutes(text: str) -> float:
    """Return minutes from the thesis's notation: `18.08` is 18 min 8 s."""
    whole, _, seconds = str(text).partition(".")
    return int(whole) + int(seconds.ljust(2, "0")) / 60.0
