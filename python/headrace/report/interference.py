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
            "cpus": f"{number(each.foreign_cpus, 2)} of {each.cpus:g}"
            + (f", {number(each.stolen_cpus, 2)} by steal" if _stolen(each) else ""),
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
                f"{_who(each)} in {len(each.warned)} of the trials of this evidence, and "
                f"may have cost their jobs up to {percent(each.lost_share_counted)} of their "
                "time: a limit of the CPUs may be theirs."
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
        f"{count} {'trial is' if count == 1 else 'trials are'} left out because "
        f"{_took(most, programs)} while jobs waited for one; run them again on a quiet "
        "machine (headrace resume --retry-invalid)"
    )


_FEW_CPUS = 0.05
"""CPUs that say nothing: programs that use fewer are not blamed for steal."""


def _stolen(each: Disturbance) -> bool:
    return each.stolen_cpus >= max(_FEW_CPUS, 0.01 * each.cpus)


def _by_programs(each: Disturbance) -> float:
    return max(0.0, each.foreign_cpus - each.stolen_cpus)


def _took(most: Disturbance, programs: list[str]) -> str:
    """Return who took how many CPUs: the hypervisor by itself, programs by name."""
    told: list[str] = []
    if not _stolen(most) or _by_programs(most) >= _FEW_CPUS:
        told.append(
            f"other programs ({', '.join(programs) or 'unknown'}) used up to "
            f"{number(_by_programs(most) if _stolen(most) else most.foreign_cpus, 2)}"
        )
    if _stolen(most):
        told.append(f"the hypervisor withheld up to {number(most.stolen_cpus, 2)}")
    return f"{' and '.join(told)} of {most.cpus:g} CPUs"


def _who(each: Disturbance) -> str:
    if not _stolen(each):
        return f"Other programs ({_named(each)}) were at work"
    if _by_programs(each) < _FEW_CPUS:
        return "The hypervisor withheld CPUs (steal)"
    return f"Other programs ({_named(each)}) were at work, and the hypervisor withheld CPUs,"


def _named(each: Disturbance) -> str:
    return ", ".join(each.programs[:4]) or "unknown"
