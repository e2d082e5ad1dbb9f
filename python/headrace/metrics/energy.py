"""Metrics of energy: per job and per event for the whole site, per job for its drives alone."""

from headrace.metrics import Metric
from headrace.metrics.trial import Trial, ratio
from headrace.records.trial_record import TrialRecord

JOULES_PER_WH = 3600


def _site_per_job_wh(trial: Trial) -> float | None:
    per_job_j = ratio(trial.record.energy.total_j, trial.jobs)
    return None if per_job_j is None else per_job_j / JOULES_PER_WH


def _provenance(record: TrialRecord) -> str:
    # Power comes from models or a meter, even for measured trials.
    return record.energy.provenance


ENERGY_WH_PER_JOB = Metric(
    name="energy_wh_per_job",
    title="Energy per job",
    unit="Wh/job",
    scale="prefixed",
    better="less",
    value=_site_per_job_wh,
    needs="energy of the whole site",
    provenance=_provenance,
    rank=600,
)
ENERGY_J_PER_JOB = Metric(
    name="energy_j_per_job",
    title="Energy per job",
    unit="J/job",
    scale="prefixed",
    better="less",
    value=lambda trial: ratio(trial.record.energy.total_j, trial.jobs),
    needs="energy of the whole site",
    provenance=_provenance,
    rank=610,
    beside=True,
)
ENERGY_DRIVES_J_PER_JOB = Metric(
    name="energy_drives_j_per_job",
    title="Energy of drives per job",
    unit="J/job",
    scale="prefixed",
    better="less",
    value=lambda trial: ratio(trial.record.energy.drives_j, trial.jobs),
    needs="energy of the drives",
    provenance=_provenance,
    rank=620,
)
ENERGY_J_PER_EVENT = Metric(
    name="energy_j_per_event",
    title="Energy per event",
    unit="J/event",
    scale="prefixed",
    better="less",
    value=lambda trial: ratio(trial.record.energy.total_j, trial.sum("events")),
    needs="energy of the whole site, and events",
    provenance=_provenance,
    rank=630,
)
