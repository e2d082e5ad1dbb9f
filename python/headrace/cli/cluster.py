"""`headrace cluster`: what a cluster of this user needs before a study runs on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from headrace.cli._console import complain, out
from headrace.cli._nodes import plain_status, print_table
from headrace.errors import as_word

if TYPE_CHECKING:
    from headrace.launchers.remote.survey import SurveyedNode

app = typer.Typer(help="Set up a cluster for studies, and inspect its nodes.", no_args_is_help=True)


@app.callback()
def _group() -> None:  # pyright: ignore[reportUnusedFunction]
    """Set up a cluster for studies, and inspect its nodes."""


@app.command()
def init(
    directory: Annotated[
        Path | None,
        typer.Option(help="new folder for the keys (default: ~/.config/headrace/cluster)"),
    ] = None,
    days: Annotated[
        int, typer.Option(min=1, max=36500, help="days for which the certificates are valid")
    ] = 730,
) -> None:
    """Create TLS keys for a Dask cluster of your own, and print the commands that start it."""
    from headrace.records.place import check_place
    from headrace.system.cluster_keys import (
        CONFIGURATION,
        default_folder,
        make_credentials,
    )

    folder = (directory or default_folder()).absolute()
    if not folder.exists() and not folder.is_symlink():  # refused below
        check_place(folder, "--directory")
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
        "  dask scheduler --protocol tls --host ADDRESS --port 8786 \\\n"
        "    --no-dashboard --dashboard-address 127.0.0.1:0\n"
        "On each node:\n"
        f"  {use}\n"
        "  dask worker tls://ADDRESS:8786 --nworkers 1 \\\n"
        "    --no-dashboard --dashboard-address 127.0.0.1:0\n"
        'Here, for a study with [run] on = "dask://ADDRESS:8786":\n'
        f"  {use}\n"
        "  headrace run STUDY\n"
        "\n"
        "Every holder of these keys can run programs on the nodes, and on this machine\n"
        "while a study runs: give them to nobody."
    )


@app.command()
def status(
    on: Annotated[str, typer.Option(help="the nodes, as in \\[run] on: ssh://… or dask://…")],
    nodes: Annotated[int | None, typer.Option(min=1, help="number of nodes (default: all)")] = None,
    python: Annotated[
        str | None, typer.Option(help="path of Python on the hosts, for ssh; as \\[run] python")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Show the nodes of a cluster: size, versions, clock, load by others, and what is missing."""
    from headrace.launchers.remote.survey import survey

    found, failures = survey(on, nodes, python)
    if as_json:
        typer.echo(json.dumps([plain_status(node) for node in found], indent=1))
    elif found:
        print_table(found)
        _print_lacking(found, "the nodes reached" if failures else "all nodes")
    for error in failures:
        complain(error)
    if failures:
        raise typer.Exit(int(failures[0].exit_code))


def _print_lacking(found: Sequence[SurveyedNode], every: str) -> None:
    """Print what the nodes lack for a study, and what to do. `every`: a name for all of them."""
    from headrace.launchers.remote.diagnosis import little_space

    lacking: dict[tuple[str, str, str], list[str]] = {}
    for node in found:
        for each in node.facts.capabilities:
            if not each.there:
                key = (each.what, each.gives, each.remedy)
                lacking.setdefault(key, []).append(node.name)
    for (what, gives, remedy), names in lacking.items():
        who = every if len(names) == len(found) else ", ".join(names)
        out.print(f"[yellow]{escape(f'{who}: no {what}')}[/yellow] ({escape(gives)})")
        out.print(f"    to have it: {escape(remedy)}")
    for node in found:
        for each in little_space(node):
            said = escape(f"{node.name}: {each.what}")
            out.print(f"[yellow]{said}[/yellow] ({escape(each.without)})")
            out.print(f"    to have more: {escape(each.remedy)}")


@app.command()
def doctor(
    study: Annotated[
        Path | None, typer.Argument(help="a study file: check its nodes for this study")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(help="the nodes, as in \\[run] on (default: those of the study)"),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="number of nodes; a batch system gets a request for them now"),
    ] = None,
    python: Annotated[str | None, typer.Option(help="as for cluster status")] = None,
    shared: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="a folder that all nodes must share; repeatable"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Say what is wrong with the nodes of a cluster, and what to do. Leaves nothing on them."""
    from headrace.cli._cluster_doctor import Request, examine_cluster, examine_study, finish

    wanted = Request(on, nodes, python, shared or ())
    found = examine_cluster(wanted) if study is None else examine_study(study, wanted)
    finish(found, with_json=as_json)
