"""Metrics without a definition: what their name says. The unit comes last (`latency_ms_p99`).

Workloads of other packages measure rates that have no definition here (`files_per_s`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.metrics.definition import Better, Metric

_BASE = {"bytes": "B", "j": "J", "wh": "Wh", "w": "W", "eur": "EUR", "usd": "USD", "iops": "1/s"}
_MONEY = ("eur", "usd")
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_SUFFIX = re.compile(
    r"^(?:(?P<title>.+?)_)?(?P<unit>bytes|wh|eur|usd|iops|ns|us|ms|j|w|s)(?P<per>_per_[a-z]+)?"
    r"(?P<tail>_(?:p[0-9_]+|mean|median|max|min))?$"
)
_COUNTED = re.compile(r"^(?:.*_)?([a-z]+)_per_([a-z]+)$")
_PRICED = re.compile(r"^(.+_per_)([a-z]{3})$")
_LESS = re.compile(r"^(duration|energy|cost|price)|latency|(^|_)wall_s$")


def named(name: str, defined: Mapping[str, Metric]) -> Metric:
    """Return a definition derived from the name: it has no function, its values come from records.

    `defined` are the metrics with a definition: a price per job in euros follows the one in any
    currency.
    """
    better: Better = "less" if _LESS.search(name) else "more"
    if name.endswith(("_share", "_fraction")):
        return Metric(name, _words(name), scale="share", better=better)
    priced = _PRICED.match(name)
    if priced is not None and (of := defined.get(f"{priced[1]}currency")) is not None:
        return Metric(
            name,
            of.title,
            of.unit.replace("currency", priced[2].upper()),
            better=of.better,
            needs=of.needs,
        )
    counted = _COUNTED.match(name)
    if counted is not None and counted[1] not in _BASE and counted[1] not in _SECONDS:
        title = _words(name.removesuffix(f"_per_{counted[2]}"))
        return Metric(name, title, f"{counted[1]}/{counted[2]}", better=better)
    match = _SUFFIX.match(name)
    if match is None:
        return Metric(name, _words(name), better=better)
    unit, rate = match["unit"], (match["per"] or "").replace("_per_", "/")
    title = _words(match["title"] or name) + (match["tail"] or "").replace("_", " ")
    if unit in _SECONDS:
        return Metric(name, title, rate, "time", _SECONDS[unit], better)
    return Metric(
        name, title, _BASE[unit] + rate, "plain" if unit in _MONEY else "prefixed", better=better
    )


def _words(name: str) -> str:
    text = name.replace("_", " ").strip()
    return text[:1].upper() + text[1:]
