"""The option `--on` of commands that simulate."""

from __future__ import annotations

from typing import Annotated

import typer

On = Annotated[
    str,
    typer.Option(
        metavar="dask://HOST:PORT",
        help="simulate on the workers of a Dask cluster (default: on this machine)",
    ),
]
