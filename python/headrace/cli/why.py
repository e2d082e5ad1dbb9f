"""`headrace why -- COMMAND…`: run a program, or watch a running one, and say why it is slow."""

from __future__ import annotations

import json
import re
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli._console import err
from headrace.cli._option_values import seconds
from headrace.errors import ExitCode, RefusedError, UsageError

if TYPE_CHECKING:
    from headrace.profiles.steps import Recording
    from headrace.verdict.words import ProgramVerdict


def why(
    command: Annotated[
        list[str] | None, typer.Argument(help="the program and its arguments, after --")
    ] = None,
    pid: Annotated[
        str | None,
        typer.Option(
            metavar="PID",
            help="watch this running process and its descendants instead of starting a program",
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--for", help="with --pid: how long to watch (default: 10 s); Ctrl-C ends it earlier"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print the verdict as JSON on standard error")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(help="folder for profile, verdict and page; replaces those of an earlier why"),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            help="write the verdict as an HTML page to this file; replaces that of an earlier why"
        ),
    ] = None,
) -> None:
    """Run a program and say where its time went, what limits it, and what would change it.

    The program's input, output and exit code stay as they are. The verdict goes to standard error.
    Ctrl-C ends the program; the verdict then covers the time until Ctrl-C. With --pid a running
    program is watched from outside. Needs neither root nor a study file.
    """
    if bool(command) == (pid is not None):
        raise UsageError(
            "give either a program after -- or --pid",
            hint="for example headrace why -- python my_analysis.py",
        )
    if duration is not None and pid is None:
        raise UsageError(f"--for {duration}: goes with --pid", hint="a program runs to its end")
    duration_s = seconds(duration or "10 s", "--for", 0.1)
    _check_outputs(keep, page)
    if pid is not None:
        code, recording, verdict = 0, None, _of_process(pid, duration_s)
    else:
        code, recording, verdict = _of_command(command or [], keep)
    if as_json:
        sys.stderr.write(_json(verdict))
    else:
        for line in verdict.lines:
            err.print(line, markup=False)
    _write(verdict, recording, keep, page)
    sys.exit(code if code >= 0 else 128 - code)


def _of_command(
    command: list[str], keep: Path | None
) -> tuple[int, Recording | None, ProgramVerdict]:
    from headrace.verdict.advising import advice_on
    from headrace.verdict.running import run
    from headrace.verdict.words import verdict_of

    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(command[0]).name) or "job"
    seen = run(command, name, keep or Path(tempfile.gettempdir()))
    verdict = verdict_of(seen.observation, *advice_on(seen.observation, seen.recording))
    # What is kept is not whole; without --keep there is the verdict alone, which says so.
    cut = keep is not None and seen.full and seen.exit_code == 0
    return int(ExitCode.RUN_FAILED) if cut else seen.exit_code, seen.recording, verdict


def _check_outputs(keep: Path | None, page: Path | None) -> None:
    """Raise UsageError or RefusedError before the program runs; make the folder to keep."""
    from headrace.cli._output_files import check_folder_of, check_output, check_page
    from headrace.profiles.places import profile_to_write
    from headrace.records.place import check_place
    from headrace.report.own_files import is_own_page

    if page is not None:
        check = check_folder_of if is_own_page(page) else check_output
        check(page, "--page")
    if keep is not None:
        check_place(keep, "--keep")
        profile_to_write(keep / "profile.toml", "job", "--keep")
        check_page(keep / "verdict.html", "--keep", new_folder=True)
        _check_verdict(keep / "verdict.json")
        keep.mkdir(parents=True, exist_ok=True)


def _check_verdict(file: Path) -> None:
    """Raise RefusedError for a file that is there and is no verdict, which would be replaced."""
    if not file.is_file():
        return
    try:
        found = json.loads(file.read_bytes())
    except (OSError, ValueError):
        found = None
    if not (isinstance(found, dict) and "observation" in found):
        raise RefusedError(f"{file} already exists", hint="name another folder with --keep")


def _of_process(pid: str, duration_s: float) -> ProgramVerdict:
    from headrace.system.stopping import stopping_on_signals
    from headrace.verdict.attached import attend
    from headrace.verdict.words import verdict_of

    stop = threading.Event()
    with stopping_on_signals(stop):
        return verdict_of(attend(pid, duration_s, stop.is_set))


def _write(
    verdict: ProgramVerdict, recording: Recording | None, keep: Path | None, page: Path | None
) -> None:
    if keep is None and page is None:
        return  # their imports take memory, of which the program's control group may have little
    from headrace.profiles.steps import save
    from headrace.verdict.page import write_page
    from headrace.whole_file import write_whole

    if keep is not None:
        if recording is not None:
            save(recording, keep / "profile.toml")
        else:  # one of an earlier program is no part of this verdict
            (keep / "profile.toml").unlink(missing_ok=True)
        write_whole(keep / "verdict.json", lambda to: to.write_text(_json(verdict)))
        write_page(verdict, keep / "verdict.html")
    if page is not None:
        write_page(verdict, page)


def _json(verdict: ProgramVerdict) -> str:
    return json.dumps(asdict(verdict), indent=1) + "\n"
