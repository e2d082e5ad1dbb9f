"""What would change the answer, and which measurement would reduce the doubt most. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.analysis.read import Records
from headrace.decision.candidates import DRAWS, Basis, Candidate, basis_of
from headrace.decision.choose import Choice, JudgedConfiguration, choose
from headrace.decision.offers import Offers
from headrace.decision.randomness import Draws
from headrace.decision.wishes import Quantity, Wishes, WishLimit

FACTORS = (1.25, 1.5, 2.0, 3.0, 4.0)
"""By how much an input is changed, both ways, to see whether another configuration leads."""

SHARES = (0.1, 0.25, 0.75, 0.9, 1.0)
"""Shares of the events that are tried for each workload."""

STORAGES_AT_NODES = 4
"""How many storages, the best of each, are simulated with more nodes."""

FEW_DRAWS = 2
"""For questions about the leading configuration, which follows from values without draws."""


@dataclass(frozen=True)
class Change:
    """A change of one input that makes another configuration lead."""

    what: str
    leads: str
    """Key of the configuration that then leads; empty when none is left."""


@dataclass(frozen=True)
class Measurement:
    """The next measurement, and what it is worth."""

    key: str
    how: str
    gain: float
    """Expected gain of the wanted quantity by knowing this configuration's value exactly, as a
    share of the leading one's."""


@dataclass(frozen=True)
class DecisionInputs:
    """Everything that a decision is computed from."""

    sets: Sequence[Records]
    offers: Offers
    wishes: Wishes
    shares: Mapping[str, float] | None
    model_error: float | None
    objectives: Sequence[Quantity]
    at_nodes: Callable[[Collection[str], int], Sequence[Records]] | None = None
    """Simulates configurations (`Candidate.configuration`) with another number of nodes; None where
    that cannot be."""

    def decide(self, draws: int = DRAWS) -> Choice:
        """Return the answer for these inputs."""
        wishes = self.wishes
        every = (*wishes.quantities, *wishes.shown, *self.objectives)
        names = [each.name for each in every]
        basis = basis_of(
            self.sets, self.offers, self.shares, self.model_error, metrics=names, draws=draws
        )
        return choose(basis, wishes, self.objectives)


def changes(inputs: DecisionInputs, choice: Choice) -> tuple[Change, ...]:
    """Return the smallest change of each input, up to a factor of 4, that changes the leading
    configuration."""
    if choice.leading is None:
        return ()
    lead = choice.leading.candidate.key
    found: list[Change | None] = []
    offers = inputs.offers

    def with_offers(changed: Offers) -> Choice:
        return replace(inputs, offers=changed).decide(FEW_DRAWS)

    if offers.electricity is not None and _matters(inputs.wishes, ("cost",)):
        found.append(
            _first(
                lead,
                "an electricity price",
                f"{offers.currency} per kWh",
                offers.electricity.price,
                lambda f: with_offers(_electricity(offers, f)),
            )
        )
    if any(quantity.unit == "currency" for quantity in inputs.wishes.quantities):
        used = {
            (part.what, part.name): part.each
            for each in choice.judged
            for part in each.candidate.costs.parts
            if part.each
        }
        for (what, name), each in sorted(used.items()):
            found.append(
                _first(
                    lead,
                    "a price",
                    f"{offers.currency} for the {what} {name}",
                    each,
                    lambda f, what=what, name=name: with_offers(_offer(offers, what, name, f)),
                )
            )
    for limit in inputs.wishes.limits:
        found.append(_limit(lead, limit, choice, inputs))
    found += _mixes(lead, inputs, choice.basis)
    found += [_slots(choice), _nodes(choice, inputs)]
    return tuple(each for each in found if each is not None)


def _matters(wishes: Wishes, names: Sequence[str]) -> bool:
    return any(quantity.name in names for quantity in wishes.quantities)


def _first(
    lead: str, what: str, unit: str, price: float, decided: Callable[[float], Choice]
) -> Change | None:
    """Return the smallest of the factors, up or down, that makes another one lead."""
    for factor in FACTORS:
        for each, text in ((factor, f"× {factor:g}"), (1 / factor, f"÷ {factor:g}")):
            now = decided(each).leading
            if now is None or now.candidate.key != lead:
                changed = f"{what} of {_money(price * each)} {unit} instead of {_money(price)}"
                return Change(f"{changed} ({text})", "" if now is None else now.candidate.key)
    return None


def _money(value: float) -> str:
    """Return a price with three significant digits or more: `0.225`, `209.98`, `4000`."""
    digits = 2 if value >= 1 else 2 - math.floor(math.log10(value))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _electricity(offers: Offers, factor: float) -> Offers:
    if offers.electricity is None:
        return offers
    stated = offers.electricity
    changed = stated.model_copy(update={"price": stated.price * factor})
    return offers.model_copy(update={"electricity": changed})


def _offer(offers: Offers, what: str, name: str, factor: float) -> Offers:
    shelf = dict(getattr(offers, what))
    shelf[name] = shelf[name].model_copy(update={"price": shelf[name].price * factor})
    return offers.model_copy(update={what: shelf})


def _limit(lead: str, limit: WishLimit, choice: Choice, inputs: DecisionInputs) -> Change | None:
    """Return the nearest amount of a limit that lets in a better configuration."""
    wanted = inputs.wishes.want
    leading = choice.judged[0].candidate.points[wanted.name]
    better = [
        each
        for each in choice.judged
        if each.broken == (limit,)
        and not each.unknown
        and (
            each.candidate.points[wanted.name] < leading
            if wanted.less_is_better
            else each.candidate.points[wanted.name] > leading
        )
    ]
    if not better:
        return None
    values = [(each.candidate.points[limit.quantity.name], each) for each in better]
    amount, first = (
        min(values, key=lambda v: v[0]) if limit.sense == "<=" else max(values, key=lambda v: v[0])
    )
    shown = limit.text.split(limit.sense)[0].strip()
    return Change(f"a limit of {shown} {limit.sense} {limit.written(amount)}", first.candidate.key)


def _mixes(lead: str, inputs: DecisionInputs, basis: Basis) -> list[Change | None]:
    """Return for each workload whether more or less of it changes the leading configuration.

    Of two workloads, less of one is more of the other: it is said once.
    """
    if len(basis.shares) < 2:
        return []
    found: list[Change | None] = []
    for name, present in basis.shares.items():
        tried = [share for share in SHARES if share > present or len(basis.shares) > 2]
        for share in sorted(tried, key=lambda share: abs(share - present)):
            rest = 1 - present
            others = {
                other: value / rest * (1 - share)
                for other, value in basis.shares.items()
                if other != name
            }
            mixed = replace(inputs, shares={name: share, **others})
            now = mixed.decide(FEW_DRAWS).leading
            if now is not None and now.candidate.key != lead:
                found.append(
                    Change(f"{share * 100:g} % of the events of {name}", now.candidate.key)
                )
                break
    return found


def _best_by_storage(choice: Choice) -> list[JudgedConfiguration]:
    """Return the best configuration of each storage within the limits, the leading one first."""
    found: dict[str, JudgedConfiguration] = {}
    for each in choice.judged:  # the best first
        if each.within:
            found.setdefault(each.candidate.storage, each)
    return list(found.values())


def _slots(choice: Choice) -> Change | None:
    """Return the nearest number of slots with which another storage leads."""
    lead = choice.judged[0].candidate
    first: dict[int, Candidate] = {}
    for each in choice.judged:  # the best first
        if each.within:
            first.setdefault(each.candidate.slots, each.candidate)
    for slots in sorted(first, key=lambda slots: abs(math.log(slots / lead.slots))):
        if first[slots].storage != lead.storage:
            number = f"{slots} slot{'' if slots == 1 else 's'} per node instead of {lead.slots}"
            return Change(number, first[slots].key)
    return None


def _nodes(choice: Choice, inputs: DecisionInputs) -> Change | None:
    """Return the smaller of twice and four times the nodes with which another storage leads.

    The best configurations of the storages within the limits are simulated. Limits are not applied:
    those of price and power hold for the number of nodes that was asked for.
    """
    leads = [each.candidate for each in _best_by_storage(choice)[:STORAGES_AT_NODES]]
    if inputs.at_nodes is None or len(leads) < 2 or not inputs.wishes.want.of_records:
        return None
    for factor in (2, 4):
        nodes = leads[0].nodes * factor
        first = _leads_at_nodes(leads, nodes, inputs)
        if first is None:
            return None
        if first.storage == leads[0].storage:
            continue
        # With more nodes another number of slots may be the best of a storage.
        both = (first.storage, leads[0].storage)
        every = [
            each.candidate
            for each in choice.judged
            if each.within and each.candidate.storage in both
        ]
        first = _leads_at_nodes(every, nodes, inputs, shown_over=leads[0].storage)
        if first is not None and first.storage != leads[0].storage:
            return Change(f"{nodes} nodes instead of {leads[0].nodes}", first.key)
    return None


def _leads_at_nodes(
    candidates: Sequence[Candidate], nodes: int, inputs: DecisionInputs, shown_over: str = ""
) -> Candidate | None:
    """Return which of these configurations leads with another number of nodes, None where that
    cannot be simulated.

    `shown_over`: a storage. None also where the repeats do not show the leading configuration
    better than each one of it: chance must not look like an effect of the nodes.
    """
    if inputs.at_nodes is None:
        return None
    sets = inputs.at_nodes([each.configuration for each in candidates], nodes)
    if not sets:
        return None
    # Of all storages the error of the model is that of the answer: only the nodes differ.
    wishes = replace(inputs.wishes, limits=())
    alone = replace(inputs, sets=sets, wishes=wishes, model_error=0.0)
    scaled = alone.decide(DRAWS if shown_over else FEW_DRAWS)
    named = {_name_of(each): each for each in candidates}
    if scaled.leading is None or _name_of(scaled.leading.candidate) not in named:
        return None
    alike = {_name_of(each.candidate) for each in scaled.judged if each.alike}
    if any(_name_of(each) in alike for each in candidates if each.storage == shown_over):
        return None
    return named[_name_of(scaled.leading.candidate)]


def _name_of(candidate: Candidate) -> tuple[str, str, str]:
    """Return what stays the same when a configuration is scaled: its first trial."""
    first = candidate.evidence[0]
    return str(first.results), first.workload, first.trials[0]


def next_measurement(choice: Choice) -> Measurement | None:
    """Return the configuration whose exact value would raise the expected result most.

    Its expected value of perfect information (Raiffa and Schlaifer, 1961) with the others at their
    means. None when nothing is feasible or one configuration only is left. Of each configuration
    the central 99 % of the draws count: few repeats have so heavy tails that one draw of 4 000
    would decide.
    """
    wanted = choice.wishes.want
    within = [each for each in choice.judged if each.within or each.feasible > 0.05]
    within = [each for each in within if wanted.name in each.candidate.draws]
    if choice.leading is None or len(within) < 2:
        return None
    sign = -1.0 if wanted.less_is_better else 1.0
    values = [sign * _central(each.candidate.draws[wanted.name]) for each in within]
    means = [float(each.mean()) for each in values]
    best = max(means)
    if not math.isfinite(best):
        return None  # a life without end
    gains: list[tuple[float, JudgedConfiguration]] = []
    for index, each in enumerate(within):
        other = max(value for place, value in enumerate(means) if place != index)
        gains.append((float(np.maximum(values[index], other).mean()) - best, each))
    gain, first = max(gains, key=lambda pair: pair[0])
    share = gain / abs(best) if best else 0.0
    if share < 1e-4:
        return None
    return Measurement(first.candidate.key, _how(first), share)


def _central(draws: Draws) -> Draws:
    """Return the draws, those outside the central 99 % at its ends."""
    low, high = np.quantile(draws, [0.005, 0.995], method="nearest")
    return np.clip(draws, low, high)


def _how(judged: JudgedConfiguration) -> str:
    candidate = judged.candidate
    if candidate.provenance == "simulated":
        return "measure it, on an emulated drive if you have none (headrace run)"
    if candidate.single:
        return "measure it again: it has one trial of a workload"
    return "run more repeats of it"
