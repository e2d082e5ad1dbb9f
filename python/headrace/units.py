"""Quantities with units, as a study file or a catalog entry writes them: sizes, rates, times, power, money.

Decimal and binary prefixes are kept apart (`64 KB` is 64 000 bytes, `64 KiB` 65 536), bits and bytes too (`1 Gb/s`
is 125 000 000 bytes/s). A bare number is the base unit of its kind: bytes, bytes/s, seconds, watts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_PREFIXES: dict[str, int] = {**_DECIMAL, **_BINARY}
_TIME_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY = re.compile(r"^\s*([+-]?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9].*?)?\s*$")


def _split(text: str, example: str) -> tuple[float, str]:
    match = _QUANTITY.match(text)
    if match is None:
        raise ValueError(f"not a quantity; write it like {example}")
    return float(match.group(1).replace("_", "")), (match.group(2) or "").strip()


def parse_bytes(value: object) -> int:
    """Bytes from `65536`, `"64 KiB"`, `"64KB"` (64 000), `"1.5 GB"`. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError('not a size; write it like "64 KiB", "1 GB" or 65536')
    if not isinstance(value, str):
        number, unit = float(value), "B"
    else:
        number, unit = _split(value, '"64 KiB", "1 GB" or 65536')
        unit = unit or "B"
    if not unit.endswith("B") or unit[:-1] not in _PREFIXES:
        raise ValueError(
            f'"{unit}" is no unit of size; write it like "64 KiB" (binary), "64 KB" (decimal) or 65536'
        )
    size = number * _PREFIXES[unit[:-1]]
    if size < 0:
        raise ValueError("a size cannot be negative")
    if size != int(size):
        raise ValueError("not a whole number of bytes")
    return int(size)


def parse_bytes_per_s(value: object) -> float:
    """Bytes a second from `"120 MB/s"`, `"1 Gb/s"`, `"1 GbE"`, `"10 GbE"` or a bare number. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError('not a rate; write it like "120 MB/s" or "1 Gb/s"')
    if not isinstance(value, str):
        rate = float(value)
    else:
        number, unit = _split(value, '"120 MB/s" or "1 Gb/s"')
        unit = re.sub(r"bE$", "b/s", unit)
        match = re.match(r"^([kKMGTP]i?)?(B|b|bit)(?:/s|ps)$", unit)
        if match is None:
            raise ValueError(f'"{unit}" is no unit of rate; write it like "120 MB/s" or "1 Gb/s"')
        rate = number * _PREFIXES[match.group(1) or ""] / (1 if match.group(2) == "B" else 8)
    if rate < 0:
        raise ValueError("a rate cannot be negative")
    return rate


def parse_seconds(value: object) -> float:
    """Seconds from `"8.5 ms"`, `"100 us"`, `"2 min"`, `"1 h"` or a bare number. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError('not a time; write it like "8.5 ms", "30 s" or "2 min"')
    if not isinstance(value, str):
        seconds = float(value)
    else:
        number, unit = _split(value, '"8.5 ms", "30 s" or "2 min"')
        if unit and unit not in _TIME_S:
            raise ValueError(f'"{unit}" is no unit of time; write it like "8.5 ms", "30 s" or "2 min"')
        seconds = number * _TIME_S.get(unit, 1.0)
    if seconds < 0:
        raise ValueError("a time cannot be negative")
    return seconds


def _quantity(parse: Callable[[object], Any], kind: str, examples: list[Any]) -> list[Any]:
    return [
        BeforeValidator(parse),
        PlainSerializer(lambda value: value),
        WithJsonSchema(
            {
                "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
                "description": kind,
                "examples": examples,
            }
        ),
    ]


Bytes = Annotated[
    int, *_quantity(parse_bytes, "a size: a number of bytes or text with a unit", ["64 KiB", "1 GB", 65536])
]
BytesPerS = Annotated[
    float, *_quantity(parse_bytes_per_s, "a rate: bytes/s or text with a unit", ["120 MB/s", "1 Gb/s"])
]
Seconds = Annotated[
    float, *_quantity(parse_seconds, "a time: seconds or text with a unit", ["8.5 ms", "30 s", "2 min"])
]


def _scaled(value: float, units: list[str], step: float) -> str:
    index = 0
    while abs(value) >= step and index < len(units) - 1:
        value /= step
        index += 1
    digits = (
        0 if index == 0 and value == int(value) else (2 if abs(value) < 10 else 1 if abs(value) < 100 else 0)
    )
    return f"{value:.{digits}f} {units[index]}"


def format_bytes(value: float) -> str:
    """A size for people, binary prefixes when it is a whole number of them, else decimal: `64 KiB`, `1.50 GB`."""
    whole = int(value)
    if whole == value and whole >= 1024 and whole % 1024 == 0:
        for prefix, factor in reversed(_BINARY.items()):
            if whole % factor == 0 and whole // factor < 10_000:
                return f"{whole // factor} {prefix}B"
    return _scaled(value, ["B", "kB", "MB", "GB", "TB", "PB"], 1000)


def format_bytes_per_s(value: float) -> str:
    """A rate for people: `120 MB/s`."""
    return _scaled(value, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 1000)


def format_seconds(value: float) -> str:
    """A time for people: `8.50 ms`, `42.0 s`, `3 min 20 s`, `1 h 05 min`."""
    if value >= 3600:
        minutes = round(value / 60)
        return f"{minutes // 60} h {minutes % 60:02d} min"
    if value >= 120:
        return f"{int(value) // 60} min {int(value) % 60:02d} s"
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return "0 s" if value == 0 else f"{value / 1e-9:.3g} ns"
