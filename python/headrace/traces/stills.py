"""Static pictures of traces with matplotlib.

Offsets and latencies are images of cells, so that the file size does not grow with the trace.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from headrace.palette import quiet_matplotlib
from headrace.traces.panels import (
    LINE_COLUMNS,
    LINE_PANELS,
    latency_bins,
    latency_unit,
    line_positions,
    lines_of,
    offset_unit,
    thousands,
)
from headrace.traces.tiles import (
    BINS_PER_DECADE,
    LATENCY_FROM_NS,
    DrawableTrace,
    Offsets,
    TraceCells,
    coarser,
    colour_cells,
)

_WIDTH_IN = 11.0
_DPI = 130
_DASHES = {"solid": "-", "dashed": "--", "dashdot": "-.", "dotted": ":", "dotdash": "-."}
OFFSET_IN, LINE_IN, HEAT_IN = 2.1, 1.25, 1.6


def save(runs: list[DrawableTrace], path: Path, kind: str) -> None:
    """Write `png` or `svg`. Raises OSError."""
    quiet_matplotlib()
    from matplotlib import rc_context

    with rc_context(
        {"font.size": 11, "svg.fonttype": "none", "svg.hashsalt": "headrace", "axes.titlesize": 12}
    ):
        figure = _figure(runs)
        # Without a date the same trace gives the same bytes.
        figure.savefig(
            path, dpi=_DPI, format=kind, metadata={"Date": None} if kind == "svg" else {}
        )


def _figure(runs: list[DrawableTrace]) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    offsets = [(run, panel) for run in runs for panel in run.offsets]
    heats = [run for run in runs if run.cells.latencies.any()]
    positions = line_positions(runs)
    heights = [OFFSET_IN] * len(offsets) + [LINE_IN] * len(positions) + [HEAT_IN] * len(heats)
    figure = Figure(
        figsize=(_WIDTH_IN, sum(heights) + 0.36 * len(heights) + 0.5), layout="constrained"
    )
    FigureCanvasAgg(figure)
    # The second column holds legends and colour bars, so that all panels have the same width.
    grid = figure.add_gridspec(len(heights), 2, width_ratios=[1, 0.17], height_ratios=heights)
    panels: list[Any] = []
    for index in range(len(heights)):
        panels.append(figure.add_subplot(grid[index, 0], sharex=panels[0] if panels else None))
    sides = [figure.add_subplot(grid[index, 1]) for index in range(len(heights))]
    for side in sides:
        side.set_axis_off()
    for panel, side, (run, shown) in zip(panels, sides, offsets, strict=False):
        _offsets(panel, side, run, shown, named=len(runs) > 1)
    folded = [coarser(run.cells, LINE_COLUMNS) for run in runs]
    before = len(offsets) + len(positions)
    _lines(panels[len(offsets) : before], sides[len(offsets) :], positions, runs, folded)
    unit, scale = latency_unit(heats)
    for panel, side, run in zip(panels[before:], sides[before:], heats, strict=True):
        _heat(
            figure,
            panel,
            side,
            run,
            coarser(run.cells, LINE_COLUMNS),
            heats,
            (unit, scale),
            named=len(runs) > 1,
        )
    for panel in panels[:-1]:
        panel.tick_params(labelbottom=False)
    panels[-1].set_xlabel("Time since the beginning of the run (s)")
    panels[0].set_xlim(0, runs[0].span_s)
    notes = [f"{run.label}: {note}" for run in runs for note in run.notes()]
    if notes:
        figure.supxlabel("\n".join(notes), fontsize=10, ha="left", x=0.01)
    return figure


def _offsets(panel: Any, side: Any, run: DrawableTrace, shown: Offsets, *, named: bool) -> None:
    unit, divisor = offset_unit(shown)
    low, high = shown.low_bytes / divisor, shown.high_bytes / divisor
    panel.imshow(
        colour_cells(run, shown),
        extent=(0, run.span_s, low, high),
        aspect="auto",
        interpolation="nearest",
        origin="upper",
    )
    title = f"{run.label}: {shown.word}" if named else f"Offsets of {shown.word}"
    panel.set_title(title + shown.elsewhere(), loc="left", weight="bold")
    panel.set_ylabel(f"Offset ({unit})")
    panel.set_ylim(low, high)
    panel.grid(color="#e6e6e6", linewidth=0.6)
    panel.set_axisbelow(True)
    from matplotlib.patches import Patch

    touched = [group for index, group in enumerate(run.groups) if shown.cells[index].any()]
    side.legend(
        handles=[Patch(color=group.colour, label=group.label) for group in touched],
        loc="upper left",
        frameon=False,
        title="Process",
        fontsize=10,
        alignment="left",
        borderaxespad=0,
        handlelength=1,
    )


def _lines(
    panels: list[Any],
    sides: list[Any],
    positions: list[int],
    runs: list[DrawableTrace],
    folded: list[TraceCells],
) -> None:
    for panel, side, position in zip(panels, sides, positions, strict=False):
        title, label = LINE_PANELS[position]
        panel.set_title(title, loc="left", weight="bold")
        panel.set_ylabel(label)
        panel.grid(color="#e6e6e6", linewidth=0.6)
        panel.set_axisbelow(True)
        panel.yaxis.set_major_formatter(thousands)
        panel.spines[["top", "right"]].set_visible(False)
        for line in lines_of(position, runs, folded):
            edges = np.linspace(0, runs[0].span_s, len(line.values) + 1)
            dash = _DASHES[line.dash]
            panel.stairs(
                line.values,
                edges,
                label=line.name,
                baseline=None,
                color=line.colour,
                linestyle=dash,
                linewidth=1.5,
            )
        panel.set_ylim(bottom=0)
        handles, names = panel.get_legend_handles_labels()
        side.legend(
            handles,
            names,
            loc="upper left",
            frameon=False,
            fontsize=10,
            borderaxespad=0,
            handlelength=1.6,
        )


def _heat(
    figure: Any,
    panel: Any,
    side: Any,
    run: DrawableTrace,
    cells: TraceCells,
    runs: list[DrawableTrace],
    unit: tuple[str, float],
    *,
    named: bool,
) -> None:
    from matplotlib.colors import LogNorm

    name, scale = unit
    first, last = latency_bins(runs)
    shown = cells.latencies[first:last].astype(float)
    edges = LATENCY_FROM_NS * 10 ** (np.arange(first, last + 1) / BINS_PER_DECADE) / scale
    times = np.linspace(0, run.span_s, shown.shape[1] + 1)
    mesh = panel.pcolormesh(
        times,
        edges,
        np.where(shown > 0, shown, np.nan),
        norm=LogNorm(
            1,
            max(10.0, *(float(coarser(each.cells, LINE_COLUMNS).latencies.max()) for each in runs)),
        ),
        cmap="viridis_r",
        rasterized=True,
    )
    panel.set_yscale("log")
    panel.set_ylim(edges[0], edges[-1])
    panel.set_title(f"{run.label}: latency" if named else "Latency", loc="left", weight="bold")
    panel.set_ylabel(f"Dispatch to\ncomplete ({name})")
    panel.yaxis.set_major_formatter(thousands)
    panel.grid(color="#e6e6e6", linewidth=0.6)
    panel.set_axisbelow(True)
    bar = figure.colorbar(mesh, cax=side.inset_axes((0, 0, 0.1, 1)))
    bar.set_label("Requests", fontsize=10)
    bar.ax.yaxis.set_major_formatter(thousands)
    bar.ax.minorticks_off()
