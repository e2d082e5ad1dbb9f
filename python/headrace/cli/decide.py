"""`headrace decide RESULTS…`: which configuration to buy, from records, offers and wishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from headrace.errors import ExitCode, FileProblem, StudyError


def decide(
    results: Annotated[list[Path], typer.Argument(help="results folders, of any engine")],
    want: Annotated[
        str, typer.Option(help='what counts most, such as "events/s" or "wh/job"')
    ] = "events/s",
    within: Annotated[
        str,
        typer.Option(help='limits, such as "price <= 40000 EUR, efficiency >= 85 %"'),
    ] = "",
    offers: Annotated[
        Path | None,
        typer.Option(help="file with prices and electricity; the catalog's prices when not given"),
    ] = None,
    mix: Annotated[
        str,
        typer.Option(help='shares of the workloads, such as "scan=70, analysis=30"; else equal'),
    ] = "",
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="scale every configuration to this many nodes, by simulation"),
    ] = None,
    model_error: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=5.0,
            help="relative error of simulated rates, such as 0.1; from cells that are measured and "
            "simulated when not given",
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="also write a page that sums it up")] = None,
    pdf: Annotated[Path | None, typer.Option(help="the same page as PDF")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the answer as JSON")] = False,
) -> None:
    """Recommend a configuration: the best of what keeps the limits, how sure that is, and what
    would change the answer.
    """
    from headrace.cli._console import err, out
    from headrace.library import decide as make_answer

    answer, files = make_answer(
        results,
        want=want,
        within=within,
        offers=offers,
        mix=_shares(mix),
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


def _shares(text: str) -> dict[str, float] | None:
    """Return the shares of a mix. Raises StudyError for a bad one."""
    shares: dict[str, float] = {}
    for part in text.split(",") if text.strip() else []:
        name, separator, share = part.partition("=")
        try:
            value = float(share.strip().removesuffix("%"))
        except ValueError:
            value = -1.0
        if not separator or not name.strip() or not 0 <= value < float("inf"):
            raise _bad_mix(part.strip(), "not a share of a workload")
        shares[name.strip()] = value
    if shares and not sum(shares.values()) > 0:
        raise _bad_mix(text, "all shares are 0")
    return shares or None


def _bad_mix(given: str, problem: str) -> StudyError:
    allowed = '"scan=70, analysis=30"'
    return StudyError([FileProblem(Path("command line"), 0, "--mix", given, problem, allowed)])
