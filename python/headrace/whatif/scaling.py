"""Scale the cells of a result set to another number of nodes, by simulating each of them.

A simulated cell is simulated anew with that number. A measured cell is simulated with its own
number and with the other one: its metrics are multiplied by the ratio of the two, and count as
simulated, because a model decides what more nodes do.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from headrace.analysis.read import Records, trials_frame
from headrace.decision.cells import configuration_of
from headrace.decision.choices import CHOICES, FACTS
from headrace.engine.simulate.scenario import nodes_of
from headrace.engine.simulate.simulator import Cores, ScenarioRefusal
from headrace.engine.simulate.trials import PreparedTrial
from headrace.errors import HeadraceError, UsageError
from headrace.metrics import values_of
from headrace.plan.trial import Trial
from headrace.records.trial_record import TrialRecord
from headrace.study.load import stored_document, study_of
from headrace.study.model import Study
from headrace.study.resolve import resolve

_NODES = ("nodes", "run.nodes")
"""Names of the factor that a scaled cell has no level of."""


def scaled(records: Records, nodes: int) -> Records:
    """Return the valid cells of a result set with this number of nodes.

    Cells without a model are left out, with a warning. Raises UsageError when none is left.
    """
    study = _study(records)
    valid: Any = records.trials[records.trials["valid"]]
    rows: list[dict[str, Any]] = valid.to_dict("records")
    cells: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault(str(row["cell"]), []).append(row)
    warnings = list(records.warnings)
    wanted: list[tuple[dict[str, Any], _Simulation, _Simulation | None]] = []
    for repeats in cells.values():
        for row in repeats if repeats[0]["provenance"] == "simulated" else repeats[:1]:
            try:
                own = None if row["provenance"] == "simulated" else _Simulation.of(study, row, None)
                wanted.append((row, _Simulation.of(study, row, nodes), own))
            except HeadraceError as error:
                warnings.append(f"left out of {nodes} nodes: {error.message}")
    at_nodes = _simulated([there for _, there, _ in wanted])
    at_own = iter(_simulated([own for _, _, own in wanted if own is not None]))
    found: list[tuple[dict[str, Any], TrialRecord, TrialRecord | None]] = []
    for (row, _, own), there in zip(wanted, at_nodes, strict=True):
        here = None if own is None else next(at_own)
        if there is None or (own is not None and here is None):
            warnings.append(f"left out of {nodes} nodes: {row['target']} cannot be simulated")
            continue
        for repeat in [row] if here is None else cells[str(row["cell"])]:
            found.append((repeat, _renamed(there, repeat, nodes), here))
    if not found:
        raise UsageError(f"{records.root}: " + "; ".join(dict.fromkeys(warnings)))
    # In the order of the plan, as rows of a frame of trials are.
    found.sort(key=lambda each: int(each[0]["index"]))
    frame: Any = trials_frame([there for _, there, _ in found])
    frame["id"] = [str(row["id"]) for row, _, _ in found]
    for name in (CHOICES, FACTS):
        if name in records.trials:
            frame[name] = [row[name] for row, _, _ in found]
    for place, (row, there, here) in enumerate(found):
        if here is not None:
            frame.at[place, "metrics"] = _ratios(there, here, row)
            frame.at[place, "meter_errors"] = row["meter_errors"]
    return replace(records, trials=frame, warnings=tuple(dict.fromkeys(warnings)))


def scaled_configurations(
    sets: Sequence[Records], configurations: Collection[str], nodes: int
) -> list[Records]:
    """Return the valid trials of some configurations (`configuration_of`) with this number of
    nodes; none where one of them cannot be simulated. `sets`: those of `cells.configured`."""
    found: list[Records] = []
    for records in sets:
        rows: list[dict[str, Any]] = records.trials.to_dict("records")
        wanted = [
            place
            for place, row in enumerate(rows)
            if row["valid"] and configuration_of(row) in configurations
        ]
        if not wanted:
            continue
        some: Any = records.trials.iloc[wanted].reset_index(drop=True)
        try:
            made = scaled(replace(records, trials=some), nodes)
        except HeadraceError:
            return []
        if len(made.trials) < len(wanted):
            return []
        found.append(made)
    return found


@dataclass(frozen=True)
class _Simulation:
    """A trial to simulate, and its scenario."""

    prepared: PreparedTrial
    scenario: str

    @classmethod
    def of(cls, study: Study, row: dict[str, Any], nodes: int | None) -> _Simulation:
        """Return the trial of a row, with its own number of nodes if `nodes` is None.

        More nodes have more files and jobs, in proportion: else jobs of the same node would read
        the same files, and find them in memory. Raises HeadraceError if it has no model.
        """
        levels = {name: level for name, level in row["levels"].items() if level is not None}
        own = None
        if nodes is not None:
            own = nodes_of(resolve(study, row["target"], row["workload"], levels))
            levels = {n: level for n, level in levels.items() if n not in _NODES}
            options = study.run_options.model_copy(update={"nodes": nodes})
            study = replace(study, run_options=options)
        trial = Trial(
            int(row["index"]), row["target"], row["workload"], levels, int(row["repeat"]),
            int(row["seed"]), int(row["whole_plot"]),
        )  # fmt: skip
        prepared = PreparedTrial.of(study, trial)
        return cls(prepared, prepared.scenario(series=False, of_nodes=own))


def _study(records: Records) -> Study:
    return study_of(stored_document(records.root), Path(records.header.base))


def _simulated(wanted: Sequence[_Simulation]) -> list[TrialRecord | None]:
    """Return a record with sums for each; None for one that fails."""
    found: list[TrialRecord | None] = [None] * len(wanted)

    def finished(index: int, outcome: str | None, refusal: ScenarioRefusal | None) -> bool:
        made = wanted[index].prepared.simulated(outcome, refusal)
        if made.record.validity.valid:
            found[index] = made.record.with_jobs(made.jobs)
        return True

    scenarios = [each.scenario for each in wanted]
    Cores().run(scenarios, finished)
    return found


def _renamed(record: TrialRecord, row: dict[str, Any], nodes: int) -> TrialRecord:
    """Return the record with the index and repeat of the trial that it is scaled from."""
    levels = {name: level for name, level in record.levels.items() if name not in _NODES}
    return msgspec.structs.replace(
        record,
        index=int(row["index"]),
        repeat=int(row["repeat"]),
        levels=levels,
        run={**record.run, "nodes": nodes},
    )


def _ratios(there: TrialRecord, here: TrialRecord, row: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of a measured trial, times what more nodes do to the simulated ones."""
    at_nodes, at_own = values_of(there), values_of(here)
    found: dict[str, float] = {}
    for name, value in row["metrics"].items():
        before, after = at_own.get(name), at_nodes.get(name)
        if before and after is not None and math.isfinite(after / before):
            found[name] = value * after / before
    return found
