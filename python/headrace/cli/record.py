"""`headrace record -- COMMAND…`: run a program and record its file requests as a profile."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from headrace.cli._console import err
from headrace.cli._notes import print_notes
from headrace.errors import ExitCode, HeadraceError, as_word


def record(
    command: Annotated[list[str], typer.Argument(help="the program and its arguments, after --")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="the profile (.toml), with a file of its steps next to it (default: NAME.toml, or "
            "NAME-2.toml … if that exists)"
        ),
    ] = None,
    hash_names: Annotated[
        bool, typer.Option("--hash-names", help="write hashes instead of the names of data files")
    ] = False,
) -> None:
    """Run a program, and record its reads, writes, opens and work between them as a job profile.
    The command ends with the exit code of the program.

    Threads and child processes are included. The program must be dynamically linked and not
    set-uid. If the profile cannot be written where it should be, it is kept in a temporary folder;
    if its disk becomes full, it ends there. Exit code 6 then replaces an exit code 0.
    """
    from headrace.cli._output_files import check_folder_of
    from headrace.profiles.places import profile_to_write
    from headrace.profiles.recorder import record as run
    from headrace.profiles.rescuing import save_somewhere
    from headrace.profiles.summary import bytes_moved
    from headrace.units import format_amount, format_seconds

    name = (
        re.sub(r"[^A-Za-z0-9._-]+", "-", out.stem if out is not None else Path(command[0]).name)
        or "job"
    )
    path = profile_to_write(out, name)
    check_folder_of(path, "--out")  # before the program runs
    recorded = run(command, name, path.parent)
    recording = recorded.recording.hashed() if hash_names else recorded.recording
    code = recorded.exit_code
    try:
        kept, problem = save_somewhere(recording, path)
    except HeadraceError as error:
        ended = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        raise HeadraceError(f"{error.message}; the program ended with {ended}") from None
    print_notes(recording.notes)
    if problem is not None:
        err.print(f"{escape(problem.message)}; it is kept in another place:", style="yellow")
    read, written = map(format_amount, bytes_moved(recording))
    err.print(
        f"recorded: {len(recording.steps)} steps, {read} read, {written} written, "
        f"{format_seconds(recording.duration_ns * 1e-9)} -> {escape(str(kept))}\n"
        f"  headrace profile show {escape(as_word(kept))}"
    )
    if (problem is not None or recorded.full) and code == 0:
        code = int(ExitCode.RUN_FAILED)
    sys.exit(code if code >= 0 else 128 - code)
