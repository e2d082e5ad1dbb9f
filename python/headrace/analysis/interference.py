"""Records -> CPU time that other programs took while jobs waited for CPUs. Pure.

There is one result for each storage and workload.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.analysis.read import Records
from headrace.analysis.trial_row import TrialRow
from headrace.records.interference import Interference

CODE = "foreign-load"
"""Code of such reasons and warnings in a record."""


@dataclass(frozen=True)
class Disturbance:
    """Foreign load in the trials of one storage and workload."""

    target: str
    workload: str
    looked_at: int
    """Trials whose CPUs were sampled."""
    invalid: tuple[str, ...]
    """Ids of the trials that cannot be trusted because of it; no number uses them."""
    warned: tuple[str, ...]
    """Ids of the trials that count although it may have cost their jobs some time."""
    foreign_cpus: float
    """The most that other programs and the hypervisor took in one of these trials, in CPUs."""
    stolen_cpus: float
    """Those of them that the hypervisor withheld (steal): no program of this machine had them."""
    cpus: float
    """Number of CPUs available to the jobs in that trial."""
    lost_share: float
    """The largest share of the jobs' time that it may have cost in one of these trials."""
    lost_share_counted: float
    """The same among the trials that count; 0 without any."""
    programs: tuple[str, ...]
    """The foreign programs that used the most CPU time, the largest first."""


def disturbances(records: Records) -> tuple[Disturbance, ...]:
    """Return one disturbance for each storage and workload affected by foreign load, in plan
    order."""
    if not len(records):
        return ()
    groups: dict[tuple[str, str], list[TrialRow]] = {}
    for row in records.rows:
        if row["interference"] is not None:
            groups.setdefault((row["target"], row["workload"]), []).append(row)
    return tuple(
        found
        for (target, workload), rows in groups.items()
        if (found := _disturbance(target, workload, rows)) is not None
    )


def _disturbance(target: str, workload: str, rows: list[TrialRow]) -> Disturbance | None:
    invalid = [row for row in rows if CODE in _codes(row["reasons"])]
    warned = [row for row in rows if CODE in _codes(row["warnings"]) and row["valid"]]
    disturbed = [found for row in (*invalid, *warned) if (found := row["interference"]) is not None]
    if not disturbed:
        return None
    most = max(disturbed, key=lambda each: each.foreign_cpus)
    return Disturbance(
        target=target,
        workload=workload,
        looked_at=len(rows),
        invalid=tuple(row["id"] for row in invalid),
        warned=tuple(row["id"] for row in warned),
        foreign_cpus=most.foreign_cpus,
        stolen_cpus=most.stolen_cpus,
        cpus=most.cpus,
        lost_share=max(each.lost_share for each in disturbed),
        lost_share_counted=max(
            (row["interference"].lost_share for row in warned if row["interference"]), default=0.0
        ),
        programs=_programs(disturbed),
    )


def _codes(told: tuple[tuple[str, str], ...]) -> set[str]:
    return {code for code, _ in told}


def _programs(disturbed: list[Interference]) -> tuple[str, ...]:
    """Return the names of the programs that took 5 % of the foreign CPU time or more, over all
    these trials."""
    used_s: dict[str, float] = {}
    for each in disturbed:
        for program in each.programs:
            used_s[program.name] = used_s.get(program.name, 0.0) + program.cpu_s
    least_s = 0.05 * sum(used_s.values())
    return tuple(
        name for name, used in sorted(used_s.items(), key=lambda item: -item[1]) if used >= least_s
    )
