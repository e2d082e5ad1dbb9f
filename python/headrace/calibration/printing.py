"""Print a learnt site: its parameters, predicted beside measured times, and the verdict."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from headrace.calibration.running import LearntSite
from headrace.calibration.verdict import as_json as verdict_json
from headrace.plan.trial import Trial
from headrace.report import wording
from headrace.report.text_table import TextTable, WholeText
from headrace.units import format_change, format_seconds

NAMED_AT_MOST = 4
"""Cells without a valid trial that a warning names."""
LINES_AT_MOST = 40
"""Cells that were only predicted, at most, in the table."""


def print_learnt_site(site: LearntSite, console: Console) -> None:
    """Print everything within 80 columns."""
    _print_parameters(site, console)
    _print_cells(site, console)
    if site.not_measured:
        names = [_name(trial) for trial in site.not_measured]
        shown = "; ".join(names[:NAMED_AT_MOST])
        more = f"; and {len(names) - NAMED_AT_MOST} more" if len(names) > NAMED_AT_MOST else ""
        text = f"no valid trial of {wording.plural(len(names), 'cell')}: {shown}{more}"
        warning = f"[yellow]warning:[/yellow] {escape(text)}"
        console.print(WholeText(warning), highlight=False)
    mark = "[bold green]→[/bold green]" if site.verdict.trusted else "[bold yellow]→[/bold yellow]"
    for sentence in site.verdict.sentences:
        console.print(WholeText(f"{mark} {escape(sentence)}"), highlight=False)


def _print_parameters(site: LearntSite, console: Console) -> None:
    table = TextTable()
    table.add_column("learnt", fold=True)
    for heading in ("value", "95 % from", "to"):
        table.add_column(heading, justify="right")
    for each in site.fit.learnt:
        words = each.parameter.words
        table.add_row(
            escape(each.parameter.name), words(each.value), words(each.low), words(each.high)
        )
    if site.fit.learnt:
        console.print(table)
    for each in site.fit.undetermined:
        text = f"undetermined: {each.parameter.name}: {each.why}"
        console.print(WholeText(f"[dim]{escape(text)}[/dim]"), highlight=False)


def _print_cells(site: LearntSite, console: Console) -> None:
    table = TextTable()
    table.add_column("cell", fold=True)
    table.add_column("slots", justify="right")
    table.add_column("")
    for heading in ("measured", "predicted", "error", "nearest"):
        table.add_column(heading, justify="right")
    measured = [cell for cell in site.cells if cell.measured_s is not None]
    others = [cell for cell in site.cells if cell.role == "predicted"]
    for cell in (*measured, *others[:LINES_AT_MOST]):
        table.add_row(
            escape(_name(cell.trial)),
            str(cell.slots),
            cell.role,
            "" if cell.measured_s is None else format_seconds(cell.measured_s),
            format_seconds(cell.predicted_s),
            _percent(cell.error),
            "" if cell.role == "learnt" else _percent(cell.null_error(site.verdict.null)),
        )
    console.print(table)
    note = f"nearest: the error if a cell had the {site.verdict.null} of the nearest learnt one"
    console.print(note, style="dim", highlight=False)
    if len(others) > LINES_AT_MOST:
        count = len(others) - LINES_AT_MOST
        console.print(f"and {count} more predicted cells (--json has them)", style="dim")


def _percent(error: float | None) -> str:
    return "" if error is None else format_change(error)


def _name(trial: Trial) -> str:
    levels = {
        name: level
        for name, level in trial.levels.items()
        if level is not None and name not in ("target", "workload", "slots", "run.slots")
    }
    # A cold cache is what most cells have.
    if levels.get("cache") == "cold":
        del levels["cache"]
    words = wording.levels_text(levels)
    return f"{trial.target}, {trial.workload}{f': {words}' if words else ''}"


def as_json(site: LearntSite) -> str:
    """Return everything as JSON, for `--json`."""
    learnt = [
        {
            "name": each.parameter.name,
            "unit": each.parameter.unit,
            "value": each.value,
            "low": each.low,
            "high": each.high,
        }
        for each in site.fit.learnt
    ]
    undetermined = [
        {"name": each.parameter.name, "why": each.why} for each in site.fit.undetermined
    ]
    parameters = {"learnt": learnt, "undetermined": undetermined}
    return verdict_json(site.cells, site.verdict, parameters, site.not_measured)
