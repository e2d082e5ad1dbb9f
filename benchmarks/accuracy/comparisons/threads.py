"""Jobs of two threads, simulated with what jobs of one thread told."""

from __future__ import annotations

import tempfile
from pathlib import Path

from headrace.library import model_errors
from quiet import REFUSAL, check_quiet, check_root, check_was_quiet, headrace
from rows import Comparison, Row, relative

STUDY = Path(__file__).parents[3] / "studies" / "threads.toml"
INVALID_TRIALS = 5
"""Exit code of a study with trials that do not count: its errors are what is shown."""


def rows(_: Path | None) -> list[Row]:
    """Measure and simulate; needs root, a quiet machine and six minutes."""
    check_root()
    check_quiet()
    with tempfile.TemporaryDirectory(prefix="headrace-accuracy-") as folder:
        place = Path(folder)
        accepted = (0, INVALID_TRIALS)
        headrace(
            "calibrate", STUDY, "--out", place / "site.toml", "--results", place / "learnt",
            "--check", "0", accepted=accepted,
        )  # fmt: skip
        check_was_quiet(place / "learnt")
        headrace("run", STUDY, "--results", place / "measured", accepted=accepted)
        check_was_quiet(place / "measured")
        site = ("--site", place / "site.toml")
        headrace("simulate", STUDY, *site, "--results", place / "simulated")
        cells = model_errors(place / "measured", place / "simulated").cells
    of_one = {
        (each.target, each.levels["format"]): each.real_s.value
        for each in cells
        if each.levels["threads"] == 1
    }
    return [
        relative(
            f"{each.target}, {each.levels['format']}, threads: {each.levels['threads']}",
            "s",
            each.simulated_s.value,
            each.real_s.value,
            of_one[each.target, each.levels["format"]] / 2 if each.levels["threads"] == 2 else None,
            # Large reads were given their requests when rows of two threads were known.
            "assumption" if each.levels["threads"] == 2 else "fitted",
            f"CPU {100 * each.of_cpu:+.1f} %, waits for storage {100 * each.of_waits:+.1f} %",
        )
        for each in cells
    ]


COMPARISON = Comparison(
    title="Threads of a job",
    model="analyses by RDataFrame with two threads",
    source="studies/threads.toml on this machine, each job alone with a cold cache. CPU times and "
    "this machine's storage are learnt by `headrace calibrate` from jobs of one thread alone.",
    null="half of the time that was measured with one thread.",
    rows=rows,
    needs_quiet=True,
    notes=(
        REFUSAL,
        "Rows of one thread are those that the CPU times are learnt from, with another repeat.",
        "A first run on 2026-11-27 predicted two threads with large reads in windows of 128 KiB: "
        "half of the six rows within 14 %, the worst +68 % (RNTuple on the disk). They go in "
        "requests of up to 1280 KiB since, as in Linux (docs/models.md), which was chosen when "
        "these rows were known: now they are assumptions.",
        "What is left for TTrees is CPU time: two threads of RDataFrame take more of it together "
        "than one, which the model does not know.",
    ),
)
