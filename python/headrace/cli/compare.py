"""`headrace compare A B`: two result sets, effect sizes with confidence intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import out


def compare(
    a: Annotated[Path, typer.Argument(help="a results folder")],
    b: Annotated[Path, typer.Argument(help="another one, compared with the first")],
    html: Annotated[Path | None, typer.Option(help="also write the comparison as an HTML page")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="compare although the environments differ in what matters")
    ] = False,
) -> None:
    """Compare two result sets cell by cell; refuses or warns where they are not comparable."""
    from headrace.library import compare as make_comparison

    make_comparison(a, b, out, html=html, force=force)
