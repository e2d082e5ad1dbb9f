import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.units import (
    format_amount,
    format_bytes,
    format_change,
    format_digits,
    format_seconds,
    format_share,
    parse_bytes,
    parse_bytes_per_s,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64 KiB", 65536),
        ("64KiB", 65536),
        ("64 KB", 64000),
        ("64KB", 64000),
        (65536, 65536),
        ("1.5 GB", 1_500_000_000),
        ("0", 0),
        ("1_000 B", 1000),
    ],
)
def test_sizes_keep_decimal_and_binary_apart(text: object, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["64 Kb", "lots", "-1 KB", "1.5 B", True, None, [], "64 k", "1 KiBs"]
)
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError):
        parse_bytes(text)


@pytest.mark.parametrize("parse", [parse_bytes, parse_bytes_per_s, parse_seconds])
@pytest.mark.parametrize(
    "value", [1e308, 10**400, float("nan"), float("inf"), -1e308, -(10**400), "1e400"]
)
def test_what_no_machine_has_is_refused(parse: Callable[[object], float], value: object) -> None:
    with pytest.raises(ValueError, match=r"too large|negative|unit is missing"):
        parse(value)


def test_a_prefix_of_the_wrong_case_is_no_unit() -> None:
    with pytest.raises(ValueError, match='"kiB/s" is not a unit of rate'):
        parse_bytes_per_s("5 kiB/s")


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("120 MB/s", 120e6),
        ("1 Gb/s", 125e6),
        ("1 GbE", 125e6),
        ("10 Gbps", 1.25e9),
        (5, 5.0),
        ("100 MiB/s", 100 * 2**20),
    ],
)
def test_rates_keep_bits_and_bytes_apart(text: object, rate: float) -> None:
    assert parse_bytes_per_s(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("8.5 ms", 0.0085), ("2 min", 120), (3, 3), ("100 us", 1e-4), ("1 h", 3600), ("30", 30)],
)
def test_times(text: object, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds)


@given(st.integers(min_value=0, max_value=2**50))
def test_a_size_shown_in_binary_reads_back(size: int) -> None:
    shown = format_bytes(size * 1024)
    if "iB" in shown:
        assert parse_bytes(shown) == size * 1024


@given(st.integers(min_value=0, max_value=2**59))
def test_an_amount_has_decimal_prefixes_alone(amount: int) -> None:
    """Amounts that are whole numbers of KiB stood as MiB beside others in MB."""
    assert "i" not in format_amount(amount)
    assert parse_bytes_per_s(f"{format_amount(amount)}/s") == pytest.approx(amount, rel=0.01)


def test_a_size_and_an_amount() -> None:
    assert (format_bytes(40 << 20), format_amount(40 << 20)) == ("40 MiB", "41.9 MB")


def test_times_for_people() -> None:
    assert [format_seconds(value) for value in (0, 0.0085, 42, 200, 3900)] == [
        "0 s",
        "8.5 ms",
        "42 s",
        "3 min 20 s",
        "1 h 05 min",
    ]


@given(st.floats(min_value=1e-9, max_value=119))
def test_a_time_for_people_has_no_exponent(value: float) -> None:
    assert "e" not in format_seconds(value)


def test_a_time_that_rounds_to_the_next_unit_has_it() -> None:
    assert [format_seconds(value) for value in (0.9999, 0.99949, 0.00099999, 9.9999e-7)] == [
        "1 s",
        "999 ms",
        "1 ms",
        "1 us",
    ]


def test_a_space_stands_before_per_cent() -> None:
    assert (format_share(0.82), format_share(0.0013, 2)) == ("82 %", "0.13 %")
    assert (format_change(0.4), format_change(-0.043, 1)) == ("+40 %", "-4.3 %")


def test_no_text_formats_a_share_without_the_space() -> None:
    """`{share:.0%}` writes `82%`."""
    sources = sorted(Path(headrace.__file__).parent.rglob("*.py"))
    found = [
        f"{file.name}: {line.strip()}"
        for file in sources
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(r":[-+]?[,.0-9]*%[}\"]", line)
    ]
    assert sources and found == []


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (524_288.0, 5, "524,290"),
        (14_890.4, 4, "14,890"),
        (0.798711, 5, "0.79871"),
        (9537.14, 5, "9,537.1"),
        (0.0000123, 2, "0.000012"),
        (-61_000.0, 2, "-61,000"),
        (0.0, 4, "0"),
    ],
)
def test_tables_have_numbers_without_a_power_of_ten(value: float, digits: int, text: str) -> None:
    assert format_digits(value, digits) == text
