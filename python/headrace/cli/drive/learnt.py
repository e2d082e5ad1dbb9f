"""`headrace drive learn`: a drive file from reads, and writes, of a real block device."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli._console import err, out
from headrace.cli.drive.options import Json
from headrace.errors import FileProblem, StudyError
from headrace.system.claims import Place, claimed
from headrace.units import format_bytes, format_change, format_digits, format_share

if TYPE_CHECKING:
    from headrace.drives.learning import LearntDrive, LearntValue, LoadCheck
    from headrace.report.text_table import TextTable

app = typer.Typer()

MINUTES = (0.5, 10.0)
SCRIPT_SHARE = 0.95
"""Part of the time for requests; the rest is for pauses between them."""
MOST_ZEROS = 0.05
"""Share of an SSD that may never have been written, above which its values are doubtful: reads
without flash are several times as fast, and tails are judged, too."""

Device = Annotated[
    Path,
    typer.Argument(
        readable=False,  # `block_device` says who may not read it, and what to do
        help="a block device, such as /dev/sdb; without --write-to it is only read",
    ),
]


@app.command("learn")
def learn(
    device: Device,
    output: Annotated[Path, typer.Option("--out", help="new file for the learnt drive")],
    minutes: Annotated[
        float, typer.Option(help="minutes of requests, 10 at most; fits take CPU time besides")
    ] = 5.0,
    write_to: Annotated[
        Path | None,
        typer.Option(
            help="also measure writes: name the same device again; it must be empty and unused, "
            "and its contents are lost"
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="hdd or ssd (default: found from random reads)")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the places that are read")] = 0,
    as_json: Json = False,
) -> None:
    """Measure a drive of this machine, and write a drive file with the model that follows. Reads
    bypass the page cache. Nothing is written to the device unless --write-to names it again.
    """
    from contextlib import ExitStack

    from headrace.drives.learning import block_device, learn_drive, served_in_order
    from headrace.drives.learning.drive_file import write_learnt
    from headrace.records.place import check_new_file

    if not MINUTES[0] <= minutes <= MINUTES[1]:
        allowed = f"{MINUTES[0]:g} to {MINUTES[1]:g} minutes"
        raise _wrong("--minutes", f"{minutes:g}", "out of range", allowed)
    if kind is not None and kind not in ("hdd", "ssd"):
        raise _wrong("--kind", kind, "not a kind of drive", "hdd, ssd")
    if not output.parent.is_dir():
        raise _wrong("--out", str(output), "is in a folder that does not exist", "")
    check_new_file(output, "--out")  # before the reads, which take minutes
    if write_to is not None and os.path.realpath(write_to) != os.path.realpath(device):
        raise _wrong("--write-to", str(write_to), "not the device that is learnt", str(device))
    with ExitStack() as stack:
        if write_to is not None:
            stack.enter_context(claimed([Place(device, "the device")]))
        _warn_of_scheduler(stack.enter_context(served_in_order(device)))
        found = block_device(device, seed=seed, writable=write_to is not None)
        if not found.traffic_seen:
            err.print("the kernel counts no requests of this device: others are not noticed")
        learnt = learn_drive(
            found,
            name=output.stem,
            seconds=minutes * 60 * SCRIPT_SHARE,
            kind=kind,
            say=lambda text: err.print(f"{found.elapsed_s:6.1f} s  {text}", style="dim"),
        )
    _doubt_an_empty_ssd(learnt, device)
    _warn(learnt)
    if as_json:  # before the file, which may fail
        typer.echo(json.dumps(_as_json(learnt, output), indent=1))
    else:
        _show(learnt, str(device))
    write_learnt(learnt, output, device=str(device), date=datetime.date.today().isoformat())
    err.print(f"written: {output}", style="dim", markup=False)


def _wrong(option: str, given: str, problem: str, allowed: str) -> StudyError:
    return StudyError([FileProblem(Path("command line"), 0, option, given, problem, allowed)])


def _warn_of_scheduler(kept: str | None) -> None:
    if kept is not None:
        err.print(
            f"the scheduler {kept} sorts the requests that the drive does not hold, and their "
            "times are partly its own: only root can set it to keep their order"
        )


def _doubt_an_empty_ssd(learnt: LearntDrive, device: Path) -> None:
    """Mark the values of an SSD that was only read, if much of it may never have been written."""
    from headrace.drives.learning import share_of_zeros

    if learnt.table["kind"] != "ssd" or learnt.written_bytes:
        return
    try:
        zeros = share_of_zeros(device)
    except OSError:
        return  # it went away after the reads
    if zeros > MOST_ZEROS:
        learnt.doubt_all(
            f"{format_share(zeros)} of the places of the SSD that were read hold only zeros, like "
            "blocks that were never written, whose reads need no flash"
        )


def _warn(learnt: LearntDrive) -> None:
    """Say why values are doubtful."""
    from headrace.drives.learning.values import USED_BY_OTHERS

    for why in sorted({each.doubt for each in learnt.values} - {"", USED_BY_OTHERS}):
        err.print(f"{why[0].upper()}{why[1:]}: values that follow from it are doubtful.")
    if not learnt.others:
        return
    err.print("Other programs used the drive meanwhile:")
    for each in learnt.others:
        moved = f"{format_bytes(each.read_bytes)} read, {format_bytes(each.written_bytes)} written"
        mark = "; its values are doubtful" if each.doubtful else ""
        err.print(f"  {each.part}: {each.requests} requests, {moved}{mark}")


def _as_json(learnt: LearntDrive, output: Path) -> dict[str, object]:
    from dataclasses import asdict

    return {**asdict(learnt), "file": str(output)}


def _show(learnt: LearntDrive, device: str) -> None:
    """Print the values, the loads beside the model, and what is not known."""
    from rich.markup import escape

    from headrace.report.text_table import WholeText

    name = escape(device)
    written = format_bytes(learnt.written_bytes) if learnt.written_bytes else "none"
    out.print(
        f"{name}: {learnt.seconds:.0f} s, {format_bytes(learnt.read_bytes)} read, "
        f"{written} written; fits took {learnt.fit_cpu_s:.0f} s of CPU time"
    )
    out.print(_values(learnt.values))
    out.print(_checks(learnt.checks))
    if learnt.unknown:
        out.print("Not determined:")
        for each in learnt.unknown:
            out.print(WholeText(f"  {escape(each.name)}: {escape(each.why)}"))


def _values(values: list[LearntValue]) -> TextTable:
    from headrace.report.text_table import TextTable

    table = TextTable("value", title="Learnt")
    table.add_column("", justify="right")
    table.add_column("±", justify="right")
    table.add_column("unit")
    table.add_column("from")
    for each in values:
        error = "" if each.error is None else format_digits(each.error, 2)
        how = f"doubtful: {each.how}" if each.doubt else each.how
        table.add_row(each.name, format_digits(each.value, 5), error, each.unit, how)
    return table


def _checks(checks: list[LoadCheck]) -> TextTable:
    from headrace.report.text_table import TextTable

    table = TextTable("load", title="The learnt drive's model compared with the drive")
    for heading in ("IOPS", "model", "p50 ms", "model", "p99 ms", "model"):
        table.add_column(heading, justify="right")
    for each in checks:
        table.add_row(
            each.name,
            f"{each.measured_iops:,.0f}",
            format_change(each.modelled_iops / each.measured_iops - 1),
            f"{each.measured_p50_s * 1e3:.3f}",
            format_change(each.modelled_p50_s / each.measured_p50_s - 1),
            f"{each.measured_p99_s * 1e3:.3f}",
            format_change(each.modelled_p99_s / each.measured_p99_s - 1),
        )
    return table
