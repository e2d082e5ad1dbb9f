"""Screening: which configurations could be the best within the model's error. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.decision.choose import Choice, JudgedConfiguration
from headrace.errors import RefusedError

KEPT_PROBABILITY = 0.95
"""Probability that the best configuration is among those that are kept."""


@dataclass(frozen=True)
class Screening:
    """Configurations of a simulated study, divided into those that could win and the others."""

    choice: Choice
    kept: tuple[JudgedConfiguration, ...]
    """The most probable first."""
    left_out: tuple[JudgedConfiguration, ...]
    """Likewise."""
    unknown: dict[str, str]
    """Configurations that are kept because they cannot be judged, with the reason."""


@dataclass(frozen=True)
class ScreenedTrials:
    """What a screening leaves of a study's plan."""

    before: int
    after: int
    before_s: float
    """Expected time of all trials, as `headrace plan` says it."""
    after_s: float
    dropped: dict[str, tuple[object, ...]]
    """Factor -> levels that no trial has any more."""


def screen(choice: Choice, unknown: dict[str, str]) -> Screening:
    """Return the smallest set of configurations that holds the best with `KEPT_PROBABILITY`.

    `unknown`: those without a valid simulation, with the reason. Raises RefusedError when none of
    the others is within the limits in any draw.
    """
    ranked = sorted(choice.judged, key=lambda each: -each.best)
    total = sum(each.best for each in ranked)
    if total <= 0:
        excluding = choice.excluding or "no configuration is within the limits"
        limited = any(each.broken for each in ranked)
        raise RefusedError(
            f"the simulation leaves nothing to measure: {excluding}",
            hint="a wider limit of --within" if limited else "another metric for --want",
        )
    kept: list[JudgedConfiguration] = []
    held = 0.0
    for each in ranked:
        # Rounding must not add one more.
        if held >= KEPT_PROBABILITY * total - 1e-9:
            break
        kept.append(each)
        held += each.best
    return Screening(choice, tuple(kept), tuple(ranked[len(kept) :]), unknown)
