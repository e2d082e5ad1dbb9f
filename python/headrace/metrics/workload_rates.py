"""Rates that workloads measure themselves (`results.rates`).

Examples: operations of a metadata test, the rate that IOzone's parent process reports.
"""

from headrace.metrics import Metric
from headrace.metrics.trial import RecordedTrial


def _own(name: str, title: str, unit: str, scale: str = "plain") -> Metric:
    def value(trial: RecordedTrial) -> float | None:
        return trial.own_rates.get(name)

    return Metric(
        name=name,
        title=title,
        unit=unit,
        scale="prefixed" if scale == "prefixed" else "plain",
        value=value,
        needs="a workload that measures it",
        rank=500,
    )


PARENT_SEES_BYTES_PER_S = _own("parent_sees_bytes_per_s", "Aggregate rate", "B/s", "prefixed")
CHILDREN_SEE_BYTES_PER_S = _own(
    "children_see_bytes_per_s", "Sum of clients' rates", "B/s", "prefixed"
)
