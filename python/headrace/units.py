"""Quantities with units, as study files and catalog entries write them: sizes, rates, times.

Decimal and binary prefixes differ (`64 KB` is 64 000 bytes, `64 KiB` 65 536), and so do bits and
bytes (`1 Gb/s` is 125 000 000 bytes/s). A bare number is in the base unit: bytes, bytes/s, seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core.core_schema import CoreSchema

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIXES: dict[str, int] = {**_DECIMAL, **_BINARY}
_TIME_S = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_QUANTITY = re.compile(
    r"^\s*([+-]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9].*?)?\s*$"
)


MOST_BYTES = 9 * 10**18
"""The largest size allowed: it and sums of offsets near it fit into 64 bits."""
MOST_FILE_BYTES = 16 * 10**12
"""A little below the largest file of ext4. The core counts a file's pages in 32 bits."""
MOST_BYTES_PER_S = 1e18
MOST_SECONDS = 1e10
"""About three centuries; virtual time in nanoseconds fits into 64 bits."""
MOST_HOSTS = 10_000
"""Nodes, or servers, of one site: each costs time and memory in planning and simulation."""
MOST_SLOTS = 10_000
"""Slots per node."""
MOST_JOBS = 1_000_000
"""Concurrent jobs, and jobs per trial: a record has one row per job."""
MOST_FILES = 1_000_000
"""Files per data set."""
MOST_DRIVES = 512
"""Drives per RAID (crates/model, `RaidSpec`)."""
MOST_PORTS = 1024
"""Bonded ports per link."""
MOST_QUEUED = 65_536
"""Requests that a device takes at once: the most of the catalog's drives, too."""
MOST_THREADS = 65_536
"""Threads of a server: each costs memory in a simulation."""


def _number(value: object, kind: str, example: str) -> tuple[float, str]:
    """Split a quantity into number and unit. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"not a {kind}; write it like {example}")
    if not isinstance(value, str):
        # An integer may be too large for a float.
        number, unit = (float(value), "") if abs(value) < 1e300 else (math.inf, "")
    else:
        match = _QUANTITY.match(value)
        if match is None:
            raise ValueError(f"not a quantity; write it like {example}")
        number, unit = float(match.group(1).replace("_", "")), (match.group(2) or "").strip()
    if number < 0:
        raise ValueError(f"a {kind} cannot be negative")
    return number, unit


def _bounded(value: float, most: float, kind: str, allowed: str) -> float:
    """Return a value that is at most `most`. Raises ValueError for larger values and NaN."""
    if not value <= most:
        raise ValueError(f"too large a {kind}; at most {allowed}")
    return value


def parse_bytes(value: object) -> int:
    """Return bytes from `65536`, `"64 KiB"`, `"64KB"` (64 000) or `"1.5 GB"`. Raises ValueError."""
    example = '"64 KiB", "1 GB" or 65536'
    number, unit = _number(value, "size", example)
    unit = unit or "B"
    if not unit.endswith("B") or unit[:-1] not in _PREFIXES:
        raise ValueError(
            f'"{unit}" is not a unit of size; write it like "64 KiB" (binary), '
            '"64 KB" (decimal) or 65536'
        )
    size = _bounded(number * _PREFIXES[unit[:-1]], MOST_BYTES, "size", "9000 PB")
    if size != int(size):
        raise ValueError("not a whole number of bytes")
    return int(size)


def parse_bytes_per_s(value: object) -> float:
    """Return bytes per second from `"120 MB/s"`, `"1 Gb/s"`, `"10 GbE"` or a bare number.

    Raises ValueError.
    """
    example = '"120 MB/s" or "1 Gb/s"'
    number, unit = _number(value, "rate", example)
    if isinstance(value, str):
        unit = re.sub(r"bE$", "b/s", unit)
        match = re.match(r"^([kKMGTP]i?)?(B|b|bit)(?:/s|ps)$", unit)
        if match is None or (match.group(1) or "") not in _PREFIXES:
            problem = f'"{unit}" is not a unit of rate' if unit else "the unit is missing"
            raise ValueError(f"{problem}; write it like {example}")
        number *= _PREFIXES[match.group(1) or ""] / (1 if match.group(2) == "B" else 8)
    return _bounded(number, MOST_BYTES_PER_S, "rate", "1000 PB/s")


def parse_seconds(value: object) -> float:
    """Return seconds from `"8.5 ms"`, `"100 us"`, `"2 min"`, `"1 h"` or a bare number.

    Raises ValueError.
    """
    example = '"8.5 ms", "30 s" or "2 min"'
    number, unit = _number(value, "time", example)
    if unit and unit not in _TIME_S:
        raise ValueError(f'"{unit}" is not a unit of time; write it like {example}')
    return _bounded(number * _TIME_S.get(unit, 1.0), MOST_SECONDS, "time", "10 000 000 000 s")


def parse_share(value: object) -> float:
    """Return a share from `"5 %"` or a bare `0.05`; below 1. Raises ValueError."""
    example = '"5 %" or 0.05'
    number, unit = _number(value, "share", example)
    if unit not in ("", "%"):
        raise ValueError(f'"{unit}" is not a unit of a share; write it like {example}')
    share = number / 100 if unit else number
    if not share < 1:
        raise ValueError(f"not below 100 %; write it like {example}")
    return share


def format_share(share: float, decimals: int = 0) -> str:
    """Return a share as text: 0.25 is `25 %`."""
    return f"{100 * share:.{decimals}f} %"


def format_change(change: float, decimals: int = 0) -> str:
    """Return a relative difference as text, with its sign: 0.04 is `+4 %`."""
    return f"{100 * change:+.{decimals}f} %"


def format_digits(value: float, digits: int) -> str:
    """Return a number with so many digits and without a power of ten: `524,290`, `0.000012`."""
    from decimal import Decimal

    return f"{Decimal(f'{value:.{digits}g}'):,f}"


def _scaled(value: float, units: list[str], step: float) -> str:
    index = 0
    while abs(value) >= step and index < len(units) - 1:
        value /= step
        index += 1
    digits = (
        0
        if index == 0 and value == int(value)
        else (2 if abs(value) < 10 else 1 if abs(value) < 100 else 0)
    )
    return f"{value:.{digits}f} {units[index]}"


def format_bytes(value: float) -> str:
    """Return a size that somebody chose as text: `64 KiB`, `1.50 GB`.

    Binary prefixes when it is a whole number of them, else decimal ones. For data that was moved or
    counted, `format_amount`.
    """
    whole = int(value)
    if whole == value and whole >= 1024 and whole % 1024 == 0:
        for prefix, factor in reversed(_BINARY.items()):
            if whole % factor == 0 and whole // factor < 10_000:
                return f"{whole // factor} {prefix}B"
    return format_amount(value)


def format_amount(value: float) -> str:
    """Return an amount of data that was moved or counted as text: `65.5 kB`, `1.50 GB`.

    The prefixes are always decimal, as in rates: amounts in one message can be compared. A whole
    number of KiB says nothing there, because devices and page cache move whole pages.
    """
    return _scaled(value, ["B", "kB", "MB", "GB", "TB", "PB", "EB"], 1000)


def format_bytes_per_s(value: float) -> str:
    """Return a rate as text: `120 MB/s`."""
    return _scaled(value, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 1000)


def format_seconds(value: float) -> str:
    """Return a time as text: `8.50 ms`, `42.0 s`, `3 min 20 s`, `1 h 05 min`, `2 d 03 h`."""
    if value >= 172_800:
        hours = round(value / 3600)
        return f"{hours // 24:,} d {hours % 24:02d} h"
    if value >= 3600:
        minutes = round(value / 60)
        return f"{minutes // 60} h {minutes % 60:02d} min"
    if value >= 120:
        return f"{int(value) // 60} min {int(value) % 60:02d} s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        # What rounds to 1000 of the next smaller unit is 1 of this one.
        if value >= 0.9995 * factor:
            return f"{value / factor:.3g} {unit}"
    return "0 s" if value == 0 else f"{value / 1e-9:.3g} ns"


@dataclass(frozen=True)
class QuantityField:
    """A field of a model that is written as a quantity. pydantic calls these methods: modules that
    only parse and format quantities do not import it."""

    parse: Callable[[object], Any]
    form: Callable[[float], str]
    """Writes a value as text."""
    kind: str
    examples: tuple[Any, ...]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Parse what is written; a model's dump has the number as it is."""
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(
            self.parse,
            handler(source),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return what a study file may have: a number, or text with a unit."""
        return {
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
            "description": self.kind,
            "examples": list(self.examples),
        }


Bytes = Annotated[
    int,
    QuantityField(
        parse_bytes,
        format_bytes,
        "a size: a number of bytes or text with a unit",
        ("64 KiB", "1 GB", 65536),
    ),
]
BytesPerS = Annotated[
    float,
    QuantityField(
        parse_bytes_per_s,
        format_bytes_per_s,
        "a rate: bytes/s or text with a unit",
        ("120 MB/s", "1 Gb/s"),
    ),
]
Seconds = Annotated[
    float,
    QuantityField(
        parse_seconds,
        format_seconds,
        "a time: seconds or text with a unit",
        ("8.5 ms", "30 s", "2 min"),
    ),
]
