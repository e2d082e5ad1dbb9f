"""`headrace serve FOLDER`: results, comparisons and what-if in the browser, on this machine."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import err, out
from headrace.system.stopping import stopping_on_signals


def serve(
    folder: Annotated[Path, typer.Argument(help="a folder with results folders in it")] = Path(
        "results"
    ),
    port: Annotated[int, typer.Option(help="port; 0 takes any free one")] = 8460,
    address: Annotated[
        str,
        typer.Option(
            help="address to listen at; any that other machines reach needs a password and TLS"
        ),
    ] = "127.0.0.1",
    password_file: Annotated[
        Path | None, typer.Option(help="file with the password, readable by you alone")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="certificate (chain) for TLS, PEM")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="its private key, PEM, without password")] = None,
) -> None:
    """Serve a folder of results as a local web application. Ctrl-C ends it.

    The link that is printed has a token: only who has the link sees the pages. It is on this
    machine alone, unless --address names another address.
    """
    from headrace.serving import ServeOptions, serve_results

    def tell(link: str) -> None:
        out.print(link, markup=False, soft_wrap=True)
        # A program that started this one waits for the link.
        out.file.flush()
        err.print("open this link in a browser; Ctrl-C ends", style="dim")

    options = ServeOptions(folder, address, port, password_file, certificate, key)
    stop = threading.Event()
    with stopping_on_signals(stop):
        serve_results(options, tell, stop)
