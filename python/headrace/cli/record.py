"""`headrace record -- COMMAND…`: runs any program unchanged and writes what it asked of its files, as a job profile."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from headrace.cli._console import err


def record(
    command: Annotated[list[str], typer.Argument(help="the program and its arguments, after --")],
    out: Annotated[
        Path | None,
        typer.Option(help="the profile (.toml; its steps lie beside it); NAME.toml when not given"),
    ] = None,
    hash_names: Annotated[
        bool, typer.Option("--hash-names", help="write hashes instead of the names of data files")
    ] = False,
) -> None:
    """Run a program and record its reads, writes, opens and the work between them. Its exit code becomes this command's.

    Threads and child processes are included. The program must be dynamically linked and not set-uid.
    """
    from headrace.profiles.recorder import record as run
    from headrace.profiles.steps import profile_path, save
    from headrace.units import format_bytes, format_seconds

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", out.stem if out is not None else Path(command[0]).name) or "job"
    path = profile_path(out, "--out") if out is not None else Path(f"{name}.toml")
    recorded = run(command, name, path.parent)
    recording = recorded.recording.hashed() if hash_names else recorded.recording
    save(recording, path)
    for note in recording.notes:
        err.print(f"[yellow]note:[/yellow] {escape(note)}")
    read = int(recording.steps.length[recording.steps.op == 5].sum())
    err.print(
        f"recorded: {len(recording.steps)} steps, {format_bytes(read)} read, {format_seconds(recording.duration_ns * 1e-9)}"
        f" -> {escape(str(path))}\n  headrace profile show {escape(str(path))}"
    )
    code = recorded.exit_code
    sys.exit(code if code >= 0 else 128 - code)
