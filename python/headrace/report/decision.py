"""The answer of `headrace decide` in words and tables, for the terminal and the page."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape

from headrace.decision.answer import DecisionAnswer
from headrace.decision.candidates import Candidate
from headrace.decision.choose import Choice, JudgedConfiguration
from headrace.decision.randomness import SETTINGS_ERROR
from headrace.decision.wishes import Quantity, metric_quantity, own_quantity, own_title
from headrace.metrics.shown import with_prefix
from headrace.registry import nearest
from headrace.report.numbers import (
    NARROW_SPACE,
    number,
    percent,
    probability,
    probability_words,
)
from headrace.report.text_table import TextTable, WholeText
from headrace.report.wording import plural

ROWS_AT_MOST = 12
COLUMNS_AT_MOST = 3
"""Of numbers, in the terminal's table."""
MINUTES_FROM_S = 300
_SI = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_HEADINGS = {
    "efficiency": "efficiency",
    "events_per_s": "event rate",
    "usable_bytes": "usable",
    "power_w": "power",
    "energy_wh_per_year": "energy/year",
    "co2_g_per_year": "CO2/year",
    "wear_years": "life",
    "drive_failures_per_year": "failures",
    "rebuild_failure": "rebuild risk",
    "losses_per_year": "losses",
    "cost": "cost",
    "energy_wh_per_job": "Wh/job",
    "cluster_energy_wh_per_job": "Wh/job of a node",
    "wall_s_per_relative_slot": "wall time",
    "wall_s": "wall time",
    "throughput_jobs": "throughput",
    "price_per_usable_tb": "price/TB",
    "price_per_mb_per_s": "price/MB/s",
    "price_per_event_per_s": "price/event/s",
    "price_per_throughput": "price/throughput",
}
_MASS = ((1e6, "t"), (1e3, "kg"), (1.0, "g"))
_PLAIN = ("", "y", "1/y", "U", "s", "currency", "share")


def amount(value: float | None, quantity: Quantity, currency: str) -> str:
    """Return a value with its unit: `2.5 M events/s`, `4 420 EUR`, `96 %`; a dash without one."""
    if value is None or math.isnan(value):
        return "–"
    if math.isinf(value):
        return "unlimited"
    unit = quantity.unit
    if unit == "share":
        return percent(value, 3)
    if unit == "s" and value >= MINUTES_FROM_S:
        return f"{number(value / 60, 3)}{NARROW_SPACE}min"
    if unit in _PLAIN:
        shown = {"currency": currency, "y": "years", "1/y": "per year"}.get(unit, unit)
        digits = max(3, len(str(int(abs(value)))))
        return f"{number(value, digits)}{NARROW_SPACE if shown else ''}{shown}"
    if unit == "g":
        factor, mass = next((each for each in _MASS if abs(value) >= each[0]), _MASS[-1])
        return f"{number(value / factor, 3)}{NARROW_SPACE}{mass}"
    factor, prefix = next(((f, p) for f, p in _SI if abs(value) >= f), (1.0, ""))
    return f"{number(value / factor, 3)}{NARROW_SPACE}{with_prefix(prefix, unit)}"


def interval(candidate: Candidate, quantity: Quantity, currency: str) -> str:
    """Return the 95 % interval of a value; empty where it has no uncertainty."""
    found = candidate.interval(quantity.name)
    if found is None or found[0] == found[1]:
        return ""
    low, high = (amount(end, quantity, currency) for end in found)
    return f"{low} – {high}" if low != high else ""


@dataclass(frozen=True)
class DecisionColumn:
    """One quantity of the table of configurations."""

    quantity: Quantity
    heading: str


def columns_of(answer: DecisionAnswer) -> list[DecisionColumn]:
    """Return the quantities of the table: those of the wishes, then what is known of the usual."""
    choice = answer.choice
    usual = [
        metric_quantity("efficiency"),
        metric_quantity("energy_wh_per_job"),
        *(own_quantity(name) for name in ("price", "usable", "power")),
    ]
    every = dict.fromkeys([*choice.wishes.quantities, *choice.wishes.shown, *usual])
    return [
        DecisionColumn(quantity, quantity.title)
        for quantity in every
        if any(quantity.name in each.candidate.points for each in choice.judged)
    ]


def headline(answer: DecisionAnswer) -> str:
    """Return the answer in one sentence."""
    choice, currency = answer.choice, answer.offers.currency
    if choice.leading is None:
        return f"Nothing can be recommended: {choice.excluding}."
    lead, wanted = choice.leading.candidate, choice.wishes.want
    value = amount(lead.points[wanted.name], wanted, currency)
    if choice.recommended is None:
        others = [each.candidate.key for each in choice.alike]
        named = "; ".join(others[:3]) + (f"; and {len(others) - 3} more" if len(others) > 3 else "")
        return (
            f"By {wanted.title}, {lead.key} ({value}) and "
            f"{plural(len(others), 'other configuration')} cannot be told apart: {named}."
        )
    within = " within the limits" if choice.wishes.limits else ""
    return (
        f"{lead.key}: {value}, the best {wanted.title}{within}. It is the best with a "
        f"probability of {probability_words(choice.leading.best)}."
    )


def reasons(answer: DecisionAnswer) -> list[str]:
    """Return the sentences below the answer: interval, alternatives, what would change it."""
    choice, currency = answer.choice, answer.offers.currency
    wanted = choice.wishes.want
    found: list[str] = []
    lead = choice.leading
    if lead is not None:
        bounds = interval(lead.candidate, wanted, currency)
        if bounds:
            found.append(f"95 % interval of its {wanted.title}: {bounds}.")
        if choice.wishes.limits:
            kept = probability_words(lead.feasible)
            found.append(f"It keeps all limits with a probability of {kept}.")
        if choice.recommended is None:
            found += _cheapest(answer)
    if len(choice.alike_slots) > 1:
        slots = ", ".join(str(each) for each in choice.alike_slots)
        found.append(f"Of its numbers of slots, these cannot be told apart: {slots}.")
    if choice.runner_up is not None:
        second = choice.runner_up
        value = amount(second.candidate.points.get(wanted.name), wanted, currency)
        found.append(
            f"Runner-up: {second.candidate.key}, {value}; the best with a probability of "
            f"{probability_words(second.best)}."
        )
    for each in answer.changes:
        leads = f"{each.leads} would lead" if each.leads else "nothing would be left"
        found.append(f"With {each.what}, {leads}.")
    if lead is not None and not answer.changes and (choice.wishes.limits or _of_money(answer)):
        found.append("No price, limit, mix or number of slots changes the answer.")
    if answer.next_measurement is not None:
        each = answer.next_measurement
        found.append(
            f"Next measurement: {each.key}: {each.how}. Knowing it exactly is worth "
            f"{percent(each.gain)} of the {wanted.title} on average."
        )
    return found


def _of_money(answer: DecisionAnswer) -> bool:
    return any(each.unit == "currency" for each in answer.choice.wishes.quantities)


def _cheapest(answer: DecisionAnswer) -> list[str]:
    """Return which of the configurations that are not told apart has the lowest price."""
    choice, price = answer.choice, own_quantity("price")
    if choice.leading is None:
        return []
    priced = [
        (each.candidate.points["price"], each.candidate.key)
        for each in (choice.leading, *choice.alike)
        if "price" in each.candidate.points
    ]
    if len({value for value, _ in priced}) < 2:
        return []
    value, key = min(priced)
    return [
        f"Of these, {key} has the lowest price: {amount(value, price, answer.offers.currency)}."
    ]


def basis_sentences(answer: DecisionAnswer) -> list[str]:
    """Return the trials and assumptions that the answer is based on."""
    found = basis_sentences_of(answer.choice, answer.offers.currency)
    return found + _mistaken_offers(answer)


def unknown_sentences(answer: DecisionAnswer, *, every: bool = False) -> list[str]:
    """Return a sentence for each reason why the price, or a quantity that was requested, is not
    known of some configurations. `every`: of all other quantities, too."""
    wishes, judged = answer.choice.wishes, answer.choice.judged
    requested = [*wishes.quantities, *wishes.shown, own_quantity("price")]
    wanted = {quantity.name: quantity.title for quantity in requested}
    for quantity in wishes.quantities:
        # The headline says so already.
        if answer.choice.excluding.startswith(f"{quantity.title} is unknown"):
            del wanted[quantity.name]
    if every:
        names = (name for each in judged for name in each.candidate.costs.unknown)
        wanted |= {name: own_title(name) for name in names}
    titles: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, title in wanted.items():
        keys: dict[str, list[str]] = {}
        for each in judged:
            if name not in each.candidate.points:
                why = each.candidate.costs.unknown.get(name, "its trials have none")
                keys.setdefault(why, []).append(each.candidate.key)
        for why, named in keys.items():
            titles.setdefault((why, tuple(named)), []).append(title)
    found: list[str] = []
    for (why, named), what in titles.items():
        of = "; ".join(named[:2]) + (f"; and {len(named) - 2} more" if named[2:] else "")
        of = "every configuration" if len(named) == len(judged) else of
        found.append(f"Unknown: {', '.join(what)} of {of}: {why}.")
    return found


def _mistaken_offers(answer: DecisionAnswer) -> list[str]:
    """Return a sentence for each offer of no part here whose name is nearly that of a part without
    an offer of its own."""
    parts = [part for each in answer.choice.judged for part in each.candidate.costs.parts]
    found: list[str] = []
    for what in ("node", "server", "drive"):
        named = {part.name for part in parts if part.what == what}
        lacking = {
            part.name
            for part in parts
            if part.what == what and part.name and (part.each is None or part.of_catalog)
        }
        for name, offer in getattr(answer.offers, what).items():
            of_catalog = getattr(offer, "of_catalog", False)
            near = None if name in named or of_catalog else nearest(name, sorted(lacking))
            if near is not None:
                found.append(
                    f'The offer of {what} "{name}" is of no part here; did you mean "{near}", '
                    "which has none?"
                )
    return found


def basis_sentences_of(choice: Choice, currency: str) -> list[str]:
    """Return the trials and assumptions that a choice is based on."""
    basis = choice.basis
    kinds = dict.fromkeys(each.provenance for each in basis.candidates)
    counts = [
        f"{sum(1 for c in basis.candidates if c.provenance == kind)} {kind}" for kind in kinds
    ]
    found = [
        f"It is based on {plural(basis.trials, 'valid trial')} of "
        f"{plural(len(basis.candidates), 'configuration')}"
        + (f" ({', '.join(counts)})" if counts else "")
        + (
            f"; {plural(basis.left_out, 'invalid or failed trial')} left out."
            if basis.left_out
            else "."
        )
    ]
    if len(basis.shares) > 1:
        mix = ", ".join(f"{percent(share)} {name}" for name, share in basis.shares.items())
        found.append(f"Mix of workloads, by events: {mix}.")
    if basis.model_error is not None:
        how = {
            "compared": "from the cells that were measured and simulated",
            "given": "as given",
            "assumed": "an assumption, as no measurement of the same study is given",
        }[basis.model_error_source or "assumed"]
        own = percent(min(basis.model_error, SETTINGS_ERROR))
        found.append(
            f"Simulated rates are taken to be off by {percent(basis.model_error)}, {how}; those of "
            f"settings of one storage with the same slots, against each other, by {own}."
        )
    found += [note[:1].upper() + note[1:] + "." for note in basis.notes]
    for key, why in basis.incomplete.items():
        found.append(f"Left out: {key}: {why}.")
    found += list(
        dict.fromkeys(
            f"Assumption: {note}."
            for each in choice.judged
            for note in each.candidate.costs.assumptions
        )
    )
    of_catalog = {
        f"{part.name} ({part.date[:4]})"
        for each in choice.judged
        for part in each.candidate.costs.parts
        if part.of_catalog
    }
    if of_catalog:
        named = ", ".join(sorted(of_catalog))
        found.append(f"Prices of the catalog, as no offer states one: {named}.")
    dates = sorted(
        {part.date for each in choice.judged for part in each.candidate.costs.parts} - {""}
    )
    if dates:
        span = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
        found.append(f"Prices are of {span}, in {currency}.")
    return found


def status_of(each: JudgedConfiguration) -> str:
    """Return how a configuration stands to the wishes, in a few words."""
    if each.unknown:
        return f"unknown: {each.unknown[0][0].title}"
    if each.broken:
        return "breaks " + ", ".join(limit.text for limit in each.broken)
    if each.alike:
        return "no difference seen"
    return "within the limits"


def print_answer(answer: DecisionAnswer, console: Console) -> None:
    """Print the answer: the recommendation, its reasons, the table, its basis."""

    def say(text: str, style: str | None = None) -> None:
        console.print(WholeText(escape(text)), style=style, highlight=False)

    console.print(WholeText(f"[bold green]→[/bold green] {escape(headline(answer))}"))
    for sentence in reasons(answer):
        say(f"  {sentence}")
    if answer.choice.judged:
        console.print()
        console.print(_table(answer))
        hidden = len(answer.choice.judged) - ROWS_AT_MOST
        if hidden > 0:
            say(f"and {plural(hidden, 'more configuration')} on the page", "dim")
        if any(each.pareto for each in answer.choice.judged):
            say("* on the Pareto front", "dim")
    console.print()
    for sentence in [*basis_sentences(answer), *unknown_sentences(answer)]:
        say(sentence)


def _table(answer: DecisionAnswer) -> TextTable:
    table = TextTable(title="Configurations, the best first")
    table.add_column("configuration", fold=True)
    wishes = answer.choice.wishes
    at_most = len(wishes.quantities) + len(wishes.shown) if wishes.shown else COLUMNS_AT_MOST
    columns = columns_of(answer)[:at_most]
    for column in columns:
        table.add_column(escape(short_heading(column.quantity)), justify="right")
    table.add_column("best", justify="right")
    table.add_column("", fold=True)
    currency = answer.offers.currency
    for each in answer.choice.judged[:ROWS_AT_MOST]:
        values = [
            amount(each.candidate.points.get(column.quantity.name), column.quantity, currency)
            for column in columns
        ]
        table.add_row(
            escape(each.candidate.key + (" *" if each.pareto else "")),
            *map(escape, values),
            probability(each.best),
            "" if each.within and not each.alike else escape(status_of(each)),
        )
    return table


def short_heading(quantity: Quantity) -> str:
    """Return a heading that leaves room for others at 80 columns."""
    return _HEADINGS.get(
        quantity.name, quantity.title if len(quantity.title) < 12 else quantity.unit
    )


def as_json(answer: DecisionAnswer) -> dict[str, object]:
    """Return the answer for programs: every configuration with its values and trials."""
    choice = answer.choice
    return {
        "answer": headline(answer),
        "recommended": None if choice.recommended is None else choice.recommended.candidate.key,
        "leading": None if choice.leading is None else choice.leading.candidate.key,
        "runner_up": None if choice.runner_up is None else choice.runner_up.candidate.key,
        "excluding": choice.excluding or None,
        "currency": answer.offers.currency,
        "changes": [{"with": each.what, "leads": each.leads or None} for each in answer.changes],
        "basis": basis_sentences(answer),
        "configurations": [_as_json(each) for each in choice.judged],
    }


def _as_json(each: JudgedConfiguration) -> dict[str, object]:
    candidate = each.candidate
    return {
        "configuration": candidate.key,
        "target": candidate.target,
        "levels": candidate.levels,
        "nodes": candidate.nodes,
        "provenance": candidate.provenance,
        "within_limits": each.within,
        "probability_within_limits": each.feasible,
        "probability_best": each.best,
        "pareto": each.pareto,
        "values": {name: _finite(value) for name, value in candidate.points.items()},
        "intervals": {
            name: [_finite(end) for end in found]
            for name in candidate.points
            if (found := candidate.interval(name)) and found[0] != found[1]
        },
        "unknown": dict(candidate.costs.unknown),
        "parts": [
            {
                "what": part.what,
                "name": part.name,
                "count": part.count,
                "each": part.each,
                "date": part.date,
            }
            for part in candidate.costs.parts
        ],
        "trials": [
            {
                "results": str(evidence.results),
                "workload": evidence.workload,
                "ids": list(evidence.trials),
            }
            for evidence in candidate.evidence
        ],
    }


def _finite(value: float) -> float | None:
    """Return a value for JSON, which has no infinity: an unlimited life is null."""
    return value if math.isfinite(value) else None
