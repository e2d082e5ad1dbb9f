"""What each metric is called, its unit, and how an estimate of it is written.

Ground of report/: every format (terminal, HTML, CSV, LaTeX) names and scales a metric through here. The unit of an
unknown metric is read from the end of its name, where law 8 puts it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from headrace.analysis.findings import Estimate

NARROW_SPACE = "\u202f"


@dataclass(frozen=True)
class Metric:
    """A metric as shown: its values are divided by `divisor` to stand in `unit`."""

    name: str
    title: str
    unit: str
    divisor: float = 1.0

    @property
    def heading(self) -> str:
        """Title and unit, for a table head or an axis."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def within(self) -> str:
        """The title as it stands within a sentence."""
        return lowered(self.title)


def lowered(title: str) -> str:
    """A title within a sentence: its first letter small, unless it begins with an abbreviation."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


_TITLES = {
    "events_per_s": "Event rate",
    "jobs_per_s": "Job rate",
    "efficiency": "Job efficiency",
    "throughput_jobs": "Throughput, sum of efficiencies",
    "uncompressed_bytes_per_s": "Uncompressed",
    "asked_bytes_per_s": "Asked by jobs",
    "served_bytes_per_s": "Served to jobs",
    "parent_sees_bytes_per_s": "Aggregate rate",
    "children_see_bytes_per_s": "Sum of clients' rates",
    "device_bytes_per_s": "Moved by device",
    "amplification": "Amplification",
    "network_bytes_per_s": "Over the network",
    "network_amplification": "Amplification, network",
    "wall_s": "Job wall time",
    "iops": "Device requests",
    "energy_j_per_job": "Energy a job",
    "energy_j_per_event": "Energy an event",
    "events_per_s_stonewall": "Event rate until the first job ends",
    "read_calls_per_s": "Read calls",
    "stonewall_s": "First job done after",
    "last_done_s": "Last job done after",
}
_UNITS = {
    "throughput_jobs": "jobs",
    "amplification": "×",
    "network_amplification": "×",
    "iops": "1/s",
    "events_per_s_stonewall": "events/s",
    "read_calls_per_s": "1/s",
}
BYTE_RATES = (
    "uncompressed_bytes_per_s",
    "asked_bytes_per_s",
    "served_bytes_per_s",
    "network_bytes_per_s",
    "device_bytes_per_s",
)
SHARES = {"efficiency"}
LESS_IS_BETTER = re.compile(r"^(wall|latency|energy|cost|price|amplification|network_amplification|duration)")
"""Metrics of which less is better, by how their name begins."""

_SI = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BASE = {
    "bytes": "B",
    "j": "J",
    "wh": "Wh",
    "w": "W",
    "eur": "EUR",
    "usd": "USD",
    "s": "s",
    "ns": "s",
    "us": "s",
    "ms": "s",
    "iops": "1/s",
}
_TO_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_SUFFIX = re.compile(
    r"^(?:(?P<title>.+?)_)?(?P<unit>bytes|wh|eur|usd|iops|ns|us|ms|j|w|s)(?P<per>_per_[a-z]+)?(?P<tail>_(?:p[0-9_]+|mean|median|max|min))?$"
)


def _words(name: str) -> str:
    text = name.replace("_", " ").strip()
    return text[:1].upper() + text[1:]


def _prefix(largest: float, base: str) -> tuple[float, str]:
    for factor, prefix in _SI:
        if largest >= factor:
            return factor, prefix + base
    return 1.0, base


def _time(largest_s: float) -> tuple[float, str]:
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if largest_s >= factor:
            return factor, unit
    return (1.0, "s") if largest_s == 0 else (1e-9, "ns")


def metric(name: str, largest: float = 0.0) -> Metric:
    """How a metric is shown, scaled so that `largest` (in the metric's own unit) reads well."""
    title = _TITLES.get(name)
    if name in SHARES or name.endswith(("_share", "_fraction")):
        return Metric(name, title or _words(name), "%", 0.01)
    if name in _UNITS:
        return Metric(name, title or _words(name), _UNITS[name])
    priced = re.match(r"^events_per_s_per_([a-z]{3})$", name)
    if priced is not None:
        return Metric(name, "Event rate for the price", f"events/s/{priced[1].upper()}")
    counted = re.match(r"^(?:.*_)?([a-z]+)_per_([a-z]+)$", name)
    if counted is not None and counted[1] not in _BASE:
        what = name.removesuffix(f"_per_{counted[2]}")
        return Metric(name, title or _words(what), f"{counted[1]}/{counted[2]}")
    match = _SUFFIX.match(name)
    if match is None:
        return Metric(name, title or _words(name), "")
    unit, per, tail = match["unit"], match["per"] or "", match["tail"] or ""
    title = title or (_words(match["title"] or name) + tail.replace("_", " "))
    rate = per.replace("_per_", "/")
    if unit in _TO_SECONDS:
        own = _TO_SECONDS[unit]
        divisor, shown = _time(largest * own)
        return Metric(name, title, shown + rate, divisor / own)
    if unit in ("eur", "usd"):
        return Metric(name, title, _BASE[unit] + rate)
    divisor, shown = _prefix(largest, _BASE[unit])
    return Metric(name, title, shown + rate, divisor)


def number(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, thousands apart by narrow spaces: `1 234`, `0.0123`."""
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    if abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{min(decimals, 6)}f}".replace(",", NARROW_SPACE).replace("-", "−")


def digits_for(estimate: Estimate) -> int:
    """Significant digits that an estimate deserves: two digits of its uncertainty, three or four in all."""
    if estimate.low is None or estimate.high is None or estimate.value == 0:
        return 3
    half = (estimate.high - estimate.low) / 2
    if not math.isfinite(half) or half <= 0:
        return 3
    return min(4, max(3, math.floor(math.log10(abs(estimate.value) / half)) + 2))


def _decimals(estimate: Estimate, shown: Metric) -> int:
    value = abs(estimate.value / shown.divisor)
    if value == 0 or not math.isfinite(value):
        ends = [abs(end / shown.divisor) for end in (estimate.low, estimate.high) if end]
        value = max(ends, default=1.0)
    return min(6, max(0, digits_for(estimate) - 1 - math.floor(math.log10(value))))


def _fixed(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return "–"
    if 0 < abs(value) < 1e-4:
        return f"{value:.2e}"
    text = f"{value:,.{decimals}f}".replace(",", NARROW_SPACE).replace("-", "−")
    return text.removeprefix("−") if not text.strip("−0.") else text


def value_text(estimate: Estimate, shown: Metric) -> str:
    """The value alone, in the metric's unit, without naming it."""
    return _fixed(estimate.value / shown.divisor, _decimals(estimate, shown))


def interval_text(estimate: Estimate, shown: Metric) -> str:
    """`low – high` in the metric's unit, with as many decimals as the value; empty when there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    decimals = _decimals(estimate, shown)
    low, high = estimate.low / shown.divisor, estimate.high / shown.divisor
    return f"{_fixed(low, decimals)} – {_fixed(high, decimals)}"


def percent(share: float, digits: int = 2) -> str:
    """A share as per cent: `0.9` is `90 %`."""
    return f"{number(share * 100, digits)}{NARROW_SPACE}%"


def less_is_better(name: str) -> bool:
    """Whether a smaller value of this metric is the better one."""
    return LESS_IS_BETTER.match(name) is not None
