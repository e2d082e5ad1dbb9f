"""Reproduction in real time: a small study on emulated drives under the real kernel, compared with
virtual time and with the published results.

The small study tests order and shape, not the published numbers: its data, cores and kernel are
those of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.analysis.metrics import trial_metrics, valid_trials
from headrace.analysis.read import Records, read
from headrace.analysis.trial_row import trial_rows
from headrace.errors import FileProblem, HeadraceError, StudyError
from headrace.reproduce import emulated_cluster_energy, emulated_proof_ssd
from headrace.reproduce.published import published
from headrace.reproduce.small_study import JudgedClaim, SmallCells, SmallStudy, SmallStudyRow
from headrace.study.packaged import STUDIES

SMALL: dict[str, SmallStudy] = {
    each.id: each for each in (emulated_proof_ssd.STUDY, emulated_cluster_energy.STUDY)
}


@dataclass(frozen=True)
class Emulated:
    """One small study: every row, every finding, and where the records are."""

    id: str
    title: str
    rows: tuple[SmallStudyRow, ...]
    findings: tuple[JudgedClaim, ...]
    left_out: tuple[str, ...]
    """Measured trials that no number uses, and why."""
    notes: tuple[str, ...]
    results: tuple[Path, ...]
    """Folders with the measured records."""


def chosen_small(names: Sequence[str]) -> list[SmallStudy]:
    """Return the small studies with these ids, or all. Raises StudyError for an unknown id."""
    for name in names:
        if name not in SMALL:
            problem = "this study has no small form for emulated drives"
            raise StudyError(
                [FileProblem(STUDIES, 0, "STUDY", f'"{name}"', problem, ", ".join(SMALL))]
            )
    return [SMALL[name] for name in names] if names else list(SMALL.values())


def emulated(small: SmallStudy, simulated: Sequence[Path], measured: Sequence[Path]) -> Emulated:
    """Compare the records of the small study, in virtual time and on emulated drives, with the
    published results.

    Both are result folders in the order of the study's files. Raises UsageError when one is not a
    results folder.
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
    """Return the small study's files. Raises HeadraceError when one is missing."""
    found = [STUDIES / file for file in small.files]
    for path in found:
        if not path.exists():
            raise HeadraceError(
                f"the study file {path} is missing",
                hint="install Headrace again: the file belongs to it",
            )
    return found


def cells_of(records: Sequence[Records], files: Sequence[str]) -> SmallCells:
    """Return the rates of the valid trials of some results folders by cell: requested bytes and
    events per second."""
    found: SmallCells = SmallCells()
    for file, each in zip(files, records, strict=True):
        trials = valid_trials(each)
        if not len(trials):
            continue
        metrics = trial_metrics(trials)
        rates: Any = metrics[["asked_bytes_per_s", "events_per_s"]].itertuples(index=False)
        for levels, (bytes_per_s, events_per_s) in zip(trials["levels"], rates, strict=True):
            found.add(Path(file).stem, levels, float(bytes_per_s), float(events_per_s))
    return found


def _left_out(records: Records) -> list[str]:
    said: list[str] = []
    trials = trial_rows(records.trials)
    for row in trials:
        if row["valid"]:
            continue
        reasons = (
            "; ".join(text for _, text in row["reasons"]) or row["cause"] or "no cause was recorded"
        )
        said.append(f"{row['id']} ({_levels(row['levels'])}): {reasons}")
    return said


def _levels(levels: dict[str, object]) -> str:
    return ", ".join(f"{name} {level}" for name, level in levels.items() if level is not None)


def as_json(results: Sequence[Emulated]) -> dict[str, object]:
    """Return the JSON of `headrace reproduce --emulate --json`."""
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
