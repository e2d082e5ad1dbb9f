"""The end of `run`, `resume` and `simulate`: the report or a hint to resume, and the exit code."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.markup import escape

from headrace.cli._console import err
from headrace.errors import ExitCode, HeadraceError, InterruptedRunError, as_word


class Ending:
    """The end of a run: the command calls `completed` when every trial has run."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def completed(self) -> None:
        """Print the report; exit with INVALID_TRIALS if trials were left out."""
        from headrace.cli.report import show

        if show(self._root, ["html"]):
            raise typer.Exit(int(ExitCode.INVALID_TRIALS))


@contextmanager
def finish(root: Path) -> Generator[Ending]:
    """Wrap a run; after a stop, print how to resume it."""
    offer_undo()
    try:
        yield Ending(root)
    except InterruptedRunError as error:
        err.print(f"stopped; {_restored(error)}.{_how_to_continue(root)}", markup=False)
        raise typer.Exit(int(error.exit_code)) from None
    except HeadraceError as error:
        if error.left:
            error.message = f"{error.message}\n{_restored(error)}"
        if error.hint is None and (root / "results.json").exists():
            error.hint = f"to continue: headrace resume {as_word(root)}"
        raise


def _restored(error: HeadraceError) -> str:
    """Return what became of the changes of this machine, as a clause."""
    if not error.left:
        return "everything was restored"
    return f"could not restore: {'; '.join(error.left)} (headrace undo tries again)"


def _how_to_continue(root: Path) -> str:
    """Return the command as a sentence, if there is anything to continue."""
    begun = (root / "results.json").exists()
    return f" To continue: headrace resume {as_word(root)}" if begun else " No trial was begun."


def offer_undo() -> None:
    """If crashed runs left changes on the machine, print them and how to undo them."""
    from headrace.system.journal import pending_journals

    for pending in pending_journals():
        if pending.entries:
            count = len(pending.entries)
            err.print(
                f"[yellow]a run that ended badly ({escape(pending.description)}, begun "
                f"{pending.started_utc}) has left {count} "
                f"change{'s' if count != 1 else ''} on this machine; headrace undo puts them "
                f"back[/yellow]"
            )
