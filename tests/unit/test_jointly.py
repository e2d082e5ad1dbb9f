"""How sure many comparisons have to be.

Known answers, and what is named against what intervals say.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headrace.analysis.jointly import joint_confidence, pair_p_value


def test_one_comparison_is_as_sure_as_asked() -> None:
    assert joint_confidence([0.3], 0.95) == pytest.approx(0.95)
    assert joint_confidence([0.001], 0.95) == pytest.approx(0.95)
    assert joint_confidence([], 0.95) == pytest.approx(0.95)


def test_many_without_a_difference_have_to_be_surer() -> None:
    assert joint_confidence([0.2, 0.5, 0.9, 0.04], 0.95) == pytest.approx(1 - 0.05 / 4)


def test_a_published_example() -> None:
    # Benjamini and Hochberg (1995), table 1: of 15 comparisons four are named at 5 %.
    p_values = [
        0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
        0.5719,
        0.6528, 0.7590, 1.000,
    ]  # fmt: skip
    joint = joint_confidence(p_values, 0.95)
    assert joint == pytest.approx(1 - 0.05 * 4 / 15)
    assert sum(p <= 1 - joint for p in p_values) == 4


def test_what_cannot_be_tested_does_not_count() -> None:
    assert joint_confidence([None, 0.3, None], 0.95) == pytest.approx(0.95)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_exactly_those_are_named_whose_interval_excludes_no_difference(
    p_values: list[float],
) -> None:
    joint = joint_confidence(p_values, 0.95)
    count = len(p_values)
    named = max((k for k, p in enumerate(sorted(p_values), 1) if p <= 0.05 * k / count), default=0)
    assert sum(p <= (1 - joint) * (1 + 1e-12) for p in p_values) == named


def test_without_any_difference_one_is_named_as_seldom_as_said() -> None:
    draws = np.random.default_rng(8)
    studies = 2000
    wrong = 0
    for _ in range(studies):
        p_values = draws.uniform(size=9).tolist()
        wrong += min(p_values) <= 1 - joint_confidence(p_values, 0.95)
    low, high = stats.binom.ppf([0.0005, 0.9995], studies, 0.05)
    assert low <= wrong <= high


def test_p_values_of_pairs() -> None:
    assert pair_p_value(1.0, 0.0, 4, 3) == 0.0
    assert pair_p_value(0.0, 0.0, 4, 3) == 1.0
    assert pair_p_value(1.0, float("nan"), 4, 3) is None
    assert pair_p_value(1.0, 0.1, 0, 3) is None
    one = pair_p_value(2.776, 1.0, 4, 1)
    assert one == pytest.approx(0.05, rel=1e-3)
    assert pair_p_value(2.776, 1.0, 4, 3) == pytest.approx(0.15, rel=1e-3)
