"""`headrace cluster`: what a cluster of this user needs before a study runs on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.errors import as_word

app = typer.Typer(help="Set up a cluster on which studies run.", no_args_is_help=True)


@app.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction]
    """Set up a cluster on which studies run."""


@app.command()
def init(
    directory: Annotated[
        Path | None,
        typer.Option(help="new folder for the keys; ~/.config/headrace/cluster when not given"),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=36500, help="how long the certificates are valid")
    ] = 730,
) -> None:
    """Make the keys (TLS) of a Dask cluster of yours, and print the commands that start it."""
    from headrace.system.cluster_keys import (
        CONFIGURATION,
        default_folder,
        make_credentials,
    )

    folder = (directory or default_folder()).absolute()
    make_credentials(folder, days)
    use = f"export DASK_CONFIG={as_word(folder / CONFIGURATION)}"
    # Plain lines: they are copied, so nothing may break them.
    typer.echo(
        f"written: {folder} (its files can be read by you alone)\n"
        "\n"
        "Copy this folder to the same path on every node, without ca-key.pem (it signs\n"
        "keys, and stays here). A home directory that all nodes mount has it already.\n"
        "\n"
        "Where the scheduler runs (ADDRESS: its address in the cluster's network):\n"
        f"  {use}\n"
        "  dask scheduler --protocol tls --host ADDRESS --port 8786\n"
        "On each node:\n"
        f"  {use}\n"
        "  dask worker tls://ADDRESS:8786 --nworkers 1\n"
        'Here, for a study with [run] on = "dask://ADDRESS:8786":\n'
        f"  {use}\n"
        "  headrace run STUDY\n"
        "\n"
        "Every holder of these keys can run programs on the nodes, and on this machine\n"
        "while a study runs: give them to nobody."
    )
