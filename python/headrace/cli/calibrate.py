"""`headrace calibrate STUDY`: measure a few cells, learn the site, predict and check the others."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli._console import err, out
from headrace.cli._finish import offer_undo
from headrace.errors import ExitCode, HeadraceError, InterruptedRunError, as_word

if TYPE_CHECKING:
    from headrace.calibration.running import LearntSite
    from headrace.library import LoadedStudy


def calibrate(
    study: Annotated[Path, typer.Argument(help="the study file")],
    out_file: Annotated[
        Path | None,
        typer.Option(
            "--out", help="the site file to write (default: site.toml in the results folder)"
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            help="folder of the records; an unfinished calibration in it is continued (default: "
            "results/NAME-TIME)"
        ),
    ] = None,
    check: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1000,
            help="number of cells to measure as a check of the predictions (default: one for each "
            "target and workload)",
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=5.0,
            help="largest relative error allowed in a checked cell (default: 0.15)",
        ),
    ] = None,
    rehearse: Annotated[
        Path | None,
        typer.Option(
            help="a site file: simulate the measurements with it to see what would be learnt"
        ),
    ] = None,
    force_device: Annotated[
        list[str] | None,
        typer.Option(
            help="a block device of the study that may be overwritten although it is not empty "
            "(repeatable)"
        ),
    ] = None,
    cache_dir: Annotated[
        Path | None,
        typer.Option(help="where generated data sets are kept (default: ~/.cache/headrace)"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Measure a few cells of a study and fit a model of its site: CPUs, drives, network, servers.

    Then predicts the other cells, measures some of them as a check, and says how far the model can
    be trusted.
    """
    from headrace.library import default_results, load_study

    loaded = load_study(study, forced_devices=force_device or [])
    root = results or default_results(study)
    offer_undo()
    given = {
        "results": root, "out": out_file, "check": check, "limit": limit, "rehearse": rehearse,
        "cache-dir": cache_dir,
    }  # fmt: skip
    options = [(name, value) for name, value in given.items() if value is not None]
    options += [("force-device", device) for device in force_device or []]
    again = f"headrace calibrate {as_word(study)}" + "".join(
        f" --{name} {as_word(value)}" for name, value in options
    )
    try:
        site, file = _learn(loaded, root, out_file, check, limit, rehearse, cache_dir)
    except InterruptedRunError as error:
        err.print(f"stopped; everything was restored. To continue: {again}", markup=False)
        raise typer.Exit(int(error.exit_code)) from None
    except HeadraceError as error:
        if error.hint is None and (root / "results.json").exists():
            error.hint = f"to continue: {again}"
        raise
    _show(site, file, study, as_json)
    if not site.verdict.trusted or site.not_measured:
        raise typer.Exit(int(ExitCode.INVALID_TRIALS))


def _learn(
    loaded: LoadedStudy,
    root: Path,
    out_file: Path | None,
    check: int | None,
    limit: float | None,
    rehearse: Path | None,
    cache_dir: Path | None,
) -> tuple[LearntSite, Path]:
    """Measure and learn, with the progress displayed."""
    from headrace.cli._progress import Display
    from headrace.library import calibrate as learn
    from headrace.system.stopping import stopping_on_signals

    stop = threading.Event()
    with stopping_on_signals(stop), Display() as display:
        return learn(
            loaded, root, out=out_file, check=check, limit=limit, rehearse=rehearse,
            observer=display, cache_dir=cache_dir, stop=stop, say=display.note,
        )  # fmt: skip


def _show(site: LearntSite, file: Path, study: Path, as_json: bool) -> None:
    from headrace.calibration.printing import as_json as make_json
    from headrace.calibration.printing import print_learnt_site

    if as_json:
        typer.echo(make_json(site))
        return
    print_learnt_site(site, out)
    out.print(f"written: {file}", markup=False, highlight=False)
    words = f"  headrace simulate {as_word(study)} --site {as_word(file)}"
    out.print(words, markup=False, highlight=False)
