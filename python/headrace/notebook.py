"""Headrace in a notebook: what another drive, or more slots, would change for a job.

found = headrace.what_if("cms-tau-analysis", drives=["wd-wd3200bekt", "samsung-870-evo-1tb"])
found                                      # table and figure
found.table                                # the same as a data frame
"""

from __future__ import annotations

import operator
import re
import tempfile
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

from headrace.errors import StudyError, UsageError
from headrace.library import load_study, report
from headrace.profiles.shared_files import shared_files_note
from headrace.profiles.steps import profile_path
from headrace.profiles.study_text import drives_named_in, study_text

if TYPE_CHECKING:
    import pandas as pd

    from headrace.library.shown import ShownFindings

DRIVES = ("seagate-exos-x24-24tb", "samsung-870-evo-1tb")
SLOTS = (1, 2, 4, 8)


@dataclass(frozen=True)
class WhatIf:
    """A job on other storage, simulated. A notebook shows its table and its figure."""

    study: str
    """The text of the study that was simulated; `headrace run` does the same with real jobs."""
    findings: ShownFindings
    note: str = ""
    """What to know about the numbers: that jobs share files, which they get from memory."""

    @property
    def metric(self) -> str:
        """The metric of the figure: `events_per_s` where the job counts events."""
        from headrace.library.shown import main_metric_of

        return main_metric_of(self.findings)

    @property
    def table(self) -> pd.DataFrame:
        """One row for each storage and number of slots, in the metrics' own units."""
        return self.findings.table

    @property
    def figure(self) -> str:
        """The metric against the load, as the text of an SVG picture."""
        return self.findings.figure

    def _repr_html_(self) -> str:
        from headrace.library.shown import four_digits

        rows: str = self.table.to_html(index=False, float_format=four_digits, border=0)
        title = escape(self.findings.title)
        note = f"<p>{escape(self.note)}</p>" if self.note else ""
        return f"<p><strong>{title}</strong>, simulated</p>{note}{rows}{self.figure}"


def what_if(
    job: str | Path,
    *,
    drives: str | Path | Iterable[str | Path] = DRIVES,
    slots: SupportsIndex | Iterable[SupportsIndex] = SLOTS,
    nodes: SupportsIndex = 1,
    shared_link: str | None = None,
) -> WhatIf:
    """Simulate a job on drives, with each number of slots; needs no root.

    `job`: a profile that `headrace record` wrote (a path), or one of the catalog (a name).
    `drives`: names of the catalog, or files (`headrace drive learn` writes them).
    `shared_link`: puts the drive into one NFS server behind this link, such as "10 GbE"; a drive in
    each node when None. Whole numbers of NumPy and pandas are numbers, too. Raises UsageError
    without a drive or a number of slots and for what is no whole number, StudyError for a job,
    drive or number that cannot be simulated.
    """
    named = [drives] if isinstance(drives, str | Path) else drives
    drives = [str(each) for each in named]
    given_slots = slots if isinstance(slots, Iterable) else (slots,)
    whole = (given_slots,) if isinstance(given_slots, str) else given_slots
    counts, node_count = [_whole("slots", each) for each in whole], _whole("nodes", nodes)
    for what, given in (("drives", drives), ("slots", counts)):
        if not given:
            raise UsageError(f"{what}: at least one is needed")
        if twice := [each for each, count in Counter(map(str, given)).items() if count > 1]:
            raise UsageError(f"{what}: duplicate {', '.join(twice)}")
    path = Path(job)
    if not path.name:
        raise UsageError(f"job: {str(job)!r} is not a profile")
    recorded = path.suffix == ".toml" or path.with_suffix(".toml").is_file()
    name = str(profile_path(path, "job").resolve()) if recorded else str(job)
    with tempfile.TemporaryDirectory(prefix="headrace-what-if-") as folder:
        drives = drives_named_in(Path(folder), drives)
        text = study_text(name, drives, node_count, counts, shared_link)
        file = Path(folder) / "study.toml"
        file.write_text(text, encoding="utf-8")
        with _without_place():
            loaded = load_study(file)
        results = loaded.simulate(Path(folder) / "results")
        findings, _ = report(results, ())
        note = shared_files_note(text, Path(folder), node_count * max(counts))
    return WhatIf(text, findings, note)


def _whole(what: str, given: object) -> int:
    """Return a whole number of Python, NumPy or pandas. Raises UsageError for anything else."""
    if isinstance(given, SupportsIndex) and not isinstance(given, bool):
        with suppress(TypeError):  # an array of several numbers
            return operator.index(given)
    raise UsageError(f"{what}: must be a whole number (given: {given!r})")


@contextmanager
def _without_place() -> Generator[None]:
    """Name the arguments of `what_if` in the problems of its study, each problem once: the caller
    never sees that file."""
    try:
        yield
    except StudyError as error:
        problems = [
            replace(each, file=Path("what_if"), line=0, field=_argument(each.field))
            for each in error.problems
        ]
        # One argument is in several places of the study.
        raise StudyError(list(dict.fromkeys(problems))) from None


def _argument(field: str) -> str:
    """Return the argument that a field of the study is made from, the field where none is."""
    return next((name for name, made in _MADE.items() if re.fullmatch(made, field)), field)


_MADE = {
    "job": r"workload\.job(\.profile)?",
    "drives": r"factors\.(drive|target)(\[\d+\])?|target\..*drive",
    "slots": r"factors\.slots(\[\d+\])?",
    "nodes": r"site\.node\.count",
    "shared_link": r"site\.(node|server\.nas)\.link",
}
"""Argument of `what_if` -> the fields of the study that are made from it."""
