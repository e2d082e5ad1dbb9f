"""Two result sets side by side: in the terminal, and as an HTML page. Step 6 of the way, for `headrace compare`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headrace.analysis.findings import Comparison, Difference
from headrace.report import figures, tables, wording
from headrace.report.html import asset, bokeh_script, environment
from headrace.report.metrics import NARROW_SPACE, Metric, interval_text, metric, number, value_text

ROWS_AT_MOST = 400
LINES_AT_MOST = 40
FIGURES_AT_MOST = 4
POINTS_IN_A_FIGURE = 40
RATIO = Metric("ratio", "B / A", "", 1.0)


def _cell(difference: Difference) -> str:
    levels = wording.levels_text(
        {k: v for k, v in difference.levels.items() if k not in ("slots", "target", "workload")}
    )
    return f"{difference.target}, {difference.workload}{f': {levels}' if levels else ''}"


def verdict(difference: Difference) -> str:
    """What the interval of the ratio says, in a few words."""
    if not difference.different:
        return "no difference seen"
    change = (difference.ratio.value - 1) * 100
    return f"{'B' if difference.better == 'b' else 'A'} better ({'+' if change > 0 else ''}{number(change, 2)}\u202f%)"


def headline(comparison: Comparison) -> list[str]:
    """The answer: how many cells differ, by metric, and the largest difference of each."""
    if not comparison.differences:
        return ["The two result sets have no cell in common, so nothing can be compared."]
    sentences: list[str] = []
    for name in dict.fromkeys(d.metric for d in comparison.differences):
        mine = [d for d in comparison.differences if d.metric == name]
        wins = {side: sum(1 for d in mine if d.different and d.better == side) for side in ("a", "b")}
        title = metric(name).title
        if not any(wins.values()):
            sentences.append(f"{title}: no difference is seen in any of {wording.plural(len(mine), 'cell')}.")
            continue
        largest = max((d for d in mine if d.different), key=lambda d: abs(d.ratio.value - 1))
        change = (largest.ratio.value - 1) * 100
        sentences.append(
            f"{title}: B is better in {wins['b']}, A in {wins['a']} of {wording.plural(len(mine), 'cell')}; the largest "
            f"difference is {'+' if change > 0 else ''}{number(change, 2)}\u202f% from A to B ({_cell(largest)}, "
            f"{wording.plural(largest.slots, 'slot')})."
        )
    return sentences


def _row(difference: Difference, provenance: str) -> dict[str, Any]:
    shown = metric(difference.metric, max(abs(difference.a.value), abs(difference.b.value)))
    effect, ratio = difference.effect_size, difference.ratio
    return {
        "cell": _cell(difference),
        "slots": difference.slots,
        "metric": shown.title,
        "a": tables.value(difference.a, shown, difference.a.provenance or provenance, unit=True),
        "b": tables.value(difference.b, shown, difference.b.provenance or provenance, unit=True),
        "ratio": f"{value_text(ratio, RATIO)}",
        "ratio_interval": interval_text(ratio, RATIO),
        "effect": value_text(effect, RATIO),
        "effect_interval": interval_text(effect, RATIO),
        "p": tables.p_text(difference.p_value),
        "verdict": verdict(difference),
        "different": difference.different,
        "trials_a": difference.a.trials,
        "trials_b": difference.b.trials,
    }


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="bold",
        padding=(0, 1),
    )


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Prints the comparison, largest differences first within a metric; made for 80 columns."""
    console.print(f"[bold]A[/bold] {escape(comparison.title_a)}", highlight=False)
    console.print(f"[bold]B[/bold] {escape(comparison.title_b)}", highlight=False)
    if comparison.provenance and comparison.provenance != "measured":
        console.print(f"values are {escape(comparison.provenance)}", highlight=False)
    for warning in comparison.warnings:
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False)
    for difference in comparison.environment:
        values = f"A {', '.join(difference.a) or '–'}; B {', '.join(difference.b) or '–'}"
        console.print(
            f"  environments differ in {escape(difference.name)}: {escape(values)}",
            style="yellow",
            highlight=False,
        )
    for sentence in headline(comparison):
        console.print(
            f"[bold green]→[/bold green] {escape(sentence.replace(NARROW_SPACE + '%', '%'))}", highlight=False
        )
    for name in dict.fromkeys(d.metric for d in comparison.differences):
        mine = [d for d in comparison.differences if d.metric == name]
        largest = max(max(abs(d.a.value), abs(d.b.value)) for d in mine)
        shown = metric(name, largest)
        console.print()
        table = _table(shown.heading)
        table.add_column("storage", overflow="fold", ratio=1)
        for heading in ("slots", "A", "B", "B/A"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
        for each in sorted(mine, key=lambda d: abs(d.ratio.value - 1), reverse=True)[:LINES_AT_MOST]:
            spread = f"\n{interval_text(each.ratio, RATIO)}" if interval_text(each.ratio, RATIO) else ""
            sign = {"a": "A better", "b": "B better", "": ""}[each.better] if each.different else "="
            table.add_row(
                escape(_cell(each)), str(each.slots), value_text(each.a, shown), value_text(each.b, shown),
                f"{value_text(each.ratio, RATIO)}{spread}", sign,
            )  # fmt: skip
        console.print(table)
        if len(mine) > LINES_AT_MOST:
            console.print(
                f"and {len(mine) - LINES_AT_MOST} more cells in the HTML page", style="dim", highlight=False
            )
    for side, cells in (("A", comparison.only_a), ("B", comparison.only_b)):
        if cells:
            console.print(f"\nonly in {side}: {wording.plural(len(cells), 'cell')}", highlight=False)
            for cell in cells[:8]:
                console.print(f"  {escape(cell)}", highlight=False)
            if len(cells) > 8:
                console.print(f"  and {len(cells) - 8} more", highlight=False)


def _figures(comparison: Comparison) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for position, name in enumerate(
        list(dict.fromkeys(d.metric for d in comparison.differences))[:FIGURES_AT_MOST]
    ):
        mine = sorted(
            (d for d in comparison.differences if d.metric == name),
            key=lambda d: abs(d.ratio.value - 1),
            reverse=True,
        )
        rows = [
            (
                f"{_cell(d)}, {wording.plural(d.slots, 'slot')}",
                d.ratio,
                verdict(d),
                d.better if d.different else "",
            )
            for d in mine[:POINTS_IN_A_FIGURE]
        ]
        items.append(
            figures.ratio_figure(f"figure-ratio-{position}", f"{metric(name).title}: B over A", rows)
        )
    return items


def render_comparison(comparison: Comparison, folder_a: str = "", folder_b: str = "") -> str:
    """The whole page. Folders are relative paths to the two results folders, for links to trials."""
    items = _figures(comparison)
    rows = [_row(d, comparison.provenance) for d in comparison.differences[:ROWS_AT_MOST]]
    return (
        environment()
        .get_template("comparison.html.j2")
        .render(
            comparison=comparison,
            sentences=headline(comparison),
            confidence=f"{comparison.confidence * 100:g}\u202f%",
            rows=rows,
            more=max(0, len(comparison.differences) - ROWS_AT_MOST),
            elements=[item["target_id"] for item in items],
            folder_a=f"{folder_a}/trials" if folder_a else "",
            folder_b=f"{folder_b}/trials" if folder_b else "",
            bokeh=bokeh_script(),
            data=json.dumps({"figures": items}, separators=(",", ":"), allow_nan=False).replace(
                "<", "\\u003c"
            ),
            script=asset("comparison.js"),
        )
    )


def write_comparison(comparison: Comparison, file: Path, results_a: Path, results_b: Path) -> Path:
    """Writes the page; links to the trials of both are relative to it."""
    base = file.resolve().parent
    a, b = (quote(os.path.relpath(results.resolve(), base)) for results in (results_a, results_b))
    file.write_text(render_comparison(comparison, a, b), encoding="utf-8")
    return file
