"""Waits end when what they wait for is there, and give up in their time.

Failures of another kind are not tried again.
"""

from __future__ import annotations

import math
from itertools import count, islice

import pytest

from headrace.system.waiting import remaining, retry, wait_until


def test_a_wait_ends_with_its_condition() -> None:
    seen = count()
    assert wait_until(lambda: next(seen) == 3, 60.0, 0.0)
    assert next(seen) == 4


def test_a_condition_is_looked_at_once_even_without_time() -> None:
    assert wait_until(lambda: True, 0.0, 60.0)
    assert not wait_until(lambda: False, -1.0, 60.0)


def test_a_call_is_tried_until_it_succeeds() -> None:
    tries = count(1)

    def opens_at_third() -> int:
        if (number := next(tries)) < 3:
            raise FileNotFoundError(str(number))
        return number

    assert retry(opens_at_third, FileNotFoundError, 60.0, 0.0) == 3


def test_the_last_failure_is_the_one_told() -> None:
    def fails() -> None:
        raise FileNotFoundError("still not there")

    with pytest.raises(FileNotFoundError, match="still not there"):
        retry(fails, FileNotFoundError, -1.0, 60.0)


def test_another_failure_is_told_at_once() -> None:
    tries = count()

    def fails() -> None:
        next(tries)
        raise PermissionError("never")

    with pytest.raises(PermissionError):
        retry(fails, FileNotFoundError, 60.0, 60.0)
    assert next(tries) == 1


def test_the_time_left_is_given_once_even_without_time_and_then_no_more() -> None:
    assert list(remaining(0.0)) == [0.0]
    assert list(remaining(-1.0)) == [0.0]


def test_the_time_left_falls() -> None:
    first, second, third = islice(remaining(60.0), 3)
    assert 60.0 == first > second >= third > 0
    assert set(islice(remaining(math.inf), 5)) == {math.inf}


def test_each_of_several_failures_is_tried_again() -> None:
    failures = iter((FileNotFoundError(), ConnectionError()))

    def fails_twice() -> str:
        for failure in failures:
            raise failure
        return "done"

    assert retry(fails_twice, (FileNotFoundError, ConnectionError), 60.0, 0.0) == "done"
