"""Interactive Bokeh figures of the page, without data.

Their named sources are empty: templates/report.js fills them from the page's data, and again when
the reader selects other curves, metrics or trials.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from headrace.analysis.findings import Estimate, FactorEffect, LevelEffect
from headrace.metrics.shown import ShownMetric, show
from headrace.palette import (
    BLACK,
    CURVE_COLOURS,
    CURVE_DASHES,
    CURVE_MARKERS,
    GREEN,
    GREY,
    VERMILLION,
)
from headrace.report.bokeh_json import BokehFigure, Json, Model, field, value
from headrace.report.numbers import interval_text, value_text
from headrace.report.select import DRAWN_AT_ONCE
from headrace.report.wording import LevelNames, factor_text

_CURVE_TIP = """<div class="tip"><strong>@label</strong><br>\
@load @noun: <strong>@text</strong> @mark<br>
<span>@interval</span><br>@limit<br><span>@trials</span></div>"""
_BYTE_TIP = """<div class="tip"><strong>$name</strong><br>\
@load @noun: <strong>@text</strong> @mark<br>
<span>@interval</span><br><span>@trials</span></div>"""
_DISTRUSTED_TIP = """<div class="tip"><strong>@label</strong><br>\
@load @noun: @text, not to be trusted<br>
<span>@reasons</span><br><span>@trials</span></div>"""
_SERIES_TIP = """<div class="tip"><strong>$name</strong><br>\
@time_s{0.0} s: <strong>@$name{0,0.[000]}</strong></div>"""
_EFFECT_TIP = """<div class="tip"><strong>@level</strong><br>\
@text<br><span>@interval</span><br><span>@trials</span></div>"""


def _coloured(colour: Json) -> dict[str, Json]:
    return {"line_color": colour, "fill_color": colour, "hatch_color": colour}


def axis_scale(largest: float) -> tuple[float, str]:
    """Return a power of 1000 for an axis up to `largest`, and its SI prefix: numbers on it stay
    below 10 000."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if largest >= max(1e4, factor):
            return factor, prefix
    return 1.0, ""


def axis_title(shown: ShownMetric, prefix: str) -> str:
    """Return title and unit of an axis whose numbers are scaled: `Event rate (M events/s)`."""
    unit = f"{prefix} {shown.unit}".strip()
    return f"{shown.title} ({unit})" if unit else shown.title


def _in_order(levels: tuple[LevelEffect, ...]) -> list[LevelEffect]:
    """Return numeric levels in rising order, others in the order of the study."""
    if all(isinstance(each.level, (int, float)) for each in levels):
        return sorted(levels, key=lambda each: each.level)
    return list(levels)


def _wrapped(label: str) -> str:
    # On a phone a long label would leave no space for the figure.
    return "\n".join(textwrap.wrap(label, 24, break_long_words=True)) or label


def _row_height(labels: list[str]) -> int:
    lines = max((label.count("\n") + 1 for label in labels), default=1)
    return 26 if lines == 1 else 10 + 15 * lines


def _rows(
    element: str,
    titles: tuple[str, str],
    names: str,
    data: dict[str, list[Any]],
    bounds: tuple[float, float],
) -> tuple[BokehFigure, Model]:
    """Return a figure with one row for each name of the column `names`, and its source.

    `titles`: of the figure and of its x axis.
    """
    figure = BokehFigure(
        element,
        *titles,
        "",
        height=90 + _row_height(data[names]) * len(data[names]),
        x_range=bounds,
        y_range=list(reversed(data[names])),
    )
    return figure, figure.source(data)


def _row_marks(figure: BokehFigure, source: Model, names: str, tip: str) -> dict[str, object]:
    """Add intervals, marks and what the mouse shows; return the figure."""
    figure.whisker(source, GREY, 2, names, rows=True)
    dots = figure.scatter("value", names, source, size=10, look=_coloured(field("colour")))
    figure.hover([dots], tip)
    return figure.item()


_CURVE_COLUMNS = (
    "load", "noun", "value", "low", "high", "label", "text", "interval", "limit", "trials", "mark",
)  # fmt: skip


def curve_figure(
    element: str, title: str, loads: list[int], bound: float | None = None
) -> dict[str, object]:
    """Return a figure of a metric against the load, with up to eight curves and intervals.

    The sources of the curves are `curve-0` … `curve-7`. Rings mark their knees (`knees`), grey
    crosses points of invalid trials (`distrusted`), and a line the required efficiency when `bound`
    (in per cent) is given.
    """
    figure = _over_loads(element, title, "", loads)
    knees = figure.source({"load": [], "value": [], "colour": []}, "knees")
    ring: dict[str, Json] = {"line_color": field("colour"), "fill_color": value(None)}
    ring["line_width"] = value(2)
    figure.scatter("load", "value", knees, size=18, look=ring)
    lines = [_curve(figure, f"curve-{index}", index) for index in range(DRAWN_AT_ONCE)]
    columns = ("load", "noun", "value", "label", "text", "reasons", "trials")
    distrusted = _empty(figure, "distrusted", columns)
    crosses = figure.scatter(
        "load",
        "value",
        distrusted,
        size=10,
        marker="x",
        alpha=0.7,
        look={"line_width": value(2), **_coloured(value(GREY))},
    )
    if bound is not None:
        figure.span(bound, "width", BLACK)
    figure.hover(lines, _CURVE_TIP)
    figure.hover([crosses], _DISTRUSTED_TIP)
    return figure.item()


def _over_loads(element: str, title: str, y_title: str, loads: list[int]) -> BokehFigure:
    most = max(loads, default=1)
    x_range = (0, most * 1.06)
    return BokehFigure(
        element, title, "", y_title, x_range=x_range, y_range=(0, 1), x_ticks=_ticks(loads)
    )


def _curve(figure: BokehFigure, name: str, index: int, title: str | None = None) -> Model:
    """Add an empty curve with intervals in the look of this index; return its marks."""
    source = _empty(figure, name, _CURVE_COLUMNS)
    colour = CURVE_COLOURS[index]
    figure.whisker(source, colour, 1.5, "load")
    dash = CURVE_DASHES[index]
    figure.line("load", "value", source, colour=colour, width=2, dash=dash)
    look = _coloured(value(colour))
    marker = CURVE_MARKERS[index]
    return figure.scatter("load", "value", source, size=9, marker=marker, name=title, look=look)


def _empty(figure: BokehFigure, name: str, columns: tuple[str, ...]) -> Model:
    return figure.source({column: [] for column in columns}, name)


def _ticks(loads: list[int]) -> list[int]:
    """Return the numbers tried, thinned so that their labels do not overlap on a phone."""
    most = max(loads, default=1)
    kept: list[int] = []
    for load in sorted(set(loads), reverse=True):
        if not kept or kept[-1] - load >= most / 12:
            kept.append(load)
    return sorted(kept)


def byte_figure(element: str, names: list[ShownMetric], loads: list[int]) -> dict[str, object]:
    """Return a figure of the byte rates of one curve against the load; each source has the name
    of its metric."""
    unit = names[0].unit if names else "B/s"
    figure = _over_loads(element, "Bytes per second at each boundary", f"Rate ({unit})", loads)
    lines = [_curve(figure, each.name, index, each.title) for index, each in enumerate(names)]
    figure.hover(lines, _BYTE_TIP)
    return figure.item()


def effect_figure(
    element: str, name: str, effects: list[FactorEffect], names: LevelNames
) -> dict[str, object]:
    """Return a figure of the mean of the metric at every level of every factor, averaged over
    the other factors."""
    estimates = [level.estimate for effect in effects for level in effect.levels]
    shown = show(name, max((abs(e.value) for e in estimates), default=0.0))
    factor, prefix = axis_scale(max((abs(e.value) for e in estimates), default=0.0) / shown.divisor)
    divisor = shown.divisor * factor
    rows: dict[str, list[Any]] = {
        key: [] for key in ("level", "value", "low", "high", "text", "interval", "trials", "colour")
    }
    for index, effect in enumerate(effects):
        for level in _in_order(effect.levels):
            estimate = level.estimate
            value = estimate.value / divisor
            rows["level"].append(
                _wrapped(f"{factor_text(effect.factor)} {names.level(effect, level.level)}")
            )
            rows["value"].append(value)
            rows["low"].append(estimate.low / divisor if estimate.low is not None else value)
            rows["high"].append(estimate.high / divisor if estimate.high is not None else value)
            rows["text"].append(f"{value_text(estimate, shown)} {shown.unit}")
            rows["interval"].append(interval_text(estimate, shown) or "no interval")
            rows["trials"].append(f"{estimate.n} trials, {estimate.method}")
            rows["colour"].append(CURVE_COLOURS[index % 4])
    # The heading above names the metric; a longer title would be wider than a phone.
    titles = ("Means by level", axis_title(shown, prefix))
    low, high = min(rows["low"], default=0.0), max(rows["high"], default=1.0)
    room = (high - low) * 0.08 or 1.0
    figure, source = _rows(element, titles, "level", rows, (low - room, high + room))
    figure.dotted_rows()
    return _row_marks(figure, source, "level", _EFFECT_TIP)


_RATIO_COLOURS = {"a": CURVE_COLOURS[1], "b": CURVE_COLOURS[0], "": GREY}


def ratio_figure(
    element: str, title: str, rows: list[tuple[str, Estimate, str, str]]
) -> dict[str, object]:
    """Return a figure of the ratios of two result sets with their intervals; rows are (cell,
    ratio, verdict, better side or empty)."""
    data: dict[str, list[Any]] = {
        "cell": [_wrapped(cell) for cell, _, _, _ in rows],
        "value": [ratio.value for _, ratio, _, _ in rows],
        "low": [ratio.value if ratio.low is None else ratio.low for _, ratio, _, _ in rows],
        "high": [ratio.value if ratio.high is None else ratio.high for _, ratio, _, _ in rows],
        "verdict": [text for _, _, text, _ in rows],
        "colour": [_RATIO_COLOURS[side] for _, _, _, side in rows],
    }
    low, high = min([1.0, *data["low"]]), max([1.0, *data["high"]])
    room = (high - low) * 0.08 or 0.1
    figure, source = _rows(element, (title, "B / A"), "cell", data, (low - room, high + room))
    figure.span(1, "height", BLACK)
    tip = (
        '<div class="tip"><strong>@cell</strong><br>@value{0.000} (@low{0.000} – '
        "@high{0.000})<br>@verdict</div>"
    )
    return _row_marks(figure, source, "cell", tip)


@dataclass(frozen=True)
class SeriesFigure:
    """A figure of the samples of a probe."""

    probe: str
    title: str
    axis: str
    """Title of the y axis."""
    unit: str
    divisor: float
    """Samples are divided by it to convert them to the unit of the axis."""
    columns: tuple[tuple[str, str], ...]
    """Columns of the series that are drawn, with their names in the legend."""


POWER_FIGURE = SeriesFigure("power", "Power", "Power", "W", 1.0, ())
"""Its columns are the channels that the trials have."""

SERIES_FIGURES = (
    SeriesFigure("jobs", "Running jobs", "Jobs", "", 1.0, (("running", "running jobs"),)),
    SeriesFigure(
        "block",
        "Device rate",
        "Rate",
        "MB/s",
        1e6,
        (("read_bytes_per_s", "read"), ("write_bytes_per_s", "written")),
    ),
    SeriesFigure(
        "block",
        "Device requests",
        "Requests",
        "1/s",
        1.0,
        (("read_iops", "read"), ("write_iops", "write")),
    ),
    SeriesFigure(
        "block",
        "Request latency",
        "Latency",
        "ms",
        1.0,
        (("read_latency_ms", "read"), ("write_latency_ms", "write")),
    ),
    SeriesFigure("block", "Requests in flight", "Requests", "", 1.0, (("in_flight", "in flight"),)),
    SeriesFigure(
        "cpu",
        "CPU of the whole machine",
        "Share",
        "%",
        0.01,
        (("user", "user"), ("system", "system"), ("iowait", "I/O wait")),
    ),
    SeriesFigure(
        "memory",
        "Page cache",
        "Size",
        "GB",
        1e9,
        (("cached_bytes", "cached"), ("dirty_bytes", "dirty")),
    ),
    SeriesFigure(
        "pressure",
        "Pressure stall",
        "Share of time",
        "%",
        0.01,
        (("cpu_some", "CPU"), ("io_some", "I/O"), ("memory_some", "memory")),
    ),
)


def series_figure(element: str, title: str, names: list[str]) -> dict[str, object]:
    """Return a figure of the samples of one trial against time.

    It has one source, `series`, with `time_s` and a column for each name. Triangles at the bottom
    mark starts and ends of jobs (`starts`, `ends`) in figures of power and of running jobs.
    """
    figure = BokehFigure(
        element,
        title,
        "Time since the jobs' release (s)",
        "",
        height=230,
        x_range=(0, 1),
        y_range=(0, 1),
    )
    source = figure.source({"time_s": [], **{name: [] for name in names}}, "series")
    lines = [
        figure.line(
            "time_s",
            name,
            source,
            colour=CURVE_COLOURS[index],
            width=1.8,
            dash=CURVE_DASHES[index],
            name=name,
        )
        for index, name in enumerate(names)
    ]
    for name, marker, colour in (
        ("starts", "triangle", GREEN),
        ("ends", "inverted_triangle", VERMILLION),
    ):
        marks = figure.source({"time_s": [], "value": []}, name)
        look = _coloured(value(colour))
        figure.scatter("time_s", "value", marks, size=8, marker=marker, look=look)
    figure.hover(lines, _SERIES_TIP)
    return figure.item()
