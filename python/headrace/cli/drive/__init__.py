"""`headrace drive …`: drives of the catalog, in virtual time or as emulated block devices."""

from __future__ import annotations

import typer

from headrace.cli.drive import completed, emulated, fitted, learnt, modelled, validated

app = typer.Typer(
    help="Drives by themselves: list, show, run, replay, validate, fit, complete, learn; "
    "attach, attached, detach as block devices.",
    no_args_is_help=True,
)
for _part in (modelled.app, validated.app, fitted.app, completed.app, learnt.app, emulated.app):
    app.registered_commands += _part.registered_commands
