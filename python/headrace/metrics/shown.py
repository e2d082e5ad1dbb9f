"""Display of metric values: divided to a readable size, in a unit with a prefix."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.metrics import metric_of

_SI = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SYMBOLS = frozenset({"B", "J", "W", "Wh", "g", "s"})
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


@dataclass(frozen=True)
class ShownMetric:
    """A metric for display: values divided by `divisor` are in `unit`."""

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
        """The title in the middle of a sentence."""
        return lowered(self.title)


def lowered(title: str) -> str:
    """Return a title for the middle of a sentence.

    The first letter becomes lower case, unless the title starts with an abbreviation.
    """
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def show(name: str, largest: float = 0.0) -> ShownMetric:
    """Return how a metric is displayed, scaled so that `largest` (in the metric's unit) is
    readable.
    """
    metric = metric_of(name)
    if metric.scale == "share":
        return ShownMetric(name, metric.title, "%", 0.01)
    if metric.scale == "time":
        divisor, unit = _time(largest * metric.unit_s)
        return ShownMetric(name, metric.title, unit + metric.unit, divisor / metric.unit_s)
    if metric.scale == "prefixed":
        factor, prefix = next(((f, p) for f, p in _SI if largest >= f), (1.0, ""))
        return ShownMetric(name, metric.title, prefix + metric.unit, factor)
    return ShownMetric(name, metric.title, metric.unit)


def spoken(name: str, largest: float) -> ShownMetric:
    """Return how a metric is displayed in a sentence: large rates as `2.5 M events/s`."""
    shown = show(name, largest)
    if metric_of(name).scale != "plain" or not shown.unit.endswith("/s") or largest < 1e4:
        return shown
    factor, prefix = next((f, p) for f, p in _SI if largest >= f)
    return ShownMetric(name, shown.title, with_prefix(prefix, shown.unit), factor)


def with_prefix(prefix: str, unit: str) -> str:
    """Return a unit with an SI prefix: `MB/s`, `kWh`, and `k events/s` where the unit is a word."""
    symbol = unit.split("/")[0]
    return f"{prefix}{unit}" if not prefix or symbol in _SYMBOLS else f"{prefix} {unit}"


def _time(largest_s: float) -> tuple[float, str]:
    for factor, unit in _TIMES:
        if largest_s >= factor:
            return factor, unit
    return (1.0, "s") if largest_s == 0 else (1e-9, "ns")
