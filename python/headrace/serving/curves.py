"""Curves of the what-if page as SVG: simulated points with a band, measured ones beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import starmap

from markupsafe import Markup, escape

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 14, 40
_CROSSES_AT_MOST = 500
"""Of more, those within one pixel, which nobody can tell apart, are drawn once."""


@dataclass(frozen=True)
class WhatIfCurve:
    """One figure: a value against slots."""

    title: str
    points: Sequence[tuple[float, float]]
    measured: Sequence[tuple[float, float]] = ()
    band: tuple[float, float] | None = None
    """Factors of the lower and the upper end of a band around the points: the error."""
    most: float | None = None
    """Largest value that is possible."""

    def svg(self) -> Markup:
        """Return the figure; the numbers are in the page's table, too."""
        seen = [*self.points, *self.measured]
        if not seen:
            return Markup("")
        right = max(x for x, _ in seen)
        _, upper = self.band or (1.0, 1.0)
        ticks = ticks_of(max(y for _, y in seen) * upper if self.most is None else self.most)
        top = ticks[-1] or 1.0

        def place(x: float, y: float) -> tuple[float, float]:
            across = LEFT + (WIDTH - LEFT - RIGHT) * x / right
            return across, TOP + (HEIGHT - TOP - BOTTOM) * (1 - min(y, top) / top)

        parts = [*_axes(ticks, sorted({x for x, _ in seen}), place), *self._marks(place)]
        return Markup(
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title)} '
            f'against slots of a node; the numbers are in the table">{"".join(parts)}</svg>'
        )

    def _marks(self, place: Callable[[float, float], tuple[float, float]]) -> list[str]:
        parts: list[str] = []
        if self.band and len(self.points) > 1:
            low, high = self.band
            upper = [place(x, y * high) for x, y in self.points]
            lower = [place(x, y * low) for x, y in reversed(self.points)]
            parts.append(f'<polygon class="band" points="{_path([*upper, *lower])}"/>')
        line = [place(x, y) for x, y in self.points]
        parts.append(f'<polyline class="line" points="{_path(line)}"/>')
        parts += [f'<circle class="point" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in line]
        crosses = [*starmap(place, self.measured)]
        if len(crosses) > _CROSSES_AT_MOST:
            crosses = [*dict.fromkeys((round(x), round(y)) for x, y in crosses)]
        parts += [
            f'<path class="measured" d="M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10"/>'
            for x, y in crosses
        ]
        return parts


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def ticks_of(most: float) -> list[float]:
    """Return about four round values from 0 to at least the largest one."""
    if most <= 0:
        return [0.0, 1.0]
    size = 10 ** math.floor(math.log10(most / 4))
    step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each * 5 >= most)
    return [step * number for number in range(math.ceil(most / step - 1e-9) + 1)]


def _axes(
    ticks: Sequence[float],
    loads: Sequence[float],
    place: Callable[[float, float], tuple[float, float]],
) -> list[str]:
    parts: list[str] = []
    for value in ticks:
        _, y = place(0, value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>'
        )
    last = -100.0
    for load in loads:
        x, _ = place(load, 0)
        if x - last > 24:
            parts.append(
                f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{load:g}</text>'
            )
            last = x
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">slots of a node</text>')
    return parts


def short(value: float) -> str:
    """Return a number in few characters: `2.5 M`, `130 k`, `0.0053`."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.9995:
            return f"{value / factor:.3g}\u202f{prefix}"
    return f"{value:.3g}"
