"""Nodes of a cell as table rows and as a sentence: which was slow, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from headrace.analysis.findings import Findings, NodeLoad, NodesOfCell
from headrace.metrics.shown import ShownMetric, show
from headrace.report import wording
from headrace.report.numbers import interval_text, number, percent, value_text
from headrace.report.tables import LedgerSegment, ledger
from headrace.units import format_seconds

MOST_ROWS = 24
"""Rows of one table; of more nodes the slowest are shown."""
_RELATIVE = ShownMetric("relative", "Time against the others", "")
_REASONS = {
    "on_cpu": "time on a CPU: its CPUs computed more slowly",
    "wait_cpu": "waiting for a CPU",
    "wait_block": "waiting for block I/O",
    "wait_network": "waiting for the network or a server",
    "other": "waiting that the kernel does not count",
}
_NOTABLE_CPUS = 0.1
"""CPUs used by other programs from which they are named as a possible cause."""


class NodeRow(TypedDict):
    """One node of a cell, as text."""

    node: str
    host: str
    jobs: str
    rate: str
    efficiency: str
    shares: dict[str, float]
    """Of the wall time, by part of the ledger."""
    ledger: list[LedgerSegment]
    relative: str
    interval: str
    slow: bool
    others: str
    power: str
    """Metered watts; empty when not known."""
    start: str
    events: str


class NodesTable(TypedDict):
    """The nodes of one cell."""

    cell: str
    provenance: str
    sentences: list[str]
    rate: str
    """Heading of the rates."""
    metered: bool
    """Whether the power of any node is known."""
    rows: list[NodeRow]
    more: int
    """Nodes that are not shown."""
    trials: tuple[str, ...]


def tables(findings: Findings) -> list[NodesTable]:
    """Return a table for each cell whose jobs ran on several nodes."""
    return [_table(cell) for cell in findings.nodes]


def _table(cell: NodesOfCell) -> NodesTable:
    ordered = sorted(cell.nodes, key=lambda node: -_slowness(node))
    shown = ordered[:MOST_ROWS] if len(ordered) > MOST_ROWS else list(cell.nodes)
    rate = _rate_of(cell)
    return {
        "cell": cell_text(cell),
        "provenance": cell.provenance,
        "sentences": sentences(cell),
        "rate": rate.heading,
        "metered": any(node.metered_w is not None for node in shown),
        "rows": [_row(node, rate) for node in shown],
        "more": len(ordered) - len(shown),
        "trials": cell.trials,
    }


def _rate_of(cell: NodesOfCell) -> ShownMetric:
    if cell.per == "event":
        return show("events_per_s", max(node.per_s for node in cell.nodes))
    return ShownMetric("jobs_per_s", "Jobs", "/h", 1 / 3600)


def _slowness(node: NodeLoad) -> float:
    return node.relative.value if node.relative is not None else 0.0


def _row(node: NodeLoad, rate: ShownMetric) -> NodeRow:
    relative = node.relative
    return {
        "node": node.name,
        "host": "" if node.host == node.name else node.host,
        "jobs": f"{node.jobs}" + (f", {node.failed_jobs} failed" if node.failed_jobs else ""),
        "rate": number(node.per_s / rate.divisor),
        "efficiency": percent(node.efficiency),
        "shares": node.ledger,
        "ledger": ledger(node.ledger),
        "relative": "–" if relative is None else f"{value_text(relative, _RELATIVE)} ×",
        "interval": "" if relative is None else interval_text(relative, _RELATIVE),
        "slow": node.is_slow,
        "others": "–" if node.other_cpus is None else number(node.other_cpus, 2),
        "power": "" if node.metered_w is None else number(node.metered_w),
        "start": format_seconds(node.start_s),
        "events": "; ".join(node.events),
    }


def cell_text(cell: NodesOfCell) -> str:
    """Return target, workload, slots and levels of a cell."""
    others = {
        name: level
        for name, level in cell.levels.items()
        if name not in ("target", "workload", "slots", "nodes")
    }
    where = f"{wording.plural(len(cell.nodes), 'node')} × {wording.plural(cell.slots, 'slot')}"
    said = (cell.target, cell.workload, where, wording.levels_text(others))
    return ", ".join(part for part in said if part)


def sentences(cell: NodesOfCell) -> list[str]:
    """Return one sentence for each slow node, or one for the cell where none was slow."""
    slow = sorted((node for node in cell.nodes if node.is_slow), key=lambda node: -_slowness(node))
    lost = [f"{node.name}: {event}." for node in cell.nodes for event in node.events]
    if slow:
        return [*(_sentence(node, cell.per) for node in slow), *lost]
    compared = [node for node in cell.nodes if node.relative is not None]
    if not compared:
        return lost
    most = max(compared, key=_slowness)
    difference = f"{most.name} took {number(_slowness(most))} times the others' time per {cell.per}"
    if len(cell.trials) < 2:
        return [f"{difference}; with one trial, no node can be called slow.", *lost]
    return [f"No node was slow beyond chance and by more than 5 %: {difference}.", *lost]


def _sentence(node: NodeLoad, per: str) -> str:
    relative = node.relative
    assert relative is not None
    spread = interval_text(relative, _RELATIVE).replace(" – ", " to ")
    said = (
        f"{node.name} was slow: {value_text(relative, _RELATIVE)} times the others' time per {per} "
        f"[{spread}]"
    )
    return f"{said}; {'; '.join(_causes(node))}."


def _causes(node: NodeLoad) -> Sequence[str]:
    more = {part: seconds for part, seconds in node.excess_s.items() if seconds > 0}
    total = sum(more.values())
    said: list[str] = []
    if total > 0:
        largest = max(more, key=lambda part: more[part])
        said.append(f"{percent(more[largest] / total)} of the excess is {_REASONS[largest]}")
    if node.other_cpus is not None and node.other_cpus >= _NOTABLE_CPUS:
        said.append(f"other programs used {number(node.other_cpus, 2)} of its CPUs")
    return said or ("no part of the time ledger stands out",)
