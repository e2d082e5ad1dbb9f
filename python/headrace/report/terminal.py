"""The report in the terminal: answers, storages, points, effects of choices, left-out trials.

Made for 80 columns, readable at any width; plain text when piped. Nothing is shortened
(text_table.py).
"""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from headrace.analysis.findings import Curve, Findings, Point
from headrace.analysis.metrics import LEDGER
from headrace.analysis.ranking import peak
from headrace.metrics import less_is_better
from headrace.metrics.shown import ShownMetric, lowered, show
from headrace.report import answers, energy, faults, interference, nodes, prices, tables, wording
from headrace.report.choices import AT_MOST, choice_sentences
from headrace.report.numbers import interval_text, percent, value_text
from headrace.report.page_data import mark_of, scaled_metrics
from headrace.report.select import Shown, shown_curves
from headrace.report.text_table import TextTable, WholeText

LEFT_OUT_LINES = 8
MOST_NODE_TABLES = 2
SUMMARY_ROWS = 20
"""For each workload."""
_BAR = 20
_LEDGER_STYLE = {
    "on_cpu": "green",
    "wait_cpu": "yellow",
    "wait_block": "red",
    "wait_network": "blue",
    "other": "bright_black",
}
_LEDGER_SIGN = {
    "on_cpu": "█",
    "wait_cpu": "▒",
    "wait_block": "▓",
    "wait_network": "▚",
    "other": "░",
}
_DISTRUSTED = "✗"
"""Mark of a number that cannot be trusted; it is also dim, but a pipe loses colour."""


class _Printer:
    """Prints sentences and tables of one report."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str, style: str | None = None) -> None:
        """Print one paragraph of markup."""
        self._console.print(WholeText(text), style=style, highlight=False)

    def table(self, table: TextTable) -> None:
        """Print a table."""
        self._console.print(table, highlight=False)

    def blank(self) -> None:
        """Print an empty line."""
        self._console.print()


def ledger_bar(ledger: dict[str, float]) -> Text:
    """Return the shares of wall time as twenty characters, distinguished by shape as well as by
    colour."""
    bar = Text(no_wrap=True)
    drawn = 0
    total = 0.0
    for name in LEDGER:
        total += ledger.get(name, 0.0)
        until = round(min(total, 1.0) * _BAR)
        bar.append(_LEDGER_SIGN[name] * (until - drawn), style=_LEDGER_STYLE[name])
        drawn = until
    return bar


def print_report(findings: Findings, console: Console) -> None:
    """Print the report. Values without a mark are measured; others carry theirs."""
    printer = _Printer(console)
    shown = shown_curves(findings)
    found = answers.answers(findings)
    leading = answers.leading(found)
    _print_answers(findings, found, leading, printer)
    printer.blank()
    _print_summaries(findings, shown, printer)
    metrics = scaled_metrics(shown.curves, findings)
    for answer in leading:
        curve = answers.by_clients(answer.best, findings.curves)
        main = metrics.get(wording.main_metric(findings, answer.workload) or "")
        _print_points(curve, main, metrics.get("efficiency"), printer)
    if found:
        _print_legend(findings, printer)
    _print_energy(findings, shown, metrics, printer)
    if findings.prices:
        printer.table(_prices(findings))
        printer.say(escape(prices.SENTENCE), "dim")
        printer.blank()
    _print_effects(findings, printer)
    for each in nodes.tables(findings)[:MOST_NODE_TABLES]:
        _print_nodes(each, printer)
    if findings.faults:
        printer.table(_faults(findings))
        printer.blank()
    if findings.interference:
        printer.table(_interference(findings))
        printer.blank()
    _print_left_out(findings, printer)


def _print_answers(
    findings: Findings,
    found: list[answers.Answer],
    leading: list[answers.Answer],
    printer: _Printer,
) -> None:
    printer.say(f"[bold]{escape(findings.title)}[/bold]")
    for warning in (*findings.warnings, *filter(None, [interference.warning(findings)])):
        printer.say(f"[yellow]warning:[/yellow] {escape(warning)}")
    for answer in leading:
        note = "" if answer.provenance == "measured" else f" ({answer.provenance})"
        printer.say(f"[bold green]→[/bold green] {escape(answer.sentence)}{escape(note)}")
    if len(found) > len(leading):
        printer.say(
            f"  the other {len(found) - len(leading)} storages and workloads are in the tables "
            "below",
            "dim",
        )
    for each in findings.unanswered:
        printer.say(f"[yellow]{_DISTRUSTED}[/yellow] {escape(answers.unanswered_sentence(each))}")
    if not found:
        printer.say("[yellow]No trial can be trusted, so nothing can be said.[/yellow]")
    sentences = choice_sentences(findings)
    for sentence in sentences[:AT_MOST]:
        printer.say(f"  {escape(sentence)}")
    if len(sentences) > AT_MOST:
        printer.say(f"  and {len(sentences) - AT_MOST} more in the tables below", "dim")


def _print_summaries(findings: Findings, shown: Shown, printer: _Printer) -> None:
    """Print the storages of each workload, best first."""
    if len(findings.curves) < 2:
        return
    workloads = list(dict.fromkeys(curve.workload for curve in shown.curves))
    for workload in workloads:
        curves = [curve for curve in shown.curves if curve.workload == workload]
        if len(curves) == 1 and curves[0].points:
            # Its points are printed as a table of their own.
            continue
        printer.table(
            _summary(findings, curves[:SUMMARY_ROWS], workload if len(workloads) > 1 else "")
        )
        told = {(each.workload, each.target) for each in findings.unanswered}
        for curve in curves[:SUMMARY_ROWS]:
            if not curve.points and (curve.workload, curve.target) not in told:
                for reason in tables.summary_row(0, curve, None, findings.curves)["reasons"]:
                    printer.say(f"{_DISTRUSTED} {escape(curve.name)}: {escape(reason)}", "dim")
        for note in tables.rank_notes(curves, findings.curves):
            printer.say(note, "dim")
        hidden = sum(curve.workload == workload for curve in findings.curves) - len(
            curves[:SUMMARY_ROWS]
        )
        if hidden > 0:
            printer.say(f"and {hidden} more in report.html, CSV and Parquet", "dim")
        printer.blank()


def _summary(findings: Findings, curves: list[Curve], workload: str) -> TextTable:
    title = f"Storages, best first: {workload}" if workload else "Storages, best first"
    table = TextTable(title=escape(title))
    table.add_column("rank", justify="right")
    table.add_column("storage", fold=True)
    fed = any(curve.slots_fed is not None for curve in curves)
    noun = "clients" if any(curve.axis == "clients" for curve in curves) else "slots"
    if fed:
        table.add_column(f"{noun} fed", justify="right")
    mains = [wording.main_metric(findings, curve.workload) for curve in curves]
    table.add_column(wording.best_heading(mains), justify="right")
    table.add_column(f"at {noun}", justify="right")
    for curve in curves:
        main = wording.main_metric(findings, curve.workload)
        trusted = peak(curve, main)
        best = trusted or _best_distrusted(curve, main)
        scaled = show(main, best.metrics[main].value) if main and best else None
        row = tables.summary_row(0, curve, scaled, findings.curves)
        rate = "–"
        if best is not None and scaled is not None and main is not None:
            rate = f"{value_text(best.metrics[main], scaled)} {scaled.unit}".strip()
        interval = f"\n({row['fed_interval']})" if row["fed_interval"] else ""
        table.add_row(
            row["rank"].replace("cannot be told", "cannot\nbe told"),
            escape(curve.name or curve.label),
            *([f"{row['fed']}{interval}" if row["fed"] else "–"] if fed else []),
            rate if trusted else f"{_DISTRUSTED} ({rate})",
            str(best.load if best else "–"),
            style="" if trusted else "dim",
        )
    return table


def _best_distrusted(curve: Curve, main: str | None) -> Point | None:
    having = [point for point in curve.distrusted if main is not None and main in point.metrics]
    best = min if less_is_better(main or "") else max
    return best(having, key=lambda point: point.metrics[main or ""].value, default=None)


def _print_points(
    curve: Curve, rate: ShownMetric | None, efficiency: ShownMetric | None, printer: _Printer
) -> None:
    columns = [rate] if rate is not None else []
    if efficiency is not None and curve.growth is None and efficiency is not rate:
        columns.append(efficiency)
    table = TextTable(title=escape(curve.label))
    table.add_column("clients" if curve.axis == "clients" else "slots", justify="right")
    points = sorted(
        (*curve.points, *curve.distrusted), key=lambda point: (point.load, bool(point.reasons))
    )
    # Several combinations of slots, nodes and jobs can give the same number of clients.
    dealt = answers.load_columns(points)
    for heading in dealt:
        table.add_column(heading, justify="right")
    for column in columns:
        heading = "job eff." if column is efficiency else column.within
        table.add_column(f"{heading}\n{column.unit}", justify="right")
    table.add_column("wall time")
    table.add_column("limit", fold=True)
    for index, point in enumerate(points):
        cells: list[str | Text] = [str(point.load), *(texts[index] for texts in dealt.values())]
        cells += [_cell(point, column) for column in columns]
        limit = f"{wording.limit_name(point.limit.kind)} {percent(point.limit.share)}"
        if point.reasons:
            table.add_row(*cells, "", "invalid", style="dim")
        else:
            table.add_row(*cells, ledger_bar(point.ledger), limit)
    printer.table(table)
    for point in curve.distrusted:
        at = wording.plural(point.load, wording.axis_noun(curve))
        for reason in point.reasons:
            printer.say(f"{_DISTRUSTED} at {at}: {escape(reason)}", "dim")
    printer.blank()


def _cell(point: Point, shown: ShownMetric) -> str:
    estimate = point.metrics.get(shown.name)
    if estimate is None:
        return "–"
    value = value_text(estimate, shown)
    if point.reasons:
        return f"{_DISTRUSTED} ({value})"
    provenance = mark_of(estimate, point)
    mark = (
        ""
        if provenance == "measured"
        else f" {wording.PROVENANCE_MARKS.get(provenance, provenance)}"
    )
    interval = interval_text(estimate, shown)
    return f"{value}{mark}" + (f"\n{interval}" if interval else "")


def _print_legend(findings: Findings, printer: _Printer) -> None:
    legend = "  ".join(
        f"{_LEDGER_SIGN[name]} {lowered(wording.LEDGER_TITLES[name])}" for name in LEDGER
    )
    printer.say(f"wall time: {legend}", "dim")
    words = sorted(
        {word for name in findings.provenance for word in wording.provenances(name)} - {"measured"}
    )
    if words:
        marks = ", ".join(f"{wording.PROVENANCE_MARKS.get(word, word)} {word}" for word in words)
        printer.say(f"marks: {marks}", "dim")
    if any(curve.distrusted for curve in findings.curves):
        printer.say(
            f"{_DISTRUSTED} (value): of trials that cannot be trusted; used for nothing", "dim"
        )
    printer.say(f"second lines are {wording.confidence_text(findings)} confidence intervals", "dim")
    printer.blank()


def _print_effects(findings: Findings, printer: _Printer) -> None:
    names = wording.LevelNames.of(findings)
    for workload, name, effects in tables.effect_groups(findings):
        table = TextTable(
            title=escape(f"What a choice is worth: {show(name).within} of {workload}")
        )
        table.add_column("factor")
        table.add_column("best", fold=True)
        table.add_column("worst", fold=True)
        table.add_column("wrong choice costs", justify="right")
        table.add_column("p", justify="right")
        for effect in effects:
            row = tables.effect_row(effect, "", names)
            cost = row["cost"]
            spread = f"\n[{cost.interval}]" if cost.interval else ""
            seen = f"{cost.text} %{spread}" if effect.seen else f"no difference seen{spread}"
            if effect.cost_of_wrong.low is None:
                seen = "not tested"
            cells = (row["factor"], row["best"], row["worst"], seen, row["p"])
            table.add_row(*(escape(cell) for cell in cells))
        printer.table(table)
        for effect in effects:
            if not effect.seen and effect.detectable:
                factor = escape(wording.factor_text(effect.factor))
                printer.say(f"{factor}: {wording.detectable_text(effect.detectable)}", "dim")
        printer.blank()


def _print_energy(
    findings: Findings, shown: Shown, metrics: dict[str, ShownMetric], printer: _Printer
) -> None:
    """Print energy per job of each storage where it is lowest; nothing without any energy."""
    main = energy.leading(metrics)
    if main is None:
        return
    found = energy.energy_curves(shown.curves, main, metrics)
    if not found:
        return
    table = TextTable(title=f"Lowest {metrics[main].within} of each storage")
    table.add_column("storage", fold=True)
    table.add_column("at", justify="right")
    table.add_column(metrics[main].unit, justify="right")
    table.add_column("boundary and source", fold=True)
    for each in found[:SUMMARY_ROWS]:
        curve = shown.curves[each["index"]]
        best = peak(curve, main)
        row = next(row for row in each["rows"] if best is None or row["load"] == best.load)
        value = row["energy"]
        table.add_row(
            escape(curve.label),
            str(row["load"]),
            value.text + (f"\n{value.interval}" if value.interval else ""),
            escape(row["basis"]),
        )
    printer.table(table)
    printer.say(escape(energy.sentence(findings, main)), "dim")
    printer.blank()


def _prices(findings: Findings) -> TextTable:
    names = prices.per_columns(findings)[:3]
    table = TextTable(title="Price of what jobs get")
    table.add_column("storage", fold=True)
    table.add_column("price", justify="right")
    for name in names:
        table.add_column(f"per {prices.PER[name]}", justify="right", fold=True)
    for row in prices.rows(findings)[:SUMMARY_ROWS]:
        cells = [row["label"], f"{row['price'].text}\n{row['what']}"]
        cells += [
            "–" if cell is None else cell.text + (f"\n{cell.interval}" if cell.interval else "")
            for cell in row["per"][: len(names)]
        ]
        table.add_row(*(escape(cell) for cell in cells))
    return table


def _interference(findings: Findings) -> TextTable:
    table = TextTable(title="Interference: other programs on the CPUs of the jobs")
    for name in interference.COLUMNS:
        table.add_column(name, fold=True)
    for row in interference.rows(findings):
        cells = (row[name] for name in ("storage", "invalid", "warned", "cpus", "lost", "programs"))
        table.add_row(*(escape(cell) for cell in cells))
    return table


def _print_nodes(cell: nodes.NodesTable, printer: _Printer) -> None:
    table = TextTable(title=f"Nodes: {cell['cell']}")
    table.add_column("node", fold=True)
    table.add_column("jobs", justify="right")
    table.add_column(cell["rate"], justify="right")
    table.add_column("job\neff.", justify="right")
    table.add_column("wall time")
    table.add_column("time against\nthe others", justify="right")
    table.add_column("CPUs\nof others", justify="right")
    for row in cell["rows"]:
        relative = row["relative"] + (f"\n{row['interval']}" if row["interval"] else "")
        table.add_row(
            escape(row["node"]),
            row["jobs"],
            row["rate"],
            row["efficiency"],
            ledger_bar(row["shares"]),
            relative,
            row["others"],
        )
    printer.table(table)
    if cell["more"]:
        printer.say(f"and {cell['more']} more nodes", "dim")
    for sentence in cell["sentences"]:
        printer.say(escape(sentence))
    printer.blank()


def _faults(findings: Findings) -> TextTable:
    table = TextTable(title="What faults did")
    for name in faults.COLUMNS:
        table.add_column(name, fold=True)
    for row in faults.rows(findings):
        provenance = row["provenance"]
        mark = (
            "" if provenance == "measured" else f" {wording.PROVENANCE_MARKS.get(provenance, '')}"
        )
        cells = (
            f"{row['target']}{mark}\n{row['cell']}",
            *(row[name] for name in ("fault", "failed", "stall", "rate", "recovery", "lost")),
        )
        table.add_row(*(escape(cell) for cell in cells))
    return table


def _print_left_out(findings: Findings, printer: _Printer) -> None:
    printer.say(escape(wording.trials_sentence(findings)))
    for left in findings.left_out[:LEFT_OUT_LINES]:
        colour = "yellow" if left.status == "unsupported" else "red"
        reasons = "; ".join(left.reasons)
        printer.say(f"  [{colour}]{left.status}[/{colour}] {escape(left.trial)}: {escape(reasons)}")
    if len(findings.left_out) > LEFT_OUT_LINES:
        printer.say(f"  and {len(findings.left_out) - LEFT_OUT_LINES} more in report.html")
