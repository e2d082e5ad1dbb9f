"""The page of `headrace decide`: a summary for those who pay, as HTML and PDF, without scripts."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headrace.decision.answer import DecisionAnswer
from headrace.decision.candidates import Candidate
from headrace.decision.choose import JudgedConfiguration
from headrace.decision.wishes import Quantity, own_quantity
from headrace.errors import MissingError
from headrace.palette import CURVE_COLOURS, GREY
from headrace.report.decision import (
    amount,
    basis_sentences,
    columns_of,
    headline,
    interval,
    reasons,
    status_of,
    unknown_sentences,
)
from headrace.report.html import environment
from headrace.report.numbers import probability
from headrace.report.plots import space_thousands
from headrace.whole_file import write_whole

ROWS_AT_MOST = 200
IN_THE_TABLE_OF_YEARS = 8
_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))


def write_page(answer: DecisionAnswer, html: Path | None, pdf: Path | None) -> list[Path]:
    """Write the page, each file whole or not at all; its links to trials are relative.

    Raises MissingError when the library that draws PDF files lacks its own libraries, and
    HeadraceError when a file cannot be written.
    """
    written: list[Path] = []
    if html is not None:
        page = render(answer, html.resolve().parent)
        hint = "--html names another file"
        written.append(write_whole(html, lambda file: file.write_text(page, "utf-8"), hint))
    if pdf is not None:
        made = _pdf(render(answer, pdf.resolve().parent), pdf.resolve().parent)
        hint = "--pdf names another file"
        written.append(write_whole(pdf, lambda file: file.write_bytes(made), hint))
    return written


def check_pdf() -> None:
    """Raise MissingError when PDF files cannot be made on this machine."""
    try:
        import weasyprint  # noqa: F401  # pyright: ignore[reportUnusedImport, reportMissingTypeStubs]
    except OSError as error:
        raise MissingError(
            f"a PDF needs the Pango library: {str(error).splitlines()[0]}",
            hint="apt-get install libpango-1.0-0 libpangoft2-1.0-0; --html works without it",
        ) from error


def _pdf(page: str, base: Path) -> bytes:
    """Return the page as PDF. Its last line, a comment, says that Headrace made it: what PDF has
    for that is compressed."""
    check_pdf()
    import weasyprint  # pyright: ignore[reportMissingTypeStubs]

    made: Any = weasyprint.HTML(string=page, base_url=f"{base}/")  # pyright: ignore[reportUnknownMemberType]
    return made.write_pdf() + b"\n%Headrace\n"


def render(answer: DecisionAnswer, folder: Path) -> str:
    """Return the whole page, for a file in this folder."""
    choice, currency = answer.choice, answer.offers.currency
    columns = columns_of(answer)
    lead = None if choice.leading is None else choice.leading.candidate
    return (
        environment()
        .get_template("decision.html.j2")
        .render(
            want=choice.wishes.want.title,
            limits=[limit.text for limit in choice.wishes.limits],
            headline=headline(answer),
            reasons=reasons(answer),
            plot=_plot(answer),
            plot_title=_plot_title(answer),
            objectives=[each.title for each in choice.objectives],
            columns=[column.heading for column in columns],
            rows=[_row(each, answer, folder) for each in choice.judged[:ROWS_AT_MOST]],
            years=_years(answer),
            years_head=[head for head, _ in _year_columns(answer)],
            years_caption=_years_caption(answer),
            parts=[] if lead is None else _parts(lead, currency),
            parts_of="" if lead is None else lead.key,
            basis=basis_sentences(answer),
            unknown=unknown_sentences(answer, every=True),
            trials_folder="trials",
        )
    )


def _row(each: JudgedConfiguration, answer: DecisionAnswer, folder: Path) -> dict[str, object]:
    candidate, currency = each.candidate, answer.offers.currency
    cells = [
        {
            "text": amount(candidate.points.get(c.quantity.name), c.quantity, currency),
            "interval": interval(candidate, c.quantity, currency),
        }
        for c in columns_of(answer)
    ]
    evidence = [
        {
            "workload": one.workload,
            "trials": one.trials,
            "folder": quote(os.path.relpath(one.results.resolve() / "trials", folder)),
        }
        for one in candidate.evidence
    ]
    return {
        "key": candidate.key,
        "provenance": candidate.provenance,
        "pareto": each.pareto,
        "cells": cells,
        "best": probability(each.best),
        "status": status_of(each),
        "evidence": evidence,
    }


def _year_columns(answer: DecisionAnswer) -> list[tuple[str, Quantity]]:
    wanted = [
        ("Price", own_quantity("price")),
        ("Energy per year", own_quantity("energy")),
        ("Electricity per year", Quantity("electricity_per_year", "", "currency", True)),
        (f"Price and electricity of {answer.offers.years:g} years", own_quantity("cost")),
        ("CO₂ per year", own_quantity("co2")),
        ("Rated endurance lasts", own_quantity("life")),
        ("Drive failures", own_quantity("failures")),
        ("Price per usable TB", own_quantity("price/TB")),
        ("Price per MB/s", own_quantity("price/MB/s")),
        ("Price per event/s", own_quantity("price/event/s")),
        ("Price per throughput", own_quantity("price/throughput")),
    ]
    shown = answer.choice.judged[:IN_THE_TABLE_OF_YEARS]
    return [
        (head, quantity)
        for head, quantity in wanted
        if any(quantity.name in each.candidate.points for each in shown)
    ]


def _years(answer: DecisionAnswer) -> list[dict[str, object]]:
    columns = _year_columns(answer)
    if not columns:
        return []
    currency = answer.offers.currency
    return [
        {
            "key": each.candidate.key,
            "cells": [amount(each.candidate.points.get(q.name), q, currency) for _, q in columns],
        }
        for each in answer.choice.judged[:IN_THE_TABLE_OF_YEARS]
    ]


def _years_caption(answer: DecisionAnswer) -> str:
    offers = answer.offers
    parts = [f"Jobs run {offers.busy * 100:g}\u202f% of the time"]
    if offers.electricity is not None:
        parts.append(f"{offers.electricity.price:g} {offers.currency} per kWh")
        if offers.electricity.co2 is not None:
            parts.append(f"{offers.electricity.co2:g} g of CO₂ per kWh")
    if offers.pue is not None:
        parts.append(f"PUE {offers.pue:g}")
    return ", ".join(parts) + "."


def _parts(candidate: Candidate, currency: str) -> list[dict[str, object]]:
    price = own_quantity("price")
    return [
        {
            "what": part.what,
            "name": part.name or "(not named by the record)",
            "count": part.count or "–",
            "each": amount(part.each, price, currency),
            "total": amount(part.total, price, currency),
            "date": part.date or "no offer",
        }
        for part in candidate.costs.parts
    ]


# -- plot --


def _against(answer: DecisionAnswer) -> Quantity | None:
    """Return the quantity of the horizontal axis: price, else power, else slots."""
    having = [each.candidate.points for each in answer.choice.judged]
    for word in ("price", "power", "slots"):
        quantity = own_quantity(word)
        if len({points.get(quantity.name) for points in having} - {None}) > 1:
            return quantity
    return None


def _plot_title(answer: DecisionAnswer) -> str:
    against = _against(answer)
    title = answer.choice.wishes.want.title
    return f"{title[:1].upper()}{title[1:]} against {against.title if against else 'price'}"


def _plot(answer: DecisionAnswer) -> str:
    """Return a figure as SVG: what is wanted against the price; empty with one value only."""
    against, wanted = _against(answer), answer.choice.wishes.want
    drawn = [each for each in answer.choice.judged if wanted.name in each.candidate.points]
    if against is None or len(drawn) < 2:
        return ""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "decision", "svg.fonttype": "none"}):
        figure: Any = Figure(figsize=(7.2, 3.6), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        _draw(axes, drawn, answer, against)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata=_NO_METADATA)
    text = out.getvalue()
    return text[text.index("<svg") :]


def _draw(
    axes: Any, drawn: Sequence[JudgedConfiguration], answer: DecisionAnswer, against: Quantity
) -> None:
    wanted = answer.choice.wishes.want
    storages = list(dict.fromkeys(_storage(each.candidate) for each in drawn))
    labelled: set[str] = set()
    for each in drawn:
        candidate = each.candidate
        value = candidate.points[wanted.name]
        bounds = candidate.interval(wanted.name) or (value, value)
        storage = _storage(candidate)
        colour = CURVE_COLOURS[storages.index(storage) % len(CURVE_COLOURS)]
        axes.errorbar(
            [candidate.points.get(against.name, float("nan"))],
            [value],
            yerr=[[max(0.0, value - bounds[0])], [max(0.0, bounds[1] - value)]],
            marker="o" if each.within else "x",
            color=colour if each.within else GREY,
            label=storage if storage not in labelled and each.within else None,
            linestyle="none",
            capsize=2.5,
        )
        if each.within:
            labelled.add(storage)
    front = _staircase(drawn, against, wanted)
    axes.plot([x for x, _ in front], [y for _, y in front], color="black", linewidth=0.8)
    currency = answer.offers.currency
    unit = currency if against.unit == "currency" else against.unit
    axes.set_xlabel(f"{against.title} ({unit})" if unit else against.title)
    axes.set_ylabel(f"{wanted.title} ({wanted.unit})" if wanted.unit else wanted.title)
    axes.set_ylim(bottom=0)
    space_thousands(axes)
    if labelled and len(labelled) <= 10:
        axes.legend(fontsize=8)


def _staircase(
    drawn: Sequence[JudgedConfiguration], against: Quantity, wanted: Quantity
) -> list[tuple[float, float]]:
    """Return the points of the Pareto front of these two quantities alone, by the first."""
    sign = -1 if wanted.less_is_better else 1
    points = [
        (each.candidate.points[against.name], each.candidate.points[wanted.name])
        for each in drawn
        if each.within and against.name in each.candidate.points
    ]
    points.sort(key=lambda point: (point[0], -sign * point[1]))
    front: list[tuple[float, float]] = []
    for x, y in points:
        if not front or sign * y > sign * front[-1][1]:
            front.append((x, y))
    return front


def _storage(candidate: Candidate) -> str:
    return candidate.key.rpartition(", ")[0] if candidate.nodes == 1 else candidate.key
