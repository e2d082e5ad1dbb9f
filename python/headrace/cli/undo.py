"""`headrace undo`: undo the changes that a crashed run left on the machine."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli._console import out
from headrace.errors import ExitCode


def undo(
    show: Annotated[
        bool, typer.Option("--show", help="list what would be undone, and change nothing")
    ] = False,
) -> None:
    """Restore what crashed runs changed on this machine: mounts, loop devices, settings, processes,
    folders.
    """
    from headrace.system import block_queue
    from headrace.system.journal import pending_journals
    from headrace.system.journal import undo as undo_journal
    from headrace.system.shared_settings import put_back_abandoned

    pending = pending_journals()
    failed = False
    for journal in pending:
        out.print(
            f"{journal.description}, begun {journal.started_utc}, process {journal.pid}:",
            markup=False,
        )
        if show:
            for entry in reversed(journal.entries):
                out.print(f"  {entry.action} {entry.args}", markup=False)
            continue
        for result in undo_journal(journal.file):
            out.print(
                f"  {'done  ' if result.done else 'FAILED'}  {result.action}: {result.text}",
                markup=False,
            )
            failed = failed or not result.done
    abandoned = [] if show else put_back_abandoned(block_queue.put_back)
    for said in abandoned:
        out.print(f"  {said} (left by a run without an undo journal)", markup=False)
    if not pending and not abandoned:
        out.print("nothing to undo")
    if failed:
        raise typer.Exit(int(ExitCode.RUN_FAILED))
