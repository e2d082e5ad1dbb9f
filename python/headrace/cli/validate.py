"""`headrace validate STUDY`: list all problems of a study file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import out
from headrace.cli._notes import print_notes


def validate(
    study: Annotated[Path | None, typer.Argument(help="the study file")] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="print the JSON Schema of study files, for editors")
    ] = False,
) -> None:
    """Check a study file. Names each problem: line, field, what was given, what is allowed."""
    if schema:
        from headrace.study.schema import study_schema

        typer.echo(json.dumps(study_schema(), indent=1))
        return
    if study is None:
        raise typer.BadParameter("name a study file, or --schema")
    from headrace.library import load_study
    from headrace.targets import kinds

    loaded = load_study(study)
    trials = loaded.plan().trials
    if any(kinds()[target.kind].virtual_only for target in loaded.study.targets.values()):
        # The simulator's side imports NumPy: 0.1 s that other studies need not wait.
        from headrace.engine.simulate.checking import check_simulated_only

        check_simulated_only(loaded.study, trials)
    counts = (
        ("target", len(loaded.study.targets)),
        ("workload", len(loaded.study.workloads)),
        ("trial", len(trials)),
    )
    words = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for noun, count in counts)
    out.print(f"{study} is good: {words}", markup=False)
    print_notes(loaded.study.plan_options.repeats.notes)
