"""`headrace trace …`: what jobs ask of a drive, request by request: run, capture, show, plot, convert."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from headrace.cli._console import err, out
from headrace.errors import ExitCode, Fault, HeadraceError, MissingError, StudyError
from headrace.units import format_bytes, format_bytes_per_s

app = typer.Typer(
    help="Block requests of a drive while jobs run: run, capture, show, plot, convert.", no_args_is_help=True
)

Device = Annotated[
    list[str] | None,
    typer.Option("--device", help="block device (repeatable); that of the current folder when not given"),
]
Folder = Annotated[
    Path | None, typer.Option("--out", help="new folder for the trace; trace-TIME when not given")
]
With = Annotated[
    str | None,
    typer.Option(
        "--with",
        help="tracefs, or blktrace; when not given: tracefs, and blktrace where the kernel has no block events in tracefs",
    ),
]
OfDevice = Annotated[
    str | None, typer.Option("--device", help="only this device of the trace: its name, or major:minor")
]
Given = Annotated[
    Path,
    typer.Argument(
        help="a folder of `trace run`, blktrace's files (NAME or NAME.blktrace.0), blkparse text, fio iolog, "
        "text of tracefs or perf script, CSV"
    ),
]


def _devices(given: list[str] | None) -> list[str]:
    if given:
        return given
    from headrace.system.devices import devices_of
    from headrace.system.mounts import mount_of

    found = devices_of(mount_of(Path.cwd()))
    if not found:
        raise StudyError(
            [
                Fault(
                    Path("command line"),
                    0,
                    "--device",
                    "",
                    "the current folder lies on no block device; name one",
                )
            ]
        )
    return found


def _folder(given: Path | None) -> Path:
    return given or Path(f"trace-{time.strftime('%Y%m%d-%H%M%S')}")


def _say(captured: Any) -> None:
    names = ", ".join(captured.devices)
    err.print(
        f"{captured.events:,} events of {names} in {captured.duration_s:.2f} s: {captured.directory}",
        style="dim",
    )
    if captured.lost:
        err.print(f"[red]{captured.lost:,} events were lost: the trace is not whole[/red]", highlight=False)
    if not captured.events:
        others = ", ".join(f"{name} ({count})" for name, count in sorted(captured.moved.items()))
        seen = f"; these disks had requests meanwhile: {others}" if others else ""
        err.print(f"[yellow]{names} had no requests{seen}[/yellow]")


@app.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(
    command: Annotated[list[str], typer.Argument(help="the program and its arguments, after --")],
    device: Device = None,
    output: Folder = None,
    by: With = None,
) -> None:
    """Run a program and record the block requests of a device meanwhile. The exit code is the program's."""
    from headrace.library import stopping_on_signals
    from headrace.system.journal import Journal
    from headrace.traces import Capture, traced_device

    devices = [traced_device(each) for each in _devices(device)]
    stop = threading.Event()
    with Journal.open(f"headrace trace run {command[0]}") as journal:
        capture = Capture(journal, devices, _folder(output), by)
        try:
            capture.start()
            with stopping_on_signals(stop):
                code = _run(command, stop)
            captured = capture.finish(tuple(command))
        finally:
            capture.abandon()
    _say(captured)
    if code or captured.lost:
        raise typer.Exit(code or int(ExitCode.INVALID_TRIALS))


def _run(command: list[str], stop: threading.Event) -> int:
    try:
        process = subprocess.Popen(command)
    except FileNotFoundError:
        raise MissingError(f"{command[0]}: no such program", hint="name it with its path") from None
    except OSError as error:
        raise HeadraceError(f"{command[0]} does not start: {error.strerror}") from None
    while True:
        try:
            code = process.wait(0.1)
        except subprocess.TimeoutExpired:
            if stop.is_set():
                process.terminate()
                try:
                    process.wait(5)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                return int(ExitCode.INTERRUPTED)
            continue
        return code if code >= 0 else 128 - code


@app.command("capture")
def capture(
    device: Device = None,
    output: Folder = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.01, help="how long; until Ctrl-C when not given")
    ] = None,
    by: With = None,
) -> None:
    """Record the block requests of a device until Ctrl-C, or for some seconds."""
    from headrace.library import stopping_on_signals
    from headrace.system.journal import Journal
    from headrace.traces import Capture, traced_device

    devices = [traced_device(each) for each in _devices(device)]
    stop = threading.Event()
    with Journal.open("headrace trace capture") as journal:
        capturing = Capture(journal, devices, _folder(output), by)
        try:
            with stopping_on_signals(stop):
                capturing.start()
                stop.wait(seconds)
            captured = capturing.finish()
        finally:
            capturing.abandon()
    _say(captured)
    if captured.lost:
        raise typer.Exit(int(ExitCode.INVALID_TRIALS))


@app.command("show")
def show(
    trace: Given,
    device: OfDevice = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON: everything, with histograms")] = False,
) -> None:
    """Show a trace's statistics: rates, seeks, latencies, queue depth, sizes, by process and in total."""
    from headrace.traces import open_trace, summarise

    found = summarise(open_trace(trace, device))
    _warn(found)
    if as_json:
        typer.echo(json.dumps(found.values, indent=1))
        return
    total = found.total
    table = Table(
        "", "read", "write", title=f"{escape(found.trace.name)}: {found.duration_s:.3f} s, {found.format}"
    )
    stage = "issued" if total.amount("read")[0] + total.amount("write")[0] else "queued"
    amounts = [total.amount(op, stage) for op in ("read", "write")]
    table.add_row("requests", *(f"{count:,}" for count, _ in amounts))
    table.add_row("moved", *(format_bytes(moved) for _, moved in amounts))
    table.add_row("rate", *(format_bytes_per_s(moved / found.duration_s) for _, moved in amounts))
    table.add_row("IOPS", *(f"{count / found.duration_s:,.0f}" for count, _ in amounts))
    table.add_row("sizes", *(_sizes(total.values[op]["sizes_bytes"]) for op in ("read", "write")))
    out.print(table)
    absolute, closeness = total.values["seek_distance_absolute"], total.values["seek_distance_closeness"]
    out.print(
        f"seeks {total.seeks_per_s:,.1f}/s, sequential {100 * total.sequential_fraction:.1f} %, merges {found.values['merges']:,}; "
        f"distance from the end before: mean {format_bytes(absolute['mean_sectors'] * 512)}, "
        f"median {format_bytes(absolute['bytes_p50'])}; closeness as btt: mean {format_bytes(closeness['mean_sectors'] * 512)}"
    )
    out.print(f"requests in flight: mean {total.queue_depth_mean:.2f}, most {total.queue_depth_max}")
    _show_latencies(found)
    _show_processes(found)


def _sizes(sizes: list[list[int]]) -> str:
    count = sum(each for _, each in sizes)
    most = sorted(sizes, key=lambda pair: -pair[1])[:3]
    return (
        ", ".join(f"{format_bytes(size)} {100 * each / count:.0f} %" for size, each in most) if count else ""
    )


def _warn(found: Any) -> None:
    for damage in found.damages:
        err.print(f"[yellow]{escape(str(damage))}[/yellow]")
    if found.damage_count > len(found.damages):
        err.print(f"[yellow]… and {found.damage_count - len(found.damages):,} more[/yellow]")
    if found.trace.lost:
        err.print(
            f"[red]{found.trace.lost:,} events were lost while it was captured: the trace is not whole[/red]"
        )


def _show_latencies(found: Any) -> None:
    rows = (("Q2C", found.total.queue_to_complete), ("D2C", found.total.dispatch_to_complete))
    if not any(latency for _, latency in rows):
        out.print("the trace does not say when requests completed: no latencies")
        return
    table = Table("latency, ms", "count", "mean", "p50", "p90", "p99", "p99.9", "max")
    for name, latency in rows:
        if latency is not None:
            times = (latency.mean_ns, latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns)
            cells = [f"{ns / 1e6:.3f}" for ns in (*times, latency.max_ns)]
            table.add_row(name, f"{latency.count:,}", *cells)
    out.print(table)
    out.print("Q2C: from queueing to completion; D2C: from dispatch to the driver to completion", style="dim")


def _show_processes(found: Any) -> None:
    table = Table("process", "requests", "moved", "rate", "seeks/s", "in order", "p50 ms", "p99 ms")
    for part in found.processes[:16]:
        latency = part.dispatch_to_complete or part.queue_to_complete
        table.add_row(
            f"{escape(part.name)} {part.pid}",
            f"{part.requests:,}",
            format_bytes(part.bytes),
            format_bytes_per_s(part.rate_bytes_per_s),
            f"{part.seeks_per_s:,.0f}",
            f"{100 * part.sequential_fraction:.1f} %",
            *(f"{ns / 1e6:.3f}" for ns in ((latency.p50_ns, latency.p99_ns) if latency else ())),
        )
    out.print(table)
    if len(found.processes) > 16:
        out.print(f"… and {len(found.processes) - 16} more processes (--json has them)")


@app.command("plot")
def plot(
    traces: Annotated[list[Path], typer.Argument(help="traces, drawn above each other on one axis of time")],
    output: Annotated[Path, typer.Option("--out", help="the picture: .png, .svg, or .html (interactive)")],
    label: Annotated[
        list[str] | None, typer.Option(help="what a trace is called in the picture (one for each, in order)")
    ] = None,
    device: OfDevice = None,
) -> None:
    """Draw traces: offsets by process, throughput, IOPS, seeks, queue depth, latencies."""
    from headrace.traces import draw, open_trace, summarise

    if label and len(label) != len(traces):
        raise StudyError(
            [
                Fault(
                    Path("command line"),
                    0,
                    "--label",
                    str(len(label)),
                    "one for each trace",
                    str(len(traces)),
                )
            ]
        )
    found = [summarise(open_trace(each, device)) for each in traces]
    for each in found:
        _warn(each)
    draw(found, output, label)
    err.print(f"written: {output}", style="dim")


@app.command("convert")
def convert_trace(
    trace: Given,
    output: Annotated[Path, typer.Argument(help="the new file: .iolog (fio, version 3), .csv, .parquet")],
    format: Annotated[
        str | None, typer.Option(help="fio-iolog, csv, parquet; by the file's ending when not given")
    ] = None,
    device: OfDevice = None,
) -> None:
    """Write a trace's requests as fio's iolog, CSV or Parquet."""
    from headrace.traces import convert, open_trace

    count = convert(open_trace(trace, device), output, format)
    err.print(f"{count:,} requests written: {output}", style="dim")
