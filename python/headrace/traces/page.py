"""The interactive page of traces, with Bokeh: panels that zoom together, values under the pointer.

Offsets and latencies are embedded as images of cells; lines have as many points as cells. The page
needs no network.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import bokeh.embed
import bokeh.models
import bokeh.plotting
import numpy as np
from bokeh.resources import Resources
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from headrace.palette import quiet_matplotlib
from headrace.traces.panels import (
    LINE_COLUMNS,
    LINE_PANELS,
    latency_bins,
    latency_unit,
    line_positions,
    lines_of,
    offset_unit,
)
from headrace.traces.statistics import Statistics
from headrace.traces.tiles import (
    BINS_PER_DECADE,
    LATENCY_FROM_NS,
    DrawableTrace,
    Group,
    Offsets,
    TraceCells,
    coarser,
    colour_cells,
)
from headrace.units import format_amount, format_bytes_per_s

# Bokeh's models accept properties that its annotations lack, so its objects are Any here.
models: Any = bokeh.models
plotting: Any = bokeh.plotting
embed: Any = bokeh.embed


def render(runs: list[DrawableTrace]) -> str:
    """Return the whole page as text."""
    x_range = models.Range1d(0, runs[0].span_s, bounds=(0, runs[0].span_s))
    folded = [coarser(run.cells, LINE_COLUMNS) for run in runs]
    heats = [(run, cells) for run, cells in zip(runs, folded, strict=True) if cells.latencies.any()]
    panels: list[tuple[list[Group], Any]] = []
    for run in runs:
        panels += [(_key(run, shown), _offsets(run, shown, x_range)) for shown in run.offsets]
    panels += [([], _lines(position, runs, folded, x_range)) for position in line_positions(runs)]
    panels += [
        ([], _heat(run, cells, [each for each, _ in heats], x_range)) for run, cells in heats
    ]
    panels[-1][1].xaxis.axis_label = "Time since the beginning of the run (s)"
    script, pieces = embed.components(tuple(panel for _, panel in panels))
    bokeh_script = "\n".join(
        Resources(mode="inline", components=["bokeh"], log_level="error").js_raw
    )
    environment = Environment(
        loader=PackageLoader("headrace.traces"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("traces.html.j2").render(
        bokeh_script=Markup(bokeh_script),
        labels=[run.label for run in runs],
        rows=[_row(run.statistics, run.label) for run in runs],
        notes=[f"{run.label}: {note}" for run in runs for note in run.notes()],
        panels=[(groups, Markup(piece)) for (groups, _), piece in zip(panels, pieces, strict=True)],
        script=Markup(script),
    )


def _row(statistics: Statistics, label: str) -> list[str]:
    """Return a trace's cells of the table, in the order of the template's head."""
    total = statistics.total
    latency = total.dispatch_to_complete
    return [
        label,
        f"{statistics.duration_s:.2f} s",
        f"{total.requests:,}",
        format_amount(total.bytes),
        "" if total.rate_bytes_per_s is None else format_bytes_per_s(total.rate_bytes_per_s),
        "" if total.iops is None else f"{total.iops:,.0f}",
        "" if total.seeks_per_s is None else f"{total.seeks_per_s:,.0f}",
        "" if total.sequential_fraction is None else f"{100 * total.sequential_fraction:.1f} %",
        "not known" if total.queue_depth_mean is None else f"{total.queue_depth_mean:.3g}",
        f"{latency.p50_ns / 1e6:.3f} ms" if latency else "",
        f"{latency.p99_ns / 1e6:.3f} ms" if latency else "",
    ]


def _key(run: DrawableTrace, shown: Offsets) -> list[Group]:
    """Return the groups of processes that have a cell in a panel."""
    return [group for index, group in enumerate(run.groups) if shown.cells[index].any()]


def _figure(title: str, y_title: str, x_range: Any, height: int, **options: Any) -> Any:
    plot = plotting.figure(
        height=height,
        sizing_mode="stretch_width",
        title=title,
        y_axis_label=y_title,
        x_range=x_range,
        tools=[
            models.BoxZoomTool(dimensions="width"),
            models.PanTool(dimensions="width"),
            models.ResetTool(),
            models.SaveTool(),
        ],
        toolbar_location="above",
        min_border_left=76,
        min_border_right=14,
        **options,
    )
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    plot.title.text_font_size = "14px"
    plot.background_fill_color = plot.border_fill_color = "#ffffff"
    plot.outline_line_color = None
    for axis in plot.axis:
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = "13px"
        axis.major_label_text_font_size = "12px"
    plot.grid.grid_line_color = "#e6e6e6"
    return plot


def _png(image: Any) -> str:
    from PIL import Image

    out = io.BytesIO()
    # A small palette needs a third of the space.
    Image.fromarray(image, "RGBA").quantize(128, method=Image.Quantize.FASTOCTREE).save(
        out, "PNG", optimize=True
    )
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def _embedded(plot: Any, image: Any, run: DrawableTrace, low: float, high: float) -> None:
    plot.image_url(
        url=[_png(image)],
        x=0,
        y=high,
        w=run.span_s,
        h=high - low,
        anchor="top_left",
        global_alpha=1.0,
    )


def _offsets(run: DrawableTrace, shown: Offsets, x_range: Any) -> Any:
    unit, divisor = offset_unit(shown)
    low, high = shown.low_bytes / divisor, shown.high_bytes / divisor
    plot = _figure(
        f"{run.label}: {shown.word}{shown.elsewhere()}",
        f"Offset ({unit})",
        x_range,
        260,
        y_range=models.Range1d(low, high),
    )
    _embedded(plot, colour_cells(run, shown).repeat(2, axis=0).repeat(2, axis=1), run, low, high)
    return plot


def _lines(position: int, runs: list[DrawableTrace], folded: list[TraceCells], x_range: Any) -> Any:
    title, label = LINE_PANELS[position]
    plot = _figure(title, label, x_range, 205)
    plot.yaxis[0].formatter = models.NumeralTickFormatter(format="0.[00]a")
    plot.y_range.start = 0
    drawn: list[Any] = []
    for line in lines_of(position, runs, folded):
        times = (np.arange(len(line.values)) + 0.5) * runs[0].span_s / len(line.values)
        drawn.append(
            plot.step(
                times.astype(np.float32),
                line.values.astype(np.float32),
                mode="center",
                color=line.colour,
                line_dash=line.dash,
                line_width=1.7,
                legend_label=line.name,
                name=line.name,
            )
        )
    plot.add_tools(
        models.HoverTool(
            renderers=drawn,
            tooltips=[("", "$name"), ("time", "@x{0.000} s"), (label, "@y{0,0.[0]}")],
            mode="mouse",
        )
    )
    plot.legend.click_policy = "hide"
    plot.legend.label_text_font_size = "12px"
    plot.legend.orientation = "horizontal"
    plot.legend.border_line_color = None
    plot.legend.padding = plot.legend.margin = 0
    # Above, not at the side: the panels' time axes must align.
    plot.add_layout(plot.legend[0], "above")
    return plot


def _heat(run: DrawableTrace, cells: TraceCells, runs: list[DrawableTrace], x_range: Any) -> Any:
    quiet_matplotlib()
    from matplotlib import colormaps

    unit, scale = latency_unit(runs)
    first, last = latency_bins(runs)
    low, high = (LATENCY_FROM_NS * 10 ** (edge / BINS_PER_DECADE) / scale for edge in (first, last))
    shown = cells.latencies[first:last].astype(float)
    share = np.log1p(shown) / np.log1p(max(2.0, float(shown.max())))
    image = (colormaps["viridis_r"](share) * 255).astype(np.uint8)
    image[shown == 0] = 0
    # An image on a logarithmic axis is distorted, so the axis is linear in decades, with its own
    # labels.
    low_decade, high_decade = np.log10(low), np.log10(high)
    plot = _figure(
        f"{run.label}: latency, dispatch to complete (darker: more requests)",
        f"Latency ({unit})",
        x_range,
        220,
        y_range=models.Range1d(low_decade, high_decade),
    )
    decades = range(int(np.ceil(low_decade)), int(np.floor(high_decade)) + 1)
    plot.yaxis[0].ticker = models.FixedTicker(ticks=list(decades))
    plot.yaxis[0].major_label_overrides = {decade: f"{10.0**decade:g}" for decade in decades}
    # Browsers smooth enlarged images, so each cell is several pixels.
    cells_shown = image[::-1].repeat(4, axis=0).repeat(6, axis=1)
    _embedded(plot, cells_shown, run, float(low_decade), float(high_decade))
    return plot
