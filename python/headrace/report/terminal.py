"""The report in the terminal: the answer, the points of the storages that matter, factor effects, what was left out.

Made for 80 columns; plain text when piped.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headrace.analysis.findings import Curve, Findings
from headrace.report import faults, tables, wording
from headrace.report.metrics import Metric, interval_text, lowered, metric, percent, value_text
from headrace.report.page_data import mark_of, scaled_metrics
from headrace.report.select import Shown, shown_curves

LEFT_OUT_LINES = 8
SUMMARY_ROWS = 20
_BAR = 20
_LEDGER_STYLE = {
    "on_cpu": "green",
    "wait_cpu": "yellow",
    "wait_block": "red",
    "wait_network": "blue",
    "other": "bright_black",
}
_LEDGER_SIGN = {"on_cpu": "█", "wait_cpu": "▒", "wait_block": "▓", "wait_network": "▚", "other": "░"}


def _line(text: str) -> str:
    """Text for a line that may be broken: the terminal would part a number from its per cent sign."""
    return escape(text.replace("\u202f%", "%"))


def _table(title: str) -> Table:
    # No boxes: they cost columns, and piped text should stay easy to cut.
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        header_style="bold",
        padding=(0, 1),
    )


def ledger_bar(ledger: dict[str, float]) -> Text:
    """The shares of wall time as twenty signs, told apart by shape as well as by colour."""
    bar = Text(no_wrap=True)
    drawn = 0
    total = 0.0
    for name in wording.LEDGER:
        total += ledger.get(name, 0.0)
        until = round(min(total, 1.0) * _BAR)
        bar.append(_LEDGER_SIGN[name] * (until - drawn), style=_LEDGER_STYLE[name])
        drawn = until
    return bar


def _cell(curve: Curve, position: int, shown: Metric, *, interval: bool = True) -> str:
    point = curve.points[position]
    estimate = point.metrics.get(shown.name)
    if estimate is None:
        return "–"
    provenance = mark_of(estimate, point)
    mark = "" if provenance == "measured" else f" {wording.PROVENANCE_MARKS.get(provenance, provenance)}"
    spread = ""
    if interval and estimate.low is not None and estimate.high is not None:
        spread = f"\n{interval_text(estimate, shown)}"
    return f"{value_text(estimate, shown)}{mark}{spread}"


def _points(curve: Curve, metrics: dict[str, Metric], main: str | None) -> Table:
    table = _table(curve.label)
    loading = curve.growth is not None
    table.add_column("clients" if loading else "slots", justify="right")
    # Several ways can lead to one number of clients.
    dealt = loading and len({point.levels.get("nodes") for point in curve.points}) > 1
    if dealt:
        table.add_column("slots x\nnodes", justify="right", no_wrap=True)
    rate = metrics.get(main or "")
    if rate is not None:
        table.add_column(f"{rate.within}\n{rate.unit}", justify="right", no_wrap=True)
    efficiency = None if loading else metrics.get("efficiency")
    if efficiency is not None and efficiency is not rate:
        table.add_column("job eff.\n%", justify="right", no_wrap=True)
    table.add_column("wall time", no_wrap=True)
    table.add_column("limit", overflow="fold")
    for position, point in enumerate(curve.points):
        cells: list[Any] = [str(point.clients if loading else point.slots)]
        if dealt:
            cells.append(f"{point.slots} x {point.levels.get('nodes')}")
        if rate is not None:
            cells.append(_cell(curve, position, rate))
        if efficiency is not None and efficiency is not rate:
            cells.append(_cell(curve, position, efficiency))
        table.add_row(
            *cells,
            ledger_bar(point.ledger),
            f"{wording.limit_name(point.limit.kind)} {percent(point.limit.share)}",
        )
    return table


def _summary(findings: Findings, shown: Shown) -> Table:
    table = _table("Storages, best first")
    table.add_column("storage", overflow="fold", ratio=1)
    fed = any(curve.slots_fed is not None for curve in shown.curves[:SUMMARY_ROWS])
    if fed:
        table.add_column("slots fed", justify="right", no_wrap=True)
    table.add_column("best rate", justify="right", no_wrap=True)
    table.add_column("at slots", justify="right", no_wrap=True)
    for index, curve in enumerate(shown.curves[:SUMMARY_ROWS]):
        main = wording.main_metric(findings, curve.workload)
        best = wording.peak(curve, main)
        scaled = metric(main, best.metrics[main].value) if main and best else None
        row = tables.summary_row(index, curve, scaled)
        peak = row["peak"]
        table.add_row(
            escape(curve.label),
            *([row["fed"] or "–"] if fed else []),
            peak.text if peak else "–",
            str(row["peak_slots"] or "–"),
        )
    return table


def _effects(findings: Findings) -> list[Table]:
    found: list[Table] = []
    for workload, name, effects in tables.effect_groups(findings):
        table = _table(f"What a choice is worth: {metric(name).within} of {workload}")
        table.add_column("factor")
        table.add_column("best", overflow="fold")
        table.add_column("worst", overflow="fold")
        table.add_column("wrong choice costs", justify="right", no_wrap=True)
        table.add_column("p", justify="right", no_wrap=True)
        for effect in effects:
            row = tables.effect_row(effect, "")
            cost = row["cost"]
            spread = f" [{cost.interval}]" if cost.interval else ""
            table.add_row(
                escape(row["factor"]),
                escape(row["best"]),
                escape(row["worst"]),
                escape(f"{cost.text} %{spread}"),
                row["p"],
            )
        found.append(table)
    return found


def print_report(findings: Findings, console: Console) -> None:
    """Prints the report. Values without a mark are measured; others carry theirs."""
    shown = shown_curves(findings)
    metrics = scaled_metrics(shown.curves, findings)
    console.print(f"[bold]{escape(findings.title)}[/bold]", highlight=False)
    for warning in findings.warnings:
        console.print(f"[yellow]warning:[/yellow] {_line(warning)}", highlight=False)
    found = wording.answers(findings)
    for answer in found:
        note = "" if answer.provenance == "measured" else f" ({answer.provenance})"
        console.print(f"[bold green]→[/bold green] {_line(answer.sentence)}{escape(note)}", highlight=False)
    if not found:
        console.print("[yellow]No trial can be trusted, so nothing can be said.[/yellow]", highlight=False)
    for sentence in wording.choice_sentences(findings):
        console.print(f"  {_line(sentence)}", highlight=False)
    console.print()
    if len(shown.curves) > 1:
        console.print(_summary(findings, shown))
        hidden = len(findings.curves) - min(len(shown.curves), SUMMARY_ROWS)
        if hidden > 0:
            console.print(f"and {hidden} more in report.html, CSV and Parquet", style="dim", highlight=False)
        console.print()
    for answer in found:
        curve = wording.by_clients(answer.best, findings.curves)
        console.print(_points(curve, metrics, wording.main_metric(findings, answer.workload)))
        console.print()
    if found:
        legend = "  ".join(
            f"{_LEDGER_SIGN[name]} {lowered(wording.LEDGER_TITLES[name])}" for name in wording.LEDGER
        )
        console.print(f"wall time: {legend}", style="dim", highlight=False)
        words = sorted(
            {word for name in findings.provenance for word in wording.provenances(name)} - {"measured"}
        )
        if words:
            marks = ", ".join(f"{wording.PROVENANCE_MARKS.get(word, word)} {word}" for word in words)
            console.print(f"marks: {marks}", style="dim", highlight=False)
        console.print(
            f"second lines are {wording.confidence_text(findings)} confidence intervals",
            style="dim",
            highlight=False,
        )
        console.print()
    for table in _effects(findings):
        console.print(table)
        console.print()
    if findings.faults:
        console.print(_faults(findings))
        console.print()
    _print_left_out(findings, console)


def _faults(findings: Findings) -> Table:
    table = _table("What faults did")
    for name in faults.COLUMNS:
        table.add_column(name, overflow="fold")
    for row in faults.rows(findings):
        mark = (
            ""
            if row["provenance"] == "measured"
            else f" {wording.PROVENANCE_MARKS.get(row['provenance'], '')}"
        )
        table.add_row(
            escape(f"{row['target']}{mark}\n{row['cell']}"),
            escape(row["fault"]),
            row["failed"],
            _line(row["stall"]),
            _line(row["rate"]),
            _line(row["recovery"]),
            _line(row["lost"]),
        )
    return table


def _print_left_out(findings: Findings, console: Console) -> None:
    console.print(wording.trials_sentence(findings), highlight=False)
    for left in findings.left_out[:LEFT_OUT_LINES]:
        colour = "yellow" if left.status == "unsupported" else "red"
        reasons = "; ".join(left.reasons)
        console.print(
            f"  [{colour}]{left.status}[/{colour}] {escape(left.trial)}: {_line(reasons)}", highlight=False
        )
    if len(findings.left_out) > LEFT_OUT_LINES:
        console.print(f"  and {len(findings.left_out) - LEFT_OUT_LINES} more in report.html", highlight=False)
