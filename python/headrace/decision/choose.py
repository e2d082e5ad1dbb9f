"""Configurations and wishes -> the feasible ones, the Pareto front, the best of them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from headrace.decision.candidates import Basis, Candidate
from headrace.decision.randomness import Draws
from headrace.decision.wishes import Quantity, Wishes, WishLimit

SHOWN_BETTER = 0.95
"""A configuration is better than others where this share of the draws says so of all of them."""


@dataclass(frozen=True)
class JudgedConfiguration:
    """A configuration, judged by the wishes."""

    candidate: Candidate
    feasible: float
    """Share of the draws in which it is within all limits."""
    broken: tuple[WishLimit, ...]
    """Limits that its values break."""
    unknown: tuple[tuple[Quantity, str], ...]
    """Quantities of the wishes without a value, with the reason."""
    best: float
    """Share of the draws in which it is feasible and has the best value."""
    pareto: bool
    """Whether no feasible one is at least as good in every objective and better in one."""
    alike: bool = False
    """Whether the data do not show it worse than the leading one."""

    @property
    def within(self) -> bool:
        """Return whether its values keep every limit."""
        return not self.broken and not self.unknown


@dataclass(frozen=True)
class Choice:
    """The answer."""

    wishes: Wishes
    basis: Basis
    judged: tuple[JudgedConfiguration, ...]
    """All configurations, the best first; those outside the limits last."""
    recommended: JudgedConfiguration | None
    """None where no configuration keeps the limits, or the data show no difference between
    several."""
    leading: JudgedConfiguration | None
    """The best value within the limits, also where others are not shown worse."""
    runner_up: JudgedConfiguration | None
    """The best of those that are a different storage or different levels, not only other slots."""
    excluding: str
    """What excludes everything; empty when something is feasible."""
    objectives: tuple[Quantity, ...]

    @property
    def alike(self) -> tuple[JudgedConfiguration, ...]:
        """Return the other storages that are not shown worse than the leading one."""
        return tuple(
            each for each in self.judged if each.alike and not _same_storage(each, self.leading)
        )

    @property
    def alike_slots(self) -> tuple[int, ...]:
        """Return the numbers of slots of the leading storage that the data do not tell apart."""
        if self.leading is None:
            return ()
        same = [each for each in self.judged if each.alike and _same_storage(each, self.leading)]
        return tuple(sorted({each.candidate.slots for each in (self.leading, *same)}))


def choose(basis: Basis, wishes: Wishes, objectives: Sequence[Quantity] = ()) -> Choice:
    """Judge every configuration. `objectives`: of the Pareto front, besides the one wanted."""
    candidates = basis.candidates
    wanted = wishes.want
    feasible = np.array([_feasible_draws(one, wishes) for one in candidates])
    score = np.array([_score_draws(one, wanted) for one in candidates])
    shares = _best_shares(feasible, score)
    within = [not _broken(one, wishes) and not _unknown(one, wishes) for one in candidates]
    every = (wanted, *(each for each in objectives if each != wanted))
    meeting = {index: one for index, one in enumerate(candidates) if within[index]}
    known = [each for each in every if any(each.name in one.points for one in meeting.values())]
    front = _front(meeting, known)
    judged = [
        JudgedConfiguration(
            candidate=one,
            feasible=float(feasible[index].mean()),
            broken=_broken(one, wishes),
            unknown=_unknown(one, wishes),
            best=float(shares[index]),
            pareto=index in front,
        )
        for index, one in enumerate(candidates)
    ]
    judged.sort(key=lambda each: (not each.within, _rank(each.candidate, wanted)))
    leading = judged[0] if judged and judged[0].within else None
    judged = _with_alike(judged, leading, wanted)
    leading = judged[0] if leading is not None else None
    others = [each for each in judged[1:] if each.within]
    alike = [each for each in others if each.alike and not _same_storage(each, leading)]
    return Choice(
        wishes=wishes,
        basis=basis,
        judged=tuple(judged),
        recommended=leading if leading is not None and not alike else None,
        leading=leading,
        runner_up=_runner_up(leading, others),
        excluding="" if leading is not None else _excluding(candidates, wishes),
        objectives=tuple(known),
    )


def value_of(candidate: Candidate, quantity: Quantity) -> float | None:
    """Return a quantity's value, None if unknown."""
    return candidate.points.get(quantity.name)


def _rank(candidate: Candidate, wanted: Quantity) -> float:
    value = value_of(candidate, wanted)
    if value is None:
        return float("inf")
    return value if wanted.less_is_better else -value


def _score_draws(candidate: Candidate, wanted: Quantity) -> Draws:
    draws = candidate.draws.get(wanted.name)
    if draws is None:
        return np.full(len(next(iter(candidate.draws.values()))), -np.inf)
    return -draws if wanted.less_is_better else draws


def _feasible_draws(candidate: Candidate, wishes: Wishes) -> npt.NDArray[np.bool_]:
    size = len(next(iter(candidate.draws.values())))
    if _unknown(candidate, wishes):
        return np.zeros(size, dtype=bool)
    kept = np.ones(size, dtype=bool)
    for limit in wishes.limits:
        draws = candidate.draws[limit.quantity.name]
        kept &= draws <= limit.amount if limit.sense == "<=" else draws >= limit.amount
    return kept


def _best_shares(feasible: npt.NDArray[np.bool_], score: Draws) -> Draws:
    """Return the share of the draws in which each is feasible and has the highest score.

    Configurations with the same score share a draw.
    """
    if not len(score):
        return np.zeros(0)
    masked = np.where(feasible, score, -np.inf)
    highest = masked.max(axis=0)
    winners = (masked == highest) & (highest > -np.inf)  # a life may be unlimited
    return (winners / np.maximum(winners.sum(axis=0), 1)).mean(axis=1)


def _broken(candidate: Candidate, wishes: Wishes) -> tuple[WishLimit, ...]:
    return tuple(
        limit
        for limit in wishes.limits
        if (value := value_of(candidate, limit.quantity)) is not None and not limit.holds(value)
    )


def _unknown(candidate: Candidate, wishes: Wishes) -> tuple[tuple[Quantity, str], ...]:
    return tuple(
        (each, _why_unknown(candidate, each, "its trials"))
        for each in wishes.quantities
        if value_of(candidate, each) is None
    )


def _why_unknown(candidate: Candidate, quantity: Quantity, trials: str) -> str:
    """Return why a configuration has no value of a quantity; of a mix, which workloads lack it."""
    if quantity.name in candidate.costs.unknown:
        return candidate.costs.unknown[quantity.name]
    having = {
        each.workload: not np.isnan(each.values.get(quantity.name, (np.nan,))).all()
        for each in candidate.evidence
    }
    lacking = [name for name, has in having.items() if not has]
    if not lacking or len(lacking) == len(having):
        return f"{trials} have no such value"
    return (
        f"trials of {', '.join(lacking)} have no such value, and it is of a mix of all workloads; "
        "--mix leaves workloads out"
    )


def _front(candidates: Mapping[int, Candidate], objectives: Sequence[Quantity]) -> set[int]:
    """Return the indices of the candidates that no other is shown to beat.

    One with an unknown objective could be the better one in it: it is compared with those alone of
    which the same objectives are known.
    """
    values = {
        index: {
            each.name: (-1 if each.less_is_better else 1) * one.points[each.name]
            for each in objectives
            if each.name in one.points
        }
        for index, one in candidates.items()
    }

    def beaten(mine: dict[str, float]) -> bool:
        return any(
            other.keys() == mine.keys()
            and other != mine
            and all(other[name] >= mine[name] for name in mine)
            for other in values.values()
        )

    return {index for index, mine in values.items() if not beaten(mine)}


def _with_alike(
    judged: list[JudgedConfiguration], leading: JudgedConfiguration | None, wanted: Quantity
) -> list[JudgedConfiguration]:
    """Mark the configurations within the limits that are not shown worse than the leading one.

    Those of other storages are shown worse all together, and so are other numbers of slots of the
    leading storage: among many, one is the best of a draw by chance alone.
    """
    if leading is None:
        return judged
    lead = _score_draws(leading.candidate, wanted)
    ahead = {
        number: ~(_score_draws(each.candidate, wanted) < lead)
        for number, each in enumerate(judged)
        if each is not leading and each.within
    }
    alike: set[int] = set()
    for same in (True, False):
        mine = {n: one for n, one in ahead.items() if _same_storage(judged[n], leading) == same}
        alike |= _not_shown_worse(mine)
    return [replace(each, alike=number in alike) for number, each in enumerate(judged)]


def _not_shown_worse(ahead: Mapping[int, npt.NDArray[np.bool_]]) -> set[int]:
    """Return which are left when as many as possible are behind together in `SHOWN_BETTER` of the
    draws. `ahead`: the draws in which each is not behind."""
    order = sorted(ahead, key=lambda number: float(ahead[number].mean()))
    together: npt.NDArray[np.bool_] | None = None
    for place, number in enumerate(order):
        together = ahead[number] if together is None else together | ahead[number]
        if 1 - together.mean() < SHOWN_BETTER:
            return set(order[place:])
    return set()


def _runner_up(
    leading: JudgedConfiguration | None, others: Sequence[JudgedConfiguration]
) -> JudgedConfiguration | None:
    if leading is None or not others:
        return None
    return next((each for each in others if not _same_storage(each, leading)), others[0])


def _same_storage(a: JudgedConfiguration, b: JudgedConfiguration | None) -> bool:
    """Return whether two configurations differ in slots only."""
    return b is not None and a.candidate.storage == b.candidate.storage


def _excluding(candidates: Sequence[Candidate], wishes: Wishes) -> str:
    """Return which wish excludes every configuration, or which come nearest together."""
    if not candidates:
        return "no configuration has a valid trial of every workload; --mix leaves workloads out"
    for quantity in wishes.quantities:
        if all(value_of(one, quantity) is None for one in candidates):
            why = _why_unknown(candidates[0], quantity, "the trials")
            return f"{quantity.title} is unknown for every configuration: {why}"
    for limit in wishes.limits:
        values = [value_of(one, limit.quantity) for one in candidates]
        known = [value for value in values if value is not None]
        if known and not any(limit.holds(value) for value in known):
            nearest = min(known) if limit.sense == "<=" else max(known)
            found = limit.written(nearest)
            return f"{limit.text} excludes every configuration; the nearest has {found}"
    counts = dict.fromkeys(wishes.limits, 0)
    for one in candidates:
        broken = _broken(one, wishes)
        if len(broken) == 1 and not _unknown(one, wishes):
            counts[broken[0]] += 1
    worst = max(counts, key=lambda limit: counts[limit], default=None)
    if worst is None or not counts[worst]:
        return "no configuration keeps all limits: every one breaks two or lacks a value"
    return (
        f"no configuration keeps all limits together; without {worst.text}, {counts[worst]} would"
    )
