"""Findings, comparisons and verdicts that show themselves in a notebook: tables and figures."""

from __future__ import annotations

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
        """One row for each storage and load, in the metrics' own units."""
        return table_of(self, main_metric_of(self))

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


def table_of(findings: Findings, metric: str) -> pd.DataFrame:
    """Return one row for each storage and load: the metric, job efficiency, wall time, limit."""
    names = dict.fromkeys([metric, "efficiency", "wall_s"])
    return _frame(
        {
            "storage": curve.name,
            curve.axis: point.load,
            **{name: e.value for name in names if (e := point.metrics.get(name)) is not None},
            "limit": point.limit.kind,
        }
        for curve in findings.curves
        for point in curve.points
    )


def _frame(rows: Iterable[dict[str, object]]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows))


def _html(table: pd.DataFrame) -> str:
    made: str = table.head(ROWS_AT_MOST).to_html(
        index=False, float_format="{:.4g}".format, border=0
    )
    left = len(table) - ROWS_AT_MOST
    return made if left <= 0 else f"{made}<p>and {left} more rows in <code>.table</code></p>"
