"""The nodes of a cluster as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.markup import escape

from headrace.cli._console import out

if TYPE_CHECKING:
    from headrace.launchers.remote.survey import SurveyedNode


def print_table(found: Sequence[SurveyedNode]) -> None:
    """Print a row for each node."""
    from headrace.report.text_table import TextTable
    from headrace.units import format_bytes

    table = TextTable(
        *("node", "host", "CPUs", "used by others", "memory", "kernel", "Headrace", "Python"),
        "clock (s)",
    )
    for node in found:
        facts, machine = node.facts, node.hello.machine
        used = f"{facts.others_cpus:.1f}"
        if facts.stolen_cpus >= 0.05:
            used += f" + {facts.stolen_cpus:.1f} steal"
        table.add_row(
            *(node.name, escape(machine.host), str(machine.cpus), used),
            *(format_bytes(machine.memory_bytes or 0), escape(machine.kernel)),
            *(escape(machine.headrace), escape(machine.python)),
            f"{node.clock.offset_s:+.3f}±{node.clock.uncertainty_s:.4f}",
        )
    out.print(table)
    out.print(
        "clock: seconds to add to the node's monotonic clock to have this machine's", style="dim"
    )


def plain_status(node: SurveyedNode) -> dict[str, object]:
    """Return what a node is and can do, for JSON."""
    facts, machine = node.facts, node.hello.machine
    return {
        "node": node.name,
        "host": machine.host,
        "headrace": machine.headrace,
        "python": machine.python,
        "kernel": machine.kernel,
        "cpus": machine.cpus,
        "others_cpus": facts.others_cpus,
        "stolen_cpus": facts.stolen_cpus,
        "memory_bytes": machine.memory_bytes,
        "clock_offset_s": node.clock.offset_s,
        "clock_uncertainty_s": node.clock.uncertainty_s,
        "temporary": facts.limits.temporary,
        "temporary_free_bytes": facts.limits.temporary_free_bytes,
        "can": [each.what for each in facts.capabilities if each.there],
        "lacks": {each.what: each.remedy for each in facts.capabilities if not each.there},
    }
