"""The application of the command line: one module per command, found by its name.

A module of this package is a command if it has a function of the same name (`run.py` has `run`).
"""

from __future__ import annotations

import copy
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli._wrong_values import CheckedCommand

_ORDER = ("doctor", "init", "validate", "plan", "run", "resume", "report", "compare", "undo")

_HELP = (
    "Measure, emulate and simulate the storage of analysis clusters with real ROOT analysis jobs."
)
_EPILOG = (
    "First steps: `headrace init quickstart` writes a study file that is ready to run. "
    "`headrace init PATH` writes one for the storage at PATH. Then give the study file to "
    "`headrace plan`, `headrace run` or `headrace simulate`."
)


def make_app(named: str | None = None, *, listed: bool = False) -> typer.Typer:
    """Return the application with every command, or only the command `named` if there is one.

    It has none if the first word is `--version`.
    `listed`: for the list of commands, which needs none of their options.
    """
    app = typer.Typer(
        name="headrace",
        help=_HELP,
        epilog=_EPILOG,
        callback=_top_options,
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    names = [
        found.name
        for found in pkgutil.iter_modules([str(Path(__file__).parent)])
        if not found.name.startswith("_")
    ]
    if named in names:
        names = [named]
    elif named == "--version":
        names = []  # the version is printed before a command is looked for
    for name in sorted(
        names, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)
    ):
        module: Any = importlib.import_module(f"headrace.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(_without_commands(module.app) if listed else module.app, name=name)
        else:
            command = getattr(module, name)
            app.command(name, help=_unwrapped(command))(_no_options if listed else command)
    _prepare_commands(app)
    return app


def _without_commands(group: typer.Typer) -> typer.Typer:
    alone = copy.copy(group)
    alone.registered_commands, alone.registered_groups = [], []
    return alone


def _no_options() -> None:
    """Stand for a command that is listed: typer reads the options of each command otherwise."""


def _prepare_commands(app: typer.Typer) -> None:
    """Give each command the help and the messages that Headrace has."""
    for command in app.registered_commands:
        command.cls = CheckedCommand
        if command.help is None and command.callback is not None:
            command.help = _unwrapped(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _prepare_commands(group.typer_instance)


def _unwrapped(command: Callable[..., object]) -> str:
    """Return the docstring with one line for each paragraph.

    Typer keeps their line breaks; the terminal's width has to decide.
    """
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(each.split()) for each in paragraphs)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"headrace {version('headrace')}")
        raise typer.Exit


def _top_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
) -> None:
    """The options of `headrace` itself; typer needs a function that has them."""
