"""What commands share: the console, errors for people, exit codes."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from headrace.errors import HeadraceError, StudyError

out = Console(highlight=False, soft_wrap=False)
"""Results go here."""
err = Console(stderr=True, highlight=False, soft_wrap=True)
"""Progress, warnings and errors go here, so that results can be piped."""


def complain(error: HeadraceError) -> None:
    """Prints an error as one message, and the way out of it."""
    if isinstance(error, StudyError):
        for fault in error.faults:
            err.print(escape(str(fault)), style="red")
    else:
        err.print(f"[red]headrace: {escape(error.message)}[/red]")
    if error.hint:
        err.print(f"  {escape(error.hint)}")
