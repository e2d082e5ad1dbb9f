"""Values of options that are text on the command line."""

from __future__ import annotations

from headrace.errors import UsageError
from headrace.units import format_seconds, parse_seconds

_DAY_S = 86400.0


def seconds(text: str, option: str, least_s: float, *, day: bool = False) -> float:
    """Return a time of a least length; of at most a day, if `day`. Raises UsageError."""
    try:
        found_s = parse_seconds(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None
    if found_s < least_s or (day and found_s > _DAY_S):
        least = format_seconds(least_s)
        allowed = f"between {least} and 1 d" if day else f"at least {least}"
        raise UsageError(f"{option} {text}: must be {allowed}")
    return found_s
