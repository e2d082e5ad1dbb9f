"""`headrace init [PATH]`: a commented study file for the storage at PATH."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import out
from headrace.errors import RefusedError


def init(
    path: Annotated[Path, typer.Argument(help="a directory on the storage to be studied")] = Path(),
    output: Annotated[Path, typer.Option("--output", "-o", help="the study file to write")] = Path(
        "study.toml"
    ),
) -> None:
    """Write a commented study file for the storage at PATH."""
    from headrace.study.first import first_study
    from headrace.system.facts import facts

    if output.exists():
        raise RefusedError(f"{output} is there already", hint="name another file with --output")
    output.write_text(first_study(path.resolve(), cores=int(facts()["cores"])))
    out.print(f"written: {output}")
    out.print(f"  headrace plan {output}   shows what it will do")
    out.print(f"  headrace run {output}    does it")
