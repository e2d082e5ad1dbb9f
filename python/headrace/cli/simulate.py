"""`headrace simulate STUDY`: run a study in virtual time and report."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._finish import finish
from headrace.cli._notes import print_notes
from headrace.cli._on import On


def simulate(
    study: Annotated[Path, typer.Argument(help="the study file")],
    results: Annotated[
        Path | None,
        typer.Option(help="new folder for the records (default: results/NAME-TIME)"),
    ] = None,
    site: Annotated[
        Path | None,
        typer.Option(
            help="a file whose \\[site] overrides the study's; headrace calibrate writes one"
        ),
    ] = None,
    on: On = "",
) -> None:
    """Simulate a study in virtual time, on drives and machines of the catalog, and report it.

    Ctrl-C stops cleanly; `headrace resume` continues.
    """
    from headrace.cli._progress import Display
    from headrace.library import default_results, load_study
    from headrace.system.stopping import stopping_on_signals

    loaded = load_study(study, site=site)
    print_notes(loaded.study.plan_options.repeats.notes)
    root = results or default_results(study)
    stop = threading.Event()
    with stopping_on_signals(stop), finish(root) as ending:
        with Display() as display:
            loaded.run(root, engine="simulate", observer=display, stop=stop, on=on)
        ending.completed()
