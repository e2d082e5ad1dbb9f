"""Interactive Bokeh figures of the page, without data.

Their named sources are empty: templates/report.js fills them from the page's data, and again when
the reader selects other curves, metrics or trials.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import bokeh.document
import bokeh.models
import bokeh.plotting

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
from headrace.report.numbers import interval_text, value_text
from headrace.report.select import DRAWN_AT_ONCE
from headrace.report.wording import LevelNames, factor_text

# Any: the annotations of Bokeh's models miss many of their properties.
models: Any = bokeh.models
plotting: Any = bokeh.plotting
documents: Any = bokeh.document

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


def _figure(title: str, x_title: str, y_title: str, height: int = 330, **options: Any) -> Any:
    plot = plotting.figure(
        height=height,
        sizing_mode="stretch_width",
        tools=[models.BoxZoomTool(), models.ResetTool(), models.SaveTool()],
        active_drag=None,
        toolbar_location="above",
        title=title,
        x_axis_label=x_title,
        y_axis_label=y_title,
        min_border_right=14,
        **options,
    )
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    plot.title.text_font_size = "14px"
    plot.title.text_color = "#1a1a1a"
    plot.outline_line_color = None
    # White, not transparent: Bokeh clears earlier drawings by painting over them.
    plot.background_fill_color = "#ffffff"
    plot.border_fill_color = "#ffffff"
    for axis in plot.axis:
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = "13px"
        axis.axis_label_text_color = "#333333"
        axis.major_label_text_font_size = "12px"
        axis.major_label_text_color = "#333333"
        axis.axis_line_color = "#888888"
        axis.major_tick_line_color = "#888888"
        axis.minor_tick_line_color = None
    plot.grid.grid_line_color = "#e6e6e6"
    return plot


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


def _whisker(source: Any, colour: str, **where: str) -> Any:
    return models.Whisker(
        source=source,
        line_color=colour,
        line_width=1.5,
        upper_head=models.TeeHead(size=8, line_color=colour),
        lower_head=models.TeeHead(size=8, line_color=colour),
        **where,
    )


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


def _row_whisker(source: Any, base: str) -> Any:
    heads = {
        "upper_head": models.TeeHead(size=8, line_color=GREY),
        "lower_head": models.TeeHead(size=8, line_color=GREY),
    }
    return models.Whisker(
        source=source,
        base=base,
        lower="low",
        upper="high",
        dimension="width",
        line_color=GREY,
        line_width=2,
        **heads,
    )


def _item(plot: Any, element: str) -> dict[str, object]:
    """Return what `bokeh.embed.json_item` returns; that visits every model three times more."""
    document = documents.Document()
    document.title = ""
    document.add_root(plot)
    made = document.to_json(deferred=False)
    return {"target_id": element, "root_id": plot.id, "doc": made, "version": bokeh.__version__}


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
    most = max(loads, default=1)
    plot = _figure(
        title, "", "", x_range=models.Range1d(0, most * 1.06), y_range=models.Range1d(0, 1)
    )
    plot.xaxis.ticker = models.FixedTicker(ticks=_ticks(loads))
    knees = models.ColumnDataSource({"load": [], "value": [], "colour": []}, name="knees")
    plot.scatter(
        "load", "value", source=knees, size=18, fill_color=None, line_color="colour", line_width=2
    )
    lines: list[Any] = []
    for index in range(DRAWN_AT_ONCE):
        source = _empty(f"curve-{index}", _CURVE_COLUMNS)
        colour = CURVE_COLOURS[index]
        plot.add_layout(_whisker(source, colour, base="load", lower="low", upper="high"))
        plot.line("load", "value", source=source, color=colour, width=2, dash=CURVE_DASHES[index])
        lines.append(
            plot.scatter(
                "load", "value", source=source, marker=CURVE_MARKERS[index], size=9, color=colour
            )
        )
    distrusted = _empty(
        "distrusted", ("load", "noun", "value", "label", "text", "reasons", "trials")
    )
    crosses = plot.scatter(
        "load", "value", source=distrusted, marker="x", size=10, color=GREY, line_width=2, alpha=0.7
    )
    if bound is not None:
        plot.add_layout(
            models.Span(
                location=bound,
                dimension="width",
                line_color=BLACK,
                line_dash="dashed",
                line_width=1,
            )
        )
    plot.add_tools(models.HoverTool(renderers=lines, tooltips=_CURVE_TIP, mode="mouse"))
    plot.add_tools(models.HoverTool(renderers=[crosses], tooltips=_DISTRUSTED_TIP, mode="mouse"))
    return _item(plot, element)


def _empty(name: str, columns: tuple[str, ...]) -> Any:
    return models.ColumnDataSource({column: list[Any]() for column in columns}, name=name)


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
    plot = _figure(
        "Bytes per second at each boundary",
        "",
        f"Rate ({unit})",
        x_range=models.Range1d(0, max(loads, default=1) * 1.06),
        y_range=models.Range1d(0, 1),
    )
    plot.xaxis.ticker = models.FixedTicker(ticks=_ticks(loads))
    lines: list[Any] = []
    for index, shown in enumerate(names):
        source = _empty(shown.name, _CURVE_COLUMNS)
        colour = CURVE_COLOURS[index]
        plot.add_layout(_whisker(source, colour, base="load", lower="low", upper="high"))
        plot.line("load", "value", source=source, color=colour, width=2, dash=CURVE_DASHES[index])
        lines.append(
            plot.scatter(
                "load",
                "value",
                source=source,
                marker=CURVE_MARKERS[index],
                size=9,
                color=colour,
                name=shown.title,
            )
        )
    plot.add_tools(models.HoverTool(renderers=lines, tooltips=_BYTE_TIP, mode="mouse"))
    return _item(plot, element)


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
    source = models.ColumnDataSource(rows)
    low, high = min(rows["low"], default=0.0), max(rows["high"], default=1.0)
    room = (high - low) * 0.08 or 1.0
    plot = _figure(
        # The heading above names the metric; a longer title would be wider than a phone.
        "Means by level",
        axis_title(shown, prefix),
        "",
        height=90 + _row_height(rows["level"]) * len(rows["level"]),
        y_range=list(reversed(rows["level"])),
        x_range=models.Range1d(low - room, high + room),
    )
    plot.left[0].formatter = models.CategoricalTickFormatter()
    plot.ygrid.grid_line_dash = "dotted"
    plot.add_layout(_row_whisker(source, "level"))
    dots = plot.scatter("value", "level", source=source, size=10, color="colour")
    plot.add_tools(models.HoverTool(renderers=[dots], tooltips=_EFFECT_TIP, mode="mouse"))
    return _item(plot, element)


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
    source = models.ColumnDataSource(data)
    low, high = min([1.0, *data["low"]]), max([1.0, *data["high"]])
    room = (high - low) * 0.08 or 0.1
    plot = _figure(
        title,
        "B / A",
        "",
        height=90 + _row_height(data["cell"]) * len(rows),
        y_range=list(reversed(data["cell"])),
        x_range=models.Range1d(low - room, high + room),
    )
    plot.add_layout(
        models.Span(
            location=1, dimension="height", line_color=BLACK, line_dash="dashed", line_width=1
        )
    )
    plot.add_layout(_row_whisker(source, "cell"))
    dots = plot.scatter("value", "cell", source=source, size=10, color="colour")
    tip = (
        '<div class="tip"><strong>@cell</strong><br>@value{0.000} (@low{0.000} – '
        "@high{0.000})<br>@verdict</div>"
    )
    plot.add_tools(models.HoverTool(renderers=[dots], tooltips=tip, mode="mouse"))
    return _item(plot, element)


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
    source = models.ColumnDataSource({"time_s": [], **{name: [] for name in names}}, name="series")
    plot = _figure(
        title,
        "Time since the jobs' release (s)",
        "",
        height=230,
        x_range=models.Range1d(0, 1),
        y_range=models.Range1d(0, 1),
    )
    lines = [
        plot.line(
            "time_s",
            name,
            source=source,
            color=CURVE_COLOURS[index],
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
        marks = models.ColumnDataSource({"time_s": [], "value": []}, name=name)
        plot.scatter("time_s", "value", source=marks, marker=marker, size=8, color=colour)
    plot.add_tools(models.HoverTool(renderers=lines, tooltips=_SERIES_TIP, mode="mouse"))
    return _item(plot, element)
