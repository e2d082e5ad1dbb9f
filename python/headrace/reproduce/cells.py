"""Reproduction: runs the cells of study files in virtual time and keeps of each outcome what tables are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headrace import _core
from headrace.engine.simulate.scenario import scenario_of
from headrace.errors import HeadraceError, InterruptedRunError
from headrace.plan.order import make_plan
from headrace.study import load_study
from headrace.study.resolve import resolve


@dataclass(frozen=True)
class Job:
    """One job that ended."""

    wall_s: float
    on_cpu_s: float
    asked_bytes: int
    served_bytes: int
    written_bytes: int

    @property
    def efficiency(self) -> float:
        """CPU time over wall time."""
        return self.on_cpu_s / self.wall_s if self.wall_s > 0 else 0.0


@dataclass(frozen=True)
class Cell:
    """One cell's outcome."""

    file: str
    target: str
    workload: str
    levels: dict[str, Any]
    nodes: int
    cores: int
    jobs: tuple[Job, ...]
    end_s: float
    busy_core_s: float
    nodes_j: float
    """Of the nodes, their drives included."""
    servers_j: float
    total_j: float
    drives: tuple[dict[str, Any], ...]
    requests: int

    @property
    def asked_bytes_per_s(self) -> float:
        """What jobs asked for, over the time until the last one's end."""
        return sum(job.asked_bytes for job in self.jobs) / self.end_s

    @property
    def written_bytes_per_s(self) -> float:
        """What jobs wrote, over the time until the last one's end."""
        return sum(job.written_bytes for job in self.jobs) / self.end_s

    @property
    def efficiency(self) -> float:
        """Mean over jobs of CPU time over wall time."""
        return sum(job.efficiency for job in self.jobs) / len(self.jobs)

    @property
    def wall_s(self) -> float:
        """Mean over jobs."""
        return sum(job.wall_s for job in self.jobs) / len(self.jobs)

    @property
    def cpu_use(self) -> float:
        """Share of the nodes' cores that were busy."""
        return self.busy_core_s / (self.cores * self.end_s)


class Cells:
    """Cells of a study by what they are."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells

    def __iter__(self) -> Any:
        return iter(self._cells)

    def find(self, file: str, **wanted: Any) -> Cell:
        """The one cell of a study file with these levels (`target`, `workload` and factors; dots written as `__`)."""
        found = self.all(file, **wanted)
        if len(found) != 1:
            raise KeyError(f"{len(found)} cells of {file} have {wanted}")
        return found[0]

    def all(self, file: str, **wanted: Any) -> list[Cell]:
        """All such cells."""
        plain = {name.replace("__", "."): value for name, value in wanted.items()}
        return [
            cell
            for cell in self._cells
            if cell.file == file
            and all(
                (
                    cell.target
                    if name == "target"
                    else cell.workload
                    if name == "workload"
                    else cell.levels.get(name)
                )
                == value
                for name, value in plain.items()
            )
        ]


def run_cells(
    files: Sequence[Path],
    *,
    threads: int = 0,
    only: Callable[[Cell], bool] | None = None,
    progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Cells:
    """Runs every cell of the study files on all cores. `only` may choose cells by target, workload and levels before they are run.

    Raises HeadraceError when a scenario cannot be run or leaves jobs unfinished, InterruptedRunError when stopped.
    """
    planned: list[tuple[str, Any, str, int, int]] = []
    for file in files:
        study = load_study(file)
        for trial in make_plan(study).trials:
            probe = Cell(
                file.stem, trial.target, trial.workload, trial.levels, 0, 0, (), 0, 0, 0, 0, 0, (), 0
            )
            if only is not None and not only(probe):
                continue
            resolved = resolve(study, trial.target, trial.workload, trial.levels)
            # Common random numbers: cells differ in what is compared, not in what jobs happened to draw.
            seed = study.plan_options.seed + trial.repeat
            scenario = scenario_of(resolved, trial.target, trial.workload, seed)
            nodes = scenario["nodes"][0]
            planned.append((file.stem, trial, json.dumps(scenario), nodes["count"], nodes["cores"]))
    found: list[Cell | None] = [None] * len(planned)
    done = 0
    broken: list[str] = []

    def finished(index: int, outcome: str | None, error: tuple[str, str, str] | None) -> bool:
        nonlocal done
        done += 1
        file, trial, _, nodes, cores = planned[index]
        if outcome is None:
            broken.append(f"{file}: {trial.target} {trial.workload} {trial.levels}: {error}")
            return False
        ended = json.loads(outcome)
        left = sum(1 for job in ended["jobs"] if job["unfinished"])
        if left or ended["broken_off"]:
            why = ended["broken_off"] or "the run was over before them"
            broken.append(
                f"{file}: {trial.target} {trial.workload} {trial.levels}: {left} jobs did not end: {why}"
            )
            return False
        found[index] = _cell(file, trial, nodes, cores, ended)
        if progress is not None:
            progress(done, len(planned))
        return True

    _core.simulate_many([each[2] for each in planned], threads, finished, cancelled)
    if broken:
        raise HeadraceError(broken[0])
    if any(cell is None for cell in found):
        raise InterruptedRunError("stopped")
    repeats: dict[tuple[str, str], list[Cell]] = {}
    for (file, trial, _, _, _), cell in zip(planned, found, strict=True):
        if cell is not None:
            repeats.setdefault((file, trial.cell), []).append(cell)
    return Cells([_one_behind_the_other(cells) for cells in repeats.values()])


def _one_behind_the_other(repeats: Sequence[Cell]) -> Cell:
    """Repeats of a cell as one run: their jobs together, and times, energies and requests in sum."""
    if len(repeats) == 1:
        return repeats[0]
    return replace(
        repeats[0],
        jobs=tuple(job for cell in repeats for job in cell.jobs),
        end_s=sum(cell.end_s for cell in repeats),
        busy_core_s=sum(cell.busy_core_s for cell in repeats),
        nodes_j=sum(cell.nodes_j for cell in repeats),
        servers_j=sum(cell.servers_j for cell in repeats),
        total_j=sum(cell.total_j for cell in repeats),
        drives=tuple(drive for cell in repeats for drive in cell.drives),
        requests=sum(cell.requests for cell in repeats),
    )


def _cell(file: str, trial: Any, nodes: int, cores: int, outcome: dict[str, Any]) -> Cell:
    jobs = tuple(
        Job(
            (job["end_ns"] - job["start_ns"]) * 1e-9,
            job["ledger"]["on_cpu_ns"] * 1e-9,
            job["bytes"]["asked_bytes"],
            job["bytes"]["served_bytes"],
            job["bytes"]["written_bytes"],
        )
        for job in outcome["jobs"]
    )
    hosts = outcome["hosts"]
    return Cell(
        file,
        trial.target,
        trial.workload,
        trial.levels,
        nodes,
        cores * nodes,
        jobs,
        outcome["end_ns"] * 1e-9,
        sum(host["busy_core_ns"] for host in hosts if host["slots"]) * 1e-9,
        sum(host["machine_j"] + host["drives_j"] for host in hosts if host["slots"]),
        sum(host["machine_j"] + host["drives_j"] for host in hosts if not host["slots"]),
        outcome["energy"]["total_j"],
        tuple(
            {
                key: drive[key]
                for key in (
                    "host",
                    "volume",
                    "reads",
                    "writes",
                    "read_bytes",
                    "written_bytes",
                    "busy_ns",
                    "energy_j",
                )
            }
            for drive in outcome["drives"]
        ),
        outcome["counters"]["requests"],
    )
