"""`headrace reproduce [STUDY]`: simulate the four published studies and compare the results."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headrace.cli._console import err, out
from headrace.cli._on import On
from headrace.cli._output_files import check_page
from headrace.errors import ExitCode, FileProblem, StudyError, as_word
from headrace.units import format_share

if TYPE_CHECKING:
    from headrace.reproduce.emulated import Emulated
    from headrace.reproduce.published import Reproduced
    from headrace.reproduce.study import StudyModule


def reproduce(
    studies: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]",
            help="proof-ssd, worker-node-ssd, cluster-energy or storage-options (default: all)",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    html: Annotated[
        Path | None, typer.Option(help="the page to write (default: reproduce.html)")
    ] = None,
    fit: Annotated[
        bool,
        typer.Option(
            "--fit",
            help="first fit the free parameters to the published numbers marked `calibrate`, and "
            "write them into the catalog",
        ),
    ] = False,
    vary: Annotated[
        bool,
        typer.Option(
            "--vary",
            help="also simulate the alternatives of each assumption, and print what they change",
        ),
    ] = False,
    numbers: Annotated[
        bool, typer.Option("--numbers", help="also list every number in the terminal")
    ] = False,
    threads: Annotated[
        int, typer.Option(min=0, max=1024, help="number of threads; 0: one per core")
    ] = 0,
    on: On = "",
    emulate: Annotated[
        bool,
        typer.Option(
            "--emulate",
            help="run small versions of proof-ssd and cluster-energy instead, with real jobs on "
            "emulated drives (needs root; takes minutes)",
        ),
    ] = False,
    records: Annotated[
        Path | None,
        typer.Option(
            help="with --emulate: folder of the records; existing runs are resumed (default: "
            "results/emulated)"
        ),
    ] = None,
) -> None:
    """Simulate four published studies, and compare every number and finding with the published one.
    Writes an HTML page.
    """
    if emulate:
        simulated = {
            "--html": html is not None,
            "--fit": fit,
            "--vary": vary,
            "--threads": threads > 0,
            "--on": bool(on),
        }
        _refuse(simulated, "is an option of the simulation: --emulate runs real jobs")
        _emulate(studies or [], records or Path("results/emulated"), as_json, numbers)
        return
    from headrace.reproduce import chosen

    _refuse({"--records": records is not None}, "goes with --emulate: a simulation keeps none")
    modules = chosen(studies or [])
    html = html or Path("reproduce.html")
    check_page(html, "--html", new_folder=True)
    if fit:
        from headrace.reproduce.fitting import check_fits, fit_study

        check_fits(modules)
        for module in modules:
            fit_study(module, lambda text: err.print(text, style="dim"))
    began = time.monotonic()
    results = simulate(modules, threads, on)
    elapsed_s = time.monotonic() - began
    publish(results, html, as_json, numbers)
    if vary:
        for module, result in zip(modules, results, strict=True):
            show_alternatives(module, result, threads)
    err.print(f"simulated in {elapsed_s:.1f} s; written: {html}", style="dim", markup=False)


def _refuse(given: dict[str, bool], problem: str) -> None:
    """Refuse options that would be ignored. Raises StudyError."""
    found = [
        FileProblem(Path("command line"), 0, option, "", problem)
        for option, is_given in given.items()
        if is_given
    ]
    if found:
        raise StudyError(found)


def publish(results: Sequence[Reproduced], html: Path, as_json: bool, numbers: bool) -> None:
    """Write the page of the studies and print them, `numbers` says whether with every number.

    Raises HeadraceError when the page cannot be written.
    """
    from headrace.errors import HeadraceError
    from headrace.reproduce import as_json as make_json
    from headrace.reproduce.page import write_page

    try:
        write_page(results, html)
    except OSError as error:
        raise HeadraceError(
            f"{html} cannot be written: {error.strerror}", hint="--html names another file"
        ) from None
    if as_json:
        typer.echo(json.dumps(make_json(results), indent=1))
    else:
        for result in results:
            _show(result, numbers)


def simulate(modules: Sequence[StudyModule], threads: int, on: str) -> list[Reproduced]:
    """Simulate the studies, with a progress bar."""
    from headrace.engine.simulate.simulator import Cores
    from headrace.engine.simulate.where import simulator_on
    from headrace.reproduce import reproduce as run
    from headrace.system.stopping import stopping_on_signals

    stop = threading.Event()
    results: list[Reproduced] = []
    with (
        stopping_on_signals(stop),
        simulator_on(on) as opened,
        Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=err,
            transient=True,
            disable=not err.is_interactive,
        ) as bar,
    ):
        for module in modules:
            task = bar.add_task(module.id, total=None)
            results.append(
                run(
                    module,
                    simulator=opened if on else Cores(threads),
                    progress=lambda done, total, task=task: bar.update(
                        task, completed=done, total=total
                    ),
                    cancelled=stop.is_set,
                )
            )
    return results


def _emulate(studies: list[str], records: Path, as_json: bool, every: bool) -> None:
    from headrace.cli._progress import Display
    from headrace.library import load_study, resume
    from headrace.reproduce.emulated import chosen_small, emulated, paths
    from headrace.system.stopping import stopping_on_signals

    modules = chosen_small(studies)
    _check_records([records / path.stem for each in modules for path in paths(each)])
    stop = threading.Event()
    found: list[Emulated] = []
    with (
        stopping_on_signals(stop),
        tempfile.TemporaryDirectory(prefix="headrace-simulated-") as place,
    ):
        for each in modules:
            simulated: list[Path] = []
            measured: list[Path] = []
            for path in paths(each):
                loaded, folder = load_study(path), records / path.stem
                simulated.append(loaded.run(Path(place) / path.stem, engine="simulate", stop=stop))
                with Display() as display:
                    if (folder / "results.json").exists():
                        measured.append(resume(folder, observer=display, stop=stop))
                    else:
                        measured.append(loaded.run(folder, observer=display, stop=stop))
            found.append(emulated(each, simulated, measured))
    publish_emulated(found, as_json, every)


def _check_records(folders: Sequence[Path]) -> None:
    """Raise UsageError or RefusedError for a folder that cannot take records: the runs before it
    take minutes."""
    from headrace.errors import RefusedError
    from headrace.records.place import check_place
    from headrace.records.store import check_new_results

    for folder in folders:
        check_place(folder, "--records")
        if not (folder / "results.json").exists():
            try:
                check_new_results(folder)
            except RefusedError as error:
                raise RefusedError(error.message, hint="name another with --records") from None


def publish_emulated(found: Sequence[Emulated], as_json: bool, every: bool) -> None:
    """Print the results. Exits as `headrace run` does if measured trials are left out."""
    from headrace.reproduce.emulated import as_json as make_json

    if as_json:
        typer.echo(json.dumps(make_json(found), indent=1))
    else:
        for result in found:
            _show_emulated(result, every)
    if any(result.left_out for result in found):
        raise typer.Exit(int(ExitCode.INVALID_TRIALS))


ROWS = 60
"""Number of table rows shown without --numbers."""


def _show_emulated(result: Emulated, every: bool) -> None:
    from headrace.report.text_table import TextTable

    out.rule(f"{result.id}: {result.title}")
    for name in dict.fromkeys(row.table for row in result.rows):
        rows = [row for row in result.rows if row.table == name]
        table = TextTable("", "published", "simulated", "emulated", title=name)
        for row in rows if every else rows[:ROWS]:
            published = f"{row.published} {row.unit}" if row.published else ""
            table.add_row(
                row.label, published, _rate(row.simulated, row.unit), _rate(row.emulated, row.unit)
            )
        out.print(table)
        if not every and len(rows) > ROWS:
            out.print(f"and {len(rows) - ROWS} more; --numbers lists them", style="dim")
    words = {
        True: "[green]holds[/green]",
        False: "[red]does not hold[/red]",
        None: "[yellow]not known[/yellow]",
    }
    for finding in result.findings:
        out.print(
            f"{finding.id}: simulated {words[finding.simulated]}, emulated "
            f"{words[finding.emulated]}: {finding.claim} ({escape(finding.why)})",
            highlight=False,
        )
    for note in result.notes:
        out.print(f"note: {note}", style="dim", highlight=False)
    if result.left_out:
        out.print(
            f"left out, as they cannot be trusted, measured trials ({len(result.left_out)}):",
            style="yellow",
        )
        for text in result.left_out if every else result.left_out[:8]:
            out.print(f"  {escape(text)}", highlight=False)
        for path in result.results:
            again = f"headrace resume {as_word(path)} --retry-invalid"
            out.print(f"To run them again: {again}", highlight=False)
    for path in result.results:
        out.print(
            f"records: {path} (headrace report {as_word(path)})", style="dim", highlight=False
        )


def _rate(value: float | None, unit: str) -> str:
    return "–" if value is None else f"{value:.3g} {unit}"


def _show(result: Reproduced, every: bool) -> None:
    from headrace.reproduce import summary
    from headrace.reproduce.null_models import NULL_MODELS
    from headrace.reproduce.origins import KINDS

    out.rule(f"{result.id}: {result.title}")
    if every:
        _show_numbers(result)
    for finding in result.findings:
        mark = "[green]holds        [/green]" if finding.holds else "[red]does not hold[/red]"
        out.print(f"{mark} {finding.id}: {finding.why}")
        out.print(f"              {finding.origin}: {finding.origin_why}", style="dim")
    for parameter in result.fitted:
        out.print(
            f"fitted: {parameter.parameter} = {parameter.text} (to {parameter.rows})",
            style="dim",
        )
    found = summary(result)
    held = ", ".join(f"{found['hold_by_origin'][kind]} {kind}" for kind in KINDS)
    said = [f"{found['findings_that_hold']} of {found['findings']} findings hold ({held})"]
    if found["median_error"] is not None:
        said.append(
            f"predicted numbers: median error {format_share(found['median_error'], 2)}, null model "
            f"{_share(found['null_median_error'])}, "
            f"{format_share(found['within_25_percent'] or 0.0)} within 25 %"
        )
    if found["median_points"] is not None:
        said.append(
            f"efficiencies and variations: median {found['median_points'] * 100:.1f} points, null "
            f"model {(found['null_median_points'] or 0.0) * 100:.1f}, "
            f"{format_share(found['within_3_points'] or 0.0)} within 3"
        )
    if found["skill"] is not None:
        said.append(f"skill {found['skill']:+.2f}")
    out.print("; ".join(said))
    out.print(f"null model: {NULL_MODELS[result.id].says}", style="dim")


def show_alternatives(module: StudyModule, used: Reproduced, threads: int) -> None:
    """Print what each alternative of an assumption changes."""
    from headrace.engine.simulate.simulator import Cores
    from headrace.reproduce import summary
    from headrace.reproduce.assumption_tables import ASSUMPTIONS
    from headrace.reproduce.assumptions import changed, vary

    if not ASSUMPTIONS.get(module.id):
        err.print(f"{module.id}: no assumption has an alternative to simulate", highlight=False)
    for assumption, alternative, result in vary(module, Cores(threads)):
        found, before = summary(result), summary(used)
        said = [f"{found['findings_that_hold']} of {found['findings']} findings hold"]
        if found["median_error"] is not None:
            said.append(
                f"median error {format_share(found['median_error'], 1)} "
                f"({_share(before['median_error'])} as used)"
            )
        if found["median_points"] is not None and before["median_points"] is not None:
            said.append(
                f"{found['median_points'] * 100:.1f} points "
                f"({before['median_points'] * 100:.1f} as used)"
            )
        said += [
            f"{id} {'holds' if holds else 'is lost'}" for id, holds in changed(used, result).items()
        ]
        err.print(
            f"assumption of {module.id}: {assumption.name}: {alternative.label}, not "
            f"{assumption.used}: {'; '.join(said)}",
            highlight=False,
        )


def _share(value: float | None) -> str:
    return "–" if value is None else format_share(value, 2)


def _show_numbers(result: Reproduced) -> None:
    from headrace.report.text_table import TextTable
    from headrace.reproduce.published import error_text

    heads = ("table", "row", "column", "published", "obtained", "error", "null model", "role")
    table = TextTable(*heads)
    for number in result.numbers:
        colour = "" if number.within or number.role == "calibrate" else "red"
        null = number.null_error
        table.add_row(
            number.table,
            number.label,
            number.column,
            f"{number.published} {number.unit}",
            f"{number.obtained:.3g} {number.unit}",
            error_text(number.error, number),
            "" if null is None else error_text(null, number),
            number.role,
            style=colour,
        )
    out.print(table)
