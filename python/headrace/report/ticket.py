"""The report as plain text for a ticket or a mail: the answer, its doubts and its numbers."""

from __future__ import annotations

import textwrap
from importlib.metadata import version

from headrace.analysis.findings import Curve, Findings, Point
from headrace.metrics.shown import show
from headrace.report.answers import by_clients, load_columns, rate_figure
from headrace.report.numbers import percent
from headrace.report.recommendation import Recommendation, recommendation
from headrace.report.wording import axis_noun, limit_text, trials_sentence

WIDTH = 76
NARROW_SPACES = str.maketrans({"\u202f": " ", "\u00a0": " "})
_LINES_AT_MOST = 12


def ticket_text(findings: Findings) -> str:
    """Return the report's answer as text of at most 76 columns, ending with a line feed."""
    lines = [findings.title, ""]
    found = recommendation(findings)
    if found is None:
        lines += ["No trial can be trusted, so nothing can be said."]
        reasons = dict.fromkeys(text for left in findings.left_out for text in left.reasons)
        lines += [line for reason in list(reasons)[:3] for line in _wrapped("- ", reason)]
    else:
        lines += _said(findings, found)
    lines += ["", *_wrapped("", trials_sentence(findings)), f"Headrace {version('headrace')}"]
    return "\n".join(line.rstrip() for line in lines).translate(NARROW_SPACES) + "\n"


def _said(findings: Findings, found: Recommendation) -> list[str]:
    lines = _wrapped("", found.action)
    lines += [*_wrapped("Why: ", found.reason)]
    for doubt in found.doubts:
        lines += _wrapped("Doubt: ", doubt)
    curve = by_clients(found.curve, findings.curves)
    lines += ["", *_wrapped("", curve.label), *_table(curve, found.metric), ""]
    lines += _wrapped("What interfered: ", found.interfered)
    for text in found.measure_next:
        lines += _wrapped("Measure next: ", text)
    return [*lines, f"Values are {' + '.join(findings.provenance)}."]


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(f"{head}{text}", WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _table(curve: Curve, metric: str | None) -> list[str]:
    """Return one line for each load of the curve, with aligned columns."""
    title = show(metric).within if metric is not None else "rate"
    points, left = curve.points, max(0, len(curve.points) - _LINES_AT_MOST)
    if left:
        points = (*points[: _LINES_AT_MOST - 1], points[-1])
    dealt = load_columns(points)
    headings = (heading.replace("\n", " ") for heading in dealt)
    rows = [(f"{axis_noun(curve)}s", *headings, title, "efficiency", "limit")]
    rows += [
        (
            str(point.load),
            *(texts[index] for texts in dealt.values()),
            _rate(point, metric),
            _efficiency(point),
            limit_text(point),
        )
        for index, point in enumerate(points)
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]) - 1)]
    lines = [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
    if left:
        lines.insert(-1, f"({left} more in the report)")
    return lines


def _rate(point: Point, metric: str | None) -> str:
    if metric is None or metric not in point.metrics:
        return "-"
    figure = rate_figure(metric, point.metrics[metric])
    return f"{figure.text} {figure.unit}"


def _efficiency(point: Point) -> str:
    found = point.metrics.get("efficiency")
    return percent(found.value) if found is not None else "-"
