"""`headrace drive fit`: a drive whose free parameters meet measurements of the real drive."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from headrace.cli._console import err, out
from headrace.cli._output_files import check_output
from headrace.cli.drive.options import (
    MOST_INTEGER,
    Chunk,
    Drive,
    Drives,
    Json,
    Raid,
    array_of,
    drive_of,
    given,
    wrong,
)
from headrace.errors import ExitCode
from headrace.units import format_change, format_digits, format_share

if TYPE_CHECKING:
    from headrace.drives.fitting import Fit
    from headrace.drives.kept_values import Kept
    from headrace.report.text_table import TextTable

app = typer.Typer()


@app.command("fit")
def fit(
    drive: Drive,
    results: Annotated[
        list[Path],
        typer.Argument(
            help="measurements of the real drive: results of fio --output-format=json, and traces "
            "with completions (any that `headrace trace` reads, or CSV with response_ns)"
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--out", help="new file for the fitted drive (default: NAME-fitted.toml)"),
    ] = None,
    runtime: Annotated[
        str | None,
        typer.Option(
            help="virtual time of each load (default: for a disk as long as fio measured, 60 s at "
            "most; for an SSD 4 s)"
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, max=MOST_INTEGER // 2, help="traces: first angle of the platter at the start"
        ),
    ] = 0,
    angles: Annotated[
        int, typer.Option(min=1, help="traces: replays with different angles of the platter")
    ] = 2,
    raid: Raid = None,
    drives: Drives = None,
    chunk: Chunk = None,
    write_cache: Annotated[
        str | None,
        typer.Option(
            help="write cache of the disk while it was measured: on or off (default: its table's)"
        ),
    ] = None,
    error_limit: Annotated[
        float,
        typer.Option(min=0.0, help="root mean square error above which no file is written"),
    ] = 0.25,
    force: Annotated[
        bool, typer.Option("--force", help="write the drive even if the error is above the limit")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fit a drive's free parameters to fio results and traces. Prints the residual errors, and the
    parameters that the results cannot determine.
    """
    from headrace.catalog.write_cache import with_write_cache
    from headrace.drives import fit_drive, parse_fio_seconds
    from headrace.drives.fitted_file import write_fitted
    from headrace.drives.observed_traces import TraceReplay

    if write_cache not in (None, "on", "off"):
        raise wrong("--write-cache", write_cache, "not a state", "on, off")
    found = with_write_cache(drive_of(drive), write_cache)
    path = output or Path(f"{found.name}-fitted.toml")
    check_output(path, "--out")  # before the fit, which takes minutes
    made = fit_drive(
        found,
        results,
        runtime_s=None if runtime is None else given("--runtime", runtime, parse_fio_seconds),
        replay=TraceReplay(seed=seed, angles=angles, raid=array_of(raid, drives, chunk)),
        progress=lambda text: err.print(text, style="dim"),
    )
    written = force or made.rms_error <= error_limit
    if written:
        write_fitted(found, made, results, path)
    _show_fit(found.name, made, path if written else None, as_json)
    if not written:
        err.print(
            f"not written: the error of {format_share(made.rms_error, 1)} is above "
            f"{format_share(error_limit)} "
            "(--error-limit). Choose a table of the same kind of drive, or write it with --force."
        )
        raise typer.Exit(int(ExitCode.INVALID_TRIALS))
    if not as_json:
        err.print(f"written: {path}", style="dim", markup=False)


def _show_fit(drive: str, made: Fit, file: Path | None, as_json: bool) -> None:
    """Print a fit, and the file that was written."""
    from dataclasses import asdict

    if as_json:
        values = {
            "parameters": [asdict(each) for each in made.parameters],
            "residuals": [asdict(each) for each in made.residuals],
            "demerits": [asdict(each) for each in made.demerits],
            "kept": [asdict(each) for each in made.kept],
        }
        typer.echo(
            json.dumps(
                {
                    "drive": drive,
                    "file": None if file is None else str(file),
                    "rms_error": made.rms_error,
                    "cross_error": made.cross_error,
                    **values,
                },
                indent=1,
            )
        )
    else:
        out.print(_parameters(drive, made))
        for why in dict.fromkeys(each.why for each in made.parameters if each.why):
            names = ", ".join(each.name for each in made.parameters if each.why == why)
            out.print(f"not determined: {names}: {why}", markup=False)
        _show_kept(made.kept)
        out.print(_residuals(made))
        for each in made.demerits:
            out.print(
                f"{escape(each.trace)}: demerit {format_share(each.fitted, 1)} of the mean of "
                f"{each.mean_ns / 1e6:.3f} ms over {each.requests:,} requests; before "
                f"{format_share(each.before, 1)}"
                + (
                    ""
                    if each.left_out is None
                    else f"; not fitted to it {format_share(each.left_out, 1)}"
                )
            )
        cross = made.cross_error
        rest = "" if cross is None else f"; on results that took no part {format_share(cross, 1)}"
        out.print(f"root mean square error {format_share(made.rms_error, 1)}{rest}")


def _show_kept(kept: list[Kept]) -> None:
    """Print the values that were not fitted: those that no result determines, and those that
    results depend on but that a data sheet must give."""
    from headrace.drives.fitting import LEAST_EFFECT
    from headrace.drives.kept_values import FACTOR
    from headrace.report.text_table import WholeText

    def named(each: Kept) -> str:
        return f"{each.name} {each.value}{'' if each.stated else ' (default)'}"

    idle = [named(each) for each in kept if each.effect < LEAST_EFFECT]
    if idle:
        said = f"not fitted, and no result given depends on it: {', '.join(idle)}"
        out.print(WholeText(said), markup=False)
    acting = [
        f"{named(each)} (by up to {format_share(math.expm1(each.effect))})"
        for each in kept
        if each.effect >= LEAST_EFFECT
    ]
    if acting:
        said = (
            f"not fitted, but results depend on it when it is {FACTOR:g} times as large or small: "
            f"{', '.join(acting)}. Check it against the data sheet"
        )
        out.print(WholeText(said), markup=False)


def _parameters(drive: str, made: Fit) -> TextTable:
    from headrace.report.text_table import TextTable

    table = TextTable("parameter", "before", "fitted", "standard error", title=escape(drive))
    for each in made.parameters:
        error = "" if each.error is None else format_digits(each.error, 3)
        table.add_row(
            each.name,
            format_digits(each.before, 4),
            format_digits(each.value, 4) if each.determined else "not determined",
            error,
        )
    return table


def _residuals(made: Fit) -> TextTable:
    """Return the residual error of each result."""
    from headrace.report.text_table import TextTable

    table = TextTable("job", "quantity")
    for heading in ("measured", "before", "fitted", "error", "error, not fitted to it"):
        table.add_column(heading, justify="right")
    for each in made.residuals:
        crossed = ""
        if each.left_out is not None and each.measured:
            crossed = format_change(each.left_out / each.measured - 1, 1)
        table.add_row(
            escape(each.job),
            each.quantity,
            format_digits(each.measured, 4),
            format_digits(each.before, 4),
            format_digits(each.fitted, 4),
            # Of a request whose time the trace rounds to 0 no model errs by a share.
            format_change(each.fitted / each.measured - 1, 1) if each.measured else "-",
            crossed,
        )
    return table
