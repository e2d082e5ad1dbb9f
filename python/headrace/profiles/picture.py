"""A recorded job as one picture: offsets over time, read sizes, times, parts of its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import HeadraceError, UsageError, system_words
from headrace.palette import BLACK, CURVE_COLOURS, GREY, quiet_matplotlib
from headrace.profiles.steps import Op, Recording, Steps
from headrace.profiles.summary import Summary, is_read, summarise
from headrace.profiles.timeline import timeline
from headrace.units import format_amount, format_seconds
from headrace.whole_file import whole

READ, WRITE, WORK, SLEEP = CURVE_COLOURS[0], CURVE_COLOURS[1], CURVE_COLOURS[2], GREY
_MOST_POINTS = 20_000
"""More marks cannot be distinguished and make the picture large."""
_SHOWN_FILES = 8


def draw(recording: Recording, path: Path) -> None:
    """Write a PNG or SVG, by the suffix of `path`. Raises UsageError for another suffix,
    HeadraceError if it cannot be written."""
    if path.suffix not in (".png", ".svg"):
        raise UsageError(f"{path}: a picture is a .png or a .svg")
    quiet_matplotlib()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    summary = summarise(recording)
    grid = figure.add_gridspec(2, 3, height_ratios=(3, 2))
    _places(figure.add_subplot(grid[0, :]), recording, summary)
    _sizes(figure.add_subplot(grid[1, 0]), summary)
    _time(figure.add_subplot(grid[1, 1]), recording)
    _parts(figure.add_subplot(grid[1, 2]), recording, summary)
    figure.suptitle(
        f"{recording.name}: {format_amount(summary.bytes_read)} in {summary.reads} reads, "
        f"{format_amount(summary.bytes_written)} written, {format_seconds(summary.duration_s)}",
        fontsize=13,
    )
    kind = path.suffix.removeprefix(".")

    def write(part: Path) -> None:
        with rc_context({"svg.hashsalt": recording.name, "svg.fonttype": "none"}):
            undated = {"Date": None} if kind == "svg" else {}
            figure.savefig(part, dpi=150, format=kind, metadata=undated)

    try:
        whole(path, write, seeks=True)
    except OSError as error:
        problem = f"{path}: the picture cannot be written: {system_words(error)}"
        raise HeadraceError(problem) from error


def _shown(summary: Summary) -> list[str]:
    """Return the data files with the most bytes."""
    return [use.path for use in summary.files if use.bytes_read + use.bytes_written][:_SHOWN_FILES]


def _unit(largest: float) -> tuple[float, str]:
    for size, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if largest >= size:
            return size, name
    return 1.0, "bytes"


def _of_file(recording: Recording, path: str) -> Steps:
    number = next(index for index, file in enumerate(recording.files) if file.path == path)
    return recording.steps.take(recording.steps.file == number)


def _places(axes: Any, recording: Recording, summary: Summary) -> None:
    """Draw offset against time, with the files stacked."""
    base, edges = 0.0, [0.0]
    drawn: list[tuple[Steps, float]] = []
    names = _shown(summary)
    for path in names:
        own = _of_file(recording, path)
        own = own.take(is_read(own) | (own.op == Op.WRITE))
        drawn.append((own, base))
        base += max(float((own.offset + own.length).max(initial=1)), 1.0)
        edges.append(base)
    size, unit = _unit(base)
    total = sum(len(own) for own, _ in drawn)
    every = max(1, -(-total // _MOST_POINTS))
    for own, bottom in drawn:
        for reads in (True, False):
            chosen = own.take((own.op != Op.WRITE) == reads)
            if len(chosen):
                kept = chosen.take(np.arange(0, len(chosen), every))
                _accesses(axes, kept, bottom, size, reads=reads)
    _file_borders(axes, names, edges, size)
    thinned = f" (every {every}th)" if every > 1 else ""
    axes.set_title(f"Where it read and wrote{thinned}", loc="left", fontsize=11)
    axes.set_xlabel("Time since the start, s")
    axes.set_ylabel(
        f"Offset in the file, {unit}"
        if len(names) <= 1
        else f"Offset, files one above the other, {unit}"
    )
    axes.set_xlim(0, summary.duration_s or 1)
    axes.set_ylim(0, base / size or 1)
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        unique = dict(zip(labels, handles, strict=True))
        axes.legend(unique.values(), unique.keys(), loc="lower right", fontsize=9, framealpha=0.9)


def _accesses(axes: Any, steps: Steps, bottom: float, size: float, *, reads: bool) -> None:
    """Draw reads or writes of one file: a line over their bytes, a mark at their offset."""
    colour = READ if reads else WRITE
    at = steps.start_ns * 1e-9
    axes.vlines(
        at,
        (bottom + steps.offset) / size,
        (bottom + steps.offset + steps.length) / size,
        color=colour,
        linewidth=1.0,
        rasterized=True,
    )
    axes.plot(
        at,
        (bottom + steps.offset) / size,
        "o" if reads else "^",
        color=colour,
        markersize=3,
        markeredgewidth=0,
        label="read" if reads else "written",
        rasterized=True,
    )


def _file_borders(axes: Any, names: list[str], edges: list[float], size: float) -> None:
    """Draw a line between two files, and the names of those that are high enough."""
    for edge in edges[1:-1]:
        axes.axhline(edge / size, color=BLACK, linewidth=0.6)
    for path, bottom, top in zip(names, edges[:-1], edges[1:], strict=True):
        if top - bottom > 0.03 * edges[-1]:
            axes.annotate(
                Path(path).name,
                (1.0, (bottom + top) / 2 / size),
                xycoords=("axes fraction", "data"),
                xytext=(4, 0),
                textcoords="offset points",
                rotation=90,
                va="center",
                fontsize=8,
                annotation_clip=False,
            )


def _sizes(axes: Any, summary: Summary) -> None:
    """Draw the number of reads by size."""
    axes.set_title("Sizes of reads", loc="left", fontsize=11)
    axes.set_xlabel("Bytes of a read, below")
    axes.set_ylabel("Reads")
    if not summary.read_size_buckets:
        axes.text(0.5, 0.5, "no reads", ha="center", transform=axes.transAxes)
        return
    places = [int(np.log2(bucket)) for bucket, _ in summary.read_size_buckets]
    axes.bar(places, [count for _, count in summary.read_size_buckets], width=0.85, color=READ)
    low, high = min(places), max(places)
    ticks = list(range(low, high + 1, max(1, (high - low + 5) // 6)))
    axes.set_xticks(ticks, [_binary(1 << tick) for tick in ticks])
    axes.set_xlim(low - 1.2, high + 1.2)


def _binary(value: int) -> str:
    for size, name in ((1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
        if value >= size:
            return f"{value // size}{name}"
    return str(value)


def _time(axes: Any, recording: Recording) -> None:
    """Draw where the time went."""
    line = timeline(
        recording.steps,
        recording.files,
        recording.duration_ns,
        cpu_ns=recording.cpu_ns,
        cpu_wait_ns=0,
    )
    spent = line.steps.end_ns - line.steps.start_ns
    reads = float(spent[is_read(line.steps)].sum())
    writes = float(spent[line.steps.op == Op.WRITE].sum())
    others = float(spent.sum()) - reads - writes
    work = float(line.work_ns.sum()) + line.work_after_ns
    sleep = float(line.wait_ns.sum()) + line.wait_after_ns
    waited = min(sleep, float(recording.cpu_wait_ns))
    rows = [
        ("work", work, WORK),
        ("in reads", reads, READ),
        ("in writes", writes, WRITE),
        ("other calls", others, BLACK),
        ("waiting for a CPU", waited, CURVE_COLOURS[3]),
        ("other waits", sleep - waited, SLEEP),
    ]
    for place, (_, value, colour) in enumerate(rows):
        axes.barh(-place, value * 1e-9, color=colour, height=0.7)
        axes.annotate(
            format_seconds(value * 1e-9),
            (value * 1e-9, -place),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.set_yticks(
        [-place for place in range(len(rows))], [name for name, _, _ in rows], fontsize=9
    )
    axes.margins(x=0.35)  # for the words beside the longest bar
    axes.locator_params(axis="x", nbins=4)
    axes.set_title("Where the time went", loc="left", fontsize=11)
    axes.set_xlabel("Time, s")


def _parts(axes: Any, recording: Recording, summary: Summary) -> None:
    """Draw how often each hundredth of the file with the most bytes read was read."""
    axes.set_title("Parts of its largest input", loc="left", fontsize=11)
    axes.set_xlabel("Part of the file, %")
    axes.set_ylabel("Times read")
    use = max(summary.files, key=lambda use: use.bytes_read, default=None)
    if use is None or not use.bytes_read:
        axes.text(0.5, 0.5, "no reads", ha="center", transform=axes.transAxes)
        return
    own = _of_file(recording, use.path)
    own = own.take(is_read(own))
    end = max(use.bytes, int((own.offset + own.length).max()))
    edges = np.linspace(0, end, 101)
    # Bytes of all reads below each edge: the integral of the number of reads over the offset.
    below = np.array([float(np.clip(edge - own.offset, 0, own.length).sum()) for edge in edges])
    axes.stairs(np.diff(below) / (end / 100), np.arange(101), color=READ, fill=True)
    axes.set_xlim(0, 100)
    axes.set_ylim(bottom=0)
