"""`headrace simulate STUDY`: run a study in virtual time and report."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._finish import finish
from headrace.cli._on import On


def simulate(
    study: Annotated[Path, typer.Argument(help="the study file")],
    results: Annotated[
        Path | None,
        typer.Option(help="new folder for the records; results/NAME-TIME when not given"),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(
            help="a file whose \\[site] is put over the study's; headrace calibrate makes it"
        ),
    ] = None,
    on: On = "",
) -> None:
    """Run a study in virtual time, on a site of the catalog, and report it. Ctrl-C stops cleanly;
    `headrace resume` goes on.
    """
    from headrace.cli._progress import Display
    from headrace.library import default_results, load_study
    from headrace.system.stopping import stopping_on_signals

    loaded = load_study(study, site=site)
    root = results or default_results(study)
    stop = threading.Event()
    with stopping_on_signals(stop), finish(root) as ending:
        with Display() as display:
            loaded.run(root, engine="simulate", observer=display, stop=stop, on=on)
        ending.completed()
