"""`headrace resume RESULTS`: goes on after a stop, a crash or a reboot."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._finish import finish


def resume(
    results: Annotated[Path, typer.Argument(help="the results folder of the run that was stopped")],
    force_device: Annotated[list[str] | None, typer.Option(help="as for `headrace run`")] = None,
    cache_dir: Annotated[Path | None, typer.Option(help="as for `headrace run`")] = None,
) -> None:
    """Run the trials that have no record yet; nothing is run twice."""
    from headrace.cli._progress import Display
    from headrace.library import resume as go_on
    from headrace.library import stopping_on_signals

    stop = threading.Event()
    with stopping_on_signals(stop), finish(results) as ending:
        with Display() as display:
            go_on(
                results, forced_devices=force_device or [], observer=display, cache_dir=cache_dir, stop=stop
            )
        ending.completed()
