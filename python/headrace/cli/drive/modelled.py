"""`headrace drive …` in virtual time: list, show, run, replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_args

import typer

from headrace.cli._console import err, out
from headrace.cli.drive.options import (
    Chunk,
    Controller,
    Drive,
    Drives,
    Json,
    NoBattery,
    Raid,
    array_of,
    given,
)
from headrace.errors import FileProblem, StudyError
from headrace.units import format_bytes, format_bytes_per_s

if TYPE_CHECKING:
    from headrace.catalog import CatalogEntry
    from headrace.drives.running import DriveRun

app = typer.Typer()


@app.command("list")
def list_drives(as_json: Json = False) -> None:
    """List the drives of the catalog."""
    from headrace.catalog import entry, names
    from headrace.report.text_table import TextTable

    rows = [_facts(entry("drives", name)) for name in names("drives")]
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
        return
    table = TextTable("name", "kind", "rpm", "capacity", "about")
    for row in rows:
        rpm = f"{row['rpm']:.0f}" if row["rpm"] else ""
        table.add_row(
            row["name"], row["kind"], rpm, format_bytes(row["capacity_bytes"]), row["about"]
        )
    out.print(table)


class _Facts(TypedDict):
    """What a list of drives shows."""

    name: str
    kind: str
    rpm: float | None
    capacity_bytes: int
    about: str
    sources: dict[str, str]


def _facts(found: CatalogEntry) -> _Facts:
    table = found.table
    return {
        "name": found.name,
        "kind": table["kind"],
        "rpm": table.get("rotation_rpm"),
        "capacity_bytes": table["capacity_bytes"],
        "about": table.get("about", ""),
        "sources": found.source,
    }


@app.command("show")
def show(drive: Drive, as_json: Json = False) -> None:
    """Show every value of a drive and where it comes from."""
    from headrace.catalog import entry
    from headrace.report.text_table import TextTable

    found = entry("drives", drive)
    if as_json:
        typer.echo(json.dumps({**_facts(found), "table": found.table}, indent=1))
        return
    about = f"{found.name}: {found.table.get('about', '')}"
    table = TextTable("field", "value", "source or reason", title=about)
    for path, value in _leaves(found.written):
        table.add_row(".".join(path), str(value), _source_of(path, found.source))
    out.print(table)


def _leaves(
    table: dict[str, object], prefix: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for key, value in table.items():
        path = (*prefix, str(key))
        if path in (("source",), ("about",), ("name",)):
            continue
        if isinstance(value, dict):
            found += _leaves(value, path)  # pyright: ignore[reportUnknownArgumentType]
        else:
            found.append((path, value))
    return found


def _source_of(path: tuple[str, ...], source: dict[str, str]) -> str:
    for end in range(len(path), 0, -1):
        if ".".join(path[:end]) in source:
            return source[".".join(path[:end])]
    return ""


@app.command("run")
def run(
    drive: Drive,
    rw: Annotated[str, typer.Option(help="read, write, randread, randwrite, rw, randrw")] = "read",
    bs: Annotated[str, typer.Option(help="bytes a request: 4k, 64k, 1m")] = "4k",
    iodepth: Annotated[int, typer.Option(help="requests in flight, each job")] = 1,
    numjobs: Annotated[int, typer.Option(help="jobs at once")] = 1,
    runtime: Annotated[str, typer.Option(help="virtual time: 60, 90s, 2m")] = "60",
    ramp_time: Annotated[str, typer.Option(help="time before the measured one")] = "0",
    offset: Annotated[str, typer.Option(help="where the region begins")] = "0",
    offset_increment: Annotated[str, typer.Option(help="between the regions of jobs")] = "0",
    size: Annotated[
        str | None, typer.Option(help="bytes of the region; the rest of the drive when not given")
    ] = None,
    rwmixread: Annotated[int, typer.Option(help="percent reads of a mixed load")] = 50,
    fsync: Annotated[
        int, typer.Option(help="a flush after this many writes of a job; 0: never")
    ] = 0,
    number_ios: Annotated[int | None, typer.Option(help="end after this many requests")] = None,
    randseed: Annotated[int, typer.Option(help="seed of random offsets")] = 0,
    empty: Annotated[
        bool,
        typer.Option("--empty", help="what is read holds no data but what the drive's table says"),
    ] = False,
    buffered: Annotated[
        bool,
        typer.Option("--buffered", help="writes as the page cache writes back, not O_DIRECT"),
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(help="of the kernel, before the drive: mq-deadline, bfq …"),
    ] = None,
    raid: Raid = None,
    drives: Drives = 1,
    chunk: Chunk = "64k",
    controller: Controller = None,
    no_battery: NoBattery = False,
    as_json: Json = False,
) -> None:
    """Run a drive, or a RAID of such drives, under a load in virtual time, with fio's words and
    meanings.
    """
    from headrace.catalog import entry
    from headrace.drives import Load, parse_fio_bytes, parse_fio_seconds, run_drive
    from headrace.drives.fio import RW
    from headrace.targets.exports import Scheduler

    if rw not in RW:
        raise StudyError(
            [FileProblem(Path("command line"), 0, "--rw", f'"{rw}"', "not a load", ", ".join(RW))]
        )
    if scheduler is not None and scheduler not in get_args(Scheduler):
        known = ", ".join(get_args(Scheduler))
        place = (Path("command line"), 0, "--scheduler", f'"{scheduler}"')
        raise StudyError([FileProblem(*place, "not a scheduler", known)])
    found = entry("drives", drive)
    load = Load(
        rw=rw,
        bs_bytes=given("--bs", bs, parse_fio_bytes),
        iodepth=iodepth,
        numjobs=numjobs,
        runtime_s=given("--runtime", runtime, parse_fio_seconds),
        ramp_time_s=given("--ramp-time", ramp_time, parse_fio_seconds),
        offset_bytes=given("--offset", offset, parse_fio_bytes),
        offset_increment_bytes=given("--offset-increment", offset_increment, parse_fio_bytes),
        size_bytes=None if size is None else given("--size", size, parse_fio_bytes),
        rwmixread=rwmixread,
        fsync=fsync,
        number_ios=number_ios,
        seed=randseed,
        empty=empty,
        buffered=buffered,
        scheduler=scheduler,
        raid=array_of(raid, drives, chunk, controller, battery=not no_battery),
    )
    result = run_drive(found.table, load, found.file)
    if as_json:
        typer.echo(json.dumps({"drive": found.name, "provenance": "simulated", **result}, indent=1))
        return
    _show_run(found.name, result)


def _show_run(name: str, result: DriveRun) -> None:
    from headrace.report.text_table import TextTable

    table = TextTable("", title=f"{name} (simulated)")
    for heading in ("IOPS", "rate", "latency mean", "p50", "p99", "p99.9", "max"):
        table.add_column(heading, justify="right")
    for direction, part in (("read", result["read"]), ("write", result["write"])):
        if part["requests"]:
            latencies_ns = (
                part["latency_ns_mean"],
                part["latency_ns_p50"],
                part["latency_ns_p99"],
                part["latency_ns_p999"],
                part["latency_ns_max"],
            )
            table.add_row(
                direction,
                f"{part['iops']:,.1f}",
                format_bytes_per_s(part["bytes_per_s"]),
                *(f"{latency_ns / 1e6:.3f} ms" for latency_ns in latencies_ns),
            )
    out.print(table)
    out.print(
        f"{result['power_w_mean']:.2f} W mean, {result['energy_j']:.1f} J over "
        f"{result['elapsed_s']:g} s (modelled)"
    )


@app.command("replay")
def replay(
    drive: Drive,
    trace: Annotated[
        Path,
        typer.Argument(help="any trace that `headrace trace show` reads, such as fio iolog or CSV"),
    ],
    output: Annotated[
        Path, typer.Option("--out", help="CSV with the response time of every request")
    ],
    closed: Annotated[
        bool,
        typer.Option(
            "--closed/--open",
            help="closed: each request when the one before is done; open: at its time",
        ),
    ] = False,
    iodepth: Annotated[int, typer.Option(min=1, help="closed: requests in flight")] = 1,
    seed: Annotated[
        int, typer.Option(min=0, help="selects the angle of the platter at the start")
    ] = 0,
    raid: Raid = None,
    drives: Drives = 1,
    chunk: Chunk = "64k",
    as_json: Json = False,
) -> None:
    """Give a drive the requests of a trace; write the response time of every one."""
    from headrace.catalog import entry
    from headrace.drives import read_trace, replay_trace

    found = entry("drives", drive)
    array = array_of(raid, drives, chunk)
    requests = read_trace(trace)
    response_ns = replay_trace(
        found, requests, iodepth=iodepth if closed else 0, seed=seed, raid=array
    )
    try:
        requests.write(output, response_ns)
    except OSError as error:
        raise StudyError(
            [FileProblem(output, 0, "--out", "", f"cannot be written: {error.strerror}")]
        ) from None
    _show_replay(found.name, response_ns, "closed" if closed else "open", seed, as_json)
    if not as_json:
        err.print(f"written: {output}", style="dim")


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
        f"{mean_ns / 1e6:.3f} ms, median {p50_ns / 1e6:.3f} ms, p99 {p99_ns / 1e6:.3f} ms"
    )
