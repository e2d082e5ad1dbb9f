"""`headrace drive …` in virtual time: list, show, run."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_args

import typer
from rich.markup import escape

from headrace.cli._console import out
from headrace.cli.drive.options import (
    MOST_INTEGER,
    MOST_IODEPTH,
    Chunk,
    Controller,
    Drive,
    Drives,
    Json,
    NoBattery,
    Raid,
    array_of,
    check_range,
    drive_of,
    given,
    wrong,
)
from headrace.units import format_bytes, format_bytes_per_s

if TYPE_CHECKING:
    from headrace.catalog import CatalogEntry
    from headrace.drives.running import DirectionRun, DriveRun

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
        capacity = format_bytes(row["capacity_bytes"])
        table.add_row(*map(escape, (row["name"], row["kind"], rpm, capacity, row["about"])))
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
    from headrace.report.text_table import TextTable

    found = drive_of(drive)
    if as_json:
        typer.echo(json.dumps({**_facts(found), "table": found.table}, indent=1))
        return
    about = f"{found.name}: {found.table.get('about', '')}"
    table = TextTable("field", "value", "source or reason", title=escape(about))
    for path, value in _leaves(found.written):
        cells = (".".join(path), str(value), _source_of(path, found.source))
        table.add_row(*map(escape, cells))
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
    bs: Annotated[str, typer.Option(help="bytes per request: 4k, 64k, 1m")] = "4k",
    iodepth: Annotated[
        str,
        typer.Option(
            help="requests in flight per job; a list such as 1,4,32: one run for each, on one drive"
        ),
    ] = "1",
    numjobs: Annotated[int, typer.Option(help="number of jobs that run at once")] = 1,
    runtime: Annotated[str, typer.Option(help="virtual time: 60, 90s, 2m")] = "60",
    ramp_time: Annotated[
        str, typer.Option(help="virtual time to run before measuring begins")
    ] = "0",
    offset: Annotated[str, typer.Option(help="start of the region that is used")] = "0",
    offset_increment: Annotated[
        str, typer.Option(help="distance between the regions of two jobs")
    ] = "0",
    size: Annotated[
        str | None, typer.Option(help="bytes of the region (default: the rest of the drive)")
    ] = None,
    rwmixread: Annotated[
        int | None, typer.Option(help="percentage of reads in a mixed load (default: 50)")
    ] = None,
    fsync: Annotated[int, typer.Option(help="flush after this many writes of a job; 0: never")] = 0,
    number_ios: Annotated[
        int | None, typer.Option(help="end after this many requests; 0: no limit")
    ] = None,
    randseed: Annotated[int, typer.Option(help="seed of random offsets")] = 0,
    empty: Annotated[
        bool,
        typer.Option(
            "--empty", help="read from an empty drive: only what its table says holds data"
        ),
    ] = False,
    buffered: Annotated[
        bool,
        typer.Option("--buffered", help="write as the page cache writes back, not with O_DIRECT"),
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(help="I/O scheduler of the kernel: mq-deadline, bfq …"),
    ] = None,
    raid: Raid = None,
    drives: Drives = None,
    chunk: Chunk = None,
    controller: Controller = None,
    no_battery: NoBattery = False,
    as_json: Json = False,
) -> None:
    """Simulate a load on a drive, or on a RAID of such drives. Options are those of fio."""
    from headrace.drives import Load, parse_fio_bytes, parse_fio_seconds, run_series

    _check_words(rw, rwmixread, scheduler)
    iodepths = given("--iodepth", iodepth, _numbers)
    for option, value, least, most in (
        *(("--iodepth", depth, 1, MOST_IODEPTH) for depth in iodepths),
        ("--numjobs", numjobs, 1, 1 << 16),
        ("--rwmixread", rwmixread, 0, 100),
        ("--fsync", fsync, 0, (1 << 32) - 1),
        ("--number-ios", number_ios, 0, MOST_INTEGER),
        ("--randseed", randseed, 0, MOST_INTEGER),
    ):
        check_range(option, value, least, most)
    _check_effect(rw, fsync, numjobs, max(iodepths))
    found = drive_of(drive)
    load = Load(
        rw=rw,
        bs_bytes=given("--bs", bs, parse_fio_bytes),
        iodepth=iodepths[0],
        numjobs=numjobs,
        runtime_s=given("--runtime", runtime, parse_fio_seconds),
        ramp_time_s=given("--ramp-time", ramp_time, parse_fio_seconds),
        offset_bytes=given("--offset", offset, parse_fio_bytes),
        offset_increment_bytes=given("--offset-increment", offset_increment, parse_fio_bytes),
        size_bytes=None if size is None else given("--size", size, parse_fio_bytes),
        rwmixread=50 if rwmixread is None else rwmixread,
        fsync=fsync,
        number_ios=number_ios,
        seed=randseed,
        empty=empty,
        buffered=buffered,
        scheduler=scheduler,
        raid=array_of(raid, drives, chunk, controller, battery=not no_battery),
    )
    options = {
        "bs_bytes": ("--bs", bs),
        "runtime_s": ("--runtime", runtime),
        "ramp_time_s": ("--ramp-time", ramp_time),
        "offset_bytes": (
            "--offset",
            offset if numjobs == 1 else f"{offset} + {numjobs - 1} x {offset_increment}",
        ),
        "size_bytes": ("--size", size or "the rest of the drive"),
    }
    runs = run_series(found.table, load, iodepths, found.file, options)
    if as_json:
        typer.echo(json.dumps(_as_json(found.name, iodepths, runs), indent=1))
        return
    _show_runs(found.name, iodepths, runs)


def _numbers(text: str) -> list[int]:
    """Parse `1,4,32`. Raises ValueError."""
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch("-?[0-9]{1,18}", word) for word in words):
        raise ValueError(
            f'"{text[:40]}" is neither a whole number nor a list of them; examples: 32, or 1,4,32'
        )
    return [int(word) for word in words]


def _as_json(name: str, iodepths: list[int], runs: list[DriveRun]) -> dict[str, object]:
    """Return the only run, or a list of runs with the requests in flight of each."""
    about = {"drive": name, "provenance": "simulated"}
    if len(runs) == 1:
        return {**about, **runs[0]}
    each = zip(iodepths, runs, strict=True)
    return {**about, "runs": [{"iodepth": iodepth, **run} for iodepth, run in each]}


def _check_words(rw: str, rwmixread: int | None, scheduler: str | None) -> None:
    """Refuse words that are not known, and options that the load ignores. Raises StudyError."""
    from headrace.drives.fio import MIXED, RW
    from headrace.targets.exports import Scheduler

    if rw not in RW:
        raise wrong("--rw", f'"{rw}"', "not a load", ", ".join(RW))
    if rwmixread is not None and rw not in MIXED:
        problem = f"--rw {rw} is not a mixed load"
        raise wrong("--rwmixread", str(rwmixread), problem, f"with --rw {', '.join(MIXED)}")
    if scheduler is not None and scheduler not in (known := get_args(Scheduler)):
        raise wrong("--scheduler", f'"{scheduler}"', "not a scheduler", ", ".join(known))


def _check_effect(rw: str, fsync: int, numjobs: int, iodepth: int) -> None:
    """Refuse flushes of a load without writes, and more requests than a model is run with."""
    if fsync and rw in ("read", "randread"):
        raise wrong("--fsync", str(fsync), f"--rw {rw} writes nothing", "with a load that writes")
    if numjobs * iodepth > MOST_IODEPTH:
        requests = f"{numjobs} jobs with {iodepth}"
        problem = "too many requests in flight"
        raise wrong("--numjobs", requests, problem, f"at most {MOST_IODEPTH} together")


def _show_runs(name: str, iodepths: list[int], runs: list[DriveRun]) -> None:
    """Print a line for reads, writes and flushes of each run."""
    from headrace.report.text_table import TextTable

    table = TextTable("", title=f"{escape(name)} (simulated)")
    several = len(runs) > 1
    for heading in _SHORT if several else _HEADINGS:
        table.add_column(heading, justify="right")
    for iodepth, result in zip(iodepths, runs, strict=True):
        parts = (("read", result["read"]), ("write", result["write"]), ("flush", result["flush"]))
        for direction, part in parts:
            if part["requests"]:
                values = (str(iodepth), *_numbers_of(part)) if several else _values(part)
                table.add_row(direction, *values)
    out.print(table)
    joules = sum(run["energy_j"] for run in runs)
    seconds = sum(run["elapsed_s"] for run in runs)
    out.print(f"{joules / seconds:.2f} W mean, {joules:.1f} J over {seconds:g} s (modelled)")


_HEADINGS = ("IOPS", "rate", "latency mean", "p50", "p99", "p99.9", "max")
_SHORT = ("depth", "IOPS", "MB/s", "mean ms", "p50 ms", "p99 ms", "p99.9 ms", "max ms")
"""Of several runs, whose lines are read downwards: 80 columns hold them without repeated units."""


def _numbers_of(part: DirectionRun) -> tuple[str, ...]:
    times_ms = (f"{latency_ns / 1e6:.3f}" for latency_ns in _latencies_ns(part))
    rate = f"{part['bytes_per_s'] / 1e6:,.1f}" if part["bytes"] else "-"
    return (f"{part['iops']:,.1f}", rate, *times_ms)


def _values(part: DirectionRun) -> tuple[str, ...]:
    times = (f"{latency_ns / 1e6:.3f} ms" for latency_ns in _latencies_ns(part))
    rate = format_bytes_per_s(part["bytes_per_s"]) if part["bytes"] else "-"
    return (f"{part['iops']:,.1f}", rate, *times)


def _latencies_ns(part: DirectionRun) -> tuple[float, ...]:
    return (
        part["latency_ns_mean"],
        part["latency_ns_p50"],
        part["latency_ns_p99"],
        part["latency_ns_p999"],
        part["latency_ns_max"],
    )
