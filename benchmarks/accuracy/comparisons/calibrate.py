"""A site learnt from a few measured cells of a study, and the cells that nothing was fitted to."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headrace.calibration.running import LearntSite
from headrace.calibration.verdict import NULLS, PredictedCell
from headrace.library import calibrate
from quiet import REFUSAL, check_quiet, check_root, check_was_quiet, remove_disturbed
from rows import Comparison, Missing, Row, relative

STUDY = Path(__file__).parents[3] / "studies/calibrate.toml"
REPEATS_MOST = 3
"""How often disturbed trials are measured again: they take half a second, and the hypervisor's
pauses of 10 to 40 ms are then more than the 3 % that are allowed."""


def rows_of(site: LearntSite) -> list[Row]:
    """Return the measured cells: those that values were fitted to, and the others."""
    null = NULLS.index(site.verdict.null)
    found: list[Row] = []
    for cell in sorted(site.cells, key=lambda each: each.role == "learnt"):
        if cell.measured_s is None:
            continue
        nearest = None if cell.null_s is None or cell.role == "learnt" else cell.null_s[null]
        found.append(_row(cell, cell.measured_s, nearest))
    return found


def _row(cell: PredictedCell, measured_s: float, nearest_s: float | None) -> Row:
    warm = ", warm" if cell.trial.levels.get("cache") == "warm" else ""
    return relative(
        f"{cell.name}{warm}",
        "s",
        cell.predicted_s,
        measured_s,
        nearest_s,
        # The structure was changed when cells like these were known.
        "fitted" if cell.role == "learnt" else "assumption",
    )


def rows(_: Path | None) -> list[Row]:
    """Measure cells of five storages; needs root, a quiet machine and ten minutes."""
    check_root()
    check_quiet()
    with tempfile.TemporaryDirectory(prefix="headrace-accuracy-") as folder:
        results = Path(folder) / "results"
        site, _file = calibrate(STUDY, results)
        for _ in range(REPEATS_MOST):
            if not remove_disturbed(results):
                break
            site, _file = calibrate(STUDY, results)
        check_was_quiet(results)
    if site.not_measured:
        raise Missing(f"valid trials of {len(site.not_measured)} cells")
    return rows_of(site)


COMPARISON = Comparison(
    title="A site learnt from itself",
    model="`headrace calibrate`: CPU times, drives, network and servers, learnt",
    source="studies/calibrate.toml on this machine: local storage, an emulated disk and SSD, and "
    "an NFS and an XRootD server over links. Checked cells have the most slots; nothing was fitted "
    "to them.",
    null="each cell has the time, or the rate of work, of the nearest cell that was learnt from; "
    "whichever errs less.",
    rows=rows,
    needs_quiet=True,
    notes=(
        REFUSAL,
        "Trials that others may have cost more than 3 % of their time are measured again, whatever "
        "they measured, up to three times.",
        "Structures that were chosen when earlier runs were known: nodes and servers share the "
        "cores of this machine, and busy neighbours slow each workload's cores by its own share "
        "(on one set of measurements the median error changed from 8 to 7 %, and the largest from "
        "24 to 23 %); each format has a CPU time and such a share of its own, and jobs differ "
        "([models](models.md#jobs-that-differ)), which on another set changed the largest from 19 "
        "to 13 %, and the median by less than 1 %.",
        "Since 2026-11-28 two costs of more jobs than cores are learnt: that of turns at a core, "
        "from a warm cell on local storage, and the CPU time that the system spends beside each "
        "job. Runs before were known then: in one, the four checked cells of local storage were 5 "
        "to 11 % too fast. On another set of measurements the second cost changed the median error "
        "of the checked cells from 9 to 6 %, and the largest from 20 to 16 %; the first was too "
        "small to be determined there.",
        "Since 2026-11-29 jobs are compared with those beside them, requests take CPU time beside "
        "jobs, and waits for storage cool the caches ([models](models.md#nodes-and-jobs)). They "
        "were chosen on the measurements of 2026-11-28, where the median error of the checked "
        "cells fell from 10 to 6.5 %, and the largest from 32 to 25 %. This run is of "
        "measurements that were made afterwards; nothing was changed after it.",
        "The machine decides how well it can be told. Of two runs of 2026-11-28, both on a machine "
        "that seemed idle, the first had a median error of 3.2 % (null model: 6.0 %) and a largest "
        "one of 22 %, the second of 10 % (7.9 %) and 32 %. In that one and in this, a scan of a "
        "TTree over NFS with four slots is predicted much too fast: the busier the cores are, the "
        "more CPU time a request takes in the client in user space and in the server.",
        "In runs before 2026-11-27 the simulation read ahead as kernels before 6.16 do: the "
        "analysis's file in 126 requests of the disk, Linux 6.18 in 179 ([large "
        "folios](models.md#page-cache-modelsrcpagecache)).",
    ),
)
