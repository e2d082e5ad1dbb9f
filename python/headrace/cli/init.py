"""`headrace init [PATH]`: write a study file for the storage at PATH, or copy a packaged study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli._console import out
from headrace.errors import HeadraceError, RefusedError, UsageError, as_word
from headrace.whole_file import write_new


def init(
    path: Annotated[
        Path,
        typer.Argument(
            help="a directory on the storage to study, or the name of a study that comes with "
            "Headrace (see --list)"
        ),
    ] = Path(),
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="the study file to write (default: study.toml, or NAME.toml for a study by name)",
        ),
    ] = None,
    list_studies: Annotated[
        bool, typer.Option("--list", help="list the studies that come with Headrace")
    ] = False,
) -> None:
    """Write a commented study file for the storage at PATH, or copy a study that comes with
    Headrace.
    """
    from headrace.study.packaged import packaged_studies

    studies = packaged_studies()
    if list_studies:
        for name, file in studies.items():
            out.print(f"{name:<24} {_title(file)}", markup=False)
        return
    file = output or Path(f"{path}.toml" if _is_name(path, studies) else "study.toml")
    text = (
        studies[str(path)].read_text("utf-8")
        if _is_name(path, studies)
        else _first_study(path, studies)
    )
    _write(file, text)
    out.print(f"written: {file}", markup=False)
    out.print(f"  headrace plan {as_word(file)}       shows what it will do", markup=False)
    out.print(f"  headrace run {as_word(file)}        does it", markup=False)
    if _can_be_simulated(file):
        out.print(f"  headrace simulate {as_word(file)}   does it in virtual time", markup=False)


def _can_be_simulated(file: Path) -> bool:
    """Return whether every target and workload has a model: one cell of each pair is looked at."""
    from headrace.engine.simulate.checking import not_modelled
    from headrace.plan.order import make_plan
    from headrace.study.load import load_study

    try:
        study = load_study(file)
        pairs = {(trial.target, trial.workload): trial for trial in make_plan(study).trials}
        return not not_modelled(study, pairs.values(), "")
    except HeadraceError:  # such as a variable of the environment that the study needs
        return False


def _is_name(path: Path, studies: dict[str, Path]) -> bool:
    """Return whether the argument names a study; an existing directory takes precedence."""
    return str(path) in studies and not path.is_dir()


def _title(file: Path) -> str:
    import tomllib

    return str(tomllib.loads(file.read_text("utf-8")).get("title", ""))


def _first_study(path: Path, studies: dict[str, Path]) -> str:
    from headrace.study.first import first_study
    from headrace.system.facts import facts

    if not path.is_dir():
        raise UsageError(
            f"{path}: neither a directory nor a study that comes with Headrace",
            hint=f"studies: {', '.join(studies)}",
        )
    return first_study(path.resolve(), cores=int(facts()["cores"]))


def _write(file: Path, text: str) -> None:
    """Write a new file; never overwrite one."""
    try:
        write_new(file, text)
    except FileExistsError:
        raise RefusedError(
            f"{file} already exists", hint="name another file with --output"
        ) from None
    except OSError as error:
        problem = f"{file}: cannot be written: {error.strerror}"
        raise UsageError(problem, hint="name another file with --output") from None
