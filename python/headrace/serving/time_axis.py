"""Figures of a history as SVG: values of one cell on an axis of time, with changes marked."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from headrace.serving.curves import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, short, ticks_of

_LABEL_WIDTH = 76
"""Room of a date below the axis."""
_DIGIT_WIDTH = 8
"""Room of a digit above the axis."""
_TRIANGLES = {"worse": "M{x} {y}m-6 -5h12l-6 11z", "better": "M{x} {y}m-6 5h12l-6 -11z"}


@dataclass(frozen=True)
class TimedValue:
    """One run in the figure of a cell."""

    run: int
    """Its number in the table of runs."""
    at: datetime.datetime
    value: float
    low: float
    high: float
    verdict: str


@dataclass(frozen=True)
class CellFigure:
    """Values of one cell."""

    title: str
    values: Sequence[TimedValue]
    changes: Sequence[tuple[int, datetime.datetime]]
    """Numbers and times of runs before which something was changed, of all cells."""
    first: datetime.datetime
    last: datetime.datetime

    def svg(self) -> Markup:
        """Return the figure; the numbers are in the page's table, too."""
        ticks = ticks_of(max(each.high for each in self.values))
        parts = [
            *(self._grid(value, ticks[-1]) for value in ticks),
            *self._dates(),
            *self._changes(),
            *self._line(ticks[-1]),
        ]
        return Markup(
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title)} '
            f'by time; the numbers are in the table">{"".join(parts)}</svg>'
        )

    def _across(self, at: datetime.datetime) -> float:
        span = (self.last - self.first).total_seconds()
        part = (at - self.first).total_seconds() / span if span else 0.5
        return LEFT + 10 + (WIDTH - LEFT - RIGHT - 20) * part

    @staticmethod
    def _up(value: float, top: float) -> float:
        return TOP + 10 + (HEIGHT - TOP - BOTTOM - 10) * (1 - min(value, top) / top)

    def _grid(self, value: float, top: float) -> str:
        y = self._up(value, top)
        return (
            f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>'
        )

    def _dates(self) -> list[str]:
        parts: list[str] = []
        free = 0.0
        for at in sorted({each.at for each in self.values}):
            x = self._across(at)
            if x - _LABEL_WIDTH / 2 >= free:
                free = x + _LABEL_WIDTH / 2
                place = min(max(x, LEFT), WIDTH - RIGHT - _LABEL_WIDTH / 2)
                parts.append(
                    f'<text x="{place:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
                    f"{at:%Y-%m-%d}</text>"
                )
        return parts

    def _changes(self) -> list[str]:
        parts: list[str] = []
        free = 0.0
        for number, at in self.changes:
            x = self._across(at)
            parts.append(f'<path class="change" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
            half = _DIGIT_WIDTH * (len(str(number)) + 1) / 2
            if x - half >= free:
                free = x + half
                parts.append(
                    f'<text x="{x:.1f}" y="{TOP - 2}" text-anchor="middle">{number}</text>'
                )
        return parts

    def _line(self, top: float) -> list[str]:
        places = [(self._across(each.at), self._up(each.value, top), each) for each in self.values]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
        parts = [f'<polyline class="line" points="{points}"/>']
        for x, y, each in places:
            low, high = self._up(each.low, top), self._up(each.high, top)
            parts.append(f'<path class="interval" d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
            shape = _TRIANGLES.get(each.verdict, "").format(x=f"{x:.1f}", y=f"{y:.1f}")
            circle = f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
            parts.append(f'<path class="{each.verdict}" d="{shape}"/>' if shape else circle)
        return parts
