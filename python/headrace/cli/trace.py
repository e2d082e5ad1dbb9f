"""`headrace trace …`: block requests of jobs to a drive: run, capture, show, plot, convert."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from headrace.cli._console import err
from headrace.cli._trace_show import show_statistics, warn
from headrace.errors import ExitCode, FileProblem, HeadraceError, StudyError

app = typer.Typer(
    help="Traces of block requests while jobs run: run, capture, show, plot, convert.",
    no_args_is_help=True,
)

DeviceOption = Annotated[
    list[str] | None,
    typer.Option("--device", help="block device, repeatable (default: that of the current folder)"),
]
Folder = Annotated[
    Path | None, typer.Option("--out", help="new folder for the trace (default: trace-TIME)")
]
With = Annotated[
    str | None,
    typer.Option(
        "--with",
        help="tracefs or blktrace (default: tracefs, or blktrace where the kernel has no block "
        "events in tracefs)",
    ),
]
OfDevice = Annotated[
    str | None,
    typer.Option("--device", help="only this device of the trace: its name, or major:minor"),
]
Given = Annotated[
    Path,
    typer.Argument(
        help="a folder of `trace run`, blktrace's files (NAME or NAME.blktrace.0), blkparse "
        "text, fio iolog, text of tracefs or perf script, CSV"
    ),
]


def _devices(given: list[str] | None) -> list[str]:
    if given:
        return given
    from headrace.system.devices import devices_of
    from headrace.system.mounts import mount_of

    found = devices_of(mount_of(Path.cwd()), Path.cwd())
    if not found:
        raise StudyError(
            [
                FileProblem(
                    Path("command line"),
                    0,
                    "--device",
                    "",
                    "the current folder is on no block device; name one",
                )
            ]
        )
    return found


def _folder(given: Path | None) -> Path:
    from headrace.records.place import check_place

    folder = given or Path(f"trace-{time.strftime('%Y%m%d-%H%M%S')}")
    check_place(folder, "--out")
    return folder


def _say(captured: Any) -> None:
    names = ", ".join(captured.devices)
    err.print(
        f"{captured.events:,} events of {names} in {captured.duration_s:.2f} s: "
        f"{captured.directory}",
        style="dim",
        markup=False,
    )
    if captured.lost:
        err.print(
            f"[red]{captured.lost:,} events were lost: the trace is incomplete[/red]",
            highlight=False,
        )
    if not captured.events:
        others = ", ".join(f"{name} ({count})" for name, count in sorted(captured.moved.items()))
        seen = f"; these disks had requests meanwhile: {others}" if others else ""
        err.print(f"[yellow]{names} had no requests{seen}[/yellow]")


@app.command(
    "run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
def run(
    command: Annotated[list[str], typer.Argument(help="the program and its arguments, after --")],
    device: DeviceOption = None,
    output: Folder = None,
    by: With = None,
) -> None:
    """Run a program, and record the block requests of a device meanwhile. The command ends with the
    program's exit code.
    """
    from headrace.profiles.programs import find_program
    from headrace.system.journal import Journal
    from headrace.system.stopping import stopping_on_signals
    from headrace.traces import Capture, traced_device

    program = find_program(command[0])  # must precede tracing
    devices = [traced_device(each) for each in _devices(device)]
    stop = threading.Event()
    with Journal.open(f"headrace trace run {command[0]}") as journal:
        capture = Capture(journal, devices, _folder(output), by)
        try:
            capture.start()
            with stopping_on_signals(stop):
                code = _run(command, program, stop)
            captured = capture.finish(tuple(command))
        finally:
            capture.abandon()
    _say(captured)
    if code or captured.lost:
        raise typer.Exit(code or int(ExitCode.INVALID_TRIALS))


def _run(command: list[str], program: str, stop: threading.Event) -> int:
    try:
        process = subprocess.Popen(command, executable=program)
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
    device: DeviceOption = None,
    output: Folder = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0.01, help="length of the trace (default: until Ctrl-C)"),
    ] = None,
    by: With = None,
) -> None:
    """Record the block requests of a device until Ctrl-C, or for --seconds."""
    from headrace.system.journal import Journal
    from headrace.system.stopping import stopping_on_signals
    from headrace.traces import Capture, traced_device

    devices = [traced_device(each) for each in _devices(device)]
    stop = threading.Event()
    with Journal.open("headrace trace capture") as journal:
        capturing = Capture(journal, devices, _folder(output), by)
        try:
            with stopping_on_signals(stop):
                capturing.start()
                stop.wait(None if seconds is None else min(seconds, threading.TIMEOUT_MAX))
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
    as_json: Annotated[
        bool, typer.Option("--json", help="print everything as JSON, with histograms")
    ] = False,
) -> None:
    """Show statistics of a trace, in total and by process: rates, seeks, latencies, queue depth,
    sizes.
    """
    from headrace.traces import open_trace, summarise

    found = summarise(open_trace(trace, device))
    warn(found)
    if as_json:
        typer.echo(json.dumps(found.values, indent=1))
        return
    show_statistics(found)


@app.command("plot")
def plot(
    traces: Annotated[
        list[Path], typer.Argument(help="traces, drawn one below the other on one time axis")
    ],
    output: Annotated[
        Path, typer.Option("--out", help="the picture: .png, .svg, or .html (interactive)")
    ],
    label: Annotated[
        list[str] | None,
        typer.Option(help="label of a trace in the picture; repeat it once per trace, in order"),
    ] = None,
    device: OfDevice = None,
) -> None:
    """Draw traces over time: offsets by process, rates, IOPS, seeks, queue depth, latencies."""
    from headrace.cli._output_files import check_output
    from headrace.traces import draw, open_trace, summarise
    from headrace.traces.pictures import kind_of

    check_output(output, "--out")  # before the traces are read
    if label and len(label) != len(traces):
        raise StudyError(
            [
                FileProblem(
                    Path("command line"),
                    0,
                    "--label",
                    str(len(label)),
                    "one for each trace",
                    str(len(traces)),
                )
            ]
        )
    kind_of(output, len(traces))
    found = [summarise(open_trace(each, device)) for each in traces]
    for each in found:
        warn(each)
    for note in draw(found, output, label):
        err.print(escape(note), style="yellow")
    err.print(f"written: {output}", style="dim", markup=False)


@app.command("convert")
def convert_trace(
    trace: Given,
    output: Annotated[
        Path, typer.Argument(help="the new file: .iolog (fio, version 3), .csv, .parquet")
    ],
    format: Annotated[
        str | None,
        typer.Option(help="fio-iolog, csv or parquet (default: by the file name's suffix)"),
    ] = None,
    device: OfDevice = None,
) -> None:
    """Convert the requests of a trace to a fio iolog, CSV or Parquet."""
    from headrace.cli._output_files import check_output
    from headrace.cli._trace_show import warn_of_damages
    from headrace.traces import convert, open_trace

    check_output(output, "OUTPUT")
    count = convert(open_trace(trace, device), output, format, damaged=warn_of_damages)
    err.print(f"{count:,} requests written: {output}", style="dim", markup=False)
