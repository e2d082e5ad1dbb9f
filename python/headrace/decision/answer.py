"""The answer of `headrace decide`, with everything that the terminal and the page show. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.decision.choose import Choice
from headrace.decision.offers import Offers
from headrace.decision.sensitivity import (
    Change,
    DecisionInputs,
    Measurement,
    changes,
    next_measurement,
)
from headrace.decision.wishes import Quantity, own_quantity

OBJECTIVES = ("price", "usable", "power")
"""Of the Pareto front, besides what is wanted and the job efficiency, where they are known."""


@dataclass(frozen=True)
class DecisionAnswer:
    """What to buy, how sure that is, and what would change it."""

    choice: Choice
    offers: Offers
    changes: tuple[Change, ...]
    next_measurement: Measurement | None


def objectives_of(wanted: Quantity, efficiency: Quantity) -> tuple[Quantity, ...]:
    """Return the objectives of the Pareto front: what is wanted, efficiency, price, capacity,
    power."""
    every = (wanted, efficiency, *(own_quantity(name) for name in OBJECTIVES))
    return tuple(dict.fromkeys(every))


def answer(inputs: DecisionInputs) -> DecisionAnswer:
    """Return the answer. Raises RefusedError when no trial can be used."""
    choice = inputs.decide()
    return DecisionAnswer(choice, inputs.offers, changes(inputs, choice), next_measurement(choice))
