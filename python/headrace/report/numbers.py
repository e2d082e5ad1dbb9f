"""Numbers as text: how every format (terminal, HTML, CSV, LaTeX) prints an estimate of a metric."""

from __future__ import annotations

import math

from headrace.analysis.findings import Estimate
from headrace.metrics.shown import ShownMetric

NARROW_SPACE = "\u202f"


def number(value: float, digits: int = 3) -> str:
    """Return a number with `digits` significant digits and narrow spaces between thousands.

    Examples: `1 234`, `0.0123`.
    """
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    if abs(value) < 1e-4:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{min(decimals, 6)}f}".replace(",", NARROW_SPACE).replace("-", "−")


def digits_for(estimate: Estimate) -> int:
    """Return the number of significant digits of an estimate: two digits of its uncertainty,
    three or four in all."""
    if estimate.low is None or estimate.high is None or estimate.value == 0:
        return 3
    half = (estimate.high - estimate.low) / 2
    if not math.isfinite(half) or half <= 0:
        return 3
    return min(4, max(3, math.floor(math.log10(abs(estimate.value) / half)) + 2))


def _decimals(estimate: Estimate, shown: ShownMetric) -> int:
    value = abs(estimate.value / shown.divisor)
    ends = [abs(end / shown.divisor) for end in (estimate.low, estimate.high) if end]
    if value == 0 or not math.isfinite(value):
        value = max(ends, default=1.0)
    if estimate.low is not None and estimate.high is not None and math.isfinite(value):
        half = abs(estimate.high - estimate.low) / shown.divisor / 2
        if math.isfinite(half) and half > value:
            # A value smaller than its uncertainty: two digits of the uncertainty are enough.
            return min(6, max(0, 1 - math.floor(math.log10(half))))
    return min(6, max(0, digits_for(estimate) - 1 - math.floor(math.log10(value))))


def _fixed(value: float, decimals: int) -> str:
    if not math.isfinite(value):
        return "–"
    if 0 < abs(value) < 1e-4:
        return f"{value:.2e}"
    text = f"{value:,.{decimals}f}".replace(",", NARROW_SPACE).replace("-", "−")
    return text.removeprefix("−") if not text.strip("−0.") else text


def _wide(estimate: Estimate) -> bool:
    """Return whether the interval is one of a logarithm that is wider than the value: `0.03 – 27`
    of 0.92. No number of decimals fits both its ends."""
    if estimate.low is None or estimate.high is None or not 0 < estimate.low <= estimate.value:
        return False
    half = (estimate.high - estimate.low) / 2
    return math.isfinite(half) and half > estimate.value


def value_text(estimate: Estimate, shown: ShownMetric) -> str:
    """Return the value in the metric's unit, without the unit's name."""
    if _wide(estimate):
        return number(estimate.value / shown.divisor, 2)
    return _fixed(estimate.value / shown.divisor, _decimals(estimate, shown))


def interval_text(estimate: Estimate, shown: ShownMetric) -> str:
    """Return `low – high` in the metric's unit, with as many decimals as the value; empty when
    there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    decimals = _decimals(estimate, shown)
    low, high = estimate.low / shown.divisor, estimate.high / shown.divisor
    if _wide(estimate):
        return f"{number(low, 2)} – {number(high, 2)}"
    return f"{_fixed(low, decimals)} – {_fixed(high, decimals)}"


def probability(share: float) -> str:
    """Return a share of random draws as a probability; never certainty, which draws cannot show."""
    if share > 0.99:
        return f">{NARROW_SPACE}99{NARROW_SPACE}%"
    return f"<{NARROW_SPACE}1{NARROW_SPACE}%" if share < 0.01 else percent(share, 3)


def probability_words(share: float) -> str:
    """Return the same for a sentence: `over 99 %`."""
    return (
        probability(share)
        .replace(f">{NARROW_SPACE}", "over ")
        .replace(f"<{NARROW_SPACE}", "under ")
    )


def percent(share: float, digits: int = 2) -> str:
    """Return a share as per cent: `0.9` is `90 %`."""
    return f"{number(share * 100, digits)}{NARROW_SPACE}%"
