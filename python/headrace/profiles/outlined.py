"""Profiles in outline (`headrace watch --profile`): what they say of themselves."""

from __future__ import annotations

from headrace.catalog.tables import OutlineFigure, ProfileOutline
from headrace.units import format_amount, format_seconds


def unit_of(name: str) -> str:
    """Return the unit at the end of a figure's name: `s`, `bytes`, or nothing."""
    return name.rpartition("_")[2] if name.endswith(("_s", "_bytes")) else ""


def label(name: str) -> str:
    """Return the name of a figure for people, without its unit."""
    return (name.removesuffix(f"_{unit_of(name)}") if unit_of(name) else name).replace("_", " ")


def amount(name: str, value: float) -> str:
    """Return the value of a figure for people."""
    unit = unit_of(name)
    if unit == "s":
        return format_seconds(value)
    if unit == "bytes":
        return format_amount(value)
    return f"{100 * value:.0f} %" if name.endswith("share") else f"{value:,.0f}"


def span(name: str, low: float, high: float) -> str:
    """Return the bounds of a figure for people."""
    return "exact" if low == high else f"{amount(name, low)} to {amount(name, high)}"


def _of(name: str, figure: OutlineFigure) -> str:
    return span(name, figure.low, figure.high)


def outline_note(outline: ProfileOutline) -> str:
    """Return how sure the simulated job is, in a sentence."""
    figures, found = outline.figures, list[str]()
    for name, words in (("cpu_s", "CPU time"), ("read_bytes", "reads"), ("read_calls", "calls")):
        if name in figures:
            found.append(f"{words} {_of(name, figures[name])}")
    order = figures.get("sequential_share")
    found.append(
        f"in order {_of('sequential_share', order)}" if order is not None else "order unknown"
    )
    return f"in outline, from outside; it can be: {', '.join(found)}"
