"""`headrace drive …` for emulated drives (block devices): attach, attached, detach."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from headrace.cli._console import err, out
from headrace.cli.drive.options import (
    USUAL_CHUNK_BYTES,
    Drive,
    Json,
    check_alone,
    check_chunk,
    checked_drives,
    drive_of,
    wrong,
)
from headrace.errors import HeadraceError, MissingError
from headrace.raid import LEAST_DRIVES, drives_of_data
from headrace.units import format_amount, format_bytes, format_seconds, format_share, parse_bytes

if TYPE_CHECKING:
    from headrace.scenario import RaidSpec, StorageSpec
    from headrace.system.emulator import QueueShape

app = typer.Typer()


def _bytes(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return parse_bytes(text)
    except ValueError as error:
        raise wrong(option, text, str(error)) from None


def _storage(
    drive: str, level: int | None, drives: int | None, chunk: str | None
) -> tuple[StorageSpec, int]:
    """Return the storage and its capacity in bytes."""
    table = drive_of(drive).table
    capacity = int(table["capacity_bytes"])
    if level is None:
        check_alone(drives, chunk)
        return {"drives": [table]}, capacity
    count = checked_drives(level, LEAST_DRIVES.get(level) if drives is None else drives)
    chunk_bytes = USUAL_CHUNK_BYTES
    if chunk is not None:
        chunk_bytes = _bytes("--chunk", chunk) or 0
        check_chunk(chunk, chunk_bytes)
    raid: RaidSpec = {"level": level, "drives": count, "chunk_bytes": chunk_bytes}
    used = capacity // chunk_bytes * chunk_bytes  # whole chunks of each drive hold data
    return {"drives": [table], "raid": raid}, used * int(drives_of_data(level, count))


def _check_memory(size_bytes: int, held_bytes: int | None) -> None:
    """Raise MissingError if the memory does not suffice for the data; nothing is started."""
    from headrace.system.emulator.limits import data_limit

    try:
        data_limit(size_bytes, held_bytes)
    except HeadraceError as error:
        raise MissingError(error.message, hint=error.hint) from None


def _shape(
    storage: StorageSpec, scheduler: str | None, depth: int | None, read_ahead: int | None
) -> QueueShape:
    """Return the queue of the drive, with what the user requested."""
    from headrace.system import block_queue
    from headrace.system.emulator import queue_shape

    shape = queue_shape(storage)
    if scheduler is not None:
        offered = block_queue.schedulers("loop0")
        if offered and scheduler not in offered:
            raise wrong(
                "--scheduler", scheduler, "this kernel has no such scheduler", ", ".join(offered)
            )
        shape = dataclasses.replace(shape, scheduler=scheduler)
    if depth is not None:
        shape = dataclasses.replace(shape, depth=depth)
    if read_ahead is not None:
        shape = dataclasses.replace(shape, read_ahead_bytes=read_ahead)
    return shape


@app.command("attach")
def attach(
    drive: Drive,
    size: Annotated[
        str | None,
        typer.Option(
            help="size of the device, from the start of the drive, such as 4GiB (default: the "
            "whole drive)"
        ),
    ] = None,
    raid: Annotated[
        int | None,
        typer.Option(help="combine several such drives to a RAID of level 0, 1, 5, 6 or 10"),
    ] = None,
    drives: Annotated[
        int | None,
        typer.Option(
            help="number of drives in the RAID (default: the fewest that its level allows)"
        ),
    ] = None,
    chunk: Annotated[
        str | None,
        typer.Option(
            help="chunk size of the RAID: consecutive bytes on one drive (default: 64KiB)"
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="memory that the data may use; a write beyond it fails (default: the whole size "
            "of the device)"
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="I/O scheduler (default: what Linux selects for such a drive)"),
    ] = None,
    queue_depth: Annotated[
        int | None,
        typer.Option(min=4, max=128, help="requests in flight (default: that of the drive)"),
    ] = None,
    read_ahead: Annotated[str | None, typer.Option(help="read-ahead, such as 128KiB")] = None,
    seed: Annotated[
        int, typer.Option(help="seed of the platters' first angle and of random faults")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Attach a drive of the catalog to this machine as a block device, until it is detached. Its
    data are kept in memory.
    """
    from headrace.system.emulator import cannot_emulate, limits
    from headrace.system.emulator.lasting import attach_lasting

    storage, capacity = _storage(drive, raid, drives, chunk)
    if problems := cannot_emulate("headrace drive attach"):
        raise MissingError(problems[0].what, hint=f"{problems[0].remedy}; {problems[0].without}")
    shape = _shape(storage, scheduler, queue_depth, _bytes("--read-ahead", read_ahead))
    wanted, held = _bytes("--size", size), _bytes("--memory", memory)
    if wanted is not None and not 1 << 20 <= wanted <= capacity:
        raise wrong(
            "--size",
            size or "",
            "the drive is not as large, or the size below 1 MiB",
            f"1 MiB to {format_bytes(capacity)}",
        )
    if wanted is None and held is None and capacity > limits().data_bytes:
        held = limits().data_bytes // 2
    _check_memory(wanted or capacity, held)
    made = attach_lasting(
        storage, wanted or capacity, seed=seed, queue=shape, data_limit_bytes=held
    )
    facts: dict[str, object] = {
        "device": str(made.device),
        "size_bytes": made.size_bytes,
        "data_limit_bytes": made.data_limit_bytes,
        "memory_bytes": made.memory_bytes,
        "floor_ns": made.floor_ns,
        "pid": made.pid,
        "queue": dataclasses.asdict(shape),
    }
    if as_json:
        typer.echo(json.dumps(facts, indent=1))
        return
    typer.echo(made.device)
    if made.data_limit_bytes < made.size_bytes:
        err.print(
            f"{format_bytes(made.size_bytes)}; holds {format_bytes(made.data_limit_bytes)} of "
            f"data in memory at most: a write beyond fails"
        )
    err.print(
        f"takes {format_bytes(made.memory_bytes)} of memory at most; its floor of "
        f"{format_seconds(made.floor_ns * 1e-9)} "
        f"is subtracted; headrace drive detach {made.device} takes it away",
        style="dim",
    )


@app.command("attached")
def attached(as_json: Json = False) -> None:
    """List the emulated drives of this machine, with their completion delay."""
    from headrace.report.text_table import TextTable
    from headrace.system.emulator import running, unseen

    found = running()
    if as_json:
        rows = [
            {
                "device": None if one.device is None else str(one.device),
                "drives": one.drives,
                "raid": one.raid,
                "pid": one.pid,
                "size_bytes": one.size_bytes,
                "report": None if one.report is None else dataclasses.asdict(one.report),
            }
            for one in found
        ]
        typer.echo(json.dumps(rows, indent=1))
        return
    if not found and os.geteuid() != 0 and (others := unseen()):
        raise _of_root(others)
    if not found:
        out.print("no emulated drive is attached")
        return
    table = TextTable()
    table.add_column("device", fold=True)
    table.add_column("drive", fold=True)
    for heading in ("size", "data", "requests", "late p50", "p99", "p99.9", "past bound"):
        table.add_column(heading, justify="right")
    for one in found:
        name = escape(one.drives[0]) if one.drives else "(none)"
        row = [
            str(one.device or "-"),
            f"{name}, {one.raid}" if one.raid else name,
            format_bytes(one.size_bytes),
        ]
        if (report := one.report) is None:
            table.add_row(*row, "does not answer")
            continue
        late = report.lateness_ns
        times = [format_seconds(value * 1e-9) for value in (late.p50, late.p99, late.p999)]
        table.add_row(
            *row,
            format_amount(report.data_bytes),
            f"{report.requests:,}",
            *times,
            format_share(report.late_share, 2),
        )
    out.print(table)


def _of_root(devices: list[Path]) -> MissingError:
    names = ", ".join(map(str, devices))
    return MissingError(
        f"the emulated drives of this machine ({names}) are root's", hint="run it as root"
    )


@app.command("detach")
def detach(
    device: Annotated[
        Path | None,
        # What may be detached is said below, with what to do.
        typer.Argument(help="such as /dev/loop3", readable=False),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="all devices that `drive attach` made")
    ] = False,
) -> None:
    """Remove an emulated drive and the data on it. Refuses a drive that is in use."""
    from headrace.system.emulator import running, unseen
    from headrace.system.emulator.lasting import belongs_to_run, detach_lasting

    found = running()
    if every == (device is not None):
        raise wrong(
            "DEVICE", "", "name a device, or --all", ", ".join(str(one.device) for one in found)
        )
    if not found and os.geteuid() != 0 and (others := unseen()):
        raise _of_root(others)
    if every:
        chosen = [one for one in found if not belongs_to_run(one)]
    else:
        chosen = [one for one in found if one.device == device]
        if not chosen:
            known = ", ".join(str(one.device) for one in found) or "none is attached"
            raise wrong("DEVICE", str(device), "not an emulated drive", known)
    failed: list[HeadraceError] = []
    for one in chosen:
        try:
            detach_lasting(one)
            out.print(f"{one.device} detached")
        except HeadraceError as error:
            failed.append(error)
    if failed:
        raise failed[0]
