"""The command line: one module per command, found by its name; each calls `headrace.library`.

A module of this package is a command if it has a function of the same name (`run.py` has `run`).
Modules with a leading underscore contain code shared by commands.
"""

from __future__ import annotations

import copy
import errno
import gc
import importlib
import inspect
import os
import pkgutil
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli._console import complain, err
from headrace.cli._lean_help import import_help
from headrace.cli._streams import secure_streams, silence_output
from headrace.errors import ExitCode, HeadraceError
from headrace.system.ending import end_without_search
from headrace.system.own_variables import BLAS, one_thread
from headrace.system.stopping import exit_code as _stopped
from headrace.system.stopping import interrupted, interrupting

_ORDER = ("doctor", "init", "validate", "plan", "run", "resume", "report", "compare", "undo")

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a write says when there is no space left for it, or no more is allowed."""

_HELP = (
    "A laboratory for the storage of analysis clusters: real jobs on real, emulated and simulated "
    "storage."
)
_EPILOG = (
    "First steps: `headrace init quickstart` writes a ready study, `headrace init PATH` one for "
    "the storage at PATH; then `headrace plan`, `headrace run` or `headrace simulate`, each with "
    "the study file."
)


def make_app(named: str | None = None, *, listed: bool = False) -> typer.Typer:
    """Return the application with every command, or only the command `named` if there is one.

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
        found.name for found in pkgutil.iter_modules(__path__) if not found.name.startswith("_")
    ]
    if named in names:
        names = [named]
    for name in sorted(
        names, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)
    ):
        module: Any = importlib.import_module(f"headrace.cli.{name}")
        if hasattr(module, "app"):
            app.add_typer(_without_commands(module.app) if listed else module.app, name=name)
        else:
            command = getattr(module, name)
            app.command(name, help=_unwrapped(command))(_no_options if listed else command)
    _unwrap_help(app)
    return app


def _without_commands(group: typer.Typer) -> typer.Typer:
    alone = copy.copy(group)
    alone.registered_commands, alone.registered_groups = [], []
    return alone


def _no_options() -> None:
    """Stand for a command that is listed: typer reads the options of each command otherwise."""


def _unwrap_help(app: typer.Typer) -> None:
    for command in app.registered_commands:
        if command.help is None and command.callback is not None:
            command.help = _unwrapped(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _unwrap_help(group.typer_instance)


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


def _ended_by(error: OSError) -> ExitCode:
    """Print what the user can do about an error of the system; raise it again if nothing."""
    if error.errno == errno.ENAMETOOLONG:
        # Of a file or folder that the user named: Headrace's own names are short.
        name = str(error.filename or "a file")
        shown = name if len(name) <= 60 else f"{name[:40]}...{name[-17:]}"
        complain(HeadraceError(f"{shown}: the name is too long"))
        return ExitCode.BAD_INPUT
    if error.errno == errno.ENOENT and _without_folder():
        complain(HeadraceError("the current directory has been removed; change to another one"))
        return ExitCode.BAD_INPUT
    if error.errno not in _FULL:
        raise error
    silence_output()
    where = f" ({error.filename})" if error.filename else ""
    complain(HeadraceError(f"output cannot be written: {error.strerror}{where}"))
    return ExitCode.RUN_FAILED


def _without_folder() -> bool:
    """Return whether the current directory has been removed, or cannot be reached."""
    try:
        Path.cwd()
    except OSError:
        return True
    return False


def main() -> None:
    """Run `headrace`. A user error prints one message and sets the exit code, without a traceback.

    SIGTERM and SIGHUP stop every command like Ctrl-C; the exit code is 128 plus the signal number.
    """
    # What a command imports stays: to look through it for garbage again and again takes a tenth of
    # a report's time.
    gc.set_threshold(50_000, 20, 100)
    os.environ.update(one_thread(BLAS))
    end_without_search()
    secure_streams()
    with interrupting():
        try:
            # A command's start needs no other command's modules and options.
            words = sys.argv[1:]
            if not {"-h", "--help"}.isdisjoint(words):
                import_help()
            listed = words in (["-h"], ["--help"])
            make_app(words[0] if words else None, listed=listed)(standalone_mode=True)
        except HeadraceError as error:
            complain(error)
            sys.exit(
                _stopped() if error.exit_code == ExitCode.INTERRUPTED else int(error.exit_code)
            )
        except OSError as error:
            sys.exit(int(_ended_by(error)))
        except Exception:
            if not interrupted():
                raise
            err.print("headrace: stopped")
            sys.exit(_stopped())
        except SystemExit as end:
            # Typer exits with 1 (a defect) when the program that reads the output (head, less) has
            # ended.
            if isinstance(end.__context__, BrokenPipeError) and _reader_gone():
                sys.exit(int(ExitCode.OK))
            if end.code == ExitCode.INTERRUPTED:
                if end.__context__ and isinstance(end.__context__.__cause__, KeyboardInterrupt):
                    err.print("headrace: stopped")
                sys.exit(_stopped())
            raise


def _reader_gone() -> bool:
    """Return whether standard output or error is a pipe whose reader has closed it."""
    poll = select.poll()
    for descriptor in (1, 2):
        poll.register(descriptor, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
