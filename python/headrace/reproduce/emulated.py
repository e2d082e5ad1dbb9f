"""Reproduction in real time: a study made small, on emulated drives under the real kernel, beside the same in virtual time and what was published.

The small study asks for order and shape, not for the published numbers: its data, its cores and its kernel are this machine's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.errors import Fault, HeadraceError, StudyError
from headrace.records.read import Records, read
from headrace.reproduce import emulated_cluster_energy, emulated_proof_ssd
from headrace.reproduce.beside import Judged, Row, SmallCells, SmallStudy
from headrace.reproduce.published import published
from headrace.reproduce.study import STUDIES

SMALL: dict[str, SmallStudy] = {
    each.id: each for each in (emulated_proof_ssd.STUDY, emulated_cluster_energy.STUDY)
}


@dataclass(frozen=True)
class Emulated:
    """One study in small: every row, every finding, and where the records are."""

    id: str
    title: str
    rows: tuple[Row, ...]
    findings: tuple[Judged, ...]
    left_out: tuple[str, ...]
    """Measured trials that no number rests on, and why."""
    notes: tuple[str, ...]
    results: tuple[Path, ...]
    """Folders with the measured records."""


def chosen_small(names: Sequence[str]) -> list[SmallStudy]:
    """The small studies of these ids, or all. Raises StudyError for one that there is not."""
    for name in names:
        if name not in SMALL:
            problem = "this study has no small form for emulated drives"
            raise StudyError([Fault(STUDIES, 0, "STUDY", f'"{name}"', problem, ", ".join(SMALL))])
    return [SMALL[name] for name in names] if names else list(SMALL.values())


def emulated(small: SmallStudy, simulated: Sequence[Path], measured: Sequence[Path]) -> Emulated:
    """Sets the records of the small study, in virtual time and on emulated drives, beside what was published.

    Both are result folders in the order of the study's files. Raises RefusedError when one is no results folder.
    """
    virtual = [read(folder) for folder in simulated]
    real = [read(folder) for folder in measured]
    cells = cells_of(virtual, small.files), cells_of(real, small.files)
    source = published(small.id)
    return Emulated(
        id=small.id,
        title=source.title,
        rows=tuple(small.rows(*cells, source)),
        findings=tuple(small.findings(*cells, source)),
        left_out=tuple(text for records in real for text in _left_out(records)),
        notes=small.notes,
        results=tuple(measured),
    )


def paths(small: SmallStudy) -> list[Path]:
    """The small study's files. Raises HeadraceError when one is not there (not a clone)."""
    found = [STUDIES / file for file in small.files]
    for path in found:
        if not path.exists():
            raise HeadraceError(
                f"the study file {path} is missing",
                hint="headrace reproduce --emulate runs in a clone of the repository",
            )
    return found


def cells_of(records: Sequence[Records], files: Sequence[str]) -> SmallCells:
    """Rates of the valid trials of some results folders: bytes that jobs asked for a second, and events a second, by cell."""
    found: SmallCells = SmallCells()
    for file, each in zip(files, records, strict=True):
        trials: list[dict[str, Any]] = each.trials.to_dict("records")
        for row in trials:
            if not row["valid"] or not row["last_done_s"]:
                continue
            found.add(
                Path(file).stem,
                row["levels"],
                float(row["bytes_asked"]) / float(row["last_done_s"]),
                float(row["events"]) / float(row["last_done_s"]),
            )
    return found


def _left_out(records: Records) -> list[str]:
    said: list[str] = []
    trials: list[dict[str, Any]] = records.trials.to_dict("records")
    for row in trials:
        if row["valid"]:
            continue
        reasons = "; ".join(text for _, text in row["reasons"]) or row["cause"] or "no cause was recorded"
        said.append(f"{row['id']} ({_levels(row['levels'])}): {reasons}")
    return said


def _levels(levels: dict[str, Any]) -> str:
    return ", ".join(f"{name} {level}" for name, level in levels.items() if level is not None)


def as_json(results: Sequence[Emulated]) -> dict[str, Any]:
    """The JSON of `headrace reproduce --emulate --json`."""
    return {
        "studies": [
            {
                "id": result.id,
                "title": result.title,
                "rows": [asdict(row) for row in result.rows],
                "findings": [asdict(finding) for finding in result.findings],
                "left_out": list(result.left_out),
                "notes": list(result.notes),
                "results": [str(path) for path in result.results],
            }
            for result in results
        ]
    }
