"""Metrics of money: performance per stated price. In names, `currency` is the price's currency."""

from collections.abc import Mapping

from headrace.metrics import Metric
from headrace.metrics.trial import ratio
from headrace.study.model import Price


def _event_rate(values: Mapping[str, float], price: Price) -> float | None:
    return ratio(values.get("events_per_s"), price.price * price.drives)


EVENTS_PER_S_PER_CURRENCY = Metric(
    name="events_per_s_per_currency",
    title="Event rate for the price",
    unit="events/s/currency",
    value_for_price=_event_rate,
    needs="events of the jobs, and a price of the target",
    rank=700,
)
