"""Show two result sets side by side, in the terminal and as an HTML page.

Pipeline step 6 of `headrace compare`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.markup import escape

from headrace.analysis.findings import Comparison, Difference
from headrace.metrics.shown import ShownMetric, show
from headrace.report import bokeh_json, figures, tables, wording
from headrace.report.html import asset, environment
from headrace.report.numbers import interval_text, number, percent, value_text
from headrace.report.text_table import TextTable, WholeText
from headrace.whole_file import write_whole

ROWS_AT_MOST = 400
LINES_AT_MOST = 40
FIGURES_AT_MOST = 4
POINTS_IN_A_FIGURE = 40
LARGE = 1.5
"""A cell whose interval reaches beyond this ratio, or its inverse, says nothing of a difference."""
RATIO = ShownMetric("ratio", "B / A", "", 1.0)


def cell_text(difference: Difference) -> str:
    """Return a cell in words, without its slots: `disk, higgs: filesystem xfs`."""
    levels = wording.levels_text(
        {k: v for k, v in difference.levels.items() if k not in ("slots", "target", "workload")}
    )
    return f"{difference.target}, {difference.workload}{f': {levels}' if levels else ''}"


def slots_text(difference: Difference) -> str:
    """Return the number of slots, `any` for windows of a watch."""
    return "any" if difference.slots is None else str(difference.slots)


def _cell_and_slots(difference: Difference) -> str:
    if difference.slots is None:
        return cell_text(difference)
    return f"{cell_text(difference)}, {wording.plural(difference.slots, 'slot')}"


def cannot_tell(difference: Difference) -> bool:
    """Return whether the trials of a cell could not show even a large difference."""
    low, high = difference.ratio.low, difference.ratio.high
    if difference.different:
        return False
    return low is None or high is None or low < 1 / LARGE or high > LARGE


def _repeats(difference: Difference) -> str:
    """Return the number of trials of the side that has fewer."""
    fewest = min(difference.a.n, difference.b.n)
    return "one trial" if fewest == 1 else wording.plural(fewest, "repeat")


def cannot_tell_sentences(comparison: Comparison) -> list[str]:
    """Return in how many cells the trials cannot tell whether A and B differ, by their number."""
    found: dict[str, int] = {}
    for each in comparison.differences:
        if cannot_tell(each):
            found[_repeats(each)] = found.get(_repeats(each), 0) + 1
    return [
        f"In {wording.plural(count, 'comparison')}, {repeats} of a side cannot tell: a difference "
        f"of {(LARGE - 1) * 100:.0f}\u202f% would not be seen. More repeats can."
        for repeats, count in found.items()
    ]


def verdict(difference: Difference) -> str:
    """Return what the interval of the ratio shows, in a few words."""
    if cannot_tell(difference):
        return f"{_repeats(difference)} cannot tell"
    if not difference.different:
        return "no difference seen"
    change = (difference.ratio.value - 1) * 100
    return (
        f"{'B' if difference.better == 'b' else 'A'} better "
        f"({'+' if change > 0 else ''}{number(change, 2)}\u202f%)"
    )


def headline(comparison: Comparison) -> list[str]:
    """Return the answer: how many cells differ, by metric, and the largest difference of each
    metric."""
    if not comparison.differences:
        return ["No metric has a value in both result sets, so nothing can be compared."]
    sentences: list[str] = []
    for name in dict.fromkeys(d.metric for d in comparison.differences):
        mine = [d for d in comparison.differences if d.metric == name]
        wins = {
            side: sum(1 for d in mine if d.different and d.better == side) for side in ("a", "b")
        }
        title = show(name).title
        if not any(wins.values()):
            sentences.append(
                f"{title}: no difference is seen in any of {wording.plural(len(mine), 'cell')}."
            )
            continue
        largest = max((d for d in mine if d.different), key=lambda d: abs(d.ratio.value - 1))
        change = (largest.ratio.value - 1) * 100
        sentences.append(
            f"{title}: B is better in {wins['b']}, A in {wins['a']} of "
            f"{wording.plural(len(mine), 'cell')}; the largest "
            f"difference is {'+' if change > 0 else ''}{number(change, 2)}\u202f% from A to B "
            f"({_cell_and_slots(largest)})."
        )
    return sentences


def _row(difference: Difference, provenance: str) -> dict[str, object]:
    shown = show(difference.metric, max(abs(difference.a.value), abs(difference.b.value)))
    effect, ratio = difference.effect_size, difference.ratio
    return {
        "cell": cell_text(difference),
        "slots": slots_text(difference),
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


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the comparison: results, the largest difference of a metric first, then environment
    differences."""

    def say(text: str, style: str | None = None) -> None:
        console.print(WholeText(text), style=style, highlight=False)

    say(f"[bold]A[/bold] {escape(comparison.title_a)}")
    say(f"[bold]B[/bold] {escape(comparison.title_b)}")
    if comparison.provenance and comparison.provenance != "measured":
        say(f"values are {escape(comparison.provenance)}")
    for warning in comparison.warnings:
        say(f"[yellow]warning:[/yellow] {escape(warning)}")
    for sentence in headline(comparison):
        say(f"[bold green]→[/bold green] {escape(sentence)}")
    for sentence in cannot_tell_sentences(comparison):
        say(f"  {escape(sentence)}")
    for name in dict.fromkeys(d.metric for d in comparison.differences):
        mine = [d for d in comparison.differences if d.metric == name]
        console.print()
        console.print(_metric_table(name, mine))
        if len(mine) > LINES_AT_MOST:
            say(f"and {len(mine) - LINES_AT_MOST} more cells in the HTML page", "dim")
    for side, cells in (("A", comparison.only_a), ("B", comparison.only_b)):
        if cells:
            say(f"\nonly in {side}: {wording.plural(len(cells), 'cell')}")
            for cell in cells[:8]:
                say(f"  {escape(cell)}")
            if len(cells) > 8:
                say(f"  and {len(cells) - 8} more")
    if comparison.environment:
        console.print()
        console.print(_environment_table(comparison))


def _metric_table(name: str, differences: list[Difference]) -> TextTable:
    shown = show(name, max(max(abs(d.a.value), abs(d.b.value)) for d in differences))
    table = TextTable(title=escape(shown.heading))
    table.add_column("storage", fold=True)
    for heading in ("slots", "A", "B", "B/A"):
        table.add_column(heading, justify="right")
    table.add_column("")
    ordered = sorted(differences, key=lambda d: abs(d.ratio.value - 1), reverse=True)
    for each in ordered[:LINES_AT_MOST]:
        interval = interval_text(each.ratio, RATIO)
        table.add_row(
            escape(cell_text(each)),
            slots_text(each),
            value_text(each.a, shown),
            value_text(each.b, shown),
            value_text(each.ratio, RATIO) + (f"\n{interval}" if interval else ""),
            _short_verdict(each),
        )
    return table


def _short_verdict(difference: Difference) -> str:
    if cannot_tell(difference):
        return "cannot tell"
    if not difference.different:
        return "="
    return {"a": "A better", "b": "B better", "": ""}[difference.better]


def _environment_table(comparison: Comparison) -> TextTable:
    table = TextTable(title="Differences between the environments")
    table.add_column("what", fold=True)
    table.add_column("A", fold=True)
    table.add_column("B", fold=True)
    for each in comparison.environment:
        table.add_row(
            escape(each.name), escape(", ".join(each.a) or "–"), escape(", ".join(each.b) or "–")
        )
    return table


def _figures(comparison: Comparison) -> list[dict[str, object]]:
    items: list[dict[str, object]] = []
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
                _cell_and_slots(d),
                d.ratio,
                verdict(d),
                d.better if d.different else "",
            )
            for d in mine[:POINTS_IN_A_FIGURE]
        ]
        items.append(
            figures.ratio_figure(f"figure-ratio-{position}", f"{show(name).title}: B over A", rows)
        )
    return items


def render_comparison(comparison: Comparison, folder_a: str = "", folder_b: str = "") -> str:
    """Return the whole page.

    Folders are relative paths to the two results folders, for links to trials.
    """
    items = _figures(comparison)
    rows = [_row(d, comparison.provenance) for d in comparison.differences[:ROWS_AT_MOST]]
    return (
        environment()
        .get_template("comparison.html.j2")
        .render(
            comparison=comparison,
            sentences=[*headline(comparison), *cannot_tell_sentences(comparison)],
            joint_confidence=percent(comparison.joint_confidence, 3),
            false_share=percent(1 - comparison.confidence),
            rows=rows,
            more=max(0, len(comparison.differences) - ROWS_AT_MOST),
            elements=[item["target_id"] for item in items],
            trials_folder="trials",
            folder_a=f"{folder_a}/trials" if folder_a else "",
            folder_b=f"{folder_b}/trials" if folder_b else "",
            bokeh=bokeh_json.script(),
            data=json.dumps({"figures": items}, separators=(",", ":"), allow_nan=False).replace(
                "<", "\\u003c"
            ),
            script=f"{asset('titles.js')}\n{asset('comparison.js')}",
        )
    )


def write_comparison(comparison: Comparison, file: Path, results_a: Path, results_b: Path) -> Path:
    """Write the page; its links to the trials of both result sets are relative."""
    base = file.resolve().parent
    a, b = (quote(os.path.relpath(results.resolve(), base)) for results in (results_a, results_b))
    page = render_comparison(comparison, a, b)
    return write_whole(
        file, lambda part: part.write_text(page, "utf-8"), "--html names another file"
    )
