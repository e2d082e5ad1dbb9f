"""`headrace report RESULTS`: the report again, from stored records, without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.errors import ExitCode


def report(
    results: Annotated[Path, typer.Argument(help="a results folder")],
    format: Annotated[list[str] | None, typer.Option(help="html, csv, latex, parquet (repeatable)")] = None,
    series: Annotated[
        list[str] | None, typer.Option(help="a trial whose device series the page shows too (repeatable)")
    ] = None,
) -> None:
    """Report a results folder in the terminal, and as files beside the records."""
    if show(results, format or ["html"], series or []):
        raise typer.Exit(int(ExitCode.INVALID_TRIALS))


def show(results: Path, formats: list[str], series: list[str] | None = None) -> bool:
    """Prints the report and writes the files. Returns whether trials were left out as failed or invalid."""
    from headrace.cli._console import err, out
    from headrace.library import report as make_report

    findings, files = make_report(results, formats, out, series=series or [])
    for file in files:
        err.print(f"written: {file}", style="dim")
    return any(left.status in ("invalid", "failed") for left in findings.left_out)
