"""`headrace resume RESULTS`: continue a run after a stop, a crash or a reboot."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._finish import finish
from headrace.cli._monitoring import OpenMetrics, OpenMetricsFile, PushGateway
from headrace.cli._on import On


def resume(
    results: Annotated[Path, typer.Argument(help="the results folder of the run that was stopped")],
    retry_invalid: Annotated[
        bool,
        typer.Option(
            "--retry-invalid",
            help="also run invalid trials again; their old records are kept in RESULTS/retried",
        ),
    ] = False,
    force_device: Annotated[list[str] | None, typer.Option(help="as for `headrace run`")] = None,
    cache_dir: Annotated[Path | None, typer.Option(help="as for `headrace run`")] = None,
    openmetrics: OpenMetrics = None,
    openmetrics_file: OpenMetricsFile = None,
    push_gateway: PushGateway = None,
    on: On = "",
) -> None:
    """Continue a run that was stopped: run the trials that have no record yet.

    No trial runs twice, except invalid ones with --retry-invalid.
    """
    from headrace.cli._progress import Display
    from headrace.library import resume as go_on
    from headrace.monitoring import MonitoringOptions, monitored
    from headrace.records.store import read_header
    from headrace.system.stopping import stopping_on_signals

    stop = threading.Event()
    options = MonitoringOptions(openmetrics, openmetrics_file, push_gateway)
    title = read_header(results).title if options.wanted else ""
    with stopping_on_signals(stop), finish(results) as ending:
        with Display() as display, monitored(display, title, options, display.note) as observer:
            go_on(
                results,
                retry_invalid=retry_invalid,
                forced_devices=force_device or [],
                observer=observer,
                cache_dir=cache_dir,
                stop=stop,
                on=on,
            )
        ending.completed()
