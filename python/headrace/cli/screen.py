"""`headrace screen STUDY`: a smaller study of the configurations that could be the best."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headrace.cli._console import err, out
from headrace.cli._on import On
from headrace.cli._wishes import Mix, OffersFile, Within, shares_of
from headrace.errors import as_word


def screen(
    study: Annotated[Path, typer.Argument(help="the study file")],
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out", help="the smaller study file (default: NAME-screened.toml next to the study)"
        ),
    ] = None,
    want: Annotated[
        str,
        typer.Option(
            help='what counts most, such as "events/s" or "wh/job" (default: the metric of the '
            "study's \\[report])"
        ),
    ] = "",
    within: Within = "",
    offers: OffersFile = None,
    mix: Mix = "",
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            help="measured results of this study, from which the model's error is computed"
        ),
    ] = None,
    model_error: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=5.0,
            help="relative error of simulated rates (default: from --measured, or 0.15)",
        ),
    ] = None,
    on: On = "",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Simulate every cell of a study, and write a smaller study to measure: only the configurations
    that could be the best, given the model's error.
    """
    from headrace.library import screen as make
    from headrace.system.stopping import stopping_on_signals

    stop = threading.Event()
    with stopping_on_signals(stop), _progress() as bar:
        task = bar.add_task("simulating", total=None)
        made = make(
            study, out_file, want=want, within=within, offers=offers, mix=shares_of(mix),
            measured=measured or (), model_error=model_error, stop=stop, on=on,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip
    if as_json:
        from headrace.report.screening import as_json as make_json

        values = make_json(made.screening, made.trials, made.offers.currency, str(made.file))
        typer.echo(json.dumps(values, indent=1, default=str))
        return
    from headrace.report.screening import print_screening

    print_screening(made.screening, made.trials, made.offers.currency, out)
    out.print(f"written: {made.file}", markup=False)
    out.print(f"  headrace run {as_word(made.file)}        measures it", markup=False)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn())
    return Progress(
        *columns,
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_interactive,  # it would print an empty line
    )
