"""The plan as a file, `RESULTS/plan.parquet`: one row per trial, levels as JSON text.

The study hash and the seed are in the metadata of the schema.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import HeadraceError
from headrace.plan.trial import Plan, Trial
from headrace.records.tables import read_table

SCHEMA_VERSION = 1

_SCHEMA = pa.schema(
    [
        ("index", pa.int32()),
        ("id", pa.string()),
        ("cell", pa.string()),
        ("target", pa.string()),
        ("workload", pa.string()),
        ("levels", pa.string()),
        ("repeat", pa.int32()),
        ("seed", pa.int64()),
        ("whole_plot", pa.int32()),
    ]
)


def write_plan(plan: Plan, path: Path) -> None:
    """Write the plan, one row per trial in its order. The caller makes it durable
    (records/store)."""
    rows = [
        {
            "index": trial.index,
            "id": trial.id,
            "cell": trial.cell,
            "target": trial.target,
            "workload": trial.workload,
            "levels": json.dumps(trial.levels),
            "repeat": trial.repeat,
            "seed": trial.seed,
            "whole_plot": trial.whole_plot,
        }
        for trial in plan.trials
    ]
    about = {"schema": SCHEMA_VERSION, "study_hash": plan.study_hash, "seed": plan.seed}
    schema = _SCHEMA.with_metadata({"headrace.plan": json.dumps(about)})
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def _plan_of(table: Any, study_hash: str, seed: int) -> Plan:
    try:
        trials = tuple(
            Trial(
                index=row["index"],
                target=row["target"],
                workload=row["workload"],
                levels=json.loads(row["levels"]),
                repeat=row["repeat"],
                seed=row["seed"],
                whole_plot=row["whole_plot"],
            )
            for row in table.to_pylist()
        )
    except (KeyError, TypeError, ValueError) as error:
        raise HeadraceError(f"plan.parquet holds no plan: {error!r}") from error
    return Plan(trials=trials, study_hash=study_hash, seed=seed)


def read_plan(path: Path) -> Plan:
    """Return the plan of a file with the table of `plan_to_table`.

    Raises HeadraceError when the file is missing, damaged or of another version.
    """
    try:
        table = read_table(path)
        about = json.loads((table.schema.metadata or {})[b"headrace.plan"])
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise HeadraceError(f"{path}: cannot read the plan: {error}") from error
    if about.get("schema") != SCHEMA_VERSION:
        raise HeadraceError(
            f"{path}: a plan of version {about.get('schema')}, this Headrace reads {SCHEMA_VERSION}"
        )
    return _plan_of(table, about["study_hash"], about["seed"])
