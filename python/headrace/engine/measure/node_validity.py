"""Whether nodes began together and on clocks that can be compared: pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.engine.measure.job_pool import PoolResult
from headrace.records.nodes import NodeFacts, start_spread_s
from headrace.records.trial_record import NODE_LOST, Reason
from headrace.study.model import RunOptions
from headrace.units import format_seconds

ALWAYS_ALLOWED_S = 0.1
"""Start spread that is always allowed: what scheduling of processes alone causes on a busy node."""
MOST_DRIFT = 500e-6
"""Largest rate by which the kernel lets a clock be corrected (adjtimex(2)): a larger change of an
offset is a step, such as that of a suspended virtual machine."""


def node_reasons(
    run: RunOptions, nodes: Sequence[NodeFacts], pool: PoolResult, clocks_s: float
) -> list[Reason]:
    """Return which nodes were lost, and why nodes of a trial cannot be compared.

    `clocks_s`: time between the two measurements of the clocks. On one node the release reaches all
    jobs at once, and what delays them is a wait for a CPU, which foreign load is judged by.
    """
    lost = lost_reasons(nodes)
    if len(nodes) < 2:
        return lost
    walls_s = [job.end_s - job.start_s for job in pool.jobs if job.ledger is not None]
    most_s = max(ALWAYS_ALLOWED_S, run.start_spread * min(walls_s, default=0.0))
    return [*lost, *_spread(nodes, most_s), *_clocks(nodes, most_s, clocks_s)]


def lost_reasons(nodes: Sequence[NodeFacts]) -> list[Reason]:
    """Return which nodes, or servers under test, were lost."""
    return [_lost(node) for node in nodes if node.lost]


def _lost(node: NodeFacts) -> Reason:
    event = node.events[-1]
    when = f"{format_seconds(event.at_s)} after the release of the jobs"
    if event.at_s < 0:
        when = "before the release of the jobs"
    return Reason(code=NODE_LOST, text=f"{node.name} was lost {when}: {event.cause}")


def _spread(nodes: Sequence[NodeFacts], most_s: float) -> list[Reason]:
    spread_s = start_spread_s(nodes)
    if spread_s is None or spread_s <= most_s:
        return []
    last = max(nodes, key=lambda node: node.start_last_s or 0.0)
    text = (
        f"jobs that were released together began within {spread_s:.3g} s, the last on {last.name}; "
        f"the most is {most_s:.3g} s ([run] start_spread)"
    )
    return [Reason(code="start-spread", text=text)]


def _clocks(nodes: Sequence[NodeFacts], most_s: float, clocks_s: float) -> list[Reason]:
    found: list[Reason] = []
    for node in nodes:
        if (clock := node.clock) is None:
            continue
        if clock.uncertainty_s > most_s:
            text = (
                f"the clock of {node.name} is known to {clock.uncertainty_s:.3g} s only, and "
                f"starts are judged to {most_s:.3g} s"
            )
            found.append(Reason(code="clock-uncertain", text=text))
        elif abs(clock.drift_s or 0.0) > MOST_DRIFT * clocks_s + 2 * clock.uncertainty_s:
            text = (
                f"the clock of {node.name} changed by {clock.drift_s:.3g} s within "
                f"{format_seconds(clocks_s)}: it was set, or the machine stood still"
            )
            found.append(Reason(code="clock-step", text=text))
    return found
