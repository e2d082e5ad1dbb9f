"""Reproduction: the HTML page with redrawn figures, every number with the published one,
findings, and fitted parameters. One file that works offline."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure as Drawing

from headrace.reproduce import summary
from headrace.reproduce.null_models import NULL_MODELS
from headrace.reproduce.origins import KINDS
from headrace.reproduce.published import Number, Reproduced, error_text
from headrace.reproduce.study import Figure
from headrace.whole_file import is_stream, whole

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""The palette of Okabe and Ito, suitable for colour-blind readers."""


def write_page(results: Sequence[Reproduced], path: Path) -> None:
    """Write the page, and make its folder. Raises OSError."""
    environment = Environment(
        loader=PackageLoader("headrace.reproduce"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("reproduce.html.j2").render(
        studies=[
            {
                "result": result,
                "summary": summary(result),
                "tables": _tables(result.numbers),
                "figures": [Markup(_svg(figure)) for figure in result.figures],
            }
            for result in results
        ],
        error_text=error_text,
        null_models=NULL_MODELS,
        kinds=KINDS,
    )
    if not is_stream(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    whole(path, lambda part: part.write_text(text, "utf-8"))


def _tables(numbers: Sequence[Number]) -> dict[str, list[Number]]:
    tables: dict[str, list[Number]] = {}
    for number in numbers:
        tables.setdefault(number.table, []).append(number)
    return tables


def _svg(figure: Figure) -> str:
    """Return a figure as inline SVG; equal figures give equal bytes."""
    with matplotlib.rc_context(
        {
            "svg.hashsalt": figure.title,
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 9,
        }
    ):
        drawing = Drawing(figsize=(7.0, 3.6), layout="constrained")
        axes: Any = drawing.add_subplot()
        if figure.kind == "lines":
            _lines(axes, figure)
        else:
            _bars(axes, figure)
        axes.set_title(figure.title, loc="left", fontsize=10)
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel(figure.y_label)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
        out = io.StringIO()
        drawing.savefig(
            out, format="svg", metadata={"Date": None, "Creator": None, "Title": figure.title}
        )
    text = out.getvalue()
    return text[text.index("<svg") :]


def _lines(axes: Any, figure: Figure) -> None:
    obtained = [series for series in figure.series if not series.published]
    colours = {series.label: COLOURS[index % len(COLOURS)] for index, series in enumerate(obtained)}
    for index, series in enumerate(obtained):
        axes.plot(
            series.x,
            series.y,
            marker="osD^v"[index % 5],
            markersize=4,
            color=colours[series.label],
            label=series.label,
        )
    for series in figure.series:
        if series.published:
            colour = colours.get(series.label.split(",")[0], "#555555")
            axes.plot(
                series.x,
                series.y,
                marker="*",
                markersize=13,
                linestyle="none",
                markerfacecolor="none",
                color=colour,
                label=series.label,
            )


def _bars(axes: Any, figure: Figure) -> None:
    labels = figure.series[0].x
    width = 0.8 / len(figure.series)
    for index, series in enumerate(figure.series):
        at = [
            place + (index - (len(figure.series) - 1) / 2) * width for place in range(len(labels))
        ]
        colour = COLOURS[index // (1 if len(figure.series) < 4 else 2) % len(COLOURS)]
        axes.bar(
            at,
            series.y,
            width,
            color="none" if series.published else colour,
            edgecolor=colour,
            label=series.label,
        )
    axes.set_xticks(
        range(len(labels)),
        labels,
        rotation=25 if len(labels) > 4 else 0,
        ha="right" if len(labels) > 4 else "center",
    )
