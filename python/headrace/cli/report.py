"""`headrace report RESULTS`: write the report again from stored records, without an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from headrace.errors import ExitCode, as_word


def report(
    results: Annotated[Path, typer.Argument(help="a results folder")],
    format: Annotated[
        list[str] | None, typer.Option(help="html, csv, latex, parquet (repeatable)")
    ] = None,
    series: Annotated[
        list[str] | None,
        typer.Option(
            help="a trial whose device activity over time the page also shows (repeatable)"
        ),
    ] = None,
    text: Annotated[
        bool, typer.Option("--text", help="print a short text for a ticket, and write no file")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            help="folder for the files, if the results are read-only (default: with the records)"
        ),
    ] = None,
) -> None:
    """Report a results folder in the terminal and as files."""
    if text:
        from headrace.library import report_text

        typer.echo(report_text(results), nl=False)
        return
    if show(results, format or ["html"], series or [], output):
        raise typer.Exit(int(ExitCode.INVALID_TRIALS))


def show(
    results: Path, formats: list[str], series: list[str] | None = None, output: Path | None = None
) -> bool:
    """Print the report and write the files. Return whether trials were left out.

    Failed and invalid trials are left out.
    """
    from headrace.cli._console import err, out
    from headrace.library import report as make_report

    findings, files = make_report(results, formats, out, series=series or [], output=output)
    if said := _to_run_again(results, [left.status for left in findings.left_out]):
        again = f"headrace resume {escape(as_word(results))} --retry-invalid"
        err.print(f"to run the {said} again: {again}")
    for file in files:
        err.print(f"written: {escape(str(file))}", style="dim")
    return any(left.status in ("invalid", "failed") for left in findings.left_out)


def _to_run_again(results: Path, statuses: Sequence[str]) -> str:
    """Return the trials that `resume --retry-invalid` runs, in words; empty if there is none.

    `statuses`: of the trials that are left out.
    """
    number, kind = statuses.count("invalid"), "invalid"
    if "failed" in statuses:
        from headrace.analysis.read import read

        with_failed = len(read(results).to_retry)  # those that lost a node or space, too
        if with_failed != number:
            number, kind = with_failed, "invalid or failed" if number else "failed"
    return f"{number} {kind} trial{'s' if number != 1 else ''}" if number else ""
