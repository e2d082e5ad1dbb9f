"""Metrics of jobs: their rate, efficiency and times."""

from headrace.metrics import Metric
from headrace.metrics.trial import RecordedTrial, ratio
from headrace.records.nodes import start_spread_s


def _efficiency(trial: RecordedTrial) -> float | None:
    cpu_s = trial.sum("user_s") + trial.sum("system_s")
    return ratio(cpu_s, trial.sum("wall_s")) if trial.computes else None


def _mean_efficiency(trial: RecordedTrial) -> float | None:
    return ratio(trial.sum("efficiencies"), trial.sum("jobs")) if trial.computes else None


JOBS_PER_S = Metric(
    name="jobs_per_s",
    title="Job rate",
    unit="jobs/s",
    value=lambda trial: ratio(trial.jobs, trial.last_done_s),
    rank=30,
)
# Sum of CPU time over sum of wall time: long jobs weigh more than short ones.
EFFICIENCY = Metric(
    name="efficiency",
    title="Job efficiency",
    scale="share",
    value=_efficiency,
    needs="jobs that compute",
    rank=40,
    secondary=True,
    # For a load without events, the share of CPU time says little about the storage.
    only_with="events_per_s",
    highest=1.0,
)
# Mean over jobs of CPU time over wall time: short jobs weigh as much as long ones.
MEAN_JOB_EFFICIENCY = Metric(
    name="mean_job_efficiency",
    title="Job efficiency, mean over jobs",
    scale="share",
    value=_mean_efficiency,
    needs="jobs that compute",
    rank=50,
    highest=1.0,
)
THROUGHPUT_JOBS = Metric(
    name="throughput_jobs",
    title="Throughput, sum of efficiencies",
    unit="jobs",
    value=lambda trial: trial.sum("throughput_jobs") if trial.computes else None,
    needs="jobs that compute",
    rank=60,
)
WALL_S = Metric(
    name="wall_s",
    title="Job wall time",
    scale="time",
    better="less",
    value=lambda trial: ratio(trial.sum("wall_s"), trial.jobs) if trial.sum("wall_s") > 0 else None,
    rank=160,
)
STONEWALL_S = Metric(
    name="stonewall_s",
    title="First job done after",
    scale="time",
    better="less",
    value=lambda trial: trial.record.stonewall_s,
    rank=170,
)
LAST_DONE_S = Metric(
    name="last_done_s",
    title="Last job done after",
    scale="time",
    better="less",
    value=lambda trial: trial.last_done_s,
    rank=180,
)
START_SPREAD_S = Metric(
    name="start_spread_s",
    title="Start spread of jobs released together",
    scale="time",
    better="less",
    value=lambda trial: start_spread_s(trial.record.node_facts),
    needs="jobs that began",
    rank=170,
)
