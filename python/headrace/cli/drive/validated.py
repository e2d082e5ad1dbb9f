"""`headrace drive validate`: a model beside measurements of the real drive."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli._console import err, out
from headrace.cli._output_files import check_output
from headrace.cli.drive.options import (
    Chunk,
    Drive,
    Drives,
    Json,
    Raid,
    array_of,
    drive_of,
    wrong,
)
from headrace.errors import FileProblem, StudyError
from headrace.units import format_share

if TYPE_CHECKING:
    from headrace.drives import Validation
    from headrace.report.text_table import TextTable

app = typer.Typer()

KINDS_AT_MOST = 8


@app.command("validate")
def validate(
    drive: Drive,
    traces: Annotated[
        list[Path], typer.Argument(help="traces of the real drive, with completions")
    ],
    angles: Annotated[
        int | None,
        typer.Option(
            min=1, help="number of replays, each from another angle of the platter (default: 5)"
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="draw both distributions into this file: .png, .svg or .pdf"),
    ] = None,
    raid: Raid = None,
    drives: Drives = None,
    chunk: Chunk = None,
    as_json: Json = False,
) -> None:
    """Compare a drive's model with response times that were measured on the real drive."""
    from dataclasses import asdict

    from headrace.drives import read_trace, validate_drive
    from headrace.drives.evidence import check_different
    from headrace.drives.validating import save_distributions

    if plot is not None and plot.suffix not in (".png", ".svg", ".pdf"):
        problem = FileProblem(plot, 0, "--plot", plot.suffix, "no such format", ".png, .svg, .pdf")
        raise StudyError([problem])
    if plot is not None:
        check_output(plot, "--plot")
    found = drive_of(drive)
    if angles is not None and found.table["kind"] != "hdd":
        raise wrong("--angles", str(angles), f"{found.name} has no platter", "for a hard disk")
    array = array_of(raid, drives, chunk)
    check_different(traces, "TRACES")
    measured = [read_trace(trace) for trace in traces]
    made = validate_drive(found, measured, angles=angles or 5, raid=array)
    if plot is not None:
        save_distributions(made, plot)
    if as_json:
        columns = ("measured_ns", "modelled_ns")
        values = {name: value for name, value in asdict(made).items() if name not in columns}
        typer.echo(json.dumps(values, indent=1))
        return
    _show(made)
    if plot is not None:
        err.print(f"written: {plot}", style="dim", markup=False)


def _ms(time_ns: float) -> str:
    return f"{time_ns / 1e6:.3f}"


def _show(found: Validation) -> None:
    """Print the demerit, quantiles of both distributions, and the kinds of request with the
    largest errors."""
    from rich.markup import escape

    from headrace.report.text_table import TextTable, WholeText

    spread = ""
    if len(found.demerits_ns) > 1:
        least, most = min(found.demerits_ns), max(found.demerits_ns)
        spread = f"; {_ms(least)} to {_ms(most)} by the platter's angle at the start"
    out.print(
        WholeText(
            f"{escape(found.drive)}: demerit [bold]{_ms(found.demerit_ns)} ms[/] over "
            f"{found.requests:,} requests "
            f"({format_share(found.demerit_ns / found.measured_mean_ns, 1)} of the "
            f"mean of {_ms(found.measured_mean_ns)} ms{spread}). A model whose every request "
            f"takes the mean has {_ms(found.null_demerit_ns)} ms."
        )
    )
    quantiles = TextTable("", title="Response times (ms)")
    for heading in ("measured", "modelled", "difference"):
        quantiles.add_column(heading, justify="right")
    means = ("mean", found.measured_mean_ns, found.modelled_mean_ns)
    rows = [(f"p{at * 100:g}", one, other) for at, one, other in found.quantiles]
    for name, measured_ns, modelled_ns in (means, *rows):
        difference = f"{(modelled_ns - measured_ns) / 1e6:+.3f}"
        quantiles.add_row(name, _ms(measured_ns), _ms(modelled_ns), difference)
    out.print(quantiles)
    if found.kinds:
        out.print(_kinds(found))


def _kinds(found: Validation) -> TextTable:
    from headrace.report.text_table import TextTable

    kinds = TextTable("kind", title="Kinds of request, the worst first (means in ms)")
    for heading in ("requests", "measured", "modelled", "demerit", "part of error"):
        kinds.add_column(heading, justify="right")
    for kind in found.kinds[:KINDS_AT_MOST]:
        kinds.add_row(
            kind.name,
            format_share(kind.share, 1),
            _ms(kind.measured_ns),
            _ms(kind.modelled_ns),
            _ms(kind.demerit_ns),
            format_share(kind.part_of_error),
        )
    return kinds
