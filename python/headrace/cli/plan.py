"""`headrace plan STUDY`: the trials in order, their estimated cost, and what needs root."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from headrace.cli._console import out
from headrace.cli._notes import print_notes
from headrace.labels import plain
from headrace.units import format_amount, format_seconds

if TYPE_CHECKING:
    from headrace.engine.estimate import Guess
    from headrace.plan.trial import Trial
    from headrace.report.text_table import TextTable
    from headrace.study.model import Study


def plan(
    study: Annotated[Path, typer.Argument(help="the study file")],
    all: Annotated[
        bool, typer.Option("--all", help="list every trial, not only the first 40")
    ] = False,
    cache_dir: Annotated[Path | None, typer.Option(help="as for `headrace run`")] = None,
) -> None:
    """Show the trials in order, the time and disk they will take, and what needs root. Nothing is
    started.
    """
    from headrace.engine import default_cache
    from headrace.engine.estimate import estimate
    from headrace.engine.measure.space import space_problems
    from headrace.engine.measure.storage_checks import storage_problems
    from headrace.engine.timing import read_timings
    from headrace.library import load_study
    from headrace.records.place import check_place

    if cache_dir is not None:
        check_place(cache_dir, "--cache-dir")
    loaded = load_study(study)
    made = loaded.plan()
    shown = made.trials if all else made.trials[:40]
    out.print(_table(loaded.study, shown))
    if len(shown) < len(made.trials):
        out.print(f"... and {len(made.trials) - len(shown)} more; --all lists them")
    guess = estimate(loaded.study, made, read_timings(cache_dir or default_cache()))
    trials = "1 trial" if len(made.trials) == 1 else f"{len(made.trials)} trials"
    out.print(
        f"{trials} at most, about {format_seconds(guess.seconds)} (an estimate: {guess.basis})"
    )
    for text in _space(guess):
        out.print(f"  {text}")
    for problem in space_problems(loaded.study, made, cache_dir or default_cache()):
        out.print(
            f"  [yellow]no room for {escape(problem.needed_by)}: {escape(problem.what)}[/yellow]"
        )
    for problem in storage_problems(loaded.study, made):
        out.print(
            f"  [yellow]{escape(problem.needed_by)} cannot be used here now: "
            f"{escape(problem.what)}; {escape(problem.remedy)}[/yellow]"
        )
    for text in guess.needs_root:
        out.print(f"  needs root: {escape(text)}")
    print_notes(loaded.study.plan_options.repeats.notes)
    for text in guess.warnings:
        out.print(f"  [yellow]{escape(text)}[/yellow]")


def _table(study: Study, trials: Sequence[Trial]) -> TextTable:
    """Return the trials in order, with the levels of every factor."""
    from headrace.report.text_table import TextTable

    factors = [name for name in study.factors if name not in ("target", "workload")]
    headings = ("trial", "whole plot", "target", "workload", *factors, "repeat")
    table = TextTable(*headings, title=escape(study.title))
    for trial in trials:
        levels = [
            "" if trial.levels.get(name) is None else escape(str(plain(trial.levels[name])))
            for name in factors
        ]
        table.add_row(
            str(trial.index + 1),
            str(trial.whole_plot + 1),
            trial.target,
            trial.workload,
            *levels,
            str(trial.repeat + 1),
        )
    return table


def _space(guess: Guess) -> Iterator[str]:
    """Return what the trials take on targets, in memory and in the cache of data."""
    for name, size in guess.target_bytes.items():
        yield f"{name}: up to {format_amount(size)} on the target"
    for name, size in guess.memory_bytes.items():
        yield f"{name}: emulated drives take up to {format_amount(size)} of memory when measured"
    if guess.cache_bytes:
        yield f"data sets: {format_amount(guess.cache_bytes)} in the cache of generated data"
    for name, text in guess.own_data:
        yield f"{name} reads {escape(text)}"
