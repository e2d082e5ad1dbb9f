"""The command line: one file a command, found by its name; every one is thin and calls `headrace.library`.

A module of this package is a command when it has a function of its own name (`run.py` has `run`); a leading underscore marks
what commands share.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any

import typer

from headrace.cli._console import complain
from headrace.errors import ExitCode, HeadraceError

_ORDER = ("doctor", "init", "validate", "plan", "run", "resume", "report", "compare", "undo")


def make_app() -> typer.Typer:
    """The application with every command."""
    app = typer.Typer(
        name="headrace",
        help="A laboratory for the storage of analysis clusters: real jobs on real, emulated and simulated storage.",
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    names = [found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_")]
    for name in sorted(names, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)):
        module: Any = importlib.import_module(f"headrace.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(getattr(module, name))
    return app


def main() -> None:
    """Entry point of `headrace`. A user's mistake is one message and an exit code, never a traceback."""
    try:
        make_app()(standalone_mode=True)
    except HeadraceError as error:
        complain(error)
        sys.exit(int(error.exit_code))
    except BrokenPipeError:
        # Whoever read our output (head, less) has had enough.
        sys.stderr.close()
        sys.exit(int(ExitCode.OK))
