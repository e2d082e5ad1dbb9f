"""`headrace gate RESULTS --against BASELINE`: did anything get worse? For CI and cron."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def gate(
    results: Annotated[Path, typer.Argument(help="the results folder to judge")],
    against: Annotated[Path, typer.Option("--against", help="the results folder of the baseline")],
    metric: Annotated[
        str | None,
        typer.Option(
            help='metric to compare, such as events_per_s or "Wh/job" (default: that of the '
            "baseline's study)"
        ),
    ] = None,
    tolerance: Annotated[
        str, typer.Option(help='largest relative change that does not matter: "5 %" or 0.05')
    ] = "5 %",
    force: Annotated[
        bool, typer.Option("--force", help="allow measured results against simulated ones")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the verdicts as JSON")] = False,
) -> None:
    """Check results against a baseline for regressions, in CI or cron. Exit code 0: nothing got
    worse; 7: a regression; 5: undecided.
    """
    from headrace.analysis.gate import as_json as make_json
    from headrace.cli._console import out
    from headrace.library import gate as judge

    found = judge(
        results, against, metric=metric, tolerance=tolerance, force=force,
        console=None if as_json else out,
    )  # fmt: skip
    if as_json:
        typer.echo(make_json(found))
    if found.exit_code:
        raise typer.Exit(int(found.exit_code))
