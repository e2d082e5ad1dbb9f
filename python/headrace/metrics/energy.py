"""Metrics of energy: per job and per event for the whole site, per job for its drives alone.

Meters rarely cover the whole site: what they do cover is a metric of its own.
"""

from headrace.metrics import Metric
from headrace.metrics.trial import RecordedTrial, ratio
from headrace.records.trial_record import TrialRecord

JOULES_PER_WH = 3600


def _site_per_job_wh(trial: RecordedTrial) -> float | None:
    return _wh(ratio(trial.record.energy.total_j, trial.jobs))


def _wh(energy_j: float | None) -> float | None:
    return None if energy_j is None else energy_j / JOULES_PER_WH


def _energy_delay(trial: RecordedTrial) -> float | None:
    """Return the energy per job times its mean wall time (Gonzalez and Horowitz, 1996)."""
    per_job_j = ratio(trial.record.energy.total_j, trial.jobs)
    wall_s = ratio(trial.sum("wall_s"), trial.jobs)
    return None if per_job_j is None or wall_s is None else per_job_j * wall_s


def _provenance(record: TrialRecord) -> str:
    # Power comes from models or a meter, even for measured trials.
    return record.energy.provenance


def _metered_per_job_wh(trial: RecordedTrial) -> float | None:
    return _wh(ratio(trial.record.energy.metered_j, trial.jobs))


def _uncertainty_per_job_wh(trial: RecordedTrial) -> float | None:
    energy = trial.record.energy
    whole = energy.total_j is not None
    uncertainty_j = energy.uncertainty_j if whole else energy.metered_uncertainty_j
    return _wh(ratio(uncertainty_j, trial.jobs))


def _drives_provenance(record: TrialRecord) -> str:
    return record.energy.part_provenance.get("drives", record.energy.provenance)


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
    secondary=True,
)
ENERGY_DRIVES_J_PER_JOB = Metric(
    name="energy_drives_j_per_job",
    title="Energy of drives per job",
    unit="J/job",
    scale="prefixed",
    better="less",
    value=lambda trial: ratio(trial.record.energy.drives_j, trial.jobs),
    needs="energy of the drives",
    provenance=_drives_provenance,
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
ENERGY_METERED_WH_PER_JOB = Metric(
    name="energy_metered_wh_per_job",
    title="Metered energy per job",
    unit="Wh/job",
    scale="prefixed",
    better="less",
    value=_metered_per_job_wh,
    needs="a power meter",
    provenance=lambda record: "measured",
    rank=640,
)
ENERGY_UNCERTAINTY_WH_PER_JOB = Metric(
    name="energy_uncertainty_wh_per_job",
    title="Meters' uncertainty per job",
    unit="Wh/job",
    scale="prefixed",
    better="less",
    value=_uncertainty_per_job_wh,
    needs="a power meter",
    provenance=lambda record: "measured",
    rank=645,
)
ENERGY_J_PER_GB = Metric(
    name="energy_j_per_gb",
    title="Energy per GB requested",
    unit="J/GB",
    scale="prefixed",
    better="less",
    value=lambda trial: ratio(trial.record.energy.total_j, trial.requested_bytes / 1e9),
    needs="energy of the whole site, and bytes read or written",
    provenance=_provenance,
    rank=655,
)
EVENTS_PER_WH = Metric(
    name="events_per_wh",
    title="Events per energy",
    unit="events/Wh",
    scale="prefixed",
    value=lambda trial: ratio(trial.sum("events"), _wh(trial.record.energy.total_j)),
    needs="energy of the whole site, and events",
    provenance=_provenance,
    rank=657,
)
MEAN_POWER_W = Metric(
    name="mean_power_w",
    title="Mean power",
    unit="W",
    scale="prefixed",
    better="less",
    value=lambda trial: ratio(trial.record.energy.total_j, trial.last_done_s),
    needs="energy of the whole site",
    provenance=_provenance,
    rank=660,
)
ENERGY_DELAY_J_S_PER_JOB = Metric(
    name="energy_delay_j_s_per_job",
    title="Energy-delay product per job",
    unit="J s/job",
    scale="prefixed",
    better="less",
    value=_energy_delay,
    needs="energy of the whole site",
    provenance=_provenance,
    rank=670,
)
