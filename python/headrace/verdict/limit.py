"""What limits a program; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.verdict.observation import STORAGE, Access, Observation, ShareKind

LimitKind = Literal["too-short", "nothing", ShareKind]
SHORTEST_S = 0.5
"""A shorter run is the start of a program: libraries and imports."""


_MOST_OF_IT = 0.5


@dataclass(frozen=True)
class ProgramLimit:
    """What held the program back most."""

    kind: LimitKind
    where: str = ""
    fraction: float = 0.0
    """Part of the wall time."""
    access: Access | None = None
    """The reads on the place, if it is storage and they are known."""


def limit_of(seen: Observation) -> ProgramLimit:
    """Return the largest part of the wall time; parts of storage count for each place alone."""
    if seen.wall_s < SHORTEST_S:
        return ProgramLimit("too-short")
    if not seen.shares:
        return ProgramLimit("nothing")
    share = max(seen.shares, key=lambda each: each.seconds)
    fraction = share.seconds / seen.wall_s
    if share.kind not in STORAGE:
        return ProgramLimit(share.kind, share.where, fraction)
    access = next((each for each in seen.accesses if each.place.name == share.where), None)
    return ProgramLimit(share.kind, share.where, fraction, access)


def faults_limit(seen: Observation, limit: ProgramLimit) -> bool:
    """Return whether page faults are most of what limits the program."""
    faults = seen.faults
    return (
        faults is not None
        and faults.place.name == limit.where
        and faults.seconds > _MOST_OF_IT * limit.fraction * seen.wall_s
    )
