"""Wishes as written, and the limits that answers offer."""

from __future__ import annotations

import pytest

from headrace.decision.wishes import parse_wishes
from headrace.errors import StudyError

KNOWN = ("events_per_s", "efficiency", "energy_wh_per_job", "mean_power_w")


def test_a_wish_is_a_metric_by_its_name_or_unit_or_a_quantity_of_the_configuration() -> None:
    wishes = parse_wishes(
        "events/s", "price <= 40_000 EUR, usable >= 200 TB, efficiency >= 85 %, power <= 3 kW",
        "EUR", KNOWN,
    )  # fmt: skip
    assert wishes.want.name == "events_per_s"
    assert [(limit.quantity.name, limit.sense, limit.amount) for limit in wishes.limits] == [
        ("price", "<=", 40_000.0),
        ("usable_bytes", ">=", 200e12),
        ("efficiency", ">=", 0.85),
        ("power_w", "<=", 3000.0),
    ]
    assert parse_wishes("Wh/job", "", "EUR", KNOWN).want.less_is_better
    assert parse_wishes("cost", "usable >= 2 TiB", "EUR", KNOWN).limits[0].amount == 2 * 2**40


@pytest.mark.parametrize(
    ("want", "within", "said"),
    [
        ("evens/s", "", "no such quantity"),
        ("events/s", "price <= 40000", "the currency of price is missing"),
        ("events/s", "price <= 40000 USD", 'currency of the offers, not "USD"'),
        ("events/s", "power <= 3 kVA", "VA is apparent power"),
        ("events/s", "power <= 3 kWh", "Wh is an amount of energy, W the power"),
        ("events/s", "energy <= 3 MW", "W is power, Wh an amount of energy"),
        ("events/s", "usable >= 200 Tb", "b is a bit, B a byte"),
        ("events/s", "usable >= 200", "its unit is missing"),
        ("events/s", "usable >= 200 W", '"W" is not its unit'),
        ("events/s", "price < 40000 EUR", "< is not an operator of a limit"),
        ("events/s", "cheap", "not a limit"),
        ("events/s", "power <= 1 kW, power >= 2 kW", "exclude each other"),
    ],
)
def test_a_bad_wish_is_one_message(want: str, within: str, said: str) -> None:
    with pytest.raises(StudyError) as raised:
        parse_wishes(want, within, "EUR", KNOWN)
    assert said in raised.value.message and "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("within", "name", "value", "said"),
    [
        ("price <= 40_000 EUR", "price", 89_546.8, "89547 EUR"),
        ("price <= 40_000 EUR", "price", 1_234_567.1, "1234568 EUR"),
        ("efficiency >= 38 %", "efficiency", 0.370_26, "37.02 %"),
        ("efficiency >= 38 %", "efficiency", 0.370_3, "37.03 %"),
        ("usable >= 2 TB", "usable_bytes", 912_207_860_121.6, "0.9122 TB"),
        ("usable >= 2_000_000 MB", "usable_bytes", 912_207_860_121.6, "912207 MB"),
        ("power <= 0.55 kW", "power_w", 668.34, "0.6684 kW"),
        ("wall_s <= 40 ms", "wall_s", 0.046_531, "46.54 ms"),
        ("nodes <= 2", "nodes", 4.0, "4"),
    ],
)
def test_an_amount_that_is_offered_as_a_limit_lets_the_value_in(
    within: str, name: str, value: float, said: str
) -> None:
    """Also in the unit of the limit, and as `--within` reads it: 8.955e+04 EUR was neither."""
    known = (*KNOWN, "wall_s")
    (limit,) = parse_wishes("events/s", within, "EUR", known).limits
    assert limit.quantity.name == name and limit.written(value) == said
    again = f"{within.split(limit.sense)[0]} {limit.sense} {said}"
    assert parse_wishes("events/s", again, "EUR", known).limits[0].holds(value)
