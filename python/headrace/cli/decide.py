"""`headrace decide RESULTS…`: which configuration to buy, from records, offers and wishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from headrace.cli._wishes import Mix, OffersFile, Within, shares_of
from headrace.errors import ExitCode, UsageError


def decide(
    results: Annotated[list[Path], typer.Argument(help="measured or simulated results folders")],
    want: Annotated[
        str, typer.Option(help='what counts most, such as "events/s" or "wh/job"')
    ] = "events/s",
    within: Within = "",
    show: Annotated[
        str,
        typer.Option(help='further columns of the table, such as "wall_s, price, price/TB"'),
    ] = "",
    offers: OffersFile = None,
    mix: Mix = "",
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="scale every configuration to this many nodes, by simulation"),
    ] = None,
    model_error: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=5.0,
            help="relative error of simulated rates, such as 0.1 (default: from cells that are "
            "both measured and simulated, otherwise 0.15)",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="also write the answer as an HTML page")] = None,
    pdf: Annotated[Path | None, typer.Option(help="also write that page as PDF")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the answer as JSON")] = False,
) -> None:
    """Recommend the best configuration within your limits. Says how sure the answer is, and what
    would change it.
    """
    from headrace.cli._console import err, out
    from headrace.library import decide as make_answer

    _check_pages(html, pdf)
    answer, files = make_answer(
        results,
        want=want,
        within=within,
        show=show,
        offers=offers,
        mix=shares_of(mix),
        nodes=nodes,
        model_error=model_error,
        html=html,
        pdf=pdf,
        console=None if as_json else out,
    )
    if as_json:
        from headrace.report.decision import as_json as make_json

        typer.echo(json.dumps(make_json(answer), indent=1))
    for file in files:
        err.print(f"written: {escape(str(file))}", style="dim")
    if answer.choice.leading is None:
        raise typer.Exit(int(ExitCode.INVALID_TRIALS))


def _check_pages(html: Path | None, pdf: Path | None) -> None:
    """Raise UsageError or RefusedError before the work."""
    from headrace.cli._output_files import check_page

    for page, option in ((html, "--html"), (pdf, "--pdf")):
        if page is not None:
            check_page(page, option)
    if html is not None and pdf is not None and html.resolve() == pdf.resolve():
        raise UsageError(f"--html and --pdf name the same file: {html}")
