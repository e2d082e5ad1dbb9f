"""`headrace run STUDY`: run real jobs on real storage and report."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._finish import finish
from headrace.cli._monitoring import OpenMetrics, OpenMetricsFile, PushGateway
from headrace.cli._notes import print_notes


def run(
    study: Annotated[Path, typer.Argument(help="the study file")],
    results: Annotated[
        Path | None,
        typer.Option(help="new folder for the records (default: results/NAME-TIME)"),
    ] = None,
    force_device: Annotated[
        list[str] | None,
        typer.Option(
            help="a block device of the study that may be overwritten although it is not empty "
            "(repeatable)"
        ),
    ] = None,
    cache_dir: Annotated[
        Path | None,
        typer.Option(help="where generated data sets are kept (default: ~/.cache/headrace)"),
    ] = None,
    openmetrics: OpenMetrics = None,
    openmetrics_file: OpenMetricsFile = None,
    push_gateway: PushGateway = None,
) -> None:
    """Run a study with real jobs on real or emulated storage, and report it.

    Ctrl-C stops cleanly; `headrace resume` continues.
    """
    from headrace.cli._progress import Display
    from headrace.library import default_results, load_study
    from headrace.monitoring import MonitoringOptions, monitored
    from headrace.system.stopping import stopping_on_signals

    loaded = load_study(study, forced_devices=force_device or [])
    print_notes(loaded.study.plan_options.repeats.notes)
    root = results or default_results(study)
    stop = threading.Event()
    options = MonitoringOptions(openmetrics, openmetrics_file, push_gateway)
    with stopping_on_signals(stop), finish(root) as ending:
        with (
            Display() as display,
            monitored(display, loaded.study.title, options, display.note) as observer,
        ):
            loaded.run(root, observer=observer, cache_dir=cache_dir, stop=stop)
        ending.completed()
