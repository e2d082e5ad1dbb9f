"""Options of `headrace watch`: which jobs, how they are shown, where the looks go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Pid = Annotated[
    list[str] | None,
    typer.Option(metavar="PID", help="a process and all its descendants; repeatable"),
]
Cgroup = Annotated[
    list[str] | None,
    typer.Option(metavar="GROUP", help="a control group, given by its path; repeatable"),
]
User = Annotated[
    list[str] | None, typer.Option(metavar="USER", help="all jobs of a user; repeatable")
]
Slurm = Annotated[
    list[str] | None,
    typer.Option(metavar="JOB", help="a Slurm job on this node; repeatable"),
]
Condor = Annotated[
    list[str] | None,
    typer.Option(metavar="JOB", help="an HTCondor job on this node; repeatable"),
]
Everything = Annotated[bool, typer.Option("--all", help="all jobs of this node")]

Interval = Annotated[str, typer.Option(help="time between two samples of the counters")]
Once = Annotated[bool, typer.Option("--once", help="watch for one interval, show it, and end")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object per interval and line")]
Record = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="write records like those of a study, for report, compare and gate"
    ),
]
Window = Annotated[
    str | None,
    typer.Option(
        help="with --record: length of one trial, which has all jobs of this time (default: 1 min)"
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--openmetrics",
        metavar="HOST:PORT",
        help="serve metrics to Prometheus; without HOST, on 127.0.0.1",
    ),
]
Textfile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.prom",
        help="write metrics to a file for the textfile collector of node_exporter, repeatedly",
    ),
]
Profile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.toml",
        help="write a rough job profile of the one job that is watched, for simulations and the "
        "workload replay",
    ),
]
