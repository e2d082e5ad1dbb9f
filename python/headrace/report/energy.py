"""Energy per job in the report: one row for each storage and load, with boundary and source."""

from __future__ import annotations

from typing import TypedDict

from headrace.analysis.findings import Curve, Findings, Point
from headrace.metrics.shown import ShownMetric
from headrace.records.energy_basis import EnergyBasis
from headrace.report import tables, wording
from headrace.report.page_data import mark_of

PER_JOB = (
    "energy_wh_per_job",
    "energy_metered_wh_per_job",
    "energy_drives_j_per_job",
)
"""Metrics of which one leads a storage's rows: the widest boundary that is known."""
COLUMNS = (
    "energy_nodes_j_per_job",
    "energy_servers_j_per_job",
    "energy_drives_j_per_job",
    "energy_switch_j_per_job",
    "mean_power_w",
    "idle_energy_share",
    "co2_g_per_job",
)
_PARTS = {"nodes", "servers", "drives", "switch"}


class EnergyRow(TypedDict):
    """Energy of one point."""

    load: int
    energy: tables.Value
    basis: str
    """Boundary and source."""
    values: list[tables.Value | None]
    trials: tuple[str, ...]


class EnergyCurve(TypedDict):
    """Energy of one storage against its load."""

    index: int
    label: str
    axis: str
    basis: list[str]
    """Boundaries and sources of its points; more than one where they differ."""
    rows: list[EnergyRow]


def leading(metrics: dict[str, ShownMetric]) -> str | None:
    """Return the metric of the figure: energy per job of the widest boundary that any point has."""
    return next((name for name in PER_JOB if name in metrics), None)


def columns(metrics: dict[str, ShownMetric], main: str | None) -> list[ShownMetric]:
    """Return the further columns of the table that any point has."""
    return [metrics[name] for name in COLUMNS if name in metrics and name != main]


def basis_text(name: str, basis: EnergyBasis | None) -> tuple[str, str]:
    """Return boundary and source of a metric of energy, in words; empty for any other metric."""
    if basis is None or not _of_energy(name):
        return "", ""
    if "metered" in name or ("uncertainty" in name and not basis.boundary):
        return basis.metered, "measured"
    part = next((part for part in _PARTS if part in name), None)
    if part is not None:
        return part.replace("switch", "switches"), basis.source
    return basis.boundary, basis.source


def _of_energy(name: str) -> bool:
    return name.startswith(("energy_", "co2_", "idle_", "mean_power")) or name.endswith(
        ("_per_wh", "_power_w")
    )


def energy_curves(
    curves: tuple[Curve, ...], main: str | None, shown: dict[str, ShownMetric]
) -> list[EnergyCurve]:
    """Return the storages whose points have the energy `main`, each point by rising load."""
    if main is None:
        return []
    further = columns(shown, main)
    found: list[EnergyCurve] = []
    for index, curve in enumerate(curves):
        rows = [
            _row(point, shown[main], further) for point in curve.points if main in point.metrics
        ]
        if rows:
            axis = wording.axis_noun(curve).capitalize() + "s"
            basis = list(dict.fromkeys(row["basis"] for row in rows))
            found.append(
                {
                    "index": index,
                    "label": curve.label,
                    "axis": axis,
                    "basis": basis,
                    "rows": rows,
                }
            )
    return found


def _row(point: Point, main: ShownMetric, further: list[ShownMetric]) -> EnergyRow:
    boundary, source = basis_text(main.name, point.energy_basis)
    return {
        "load": point.load,
        "energy": tables.value(
            point.metrics[main.name], main, mark_of(point.metrics[main.name], point)
        ),
        "basis": ": ".join(part for part in (boundary, source) if part),
        "values": [
            tables.value(point.metrics[each.name], each, mark_of(point.metrics[each.name], point))
            if each.name in point.metrics
            else None
            for each in further
        ],
        "trials": point.trials,
    }


def sentence(findings: Findings, main: str) -> str:
    """Return what the figure and table of energy show, and what their intervals hold."""
    what = {
        "energy_wh_per_job": "Energy of the whole site, while jobs ran, over the number of jobs",
        "energy_metered_wh_per_job": "Energy of what the meters cover, over the number of jobs",
        "energy_drives_j_per_job": "Energy of the drives alone, over the number of jobs",
    }[main]
    sources = {
        findings_point.metrics[main].provenance
        for curve in findings.curves
        for findings_point in curve.points
        if main in findings_point.metrics
    }
    text = (
        f"{what}; {wording.confidence_text(findings)} intervals from the scatter of repeats"
        " and, if measured, the meters' uncertainty."
    )
    if any("modelled" in source for source in sources):
        text += " The error of power models is not known and not in the intervals."
    return text
