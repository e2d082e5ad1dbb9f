"""`headrace why -- COMMAND…`: run a program, and say why it takes so long."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import err


def why(
    command: Annotated[list[str], typer.Argument(help="the program and its arguments, after --")],
    as_json: Annotated[
        bool, typer.Option("--json", help="print the verdict as JSON, on standard error")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="folder for the profile, the verdict and its page (of an earlier why: replaced)"
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="write the verdict as a page (HTML) to this file")
    ] = None,
) -> None:
    """Run a program and say where its time went, what limits it, and what would change it.

    Its input, output and exit code stay as they are; the verdict goes to standard error. Ctrl-C
    ends the program: the verdict is then about what was seen. Needs neither root nor a study file.
    """
    from headrace.profiles.steps import save
    from headrace.records.place import check_place
    from headrace.report.whole_file import write_whole
    from headrace.verdict.page import write_page
    from headrace.verdict.running import run
    from headrace.verdict.simulating import advice_on
    from headrace.verdict.words import verdict_of

    if keep is not None:
        check_place(keep, "--keep")  # before the program runs
        keep.mkdir(parents=True, exist_ok=True)
    if page is not None:
        check_place(page.absolute().parent, "--page")
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(command[0]).name) or "job"
    seen = run(command, name, keep or Path(tempfile.gettempdir()))
    verdict = verdict_of(seen.observation, *advice_on(seen.observation, seen.recording))
    text = json.dumps(asdict(verdict), indent=1)
    if keep is not None:
        if seen.recording is not None:
            save(seen.recording, keep / "profile.toml")
        write_whole(keep / "verdict.json", lambda to: to.write_text(text + "\n"))
        write_page(verdict, keep / "verdict.html")
    if page is not None:
        write_page(verdict, page)
    if as_json:
        sys.stderr.write(text + "\n")
    else:
        for line in verdict.lines:
            err.print(line, markup=False)
    code = seen.exit_code
    sys.exit(code if code >= 0 else 128 - code)
