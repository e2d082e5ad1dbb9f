"""Scale the cells of a result set to another number of nodes, by simulating each of them.

A simulated cell is simulated anew with that number. A measured cell is simulated with its own
number and with the other one: its metrics are multiplied by the ratio of the two, and count as
simulated, because a model decides what more nodes do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from headrace import _core
from headrace.analysis.read import Records, trials_frame
from headrace.engine.simulate.trials import PreparedTrial, ScenarioRefusal
from headrace.errors import HeadraceError, UsageError
from headrace.plan.trial import Trial
from headrace.records.trial_record import TrialRecord
from headrace.study.load import load_study_text
from headrace.study.model import Study


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
    made: list[TrialRecord] = []
    origin: list[dict[str, Any]] = []
    metrics: list[dict[str, float] | None] = []
    warnings = list(records.warnings)
    wanted: list[tuple[dict[str, Any], PreparedTrial, PreparedTrial | None]] = []
    for repeats in cells.values():
        for row in repeats if repeats[0]["provenance"] == "simulated" else repeats[:1]:
            try:
                own = None if row["provenance"] == "simulated" else _prepared(study, row, None)
                wanted.append((row, _prepared(study, row, nodes), own))
            except HeadraceError as error:
                warnings.append(f"{row['target']}: left out of {nodes} nodes: {error.message}")
    at_nodes = _simulated([there for _, there, _ in wanted])
    alone = [own for _, _, own in wanted if own is not None]
    at_own = iter(_simulated(alone))
    for (row, _, own), there in zip(wanted, at_nodes, strict=True):
        here = None if own is None else next(at_own)
        if there is None or (own is not None and here is None):
            warnings.append(f"{row['target']}: left out of {nodes} nodes: it cannot be simulated")
            continue
        for repeat in [row] if here is None else cells[str(row["cell"])]:
            made.append(_renamed(there, repeat, nodes))
            origin.append(repeat)
            metrics.append(None if here is None else _ratios(there, here, repeat))
    if not made:
        raise UsageError(f"{records.root}: no cell can be simulated with {nodes} nodes: "
                         + "; ".join(warnings))  # fmt: skip
    frame: Any = trials_frame(made)
    for index, values in enumerate(metrics):
        if values is not None:
            frame.at[index, "metrics"] = values
    frame["id"] = [str(row["id"]) for row in origin]
    return replace(records, trials=frame, warnings=tuple(dict.fromkeys(warnings)))


def _study(records: Records) -> Study:
    file = records.root / "study.toml"
    try:
        text = file.read_text()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}: only a stored study can be scaled") from error
    return load_study_text(text, file=file, base=Path(records.header.base))


def _prepared(study: Study, row: dict[str, Any], nodes: int | None) -> PreparedTrial:
    levels = {name: level for name, level in row["levels"].items() if level is not None}
    if nodes is not None:
        levels.pop("nodes", None)
        options = study.run_options.model_copy(update={"nodes": nodes})
        study = study.model_copy(update={"run_options": options})
    trial = Trial(
        int(row["index"]), row["target"], row["workload"], levels, int(row["repeat"]),
        int(row["seed"]), int(row["whole_plot"]),
    )  # fmt: skip
    return PreparedTrial.of(study, trial)


def _simulated(prepared: Sequence[PreparedTrial]) -> list[TrialRecord | None]:
    """Return a record with sums for each; None for one that fails."""
    found: list[TrialRecord | None] = [None] * len(prepared)

    def finished(index: int, outcome: str | None, refusal: ScenarioRefusal | None) -> bool:
        made = prepared[index].simulated(outcome, refusal)
        if made.record.validity.valid:
            found[index] = made.record.with_jobs(made.jobs)
        return True

    scenarios = [each.scenario(series=False) for each in prepared]
    _core.simulate_many(scenarios, 0, finished, lambda: False, lambda _: None)
    return found


def _renamed(record: TrialRecord, row: dict[str, Any], nodes: int) -> TrialRecord:
    """Return the record with the index and repeat of the trial that it is scaled from."""
    levels = {name: level for name, level in record.levels.items() if name != "nodes"}
    return msgspec.structs.replace(
        record,
        index=int(row["index"]),
        repeat=int(row["repeat"]),
        levels=levels,
        run={**record.run, "nodes": nodes},
    )


def _ratios(there: TrialRecord, here: TrialRecord, row: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of a measured trial, times what more nodes do to the simulated ones."""
    values: Any = trials_frame([there, here])["metrics"]
    at_nodes, at_own = values[0], values[1]
    found: dict[str, float] = {}
    for name, value in row["metrics"].items():
        before, after = at_own.get(name), at_nodes.get(name)
        if before and after is not None and math.isfinite(after / before):
            found[name] = value * after / before
    return found
