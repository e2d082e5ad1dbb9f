"""Print the errors of a simulation: measured and simulated times of each cell, and their errors.

Pipeline step 6 of `headrace compare --model`.
"""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from headrace.analysis.findings import Estimate
from headrace.analysis.model_error import CellError, ModelErrors
from headrace.report import wording
from headrace.report.text_table import TextTable, WholeText
from headrace.units import format_change, format_seconds, format_share

CLOSE = 0.1
"""The largest error that is called small."""
LINES_AT_MOST = 60
CELLS_AT_MOST = 8


def _cell(cell: CellError) -> str:
    levels = wording.levels_text(
        {name: level for name, level in cell.levels.items() if name != "slots"}
    )
    return f"{cell.target}{f': {levels}' if levels else ''}"


def _time(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return format_seconds(estimate.value)
    return (
        f"{format_seconds(estimate.value)} ± {format_seconds((estimate.high - estimate.low) / 2)}"
    )


def headline(errors: ModelErrors) -> str:
    """Return the answer in a sentence."""
    close = sum(1 for cell in errors.cells if abs(cell.error) <= CLOSE)
    worst = max(errors.cells, key=lambda cell: abs(cell.error))
    return (
        f"The simulated time is within {format_share(errors.quantile(0.5))} of the measured one "
        f"in half of {wording.plural(len(errors.cells), 'cell')}, "
        f"within {format_share(CLOSE)} in {close}; the largest error is "
        f"{format_change(worst.error)} ({_cell(worst)}, {worst.workload}, "
        f"{wording.plural(int(str(worst.levels['slots'])), 'slot')})."
    )


def print_model_errors(errors: ModelErrors, console: Console) -> None:
    """Print every cell, in the order of the study, within 80 columns."""
    console.print(f"[bold]{escape(errors.title)}[/bold]", highlight=False)
    for warning in errors.warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False)
    answer = f"[bold green]→[/bold green] {escape(headline(errors))}"
    console.print(WholeText(answer), highlight=False)
    kinds = sorted({cell.provenance for cell in errors.cells})
    table = TextTable()
    table.add_column("storage", fold=True)
    table.add_column("workload", fold=True)
    for heading in ("slots", " or ".join(kinds), "simulated", "error", "CPU", "waits"):
        table.add_column(heading, justify="right")
    for cell in errors.cells[:LINES_AT_MOST]:
        table.add_row(
            escape(_cell(cell)),
            escape(cell.workload),
            str(cell.levels["slots"]),
            _time(cell.real_s),
            format_seconds(cell.simulated_s.value),
            format_change(cell.error) if cell.seen else f"({format_change(cell.error)})",
            format_change(cell.of_cpu),
            format_change(cell.of_waits),
        )
    console.print(table)
    console.print(
        "of the error, CPU: CPU time of the jobs; waits: for storage and network; the rest: for a "
        "CPU",
        style="dim",
    )
    if any(not cell.seen for cell in errors.cells[:LINES_AT_MOST]):
        console.print(
            "an error in brackets is within the interval of what was measured", style="dim"
        )
    if len(errors.cells) > LINES_AT_MOST:
        console.print(
            f"and {len(errors.cells) - LINES_AT_MOST} more cells (--json has them)",
            style="dim",
            highlight=False,
        )
    for words, cells in (("measured", errors.only_real), ("simulated", errors.only_simulated)):
        if cells:
            console.print(f"\nonly {words}: {wording.plural(len(cells), 'cell')}", highlight=False)
            for cell in cells[:CELLS_AT_MOST]:
                console.print(f"  {escape(cell)}", highlight=False)
            if len(cells) > CELLS_AT_MOST:
                console.print(f"  and {len(cells) - CELLS_AT_MOST} more", highlight=False)
