"""Exposure of data while a failed drive is rebuilt: closed forms.

Drives fail independently, at a constant rate λ that follows from the annualised failure rate (AFR):
AFR = 1 − exp(−λ · 1 year). A failed drive is replaced at once and rebuilt in T = capacity ÷ rate.
Data are lost when so many further drives of the same group fail within T that no copy is left. With
p = 1 − exp(−λT), of m further drives k or more fail with the probability

    Q(m, k) = Σ_{i=k..m} C(m, i) pⁱ (1−p)^(m−i),

and a group of n drives loses data n λ Q(n−1, k) times a year. For k = 1 and small λT this is
n (n−1) λ² T, the reciprocal of the mean time to data loss of Patterson, Gibson and Katz, "A case
for redundant arrays of inexpensive disks (RAID)", SIGMOD 1988; for k = 2 that of RAID 6 in Chen et
al., "RAID: high-performance, reliable secondary storage", ACM Computing Surveys 26 (1994).
Unreadable sectors and failures with a common cause, which make losses more frequent, are not in
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

HOURS_PER_YEAR = 8766.0


@dataclass(frozen=True)
class RedundantGroup:
    """Equal groups of units (drives, or arrays without redundancy) that hold copies or parity of
    each other's data."""

    groups: int
    units: int
    """In each group."""
    fatal: int
    """Number of further units, besides the first, whose failure loses data; 0: the first does."""
    drives: int = 1
    """Of each unit: a RAID 0 fails with any of its drives."""


def group_of(level: int | None, hosts: int, drives: int, copies: float) -> RedundantGroup | None:
    """Return the groups of `hosts` machines with `drives` drives each.

    `level`: of the RAID of a host's drives, None without one. `copies`: bytes stored per byte of
    data, up to a filesystem's share. Copies are spread over all hosts, so that the loss of any
    further ones loses data. None for what is not modelled: copies of arrays that are redundant
    themselves, and erasure coding.
    """
    if abs(copies - round(copies)) > 0.12 or (round(copies) > 1 and level not in (None, 0)):
        return None
    whole = drives if level == 0 else 1
    units = hosts * drives // whole
    match level:
        case 1:
            return RedundantGroup(hosts, drives, drives - 1)
        case 5 | 6:
            return RedundantGroup(hosts, drives, level - 4)
        case 10:
            return RedundantGroup(hosts * drives // 2, 2, 1)
        case _:
            return RedundantGroup(1, units, min(round(copies), units) - 1, whole)


def rate_per_year(afr: float) -> float:
    """Return λ for an annualised failure rate."""
    return math.inf if afr >= 1 else -math.log1p(-afr)


def fails_meanwhile(afr: float, group: RedundantGroup, hours: float, count: int = 1) -> float:
    """Return the probability that `count` or more further units of a group fail within `hours`."""
    others = group.units - 1
    p = -math.expm1(-rate_per_year(afr) * group.drives * hours / HOURS_PER_YEAR)
    return math.fsum(
        math.comb(others, i) * p**i * (1 - p) ** (others - i) for i in range(count, others + 1)
    )


def losses_per_year(afr: float, group: RedundantGroup, hours: float) -> float:
    """Return the expected number of data losses per year of all groups together."""
    first = group.groups * group.units * group.drives * rate_per_year(afr)
    return first * (fails_meanwhile(afr, group, hours, group.fatal) if group.fatal else 1.0)
