"""Small studies to learn sites from, and cells that are simulated with hidden values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.calibration.cells import CalibrationPlan, calibration_plan
from headrace.calibration.fitting import MeasuredCell, SiteFit, fit
from headrace.calibration.observed import ObservedCell
from headrace.calibration.parameters import as_calibration, learnables
from headrace.calibration.running import SimulatedCells
from headrace.calibration.site_file import SiteFacts
from headrace.catalog.load import ROOT
from headrace.library import load_study
from headrace.study.model import Study

LOCAL = """
headrace = 1
[target.here]
kind = "path"
path = "data"
create = true
[site.node]
cores = 2
drives = { here = "small.toml" }
[workload.scan]
kind = "scan"
data = { events = 60_000, files = 4 }
[workload.search]
kind = "analysis"
data = { events = 100_000, files = 4 }
[factors]
workload = ["scan", "search"]
slots = [1, 2, 4]
[plan]
repeats = { min = 2 }
"""
NAS = """
[target.nas]
kind = "nfs"
export = { drive = "small.toml" }
"""
SERVED = LOCAL.replace("[site.node]", NAS + "[site.node]").replace(
    "[factors]", '[factors]\ntarget = ["nas"]'
)

REMOTE = SERVED.replace('kind = "nfs"', 'kind = "xrootd"').replace("export =", "bricks =")

COMMAND = LOCAL.replace(
    'kind = "scan"\ndata = { events = 60_000, files = 4 }', 'kind = "command"\ncommand = ["true"]'
)


def study_of(folder: Path, text: str, name: str = "study.toml") -> Path:
    """Write a study, and a small drive beside it: a map of few pages is soon made."""
    drive = (ROOT / "drives" / "mtron-msp-sata7035064.toml").read_text()
    drive = drive.replace("64_023_257_088", "536_870_912").replace("queue_depth = 1", "")
    (folder / "small.toml").write_text(drive.replace("120e6", "548e6"))
    file = folder / name
    file.write_text(text)
    return file


def planned(folder: Path, text: str) -> tuple[Study, CalibrationPlan]:
    loaded = load_study(study_of(folder, text))
    return loaded.study, calibration_plan(loaded.study, loaded.text)


def learnt_of(plan: CalibrationPlan, hidden: dict[str, float]) -> SiteFit:
    """What is learnt from the cells of a plan that were simulated with hidden values."""
    cells = SimulatedCells(plan.study, SiteFacts(), lambda: False)
    trials = [trial for trial in plan.every if trial.cell in plan.learn]
    truth = cells.simulate(as_calibration(hidden), trials)
    measured = [
        MeasuredCell(cell.target, cell.workload, cell.choices, seen)
        for cell, seen in zip(map(cells.modelled, trials), truth, strict=True)
        if seen is not None
    ]
    assert len(measured) == len(trials)
    free = learnables([cells.modelled(trial) for trial in trials], several_slots=True)

    def simulate(values: dict[str, float], numbers: Sequence[int]) -> list[ObservedCell | None]:
        return cells.simulate(as_calibration(values), [trials[number] for number in numbers])

    return fit(measured, free, simulate)
