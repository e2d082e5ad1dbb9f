"""Rebuilds: closed forms of the exposure to further failures, against a small Monte Carlo."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headrace.decision.costs import Activity, costs_of
from headrace.decision.offers import Offers
from headrace.decision.rebuild import (
    HOURS_PER_YEAR,
    RedundantGroup,
    fails_meanwhile,
    group_of,
    losses_per_year,
)
from headrace.records.inventory import InventoryItem

AFR = 0.2
HOURS = 300.0


def simulated_losses_per_year(group: RedundantGroup, years: float) -> float:
    """Drives that fail at random times, each rebuilt in HOURS; data are lost when more than
    `fatal` units are down at once, and the group then begins anew."""
    random = np.random.default_rng(1)
    rate = -math.log1p(-AFR) * group.drives
    losses = 0
    for _ in range(group.groups):
        times = np.sort(random.uniform(0, years, random.poisson(rate * group.units * years)))
        units = random.integers(group.units, size=len(times))
        down: dict[int, float] = {}
        for time, unit in zip(times, units, strict=True):
            down = {each: until for each, until in down.items() if until > time}
            if unit in down:
                continue
            down[int(unit)] = float(time) + HOURS / HOURS_PER_YEAR
            if len(down) > group.fatal:
                losses += 1
                down = {}
    return losses / years


@pytest.mark.parametrize(
    ("level", "hosts", "drives", "copies"),
    [
        (5, 1, 8, 1.0), (6, 1, 14, 1.0), (1, 2, 2, 1.0), (10, 1, 8, 1.0), (None, 6, 2, 2.0),
        (0, 5, 2, 2.0), (None, 3, 1, 1.0),
    ],
)  # fmt: skip
def test_losses_are_those_of_a_simulation(
    level: int | None, hosts: int, drives: int, copies: float
) -> None:
    group = group_of(level, hosts, drives, copies)
    assert group is not None
    per_year = losses_per_year(AFR, group, HOURS)
    # About 1000 losses: 3 % of statistical error; overlapping rebuilds are not in the closed form.
    assert per_year == pytest.approx(simulated_losses_per_year(group, 1000 / per_year), rel=0.12)


def test_a_further_failure_during_a_rebuild_of_a_raid_5_by_hand() -> None:
    """Seven drives at 0.0101 failures a year for a tenth of a year."""
    group = group_of(5, 1, 8, 1.0)
    assert group is not None
    found = fails_meanwhile(0.01, group, HOURS_PER_YEAR / 10)
    assert found == pytest.approx(1 - 0.99 ** (7 * 0.1))
    assert losses_per_year(0.01, group, HOURS_PER_YEAR / 10) == pytest.approx(
        8 * -math.log(0.99) * found
    )


def test_what_is_not_modelled_is_none() -> None:
    assert group_of(5, 3, 4, 2.0) is None, "copies on redundant arrays"
    assert group_of(None, 9, 1, 1.5) is None, "erasure coding"


def _costs(level: int | None, **offer: object) -> dict[str, float] | str:
    drives = InventoryItem(
        part="drive", name="d", host="nas", count=4, usable_bytes=3e12 if level == 5 else 4e12,
        size_bytes=10**12, raid_level=level,
    )  # fmt: skip
    server = InventoryItem(part="server", name="s", host="nas", count=1)
    shelf = {"d": {"price": 1, "date": 2026, **offer}}
    offers = Offers.model_validate({"drive": shelf})
    costs = costs_of((server, drives), "t", Activity(None, None), offers)
    return costs.values if "losses_per_year" in costs.values else costs.unknown["losses_per_year"]


def test_the_offers_give_the_exposure_of_a_configuration() -> None:
    """A drive of 1 TB at 100 MB/s takes 10 000 s."""
    found = _costs(5, failures_per_year=0.01, rebuild_rate="100 MB/s")
    assert isinstance(found, dict)
    p = 1 - 0.99 ** (3 * 1e4 / 3600 / HOURS_PER_YEAR)
    assert found["rebuild_failure"] == pytest.approx(p)
    assert found["losses_per_year"] == pytest.approx(4 * -math.log(0.99) * p)


def test_without_redundancy_every_failure_loses_data_and_nothing_is_rebuilt() -> None:
    found = _costs(None, failures_per_year=0.01)
    assert isinstance(found, dict)
    assert found["losses_per_year"] == pytest.approx(4 * -math.log(0.99))
    assert found["losses_per_year"] == found["drive_failures_per_year"]
    assert "rebuild_failure" not in found


@pytest.mark.parametrize(
    ("offer", "said"),
    [
        ({"rebuild_rate": "100 MB/s"}, "no failure rate of drive d"),
        ({"failures_per_year": 0.01}, "no rebuild_rate of drive d"),
    ],
)
def test_an_offer_without_what_is_needed_is_named(offer: dict[str, object], said: str) -> None:
    found = _costs(5, **offer)
    assert isinstance(found, str) and said in found
