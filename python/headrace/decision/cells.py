"""The trials of records by configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.analysis.metrics import valid_trials
from headrace.analysis.read import Records
from headrace.study.level_words import level_words


@dataclass
class CandidateCell:
    """The trials of one configuration, measured or simulated."""

    configuration: str
    target: str
    levels: dict[str, Any]
    slots: int
    nodes: int
    provenance: str
    target_kind: str
    rows: dict[str, Any] = field(default_factory=dict[str, Any])
    """Workload -> (results folder, rows of its valid trials)."""
    left_out: dict[str, int] = field(default_factory=dict[str, int])


def cells_of(sets: Sequence[Records]) -> list[CandidateCell]:
    """Return a cell for each configuration and provenance, also without a valid trial."""
    found: dict[tuple[str, str], CandidateCell] = {}
    for records in sets:
        for row in _rows(records.trials):
            name = configuration_of(row)
            cell = found.setdefault(
                (name, row["provenance"]),
                CandidateCell(
                    name, row["target"], _levels(row), int(row["slots"]), _node_count(row),
                    row["provenance"], str(row["target_kind"]),
                ),
            )  # fmt: skip
            if not row["valid"]:
                workload = str(row["workload"])
                cell.left_out[workload] = cell.left_out.get(workload, 0) + 1
        for row in _rows(valid_trials(records)):
            cell = found[configuration_of(row), row["provenance"]]
            cell.rows.setdefault(row["workload"], (records.root, []))[1].append(row)
    return list(found.values())


def without_trial(
    every: Sequence[CandidateCell], cells: Sequence[CandidateCell], names: Sequence[str]
) -> dict[str, str]:
    """Return the configurations of which no trial is valid, by name, with the reason."""
    having = {cell.configuration for cell in cells}
    return {
        key_of(cell, names): f"none of its {sum(cell.left_out.values())} trials is valid"
        if sum(cell.left_out.values()) > 1
        else "its only trial is not valid"
        for cell in every
        if cell.configuration not in having
    }


def configuration_of(row: Mapping[str, Any]) -> str:
    """Return a text that is equal for trials of one configuration: rows of `Records.trials`."""
    return repr((row["target"], sorted(_levels(row).items()), row["slots"], _node_count(row)))


def _levels(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: level
        for name, level in dict(row["levels"]).items()
        if name.removeprefix("run.") not in ("target", "workload", "slots", "nodes")
        and level is not None
    }


def _rows(frame: Any) -> list[dict[str, Any]]:
    return frame.to_dict("records") if len(frame) else []


def _node_count(row: Mapping[str, Any]) -> int:
    """Return the number of nodes: what the inventory says, or the number in `[run]`."""
    counted = [item.count for item in row["inventory"] or () if item.part == "node"]
    return int(counted[0] if counted else row["nodes"])


def rate_name(metrics: Mapping[str, float]) -> str:
    """Return the metric that is the rate of work: of events, or of bytes where none are counted."""
    return "events_per_s" if metrics.get("events_per_s") else "asked_bytes_per_s"


def differing(cells: Sequence[CandidateCell]) -> list[str]:
    """Return the factors of which the cells have several levels."""
    names = dict.fromkeys(name for cell in cells for name in cell.levels)
    return [name for name in names if len({repr(cell.levels.get(name)) for cell in cells}) > 1]


def key_of(cell: CandidateCell, names: Sequence[str]) -> str:
    """Return the name of a cell for people, with these of its factors."""
    parts = [cell.target]
    parts += [
        level_words(n, cell.levels[n], cell.target_kind, "") for n in names if n in cell.levels
    ]
    parts.append(f"{cell.slots} slot{'s' if cell.slots != 1 else ''}")
    if cell.nodes > 1:
        parts.append(f"{cell.nodes} nodes")
    return ", ".join(parts)
