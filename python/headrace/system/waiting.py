"""Base layer: wait for something that happens without notice, up to a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

Result = TypeVar("Result")


def wait_until(condition: Callable[[], object], timeout_s: float, interval_s: float) -> bool:
    """Wait until a condition holds; return False when it does not within `timeout_s` (math.inf:
    no limit).

    It is evaluated at least once, and again after the last wait.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval_s)
    return True


def remaining(timeout_s: float) -> Iterator[float]:
    """Yield the time that is left, again and again, until none is; at least once.

    For waits on events that take a time limit themselves: `for left_s in remaining(5.0): …`.
    """
    deadline = time.monotonic() + timeout_s
    yield max(0.0, timeout_s)
    while (left_s := deadline - time.monotonic()) > 0:
        yield left_s


def retry(
    attempt: Callable[[], Result],
    failure: type[Exception] | tuple[type[Exception], ...],
    timeout_s: float,
    interval_s: float,
) -> Result:
    """Return the result of a call that may fail at first.

    Raises what the last attempt raised, when all fail for `timeout_s`, and any other exception at
    once.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return attempt()
        except failure:
            if time.monotonic() > deadline:
                raise
        time.sleep(interval_s)
