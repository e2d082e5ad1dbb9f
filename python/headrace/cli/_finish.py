"""The end of `run`, `resume` and `simulate`: the report, or how to go on; and the exit code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import typer

from headrace.cli._console import err
from headrace.errors import ExitCode, HeadraceError, InterruptedRunError


class Ending:
    """Told by the command that every trial was run."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def completed(self) -> None:
        """Reports, and exits with INVALID_TRIALS when trials were left out."""
        from headrace.cli.report import show

        if show(self._root, ["html"]):
            raise typer.Exit(int(ExitCode.INVALID_TRIALS))


@contextmanager
def finish(root: Path) -> Generator[Ending]:
    """Around a run: says after a stop how to go on."""
    offer_undo()
    try:
        yield Ending(root)
    except InterruptedRunError as error:
        err.print(f"stopped; everything was put back. To go on: headrace resume {root}")
        raise typer.Exit(int(error.exit_code)) from None
    except HeadraceError as error:
        if error.hint is None and (root / "results.json").exists():
            error.hint = f"to go on: headrace resume {root}"
        raise


def offer_undo() -> None:
    """When a crashed run has left changes on the machine, says so, and how to put them back."""
    from headrace.system.journal import pending_journals

    for pending in pending_journals():
        if pending.entries:
            count = len(pending.entries)
            err.print(
                f"[yellow]a run that ended badly ({pending.description}, begun {pending.started_utc}) has left {count} "
                f"change{'s' if count != 1 else ''} on this machine; headrace undo puts them back[/yellow]"
            )
