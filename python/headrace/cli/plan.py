"""`headrace plan STUDY`: the trials in order, their estimated cost, and what needs root."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from headrace.cli._console import out
from headrace.units import format_amount, format_seconds


def plan(
    study: Annotated[Path, typer.Argument(help="the study file")],
    all: Annotated[bool, typer.Option("--all", help="list every trial, not the first 40")] = False,
    cache_dir: Annotated[Path | None, typer.Option(help="as for `headrace run`")] = None,
) -> None:
    """Show the trials in order, the time and disk they will take, and what needs root. Nothing is
    started.
    """
    from headrace.engine import default_cache
    from headrace.engine.measure.space import space_problems
    from headrace.engine.timing import read_timings
    from headrace.library import load_study
    from headrace.plan.estimate import estimate
    from headrace.records.place import check_place
    from headrace.report.text_table import TextTable

    if cache_dir is not None:
        check_place(cache_dir, "--cache-dir")
    loaded = load_study(study)
    made = loaded.plan()
    shown = made.trials if all else made.trials[:40]
    factors = [name for name in loaded.study.factors if name not in ("target", "workload")]
    headings = ("trial", "whole plot", "target", "workload", *factors, "repeat")
    table = TextTable(*headings, title=escape(loaded.study.title))
    for trial in shown:
        levels = [
            "" if trial.levels.get(name) is None else str(trial.levels[name]) for name in factors
        ]
        table.add_row(
            str(trial.index + 1),
            str(trial.whole_plot + 1),
            trial.target,
            trial.workload,
            *levels,
            str(trial.repeat + 1),
        )
    out.print(table)
    if len(shown) < len(made.trials):
        out.print(f"... and {len(made.trials) - len(shown)} more; --all lists them")
    guess = estimate(loaded.study, made, read_timings(cache_dir or default_cache()))
    out.print(
        f"{len(made.trials)} trials at most, about {format_seconds(guess.seconds)} (an estimate: "
        f"{guess.rests_on})"
    )
    for name, size in guess.target_bytes.items():
        out.print(f"  {name}: up to {format_amount(size)} on the target")
    for name, size in guess.memory_bytes.items():
        out.print(
            f"  {name}: emulated drives take up to {format_amount(size)} of memory when measured"
        )
    if guess.cache_bytes:
        out.print(f"  data sets: {format_amount(guess.cache_bytes)} in the cache of generated data")
    for name, text in guess.own_data:
        out.print(f"  {name} reads {escape(text)}")
    for problem in space_problems(loaded.study, made, cache_dir or default_cache()):
        out.print(
            f"  [yellow]no room for {escape(problem.needed_by)}: {escape(problem.what)}[/yellow]"
        )
    for text in guess.needs_root:
        out.print(f"  needs root: {text}")
    for text in guess.warnings:
        out.print(f"  [yellow]{text}[/yellow]")
