"""What a user's program prints: kept in the record, and searched for the number of events."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.errors import HeadraceError

_LOG_BYTES = 1 << 20
"""Bytes kept of a program's output: the last ones."""


def pattern_checked(pattern: str | None) -> str | None:
    """Return a pattern. Raises ValueError unless it is a regular expression."""
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from error
    return pattern


def events_in(log: Path, events: int | None, events_pattern: str | None) -> int:
    """Return the events that are known, or that the lines of a program's output tell.

    Raises HeadraceError when the output does not tell them.
    """
    if events_pattern is None:
        return events or 0
    pattern = re.compile(events_pattern)
    count, number = 0, None
    with log.open(errors="replace") as lines:
        for line in lines:
            if fits := pattern.search(line):
                count += 1
                number = fits.group(1) if pattern.groups else None
    if not pattern.groups:
        return count
    if number is None:
        raise HeadraceError(f"no line of the program's output fits events_pattern {events_pattern}")
    try:
        return int(number.replace(",", "").replace("_", ""))
    except ValueError as error:
        raise HeadraceError(f"events_pattern found {number!r}, which is not a number") from error


def shorten(log: Path) -> None:
    """Keep only the end of a long log, and delete an empty one."""
    if not log.exists():
        return
    size = log.stat().st_size
    if size == 0:
        log.unlink()
    elif size > _LOG_BYTES:
        with log.open("r+b") as file:
            file.seek(size - _LOG_BYTES)
            end = file.read()
            file.seek(0)
            file.write(f"[the first {size - _LOG_BYTES} bytes are left out]\n".encode() + end)
            file.truncate()
