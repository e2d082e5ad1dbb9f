"""`headrace serve FOLDER`: results, comparisons and what-if in the browser, on this machine."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import err, out
from headrace.system.stopping import stopping_on_signals


def serve(
    folder: Annotated[Path, typer.Argument(help="a folder that contains results folders")] = Path(
        "results"
    ),
    port: Annotated[int, typer.Option(help="port; 0: any free port")] = 8460,
    address: Annotated[
        str,
        typer.Option(
            help="address to listen on; one that other machines can reach needs a password and TLS"
        ),
    ] = "127.0.0.1",
    password_file: Annotated[
        Path | None, typer.Option(help="file with the password, readable only by you")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate or chain, PEM")] = None,
    key: Annotated[
        Path | None, typer.Option(help="private key of the certificate, PEM, without a password")
    ] = None,
) -> None:
    """Serve a folder of results as a local web application. Ctrl-C stops it.

    The printed link contains a token: without the link nobody can see the pages. The server is
    reachable from this machine only, unless --address names another address.
    """
    from headrace.serving import ServeOptions, serve_results

    def tell(link: str, elsewhere: str) -> None:
        out.print(link, markup=False, soft_wrap=True)
        # A program that started this one waits for the link.
        out.file.flush()
        if elsewhere:
            err.print(f"from other machines: {elsewhere}", style="dim", soft_wrap=True)
        err.print("open this link in a browser; Ctrl-C ends", style="dim")

    options = ServeOptions(folder, address, port, password_file, certificate, key)
    stop = threading.Event()
    with stopping_on_signals(stop):
        serve_results(options, tell, stop)
