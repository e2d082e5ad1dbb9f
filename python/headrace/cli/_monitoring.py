"""Options of `run` and `resume` for monitoring."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

OpenMetrics = Annotated[
    str | None,
    typer.Option(
        "--openmetrics",
        metavar="HOST:PORT",
        help="serve metrics of the run to Prometheus; without HOST, on 127.0.0.1",
    ),
]
OpenMetricsFile = Annotated[
    Path | None,
    typer.Option(
        "--openmetrics-file",
        metavar="FILE.prom",
        help="write metrics to a file for the textfile collector of node_exporter, repeatedly",
    ),
]
PushGateway = Annotated[
    str | None,
    typer.Option(
        "--push-gateway",
        metavar="URL",
        help="push metrics of the run to a Prometheus push gateway",
    ),
]
