"""`headrace drive …`: drives of the catalog, in virtual time or as emulated block devices."""

from __future__ import annotations

import typer

from headrace.cli.drive import completed, emulated, fitted, learnt, modelled, replayed, validated

app = typer.Typer(
    help="Single drives of the catalog: list, show, run, replay, validate, fit, complete, learn. "
    "Emulated drives as block devices: attach, attached, detach.",
    no_args_is_help=True,
)
for _part in (modelled, replayed, validated, fitted, completed, learnt, emulated):
    app.registered_commands += _part.app.registered_commands
