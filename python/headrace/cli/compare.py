"""`headrace compare A B`: effect sizes between two result sets, or the error of a simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import out
from headrace.cli._output_files import check_page
from headrace.errors import FileProblem, StudyError


def compare(
    a: Annotated[Path, typer.Argument(help="a results folder")],
    b: Annotated[Path, typer.Argument(help="another results folder, compared with the first")],
    html: Annotated[
        Path | None, typer.Option(help="also write the comparison as an HTML page")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="compare although the environments differ in ways that matter"
        ),
    ] = False,
    model: Annotated[
        bool,
        typer.Option(
            "--model",
            help="one folder simulates the other: print the error of its times, cell by cell",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="with --model: print JSON")] = False,
) -> None:
    """Compare two result sets cell by cell. Refuses or warns where they are not comparable."""
    from headrace.library import compare as make_comparison
    from headrace.library import model_errors

    if model:
        if html is not None or force:
            raise _fault("--html" if html is not None else "--force", "does not go with --model")
        if as_json:
            from headrace.analysis.model_error import as_json as make_json

            typer.echo(make_json(model_errors(a, b)))
        else:
            model_errors(a, b, out)
        return
    if as_json:
        raise _fault("--json", "goes with --model")
    if html is not None:
        check_page(html, "--html")
    make_comparison(a, b, out, html=html, force=force)


def _fault(option: str, problem: str) -> StudyError:
    return StudyError([FileProblem(Path("command line"), 0, option, "", problem)])
