"""`headrace drive replay`: the response times of a model for the requests of a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli._console import err, out
from headrace.cli._output_files import check_output
from headrace.cli.drive.options import (
    MOST_INTEGER,
    MOST_IODEPTH,
    Chunk,
    Drive,
    Drives,
    Json,
    Raid,
    array_of,
    drive_of,
    wrong,
)
from headrace.whole_file import write_whole

app = typer.Typer()


@app.command("replay")
def replay(
    drive: Drive,
    trace: Annotated[
        Path,
        typer.Argument(help="any trace that `headrace trace show` reads, such as fio iolog or CSV"),
    ],
    output: Annotated[
        Path, typer.Option("--out", help="new CSV file with the response time of every request")
    ],
    closed: Annotated[
        bool,
        typer.Option(
            "--closed/--open",
            help="closed: start a request when the one before is done; open: at its recorded time",
        ),
    ] = False,
    iodepth: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_IODEPTH, help="closed: requests in flight (default: 1)"),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, max=MOST_INTEGER, help="selects the angle of the platter at the start"),
    ] = 0,
    raid: Raid = None,
    drives: Drives = None,
    chunk: Chunk = None,
    as_json: Json = False,
) -> None:
    """Send the requests of a trace to a simulated drive, and write each response time."""
    from headrace.drives import read_trace, replay_trace

    check_output(output, "--out")
    if iodepth is not None and not closed:
        problem = "in an open loop requests arrive at their times"
        raise wrong("--iodepth", str(iodepth), problem, "with --closed")
    found = drive_of(drive)
    array = array_of(raid, drives, chunk)
    requests = read_trace(trace)
    response_ns = replay_trace(
        found, requests, iodepth=(iodepth or 1) if closed else 0, seed=seed, raid=array
    )
    write_whole(output, lambda part: requests.write(part, response_ns))
    _show_replay(found.name, response_ns, "closed" if closed else "open", seed, as_json)
    if not as_json:
        err.print(f"written: {output}", style="dim", markup=False)


def _show_replay(drive: str, response_ns: Any, mode: str, seed: int, as_json: bool) -> None:
    """Print the response times of a replay."""
    import numpy as np

    mean_ns = float(np.mean(response_ns))
    p50_ns, p90_ns, p99_ns = (float(np.percentile(response_ns, at)) for at in (50, 90, 99))
    summary: dict[str, object] = {
        "drive": drive,
        "provenance": "simulated",
        "requests": len(response_ns),
        "mode": mode,
        "seed": seed,
        "response_ns_mean": mean_ns,
        "response_ns_p50": p50_ns,
        "response_ns_p90": p90_ns,
        "response_ns_p99": p99_ns,
        "response_ns_max": int(np.max(response_ns)),
    }
    if as_json:
        typer.echo(json.dumps(summary, indent=1))
        return
    out.print(
        f"{len(response_ns):,} requests on {drive} (simulated): mean "
        f"{mean_ns / 1e6:.3f} ms, median {p50_ns / 1e6:.3f} ms, p99 {p99_ns / 1e6:.3f} ms",
        markup=False,
    )
