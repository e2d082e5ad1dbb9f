"""The Pareto front of decisions where something is unknown of a configuration."""

from __future__ import annotations

from pathlib import Path

from decided import answered, priced, results_of
from headrace.decision.offers import Offers


def _offers_without_a_price_of(*names: str) -> Offers:
    offers = priced(100, 300).model_dump(exclude_unset=True)
    target = {name: {"nodes": {"worker": 1}, "drives": {name: 1}} for name in names}
    return Offers.model_validate({**offers, "target": {**offers["target"], **target}})


def test_the_best_alone_is_on_the_front_where_another_lacks_what_is_wanted(tmp_path: Path) -> None:
    records = results_of(tmp_path / "r", {"a": 0.0, "b": 0.1, "c": 0.2})
    made = answered([records], offers=_offers_without_a_price_of("c"), want="price/event/s")
    front = [each.candidate.key for each in made.choice.judged if each.pareto]
    assert front == ["a, 4 slots"]  # as efficient as b, for less


def test_the_cheapest_is_on_the_front_where_another_has_no_price(tmp_path: Path) -> None:
    records = results_of(tmp_path / "r", {"a": 0.0, "b": -0.4, "c": 0.2}, slots=(4,))
    made = answered([records], offers=_offers_without_a_price_of("c"))
    front = {each.candidate.target for each in made.choice.judged if each.pareto}
    assert front == {"a", "c"}  # a is slower than c, which may cost more; b is beaten by a
