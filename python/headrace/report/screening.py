"""The result of `headrace screen` for the terminal and as JSON."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape

from headrace.decision.choose import JudgedConfiguration
from headrace.decision.screening import KEPT_PROBABILITY, ScreenedTrials, Screening
from headrace.decision.wishes import Quantity
from headrace.report.decision import amount, basis_sentences_of, short_heading
from headrace.report.numbers import percent, probability
from headrace.report.text_table import TextTable, WholeText
from headrace.report.wording import plural
from headrace.units import format_seconds

ROWS_AT_MOST = 12


def print_screening(
    found: Screening, trials: ScreenedTrials, currency: str, console: Console
) -> None:
    """Print what stays, what is left out and why, and the trials and time that it saves."""

    def say(text: str, style: str | None = None) -> None:
        console.print(WholeText(escape(text)), style=style, highlight=False)

    console.print(WholeText(f"[bold green]→[/bold green] {escape(headline(found, trials))}"))
    for name, levels in trials.dropped.items():
        say(f"  No longer tried: {name} = {', '.join(str(level) for level in levels)}.")
    for title, rows in (("Kept", found.kept), ("Left out", found.left_out)):
        if rows:
            console.print()
            console.print(_table(title, rows, found, currency))
            if len(rows) > ROWS_AT_MOST:
                say(f"and {len(rows) - ROWS_AT_MOST} more; --json lists them", "dim")
    console.print()
    for why, keys in _by_reason(found.unknown).items():
        named = "; ".join(keys[:3]) + (f"; and {len(keys) - 3} more" if len(keys) > 3 else "")
        say(f"Kept because it cannot be judged: {named}: {why}.")
    for sentence in basis_sentences_of(found.choice, currency):
        say(sentence)


def headline(found: Screening, trials: ScreenedTrials) -> str:
    """Return the result in two sentences."""
    wanted = found.choice.wishes.want.title
    times = f"about {format_seconds(trials.after_s)} instead of {format_seconds(trials.before_s)}"
    count = f"{trials.after} of {plural(trials.before, 'trial')} stay: {times}"
    if not found.left_out:
        return f"{count}. By simulation, each of them could have the best {wanted}."
    return (
        f"{count}. By simulation, the best {wanted} is among them with a probability of "
        f"{percent(KEPT_PROBABILITY)}."
    )


def _table(
    title: str, rows: tuple[JudgedConfiguration, ...], found: Screening, currency: str
) -> TextTable:
    wanted = found.choice.wishes.want
    best = found.kept[0].candidate.points.get(wanted.name)
    table = TextTable(title=title)
    table.add_column("configuration", fold=True)
    table.add_column(escape(short_heading(wanted)), justify="right")
    table.add_column("best", justify="right")
    if title != "Kept":
        table.add_column("why", fold=True)
    for each in rows[:ROWS_AT_MOST]:
        value = each.candidate.points.get(wanted.name)
        cells = [
            escape(each.candidate.key),
            escape(amount(value, wanted, currency)),
            probability(each.best),
        ]
        if title != "Kept":
            cells.append(escape(why_left_out(each, wanted, best)))
        table.add_row(*cells)
    return table


def why_left_out(each: JudgedConfiguration, wanted: Quantity, best: float | None) -> str:
    """Return why a configuration is left out, in a few words."""
    if each.unknown:
        return f"{each.unknown[0][0].title} is unknown"
    if each.broken and each.feasible < 1 - KEPT_PROBABILITY:
        return "breaks " + ", ".join(limit.text for limit in each.broken)
    value = each.candidate.points.get(wanted.name)
    if value is None or not best:
        return "not the best"
    if value == best:
        return "no better"
    return f"{percent(abs(value / best - 1))} {'more' if value > best else 'less'}"


def _by_reason(unknown: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, why in unknown.items():
        found.setdefault(why, []).append(key)
    return found


def as_json(
    found: Screening, trials: ScreenedTrials, currency: str, file: str
) -> dict[str, object]:
    """Return the result for programs: every configuration with its value and reason."""
    wanted, basis = found.choice.wishes.want, found.choice.basis
    best = found.kept[0].candidate.points.get(wanted.name)

    def row(each: JudgedConfiguration) -> dict[str, object]:
        bounds = each.candidate.interval(wanted.name)
        return {
            "configuration": each.candidate.key,
            "target": each.candidate.target,
            "levels": each.candidate.levels,
            "value": each.candidate.points.get(wanted.name),
            "interval": None if bounds is None else list(bounds),
            "probability_best": each.best,
            "probability_within_limits": each.feasible,
        }

    return {
        "study": file,
        "wanted": wanted.name,
        "currency": currency,
        "model_error": basis.model_error,
        "model_error_source": basis.model_error_source,
        "trials": {"before": trials.before, "after": trials.after},
        "expected_s": {"before": trials.before_s, "after": trials.after_s},
        "dropped_levels": {name: list(levels) for name, levels in trials.dropped.items()},
        "kept": [row(each) for each in found.kept],
        "left_out": [
            {**row(each), "why": why_left_out(each, wanted, best)} for each in found.left_out
        ],
        "not_judged": dict(found.unknown),
    }
