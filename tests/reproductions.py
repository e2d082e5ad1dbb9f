"""The reproductions of the published studies, each simulated once in a test run.

Processes of pytest-xdist share them in files: the first that needs one simulates it, on all CPUs.
"""

from __future__ import annotations

import fcntl
import pickle
from functools import cache
from pathlib import Path

from headrace.reproduce import MODULES, judged
from headrace.reproduce.cells import ObtainedCells, run_cells
from headrace.reproduce.published import Reproduced


@cache
def cells(study: str, folder: Path) -> ObtainedCells:
    """Every cell of a study; `folder` is the test run's (the fixture `shared_folder`)."""
    kept = folder / f"{study}.pickle"
    with (folder / f"{study}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            made = pickle.dumps(run_cells(MODULES[study].paths))
            unfinished = kept.with_suffix(".new")
            unfinished.write_bytes(made)
            unfinished.rename(kept)
        return pickle.loads(kept.read_bytes())


@cache
def reproduced(study: str, folder: Path) -> Reproduced:
    return judged(MODULES[study], cells(study, folder))
