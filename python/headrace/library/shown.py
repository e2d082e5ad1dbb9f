"""Findings, comparisons and verdicts that show themselves in a notebook: tables and figures."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, TypeVar

from headrace.analysis.findings import Comparison, Findings
from headrace.analysis.gate import Gate

if TYPE_CHECKING:
    import pandas as pd

ROWS_AT_MOST = 60
Shown = TypeVar("Shown", bound="ShownFindings | ShownComparison | ShownGate")


class ShownFindings(Findings):
    """Findings with their recommendation, values and curves."""

    @property
    def table(self) -> pd.DataFrame:
        """One row for each workload, storage and load, in the metrics' own units."""
        return table_of(self)

    @property
    def figure(self) -> str:
        """The main metric against the load, as the text of an SVG picture."""
        from headrace.report.plots import curves_svg

        return curves_svg(self, main_metric_of(self))

    def _repr_html_(self) -> str:
        from headrace.report.recommendation import recommendation
        from headrace.report.wording import trials_sentence

        found = recommendation(self)
        said = [] if found is None else [found.action, found.reason, *found.doubts]
        lines = "".join(f"<p>{escape(each)}</p>" for each in [*said, trials_sentence(self)])
        shown = f"{_html(self.table)}{self.figure}" if self.curves else ""
        return f"<p><strong>{escape(self.title)}</strong></p>{lines}{shown}"


class ShownComparison(Comparison):
    """A comparison with the difference of every cell."""

    @property
    def table(self) -> pd.DataFrame:
        """One row for each cell and metric."""
        from headrace.report.comparison import cell_text, verdict

        return _frame(
            {
                "storage": cell_text(each),
                "slots": each.slots,
                "metric": each.metric,
                "A": each.a.value,
                "B": each.b.value,
                "B / A": each.ratio.value,
                "verdict": verdict(each),
            }
            for each in self.differences
        )

    def _repr_html_(self) -> str:
        warnings = "".join(f"<p>{escape(each)}</p>" for each in self.warnings)
        heading = f"A: {escape(self.title_a)}, B: {escape(self.title_b)}"
        return f"<p><strong>{heading}</strong></p>{warnings}{_html(self.table)}"


class ShownGate(Gate):
    """The verdicts of the gate."""

    @property
    def table(self) -> pd.DataFrame:
        """One row for each cell, those that got worse first."""
        from headrace.report.comparison import cell_text

        return _frame(
            {
                "verdict": cell.verdict,
                "storage": cell_text(cell.difference),
                "slots": cell.difference.slots,
                "metric": cell.difference.metric,
                "baseline": cell.difference.a.value,
                "now": cell.difference.b.value,
                "change": cell.change,
            }
            for cell in self.cells
        )

    def _repr_html_(self) -> str:
        from headrace.report.gate import headline, remarks

        lines = "".join(f"<p>{escape(each)}</p>" for each in remarks(self))
        return f"<p><strong>{escape(headline(self))}</strong></p>{lines}{_html(self.table)}"


def shown(kind: type[Shown], found: Findings | Comparison | Gate) -> Shown:
    """Return findings of a kind that a notebook shows; everything else of them stays."""
    return kind(**vars(found))


def main_metric_of(findings: Findings) -> str:
    """Return the metric of figures: that of the first workload that has one."""
    from headrace.report.wording import main_metric

    workloads = dict.fromkeys(curve.workload for curve in findings.curves)
    return next((m for each in workloads if (m := main_metric(findings, each))), "efficiency")


def table_of(findings: Findings) -> pd.DataFrame:
    """Return one row for each workload, storage and load: the main metric of each workload, job
    efficiency, wall time, limit.

    There is a column of workloads where there are several. Where any load is counted in clients,
    all are: one node has as many clients as slots.
    """
    from headrace.report.wording import main_metric

    workloads = list(dict.fromkeys(curve.workload for curve in findings.curves))
    mains = [metric for each in workloads if (metric := main_metric(findings, each))]
    names = dict.fromkeys([*mains, "efficiency", "wall_s"])
    axis = "clients" if any(curve.axis == "clients" for curve in findings.curves) else "slots"
    return _frame(
        {
            **({"workload": curve.workload} if len(workloads) > 1 else {}),
            "storage": curve.name,
            axis: point.load,
            **{name: e.value if (e := point.metrics.get(name)) else math.nan for name in names},
            "limit": point.limit.kind,
        }
        for curve in findings.curves
        for point in curve.points
    )


def _frame(rows: Iterable[dict[str, object]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows))


def four_digits(value: float) -> str:
    """Return a number as the report writes it: `1 068 021`, never `1.068e+06`."""
    from headrace.report.numbers import number

    return number(value, 4)


def _html(table: pd.DataFrame) -> str:
    made: str = table.head(ROWS_AT_MOST).to_html(
        index=False, float_format=four_digits, border=0, na_rep="–"
    )
    left = len(table) - ROWS_AT_MOST
    return made if left <= 0 else f"{made}<p>and {left} more rows in <code>.table</code></p>"
