"""`headrace drive complete`: a disk with the published parameters of its controller."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import err

app = typer.Typer()


@app.command("complete")
def complete(
    drive: Annotated[Path, typer.Argument(help="a TOML file with the table of a disk")],
    controller: Annotated[
        Path,
        typer.Argument(help="a TOML file with parameters of its controller, under DiskSim's names"),
    ],
    output: Annotated[Path, typer.Option("--out", help="new file for the completed drive")],
) -> None:
    """Complete the table of a disk with published parameters of its controller and cache.

    Such parameters are overheads by kind of request, bus, read-ahead rules, water marks, and skews
    by zone.
    """
    from headrace.catalog import entry
    from headrace.document import anchored_path, read_document
    from headrace.drives.controller_parameters import completed, write_completed
    from headrace.records.place import check_new_file

    check_new_file(output, "--out")
    found = entry("drives", str(drive) if drive.suffix == ".toml" else f"{drive}.toml")
    parameters = read_document(anchored_path(Path.cwd(), str(controller)))
    made = completed(found.document, parameters)
    write_completed(made, found.document, controller, output)
    try:
        entry("drives", str(output.absolute()))
    except BaseException:
        output.unlink()  # its problems are those of the two files
        raise
    for parameter in made.not_modelled:
        err.print(f"not modelled: {parameter}", style="dim", highlight=False, markup=False)
    err.print(f"written: {output}", style="dim", markup=False)
