"""`headrace doctor [STUDY]`: what this machine can do, and what to install or do for the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from headrace.cli._console import out
from headrace.errors import ExitCode


def doctor(
    study: Annotated[
        Path | None, typer.Argument(help="a study file: what this machine can do for it")
    ] = None,
    force_device: Annotated[list[str] | None, typer.Option(help="as for `headrace run`")] = None,
) -> None:
    """Say what this machine can do, for a study or at all. Changes nothing."""
    from headrace.cli._finish import offer_undo
    from headrace.system.capabilities import capabilities
    from headrace.system.facts import facts

    offer_undo()
    machine = facts()
    out.print(
        f"kernel {machine['kernel']}, {machine['cpu_model']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.1f} GiB"
    )
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for found in capabilities():
        mark = "[green]yes[/green]" if found.there else "[yellow]no[/yellow]"
        remedy = "" if found.there else f"\n[yellow]to have it: {escape(found.remedy)}[/yellow]"
        table.add_row(mark, escape(found.what), escape(found.gives) + remedy)
    out.print(table)
    if study is None:
        return
    from headrace.library import load_study
    from headrace.plan.estimate import estimate
    from headrace.units import format_bytes

    loaded = load_study(study, forced_devices=force_device or [])
    for name, size in estimate(loaded.study, loaded.plan()).memory_bytes.items():
        out.print(
            f"target {name}: emulated drives take up to {format_bytes(size)} of memory, one target at a time"
        )
    problems = loaded.check()
    if not problems:
        out.print(f"[green]{study}: this machine can do all of it[/green]")
        return
    table = Table("", "missing", "for", "what to do", "without it", title=f"For {study}")
    for problem in problems:
        mark = "[red]needed[/red]" if problem.fatal else "[yellow]less[/yellow]"
        without = problem.without or ("nothing can be run" if problem.fatal else "")
        table.add_row(mark, problem.what, problem.needed_by, problem.remedy, without)
    out.print(table)
    if any(problem.fatal for problem in problems):
        raise typer.Exit(int(ExitCode.MISSING))
