"""Repeated requests: how long to pause before each, and how many this process has made.

A server that is busy refuses a request and asks for it again later.
"""

from __future__ import annotations

import datetime
import os
import random
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

REPEAT = "HEADRACE_URL_REPEAT_S"
"""Environment variable: how long a request that a busy server refuses is repeated, in seconds."""
REPEAT_S = 60.0
BUSY = frozenset({429, 500, 502, 503, 504, 509})
"""HTTP status of answers after which a request is repeated; S3's SlowDown is 503."""
_FIRST_S, _LONGEST_S = 0.1, 20.0


def repeat_s() -> float:
    """Return how long a request is repeated, in seconds."""
    return float(os.environ.get(REPEAT, REPEAT_S))


class BusyError(OSError):
    """A server refused a request as long as it was repeated."""


@dataclass
class RepeatCount:
    """Requests that this process has sent again."""

    requests: int = 0


REPEATED = RepeatCount()


class Pauses:
    """The pauses before the attempts of one request. Their sum is at most `bound_s`.

    They double, from 0.1 s to 20 s, each shortened by up to a half at random: clients that were
    refused together do not come back together. A longer `Retry-After` of the server is heeded.
    """

    def __init__(self, bound_s: float) -> None:
        self._left_s = bound_s
        self._begun_s = time.monotonic()
        self.made = 0

    @property
    def elapsed_s(self) -> float:
        """Time since the first attempt began."""
        return time.monotonic() - self._begun_s

    def next(self, retry_after: str) -> float | None:
        """Return the next pause in seconds; None if there must be no further attempt.

        `retry_after`: the field of the answer, empty if it has none.
        """
        wished_s = min(_LONGEST_S, _FIRST_S * 2.0**self.made) * random.uniform(0.5, 1)
        asked_s = _seconds(retry_after)
        if self._left_s <= 0 or asked_s > self._left_s:
            return None
        pause_s = min(max(wished_s, asked_s), self._left_s)
        self._left_s -= pause_s
        self.made += 1
        return pause_s


def _seconds(retry_after: str) -> float:
    """Return the seconds of a `Retry-After`, which is a number or a date; 0 if it is neither."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    at = at if at.tzinfo else at.replace(tzinfo=datetime.UTC)
    return max(0.0, (at - datetime.datetime.now(datetime.UTC)).total_seconds())
