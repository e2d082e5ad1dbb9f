"""Decisions on synthetic records with a known truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.analysis.read import Records, read
from headrace.decision.answer import DecisionAnswer, answer, objectives_of
from headrace.decision.offers import Offers
from headrace.decision.sensitivity import DecisionInputs
from headrace.decision.wishes import metric_quantity, parse_wishes
from synthetic_records import Truth, plan_of, write_results


def results_of(
    root: Path,
    effects: dict[str, float],
    *,
    repeats: int = 4,
    sigma: float = 0.02,
    slots: tuple[int, ...] = (1, 4),
    seed: int = 1,
    **truth: Any,
) -> Records:
    """Records of jobs on targets whose rates differ by these factors of e."""
    cells = [
        {"target": name, "workload": "scan", "slots": count} for name in effects for count in slots
    ]
    known = Truth(
        effects={"target": dict(effects)}, trial_sigma=sigma, site_w=200.0, cores=64, **truth
    )
    return read(write_results(root, plan_of(cells, repeats), known, seed=seed, series=False))


def answered(
    sets: list[Records], within: str = "", offers: Offers | None = None, want: str = "events/s",
    shares: dict[str, float] | None = None,
) -> DecisionAnswer:  # fmt: skip
    """The answer for these records; by default of drives that all cost the same."""
    offers = offers or priced(100, 100)
    known = {name for each in sets for values in each.trials["metrics"] for name in values}
    wishes = parse_wishes(want, within, offers.currency, known)
    objectives = objectives_of(wishes.want, metric_quantity("efficiency"))
    return answer(DecisionInputs(sets, offers, wishes, shares, None, objectives))


def priced(a: float, b: float) -> Offers:
    """Offers of the targets a and b: a worker, and a drive of this price."""
    node = {"worker": {"price": 1000, "date": 2026}}
    drive = {"a": {"price": a, "date": 2026}, "b": {"price": b, "date": 2026}}
    target = {name: {"nodes": {"worker": 1}, "drives": {name: 1}} for name in ("a", "b")}
    return Offers.model_validate({"node": node, "drive": drive, "target": target})
