"""Fault effects as table rows and as sentences: failed jobs, stall, recovery, loss."""

from __future__ import annotations

from typing import TypedDict

from headrace.analysis.findings import FaultEffect, Findings
from headrace.metrics.shown import ShownMetric
from headrace.report import wording
from headrace.report.numbers import interval_text, number, percent
from headrace.units import format_amount, format_seconds

COLUMNS = ("target", "fault", "failed jobs", "stall", "rate left", "recovery", "lost")


class FaultRow(TypedDict):
    """One fault and cell, as text."""

    target: str
    fault: str
    cell: str
    failed: str
    error: str
    stall: str
    rate: str
    against: str
    recovery: str
    lost: str
    note: str
    fired: int
    provenance: str
    trials: tuple[str, ...]


def rows(findings: Findings) -> list[FaultRow]:
    """Return one row per fault and cell, all as text; also `provenance` and `trials`."""
    varied = _varied(findings.faults)
    return [
        {
            "target": effect.target,
            "fault": effect.fault,
            "cell": _cell(effect, varied),
            "failed": f"{effect.failed_jobs} of {effect.jobs}",
            "error": effect.error,
            "stall": "–"
            if effect.stall_s is None
            else "none"
            if effect.stall_s == 0
            else format_seconds(effect.stall_s),
            "rate": _rate(effect),
            "against": effect.against,
            "recovery": "–"
            if effect.recovered_s is None
            else "at once"
            if effect.recovered_s == 0
            else format_seconds(effect.recovered_s),
            "lost": _lost(effect),
            "note": effect.note,
            "fired": effect.fired,
            "provenance": effect.provenance,
            "trials": effect.trials,
        }
        for effect in findings.faults
    ]


def _varied(effects: tuple[FaultEffect, ...]) -> set[str]:
    """Return the factors that distinguish the cells of the table."""
    names = {name for effect in effects for name in effect.levels}
    return {name for name in names if len({str(effect.levels.get(name)) for effect in effects}) > 1}


def _cell(effect: FaultEffect, varied: set[str]) -> str:
    levels = wording.levels_text(
        {name: effect.levels[name] for name in effect.levels if name in varied}
    )
    return ", ".join(
        part for part in (effect.workload, wording.plural(effect.slots, "slot"), levels) if part
    )


def _rate(effect: FaultEffect) -> str:
    if effect.rate is None:
        return "–"
    spread = interval_text(effect.rate, ShownMetric("rate_left", "Rate left", "%", 0.01))
    return percent(effect.rate.value) + (f" [{spread}]" if spread else "")


def _lost(effect: FaultEffect) -> str:
    said: list[str] = []
    if effect.acknowledged_writes is not None:
        lost = effect.lost_writes or 0
        said.append(
            f"{number(lost)} of {number(effect.acknowledged_writes)} flushed writes"
            if lost
            else f"none of {number(effect.acknowledged_writes)} flushed writes"
        )
    if effect.lost_bytes:
        said.append(f"{format_amount(effect.lost_bytes)} that were in the drive's cache")
    return "; ".join(said) or "–"


def sentences(findings: Findings) -> list[str]:
    """Return one sentence per fault and cell."""
    return [_sentence(effect) for effect in findings.faults]


def _sentence(effect: FaultEffect) -> str:
    on = (
        f"{effect.fault} on {effect.target}, {effect.workload} at "
        f"{wording.plural(effect.slots, 'slot')}"
    )
    said: list[str] = []
    if effect.failed_jobs:
        said.append(f"{effect.failed_jobs} of {wording.plural(effect.jobs, 'job')} failed")
    else:
        said.append("no job failed")
    if effect.rate is not None:
        said.append(f"{percent(effect.rate.value)} of the rate was left (against {effect.against})")
    if effect.stall_s:
        said.append(f"nothing moved for up to {format_seconds(effect.stall_s)}")
    if effect.recovered_s is not None:
        after = (
            "at once" if effect.recovered_s == 0 else f"after {format_seconds(effect.recovered_s)}"
        )
        said.append(f"it was back {after}")
    if effect.lost_writes is not None:
        lost = effect.lost_writes
        said.append(
            f"{lost} of {effect.acknowledged_writes} writes that had been flushed are lost"
            if lost
            else "no flushed write is lost"
        )
    return f"{on}: {', '.join(said)}."
