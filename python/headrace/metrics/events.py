"""Metrics of events."""

from headrace.metrics import Metric
from headrace.metrics.trial import ratio

EVENTS_PER_S = Metric(
    name="events_per_s",
    title="Event rate",
    unit="events/s",
    value=lambda trial: trial.rate("events"),
    needs="events of the jobs",
    rank=10,
)
EVENTS_PER_S_STONEWALL = Metric(
    name="events_per_s_stonewall",
    title="Event rate until the first job ends",
    unit="events/s",
    value=lambda trial: (
        ratio(trial.sum("window_events"), trial.sum("window_s"))
        if trial.sum("events") > 0
        else None
    ),
    needs="events of the jobs",
    rank=20,
)
