"""Every built-in workload, measured and simulated: `headrace compare --model`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headrace.analysis.model_error import CellError
from headrace.library import model_errors
from quiet import REFUSAL, check_quiet, check_root, check_was_quiet, headrace
from rows import Comparison, Missing, Row, relative

STUDIES = Path(__file__).parents[3] / "studies"
INVALID_TRIALS = 5
"""Exit code of a calibration that is not to be trusted: its errors are what is shown."""


CHOSEN_AFTER = ("analysis", "skim", "metadata")
"""Workloads whose rows depend on a structure that was chosen when they were known."""


def row_of(cell: CellError, null_s: float) -> Row:
    """Return a cell with the parts of its error."""
    return relative(
        f"{cell.target}, {cell.workload}",
        "s",
        cell.simulated_s.value,
        cell.real_s.value,
        null_s,
        "assumption" if cell.workload in CHOSEN_AFTER else "predicted",
        f"CPU {100 * cell.of_cpu:+.1f} %, waits for storage {100 * cell.of_waits:+.1f} %",
    )


def rows(_: Path | None) -> list[Row]:
    """Measure and simulate; needs root, a quiet machine and quarter of an hour."""
    check_root()
    check_quiet()
    with tempfile.TemporaryDirectory(prefix="headrace-accuracy-") as folder:
        place = Path(folder)
        study, learnt = STUDIES / "model-error.toml", STUDIES / "model-error-site.toml"
        accepted = (0, INVALID_TRIALS)
        headrace(
            "calibrate", learnt, "--out", place / "site.toml", "--results", place / "learnt",
            "--check", "0", accepted=accepted,
        )  # fmt: skip
        check_was_quiet(place / "learnt")
        headrace("run", study, "--results", place / "measured", accepted=accepted)
        check_was_quiet(place / "measured")
        headrace("simulate", study, "--results", place / "default")
        site = ("--site", place / "site.toml")
        headrace("simulate", study, *site, "--results", place / "simulated")
        errors = model_errors(place / "measured", place / "simulated")
        without = model_errors(place / "measured", place / "default")
    if errors.only_real or errors.only_simulated:
        raise Missing(f"cells {', '.join((*errors.only_real, *errors.only_simulated))}")
    nulls = {(each.target, each.workload): each.simulated_s.value for each in without.cells}
    return [row_of(each, nulls[each.target, each.workload]) for each in errors.cells]


COMPARISON = Comparison(
    title="Workloads measured and simulated",
    model="jobs alone on this machine's storage and on an emulated disk and SSD",
    source="studies/model-error.toml on this machine, each job alone with a cold cache. What the "
    "simulation knows of the machine is learnt from other cells (studies/model-error-site.toml: "
    "warm jobs, fewer events, smaller files).",
    null="the simulation with the catalog's values, without anything learnt of the machine.",
    rows=rows,
    needs_quiet=True,
    notes=(
        "This machine's storage is a disk of a virtual machine, whose host has other guests. A run "
        "two hours before this one, of the same day, was as quiet by what the machine can see, and "
        "had 1.33 s for random reads (-73 %) and 0.71 s for reads (-43 %) there; its other rows "
        "were within 12 %.",
        REFUSAL,
        "The emulated drives are those of the simulation, so their rows show errors of kernel, "
        "file system and jobs. The machine's own storage is a drive of the catalog whose values "
        "are learnt.",
        "Two structures were chosen when earlier runs of these rows were known: read-ahead in "
        "large folios, whose rules are those of the kernel's code, and a time of creating files "
        "for each target, for which this study got cells. Rows that they change are "
        "assumptions. The run before had neither: analysis on the disk -13 % and skim -8 %, "
        "metadata on the emulated drives +94 and +80 %, half of all rows within 5.6 %.",
        "Sequential reads here: memory that the page cache gave back costs ten times the CPU time "
        "when it is used again (1.1 to 1.4 against 0.13 ms per MiB on this virtual machine, whose "
        "host takes back what is free), which the simulation does not know.",
    ),
)
