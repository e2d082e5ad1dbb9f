"""The trials of records by configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.analysis.metrics import valid_trials
from headrace.analysis.read import Records
from headrace.decision.choices import CHOICES, FACTS, levels_of, told_apart, words_of


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
    stated: str
    """What `stated_of` returns for its trials: the same for a measurement and its simulation."""
    rows: dict[str, Any] = field(default_factory=dict[str, Any])
    """Workload -> (results folder, rows of its valid trials)."""
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    copies: int = 0
    """Trials that another folder has, too: they are left out."""


def cells_of(sets: Sequence[Records]) -> list[CandidateCell]:
    """Return a cell for each configuration and provenance, also without a valid trial.

    Configurations are told apart by every setting that differs (`choices.told_apart`), and those
    that folders name alike and that have other parts by their folder.
    """
    sets = configured(sets)
    found: dict[tuple[str, str], CandidateCell] = {}
    trials: dict[str, Path] = {}
    for records in sets:
        for row in _rows(records.trials):
            name, provenance = configuration_of(row), str(row["provenance"])
            cell = found.setdefault(
                (name, provenance),
                CandidateCell(
                    name, row["target"], _levels(row), int(row["slots"]), _node_count(row),
                    provenance, str(row["target_kind"]), stated_of(row),
                ),
            )  # fmt: skip
            if not row["valid"]:
                workload = str(row["workload"])
                cell.left_out[workload] = cell.left_out.get(workload, 0) + 1
        for row in _rows(valid_trials(records)):
            cell = found[configuration_of(row), str(row["provenance"])]
            # The same trial of another folder is no further evidence: a copy of the folder, or the
            # same simulation with the same seed.
            one = _trial_of(row) if len(sets) > 1 else ""
            if trials.setdefault(one, records.root) != records.root:
                cell.copies += 1
                continue
            cell.rows.setdefault(row["workload"], (records.root, []))[1].append(row)
    return list(found.values())


def configured(sets: Sequence[Records]) -> list[Records]:
    """Return the result sets with the columns by which `configuration_of` tells their trials apart.

    To be called with all sets of a decision at once. Sets that have the columns stay as they are.
    """
    if all(CHOICES in each.trials for each in sets if len(each.trials)):
        return list(sets)
    made = told_apart(sets)
    folder_of = _Folders(made)
    found: list[Records] = []
    for records in made:
        choices = [
            {**row[CHOICES], **({"results": folder} if folder else {})}
            for row in _rows(records.trials)
            for folder in (folder_of(row, records.root),)
        ]
        frame = records.trials
        found.append(
            replace(records, trials=frame.assign(**{CHOICES: choices})) if choices else records
        )
    return found


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
    """Return a text that is equal for trials of one configuration: rows of `Records.trials`, with
    the columns of `configured`."""
    return _configuration(row, _levels(row))


def stated_of(row: Mapping[str, Any]) -> str:
    """Return the same without what only the machine has, which a simulation does not know."""
    return _configuration(row, row[CHOICES] if CHOICES in row else levels_of(row))


def _configuration(row: Mapping[str, Any], levels: Mapping[str, Any]) -> str:
    # As texts: levels may be tables.
    named = sorted((name, repr(level)) for name, level in levels.items())
    return repr((row["target"], named, row["slots"], _node_count(row)))


def _levels(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row[FACTS], **row[CHOICES]} if CHOICES in row else levels_of(row)


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
    parts += [words_of(n, cell.levels[n], cell.target_kind) for n in names if n in cell.levels]
    parts.append(f"{cell.slots} slot{'s' if cell.slots != 1 else ''}")
    if cell.nodes > 1:
        parts.append(f"{cell.nodes} nodes")
    return ", ".join(parts)
