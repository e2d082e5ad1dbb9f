"""`headrace doctor [STUDY]`: what this machine supports, and what to install for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from headrace.cli._console import out
from headrace.errors import ExitCode, HeadraceError

if TYPE_CHECKING:
    from headrace.errors import Problem
    from headrace.library import LoadedStudy


def doctor(
    study: Annotated[
        Path | None, typer.Argument(help="a study file: also say what this machine lacks for it")
    ] = None,
    force_device: Annotated[list[str] | None, typer.Option(help="as for `headrace run`")] = None,
) -> None:
    """Say what this machine can do, and what it lacks for a study. Changes nothing."""
    from headrace.cli._finish import offer_undo
    from headrace.report.text_table import TextTable
    from headrace.system.capabilities import capabilities
    from headrace.system.facts import facts

    offer_undo()
    machine = facts()
    out.print(
        f"kernel {machine['kernel']}, {machine['cpu_model']}, {machine['cores']} cores, "
        f"{machine['memory_bytes'] / 2**30:.1f} GiB"
    )
    _print_load()
    table = TextTable("", "", "", show_header=False)
    for found in capabilities():
        mark = "[green]yes[/green]" if found.there else "[yellow]no[/yellow]"
        remedy = "" if found.there else f"\n[yellow]to have it: {escape(found.remedy)}[/yellow]"
        table.add_row(mark, escape(found.what), escape(found.gives) + remedy)
    out.print(table)
    _print_meters()
    _print_nvme_states()
    if study is None:
        return
    from headrace.engine.estimate import estimate
    from headrace.library import load_study
    from headrace.units import format_bytes

    loaded = load_study(study, forced_devices=force_device or [])
    for name, size in estimate(loaded.study, loaded.plan()).memory_bytes.items():
        out.print(
            f"target {name}: emulated drives take up to {format_bytes(size)} of memory, one "
            f"target at a time"
        )
    problems = loaded.check()
    if not problems:
        out.print(f"[green]{escape(str(study))}: this machine can do all of it[/green]")
        return
    _print_problems(loaded, problems)
    if any(problem.fatal for problem in problems):
        raise typer.Exit(int(ExitCode.MISSING))


def _print_problems(loaded: LoadedStudy, problems: Sequence[Problem]) -> None:
    from headrace.report.text_table import TextTable

    title = f"For {escape(str(loaded.study.file))}"
    table = TextTable("", "missing", "for", "what to do", "without it", title=title)
    fatal = any(problem.fatal and not problem.without for problem in problems)
    otherwise = _without_what_is_needed(loaded) if fatal else ""
    for problem in problems:
        mark = "[red]needed[/red]" if problem.fatal else "[yellow]less[/yellow]"
        without = problem.without or (otherwise if problem.fatal else "")
        said = (problem.what, problem.needed_by, problem.remedy, without)
        table.add_row(mark, *map(escape, said))
    out.print(table)


def _without_what_is_needed(loaded: LoadedStudy) -> str:
    """Return what can be done with a study that this machine cannot measure."""
    try:
        problems = loaded.check("simulate")
    except HeadraceError:
        return "nothing can be run"
    if any(problem.fatal for problem in problems):
        return "nothing can be run"
    return "headrace simulate takes it in virtual time, with no such need"


def _print_meters() -> None:
    """Print the power meters that this machine has. Others are named in a study."""
    from headrace import meters
    from headrace.report.text_table import TextTable

    table, named = TextTable("", "power meter", "reads"), list[str]()
    for kind, made in meters.kinds().items():
        here = made.on_this_machine()
        if not here:
            named.append(kind)
        for found in here:
            mark = "[yellow]no[/yellow]" if found.lacks else "[green]yes[/green]"
            lacks = f"\n[yellow]{escape(found.lacks)}[/yellow]" if found.lacks else ""
            table.add_row(mark, escape(found.what), escape(found.gives) + lacks)
    out.print(table)
    out.print(
        f"further meters, named in a study or with `headrace power --meter` (docs/energy.md): "
        f"{', '.join(named)}"
    )


def _print_nvme_states() -> None:
    """Print the power states of NVMe drives, which no meter reads: the makers state them."""
    from headrace.report.text_table import TextTable
    from headrace.system.nvme import controllers

    found = controllers()
    if not found:
        return
    table = TextTable("", "NVMe drive", "most power per state, stated by its maker: not measured")
    for drive in found:
        mark = "[yellow]no[/yellow]" if drive.error else "[green]yes[/green]"
        said = f"[yellow]{escape(drive.error)}[/yellow]" if drive.error else drive.described
        table.add_row(mark, escape(f"{drive.name} {drive.model}"), said)
    out.print(table)


_LOAD_S = 1.0
"""Duration of the load measurement."""


def _print_load() -> None:
    """Print the CPU use of other programs: CPU time that jobs cannot have."""
    import time

    from headrace.system.machine_use import Own, snapshot, usable_cpus, use_between

    cpus = usable_cpus()
    before = snapshot(cpus)
    time.sleep(_LOAD_S)
    use = use_between(before, snapshot(cpus), cpus, Own())
    foreign, stolen = use.foreign_s / use.window_s, use.steal_s / use.window_s
    text = f"load: other programs use {foreign:.1f} of {use.cpus:g} CPUs"
    steal = ""
    if use.steal_s > 0.01 * use.capacity_s:
        steal = f"; the hypervisor withholds {stolen:.1f} (steal)"
    if foreign + stolen < 0.05 * use.cpus:
        out.print(text + steal, highlight=False)
        return
    named = [program for program in use.programs if program.cpu_s >= 0.05 * use.foreign_s][:5]
    words = ", ".join(
        f"{program.name}{f' ({program.processes} processes)' if program.processes > 1 else ''} "
        f"{program.cpu_s / use.window_s:.1f}"
        for program in named
    )
    out.print(
        f"[yellow]{text}{escape(': ' + words) if words else ''}{steal}; trials whose jobs "
        f"wait for them are invalid[/yellow]",
        highlight=False,
    )
