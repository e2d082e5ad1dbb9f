"""Names, units and digits of metrics as every report format writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.analysis.findings import Estimate
from headrace.metrics import less_is_better
from headrace.metrics.shown import lowered, show
from headrace.report.numbers import digits_for, interval_text, number, percent, value_text


def estimate(value: float, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value, low, high, 3, "mean, t interval", ("t",))


@pytest.mark.parametrize(
    ("name", "largest", "unit", "divisor"),
    [
        ("device_bytes_per_s", 120e6, "MB/s", 1e6),
        ("device_bytes_per_s", 900.0, "B/s", 1.0),
        ("latency_ns_p99", 8.4e6, "ms", 1e6),
        ("latency_ms_p99", 8.4, "ms", 1.0),
        ("wall_s", 42.0, "s", 1.0),
        ("efficiency", 0.9, "%", 0.01),
        ("energy_j_per_job", 7900.0, "kJ/job", 1e3),
        ("energy_wh_per_job", 3.0, "Wh/job", 1.0),
        ("price_eur_per_slot", 12.0, "EUR/slot", 1.0),
        ("power_w", 115.0, "W", 1.0),
        ("peak_rss_bytes", 2e9, "GB", 1e9),
        ("events_per_s", 1000.0, "events/s", 1.0),
        ("events_per_s_per_eur", 10.0, "events/s/EUR", 1.0),
        ("read_calls_per_s", 10.0, "1/s", 1.0),
        ("last_done_s", 10.0, "s", 1.0),
        ("files_per_s", 10.0, "files/s", 1.0),
        ("amplification", 1.2, "×", 1.0),
    ],
)
def test_the_unit_is_read_from_the_name(
    name: str, largest: float, unit: str, divisor: float
) -> None:
    shown = show(name, largest)
    assert shown.unit == unit
    assert shown.divisor == pytest.approx(divisor)


def test_titles_do_not_carry_the_unit() -> None:
    assert show("latency_ns_p99", 1e6).heading == "Latency p99 (ms)"
    assert show("energy_j_per_job", 10.0).heading == "Energy per job (J/job)"


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1234.5, 3, "1\u202f234"),
        (0.01234, 3, "0.0123"),
        (-2.5, 2, "−2.5"),
        (0.0, 3, "0"),
        (float("nan"), 3, "–"),
        (0.00001234, 3, "1.23e-05"),
    ],
)
def test_numbers(value: float, digits: int, text: str) -> None:
    assert number(value, digits) == text


def test_digits_follow_the_uncertainty() -> None:
    shown = show("events_per_s", 1000.0)
    assert value_text(estimate(614.38, 613.4, 615.4), shown) == "614.4"
    assert value_text(estimate(614.38, 580.0, 650.0), shown) == "614"
    assert interval_text(estimate(614.38, 580.0, 650.0), shown) == "580 – 650"
    assert interval_text(estimate(614.38), shown) == ""


def test_an_interval_has_the_decimals_of_its_value() -> None:
    shown = show("efficiency", 1.0)
    assert interval_text(estimate(0.9999, 0.99, 1.01), shown) == "99.0 – 101.0"
    assert value_text(estimate(0.9999, 0.99, 1.01), shown) == "100.0"
    assert interval_text(estimate(0.0025, -0.0038, 0.0088), shown) == "−0.38 – 0.88", (
        "noise has two digits"
    )
    assert value_text(estimate(0.0, 0.0, 0.0), shown) == "0.00"


@given(st.floats(1e-4, 1e12), st.integers(2, 5))
def test_a_number_keeps_its_digits(value: float, digits: int) -> None:
    written = float(number(value, digits).replace("\u202f", ""))
    assert written == pytest.approx(value, rel=0.5 * 10 ** (1 - digits) * 1.001, abs=5.1e-7)


@given(st.floats(1e-3, 1e9), st.floats(1e-6, 0.5))
def test_digits_are_three_or_four(value: float, relative: float) -> None:
    assert 3 <= digits_for(estimate(value, value * (1 - relative), value * (1 + relative))) <= 4


def test_words() -> None:
    assert percent(0.9) == "90\u202f%"
    assert percent(1.0) == "100\u202f%"
    assert lowered("On CPU") == "on CPU"
    assert lowered("IOPS") == "IOPS"
    assert less_is_better("wall_s")
    assert not less_is_better("events_per_s")
