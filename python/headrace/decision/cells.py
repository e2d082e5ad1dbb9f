"""The trials of records by configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
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
    copies: int = 0
    """Trials that another folder has, too: they are left out."""


def cells_of(sets: Sequence[Records]) -> list[CandidateCell]:
    """Return a cell for each configuration and provenance, also without a valid trial.

    Configurations that folders name alike and that have other parts are told apart by their folder.
    """
    folder_of = _Folders(sets)
    found: dict[tuple[str, str, str], CandidateCell] = {}
    trials: dict[str, Path] = {}
    for records in sets:
        for row in _rows(records.trials):
            name, provenance = configuration_of(row), str(row["provenance"])
            folder = folder_of(row, records.root)
            cell = found.setdefault(
                (name, provenance, folder),
                CandidateCell(
                    f"{name} {folder}".rstrip(), row["target"],
                    {**_levels(row), **({"results": folder} if folder else {})},
                    int(row["slots"]), _node_count(row), provenance, str(row["target_kind"]),
                ),
            )  # fmt: skip
            if not row["valid"]:
                workload = str(row["workload"])
                cell.left_out[workload] = cell.left_out.get(workload, 0) + 1
        for row in _rows(valid_trials(records)):
            folder = folder_of(row, records.root)
            cell = found[configuration_of(row), str(row["provenance"]), folder]
            # The same trial of another folder is no further evidence: a copy of the folder, or the
            # same simulation with the same seed.
            one = _trial_of(row) if len(sets) > 1 else ""
            if trials.setdefault(one, records.root) != records.root:
                cell.copies += 1
                continue
            cell.rows.setdefault(row["workload"], (records.root, []))[1].append(row)
    return list(found.values())


class _Folders:
    """Which folder tells a configuration apart from one of the same name with other hardware."""

    def __init__(self, sets: Sequence[Records]) -> None:
        self._kinds: dict[tuple[str, str], dict[str, str]] = {}
        """Configuration and provenance -> hardware -> the folder that has it first."""
        self._names = dict(zip([each.root for each in sets], _folder_names(sets), strict=True))
        for records in sets if len(sets) > 1 else ():
            for row in _rows(valid_trials(records)):
                kinds = self._kinds.setdefault(_key(row), {})
                kinds.setdefault(_parts_of(row), self._names[records.root])

    def __call__(self, row: Mapping[str, Any], root: Path) -> str:
        """Return its name; empty where all folders have the same hardware."""
        kinds = self._kinds.get(_key(row), {})
        if len(kinds) < 2:
            return ""
        # A trial that failed early has no parts.
        mine = self._names[root]
        return kinds.get(_parts_of(row), mine if mine in kinds.values() else min(kinds.values()))


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return configuration_of(row), str(row["provenance"])


def _folder_names(sets: Sequence[Records]) -> list[str]:
    """Return the shortest ends of the folders' paths that differ."""
    parts = [records.root.resolve().parts for records in sets]
    longest = max((len(each) for each in parts), default=1)
    for number in range(1, longest + 1):
        names = ["/".join(each[-number:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [str(records.root) for records in sets]


def _parts_of(row: Mapping[str, Any]) -> str:
    """Return the hardware of a trial as a text, without what differs from day to day."""
    items = row["inventory"] or ()
    return repr(sorted((i.part, i.name, i.host, i.count, repr(i.raid_level)) for i in items))


def _trial_of(row: Mapping[str, Any]) -> str:
    """Return a text that is equal for copies of one trial."""
    started = None if row["provenance"] == "simulated" else row["started_utc"]
    metrics = sorted(row["metrics"].items())
    return repr((configuration_of(row), row["workload"], row["seed"], started, metrics))


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
