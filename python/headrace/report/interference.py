"""CPU time that other programs took: table rows, a note on an answer, a warning."""

from __future__ import annotations

from typing import TypedDict

from headrace.analysis.findings import Findings
from headrace.analysis.interference import Disturbance
from headrace.report.numbers import number, percent

COLUMNS = ("storage", "invalid", "warned", "CPUs of others", "may have cost", "programs")


class InterferenceRow(TypedDict):
    """One storage and workload, as text."""

    storage: str
    invalid: str
    warned: str
    cpus: str
    lost: str
    programs: str
    trials: tuple[str, ...]


def rows(findings: Findings) -> list[InterferenceRow]:
    """Return one row per storage and workload, all as text; also `trials`."""
    return [
        {
            "storage": f"{each.target}, {each.workload}",
            "invalid": f"{len(each.invalid)} of {each.looked_at}",
            "warned": f"{len(each.warned)} of {each.looked_at}",
            "cpus": f"{number(each.foreign_cpus, 2)} of {each.cpus:g}",
            "lost": percent(each.lost_share),
            "programs": _named(each),
            "trials": (*each.invalid, *each.warned),
        }
        for each in findings.interference
    ]


def note(findings: Findings, target: str, workload: str) -> str:
    """Return a sentence for the answer of a storage and workload whose trials other programs
    disturbed; empty when none."""
    for each in findings.interference:
        if (each.target, each.workload) == (target, workload) and each.warned:
            return (
                f"Other programs ({_named(each)}) were at work in {len(each.warned)} of the "
                "trials of this evidence, and "
                f"may have cost their jobs up to {percent(each.lost_share_counted)} of their "
                "time: a limit of the CPUs "
                "may be theirs."
            )
    return ""


def warning(findings: Findings) -> str:
    """Return the warning above the report for trials that are invalid because of other programs;
    empty when none."""
    invalid = [each for each in findings.interference if each.invalid]
    if not invalid:
        return ""
    count = sum(len(each.invalid) for each in invalid)
    programs = list(dict.fromkeys(name for each in invalid for name in each.programs))[:4]
    most = max(invalid, key=lambda each: each.foreign_cpus)
    return (
        f"{count} {'trial is' if count == 1 else 'trials are'} left out because other programs "
        f"({', '.join(programs) or 'unknown'}) used up to {number(most.foreign_cpus, 2)} of "
        f"{most.cpus:g} CPUs while jobs "
        "waited for one; run them again on a quiet machine (headrace resume --retry-invalid)"
    )


def _named(each: Disturbance) -> str:
    return ", ".join(each.programs[:4]) or "unknown"
