"""Options of `headrace watch`: which jobs, how they are shown, where the looks go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Pid = Annotated[
    list[str] | None,
    typer.Option(metavar="PID", help="a process with all that it starts; may be repeated"),
]
Cgroup = Annotated[
    list[str] | None,
    typer.Option(metavar="GROUP", help="a control group, by its path; may be repeated"),
]
User = Annotated[
    list[str] | None, typer.Option(metavar="USER", help="all jobs of a user; may be repeated")
]
Slurm = Annotated[
    list[str] | None,
    typer.Option(metavar="JOB", help="a job of Slurm on this node; may be repeated"),
]
Condor = Annotated[
    list[str] | None,
    typer.Option(metavar="JOB", help="a job of HTCondor on this node; may be repeated"),
]
Everything = Annotated[bool, typer.Option("--all", help="all jobs of this node")]

Interval = Annotated[str, typer.Option(help="time between two looks")]
Once = Annotated[bool, typer.Option("--once", help="watch for one interval, show it, and end")]
AsJson = Annotated[
    bool, typer.Option("--json", help="print a JSON object per interval, one a line")
]
Record = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="write records, as a study's; for report and compare"),
]
Window = Annotated[
    str | None,
    typer.Option(
        help="with --record: time of a record, 1 min when not given; each is a trial with the "
        "jobs of this time"
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        "--openmetrics",
        metavar="HOST:PORT",
        help="serve metrics to Prometheus; a port alone is of 127.0.0.1",
    ),
]
Textfile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.prom",
        help="keep a file for the textfile collector of node_exporter up to date",
    ),
]
Profile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.toml",
        help="write a job profile in outline of the one job that is watched, for simulate and "
        "workload replay",
    ),
]
