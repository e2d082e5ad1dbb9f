"""`headrace drive …`: drives of the catalog, in virtual time or as emulated block devices."""

from __future__ import annotations

import typer

from headrace.cli.drive import emulated, modelled, validated

app = typer.Typer(
    help="Drives of the catalog by themselves: list, show, run, replay, validate, fit; attach, "
    "attached, detach as block devices.",
    no_args_is_help=True,
)
for _part in (modelled.app, validated.app, emulated.app):
    app.registered_commands += _part.registered_commands
