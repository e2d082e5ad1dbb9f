"""Reproduction in real time: a study made small, on emulated drives under the real kernel, beside the same in virtual time and what was published.

The small study asks for order and shape, not for the published numbers: its data, its cores and its kernel are this machine's.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.engine import Observer
from headrace.errors import Fault, HeadraceError, StudyError
from headrace.library import load_study, resume
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


def emulate(
    small: SmallStudy,
    results: Path,
    *,
    observer: Observer | None = None,
    stop: threading.Event | None = None,
) -> Emulated:
    """Runs the small study's files on emulated drives, and the same in virtual time, and sets both beside what was published.

    Records go to `results`; files of it that are there already are gone on with, or reported as they are when whole. Raises
    MissingError when this machine cannot emulate, HeadraceError when a study file is missing.
    """
    folders: list[Path] = []
    measured: dict[str, list[Records]] = {"emulated": [], "simulated": []}
    with tempfile.TemporaryDirectory(prefix="headrace-simulated-") as place:
        for file in small.files:
            path = STUDIES / file
            if not path.exists():
                raise HeadraceError(
                    f"the study file {path} is missing",
                    hint="headrace reproduce --emulate runs in a clone of the repository",
                )
            loaded = load_study(path)
            simulated = loaded.run(Path(place) / path.stem, engine="simulate", stop=stop)
            measured["simulated"].append(read(simulated))
            folder = results / path.stem
            if (folder / "results.json").exists():
                resume(folder, observer=observer, stop=stop)
            else:
                loaded.run(folder, observer=observer, stop=stop)
            folders.append(folder)
            measured["emulated"].append(read(folder))
        cells = {way: cells_of(records, small.files) for way, records in measured.items()}
    source = published(small.id)
    return Emulated(
        id=small.id,
        title=source.title,
        rows=tuple(small.rows(cells["simulated"], cells["emulated"], source)),
        findings=tuple(small.findings(cells["simulated"], cells["emulated"], source)),
        left_out=tuple(text for records in measured["emulated"] for text in _left_out(records)),
        notes=small.notes,
        results=tuple(folders),
    )


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
