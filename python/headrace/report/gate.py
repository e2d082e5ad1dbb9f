"""Print the verdicts of `headrace gate` in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from headrace.analysis.compare import ENVIRONMENTS_BELOW
from headrace.analysis.gate import Gate, GatedCell, GateVerdict
from headrace.metrics.shown import show
from headrace.report import wording
from headrace.report.comparison import cell_text, slots_text
from headrace.report.numbers import number, value_text
from headrace.report.text_table import TextTable, WholeText

UNCHANGED_AT_MOST = 20
"""Rows of unchanged, better or undecided cells; every cell that got worse has one."""
NARROW = "\u202f"
_STYLES: dict[GateVerdict, str] = {
    "worse": "red",
    "undecided": "yellow",
    "better": "green",
    "unchanged": "dim",
}


def headline(gate: Gate) -> str:
    """Return the answer in one sentence."""
    limit = f"{gate.tolerance * 100:g}{NARROW}%"
    cells = wording.plural(len(gate.cells), "cell")
    worse, undecided = gate.count("worse"), gate.count("undecided")
    open_ones = f"; {undecided} undecided" if undecided else ""
    if worse:
        return f"Regression: {worse} of {cells} got worse by more than {limit}{open_ones}."
    if undecided == len(gate.cells):
        return (
            f"Undecided: in none of {cells} can a change of {limit} be distinguished from chance."
        )
    if gate.unusable or gate.without_value:
        seen = f"no cell is seen to be worse by more than {limit}{open_ones}"
        return f"Undecided: {seen}, but some results are missing or unusable."
    if undecided:
        decided = len(gate.cells) - undecided
        return f"Undecided: no regression of more than {limit} in {decided} of {cells}{open_ones}."
    return f"No regression: none of {cells} is seen to be worse by more than {limit}."


def remarks(gate: Gate) -> list[str]:
    """Return what limits the answer, as sentences."""
    found: list[str] = []
    if gate.unusable:
        found.append(f"The results that are judged have {', '.join(gate.unusable)}.")
    if gate.without_value:
        cells = wording.plural(gate.without_value, "common cell")
        found.append(f"{cells} without a value of the metric.")
    for cells, place in (
        (gate.comparison.only_a, "the baseline"),
        (gate.comparison.only_b, "the results"),
    ):
        if cells:
            named = "; ".join(cells[:3]) + ("; …" if cells[3:] else "")
            found.append(f"{wording.plural(len(cells), 'cell')} only in {place}: {named}.")
    if gate.count("undecided"):
        found.append(
            "Undecided: the worse end of the interval is beyond the tolerance, or there is only "
            "one trial. More repeats narrow it."
        )
    return found


def print_gate(gate: Gate, console: Console) -> None:
    """Print the answer, its limits, and the cells: those that got worse first."""

    def say(text: str, style: str | None = None) -> None:
        console.print(WholeText(text), style=style, highlight=False)

    say(f"[bold]baseline[/bold] {escape(gate.comparison.title_a)}")
    say(f"[bold]results[/bold]  {escape(gate.comparison.title_b)}")
    if gate.comparison.provenance != "measured":
        say(f"values are {escape(gate.comparison.provenance)}")
    for warning in gate.comparison.warnings:
        say(f"[yellow]warning:[/yellow] {escape(_of_gate(warning))}")
    style = "bold red" if gate.count("worse") else "bold green" if gate.judged else "bold yellow"
    say(f"[{style}]→ {escape(headline(gate))}[/{style}]")
    for remark in remarks(gate):
        say(escape(remark))
    for metric in dict.fromkeys(cell.difference.metric for cell in gate.cells):
        mine = [cell for cell in gate.cells if cell.difference.metric == metric]
        console.print()
        _print_table(metric, mine, console)


def _of_gate(warning: str) -> str:
    """Return a warning of a comparison in the words of the gate, which has a baseline in place of A
    and lists no environments."""
    for theirs, own in (("A: ", "baseline: "), ("B: ", "results: ")):
        if warning.startswith(theirs):
            return own + warning.removeprefix(theirs)
    words = {
        "A is ": "the baseline is ",
        ", B is ": ", the results are ",
        ENVIRONMENTS_BELOW: " (headrace compare lists them)",
    }
    for theirs, own in words.items():
        warning = warning.replace(theirs, own)
    return warning


def _print_table(metric: str, cells: list[GatedCell], console: Console) -> None:
    largest = max(max(abs(c.difference.a.value), abs(c.difference.b.value)) for c in cells)
    shown = show(metric, largest)
    table = TextTable(title=escape(shown.heading))
    table.add_column("")
    table.add_column("storage", fold=True)
    for heading in ("slots", "baseline", "now", "change"):
        table.add_column(heading, justify="right")
    rows = 0
    for cell in cells:
        if rows >= UNCHANGED_AT_MOST and cell.verdict != "worse":
            break
        each, rows = cell.difference, rows + 1
        table.add_row(
            f"[{_STYLES[cell.verdict]}]{cell.verdict}[/{_STYLES[cell.verdict]}]",
            escape(cell_text(each)),
            slots_text(each),
            value_text(each.a, shown),
            value_text(each.b, shown),
            change_text(cell),
        )
    console.print(table)
    if rows < len(cells):
        console.print(WholeText(f"and {len(cells) - rows} more cells in --json"), style="dim")


def change_text(cell: GatedCell) -> str:
    """Return the change from the baseline, with its interval in a second line: `−12 %`."""
    ratio = cell.difference.ratio
    text = f"{_signed(ratio.value)}{NARROW}%"
    if ratio.low is None or ratio.high is None:
        return f"{text}\none trial"
    return (
        text if ratio.low == ratio.high else f"{text}\n{_signed(ratio.low)} – {_signed(ratio.high)}"
    )


def _signed(ratio: float) -> str:
    change = (ratio - 1) * 100
    return f"{'+' if change > 0 else ''}{number(change, 2)}"
