"""The command line: one module per command, found by its name; each calls `headrace.library`.

A module of this package is a command if it has a function of the same name (`run.py` has `run`).
Modules with a leading underscore contain code shared by commands. This module imports nothing:
`main` hears Ctrl-C from its first line on, and the imports of a command take most of its start.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as `typing` has it, which takes long to import
if TYPE_CHECKING:
    import typer


def make_app(named: str | None = None, *, listed: bool = False) -> typer.Typer:
    """Return the application with every command, or only the command `named` if there is one.

    `listed`: for the list of commands, which needs none of their options.
    """
    from headrace.cli._application import make_app as make

    return make(named, listed=listed)


def main() -> None:
    """Run `headrace`. A user error prints one message and sets the exit code, without a traceback.

    SIGTERM and SIGHUP stop every command like Ctrl-C; the exit code is 128 plus the signal number.
    """
    try:
        from headrace.system.stopping import end_at_once, interrupting

        end_at_once()
        with interrupting():
            _run()
    except KeyboardInterrupt:  # before signals are handled
        _say_stopped()


def _run() -> None:
    from headrace.system.stopping import interrupted

    try:
        from headrace.cli._command_run import run_command

        run_command(make_app)
    except KeyboardInterrupt:
        _say_stopped()
    except Exception:
        # An import that a signal has interrupted may fail by an error of its own.
        if not interrupted():
            raise
        _say_stopped()


def _say_stopped() -> None:
    from headrace.system.stopping import exit_code

    # The console may not be imported yet, and standard error may be closed.
    if sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison]
        print("headrace: stopped", file=sys.stderr)
    sys.exit(exit_code())
