"""Metrics of energy: per job and per event for the whole site, per job for its drives alone.

Meters rarely cover the whole site: what they do cover is a metric of its own.
"""

from collections.abc import Callable

from headrace.metrics import Metric
from headrace.metrics.trial import RecordedTrial, ratio
from headrace.records.trial_record import TrialRecord

JOULES_PER_WH = 3600


def _site_per_job_wh(trial: RecordedTrial) -> float | None:
    return _wh(ratio(trial.record.energy.total_j, trial.jobs))


def _wh(energy_j: float | None) -> float | None:
    return None if energy_j is None else energy_j / JOULES_PER_WH


def _events_per_wh(trial: RecordedTrial) -> float | None:
    """Return events over energy; None for jobs that count no events."""
    events = trial.sum("events")
    return ratio(events, _wh(trial.record.energy.total_j)) if events > 0 else None


def _energy_delay(trial: RecordedTrial) -> float | None:
    """Return the energy per job times its mean wall time (Gonzalez and Horowitz, 1996)."""
    per_job_j = ratio(trial.record.energy.total_j, trial.jobs)
    wall_s = ratio(trial.sum("wall_s"), trial.jobs)
    return None if per_job_j is None or wall_s is None else per_job_j * wall_s


def _provenance(record: TrialRecord) -> str:
    # Power comes from models or a meter, even for measured trials.
    return record.energy.provenance


def _site_uncertainty(record: TrialRecord) -> float | None:
    """Return the meters' uncertainty over the energy of the whole site; None for a model."""
    return ratio(record.energy.uncertainty_j, record.energy.total_j)


def _metered_uncertainty(record: TrialRecord) -> float | None:
    return ratio(record.energy.metered_uncertainty_j, record.energy.metered_j)


def _metered_per_job_wh(trial: RecordedTrial) -> float | None:
    return _wh(ratio(trial.record.energy.metered_j, trial.jobs))


def _uncertainty_per_job_wh(trial: RecordedTrial) -> float | None:
    energy = trial.record.energy
    whole = energy.total_j is not None
    uncertainty_j = energy.uncertainty_j if whole else energy.metered_uncertainty_j
    return _wh(ratio(uncertainty_j, trial.jobs))


def _part(part: str) -> Callable[[RecordedTrial], float | None]:
    """Return the energy per job of one kind of part, None for 0 J."""

    def value(trial: RecordedTrial) -> float | None:
        # A simulated site without servers or switches has 0 J of them.
        return ratio(getattr(trial.record.energy, f"{part}_j") or None, trial.jobs)

    return value


def _part_provenance(part: str) -> Callable[[TrialRecord], str]:
    def provenance(record: TrialRecord) -> str:
        return record.energy.part_provenance.get(part, record.energy.provenance)

    return provenance


def _power_of_one(part: str) -> Callable[[RecordedTrial], float | None]:
    """Return the mean power of one node, server or drive."""

    def value(trial: RecordedTrial) -> float | None:
        record = trial.record
        count = sum(item.count for item in record.inventory if f"{item.part}s" == part)
        energy_j = getattr(record.energy, f"{part}_j") or None
        return ratio(ratio(energy_j, count), _span_s(trial))

    return value


def _span_s(trial: RecordedTrial) -> float | None:
    """Return the time that the energy is of: a simulation counts until its last event."""
    record = trial.record
    return record.duration_s if record.engine == "simulate" else trial.last_done_s


def _facility_wh(trial: RecordedTrial) -> float | None:
    energy = trial.record.energy
    metered = "facility" in energy.contained.values()
    return _site_per_job_wh(trial) if metered or energy.pue is not None else None


def _facility_provenance(record: TrialRecord) -> str:
    stated = record.energy.pue is not None and "facility" not in record.energy.contained.values()
    return f"{record.energy.provenance}+stated" if stated else record.energy.provenance


def _co2_g(trial: RecordedTrial) -> float | None:
    energy, per_job_wh = trial.record.energy, _site_per_job_wh(trial)
    if energy.co2_g_per_kwh is None or per_job_wh is None:
        return None
    return energy.co2_g_per_kwh * per_job_wh / 1000


def _co2_provenance(record: TrialRecord) -> str:
    return f"{record.energy.provenance}+stated"


ENERGY_WH_PER_JOB = Metric(
    name="energy_wh_per_job",
    title="Energy per job",
    unit="Wh/job",
    scale="prefixed",
    better="less",
    value=_site_per_job_wh,
    needs="energy of the whole site",
    provenance=_provenance,
    relative_uncertainty=_site_uncertainty,
    rank=600,
    of_energy=True,
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
    relative_uncertainty=_site_uncertainty,
    rank=610,
    secondary=True,
    of_energy=True,
)
ENERGY_DRIVES_J_PER_JOB = Metric(
    name="energy_drives_j_per_job",
    title="Energy of drives per job",
    unit="J/job",
    scale="prefixed",
    better="less",
    value=_part("drives"),
    needs="energy of the drives",
    provenance=_part_provenance("drives"),
    rank=620,
    of_energy=True,
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
    relative_uncertainty=_site_uncertainty,
    rank=630,
    of_energy=True,
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
    relative_uncertainty=_metered_uncertainty,
    rank=640,
    of_energy=True,
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
    of_energy=True,
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
    relative_uncertainty=_site_uncertainty,
    rank=655,
    of_energy=True,
)
EVENTS_PER_WH = Metric(
    name="events_per_wh",
    title="Events per energy",
    unit="events/Wh",
    scale="prefixed",
    value=_events_per_wh,
    needs="energy of the whole site, and events",
    provenance=_provenance,
    relative_uncertainty=_site_uncertainty,
    rank=657,
    of_energy=True,
)
MEAN_POWER_W = Metric(
    name="mean_power_w",
    title="Mean power",
    unit="W",
    scale="prefixed",
    better="less",
    value=lambda trial: ratio(trial.record.energy.total_j, _span_s(trial)),
    needs="energy of the whole site",
    provenance=_provenance,
    relative_uncertainty=_site_uncertainty,
    rank=660,
    of_energy=True,
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
    relative_uncertainty=_site_uncertainty,
    rank=670,
    of_energy=True,
)
ENERGY_FACILITY_WH_PER_JOB = Metric(
    name="energy_facility_wh_per_job",
    title="Facility energy per job",
    unit="Wh/job",
    scale="prefixed",
    better="less",
    value=_facility_wh,
    needs="energy of the whole site, and `pue` of [site] or a meter of the facility",
    provenance=_facility_provenance,
    rank=602,
    of_energy=True,
)
CO2_G_PER_JOB = Metric(
    name="co2_g_per_job",
    title="CO2 per job",
    unit="g/job",
    scale="prefixed",
    better="less",
    value=_co2_g,
    needs="energy of the whole site, and `co2` of [site]",
    provenance=_co2_provenance,
    rank=605,
    of_energy=True,
)
ENERGY_NODES_J_PER_JOB = Metric(
    name="energy_nodes_j_per_job",
    title="Energy of nodes per job",
    unit="J/job",
    scale="prefixed",
    better="less",
    value=_part("nodes"),
    needs="energy of the nodes",
    provenance=_part_provenance("nodes"),
    rank=615,
    of_energy=True,
)
ENERGY_SERVERS_J_PER_JOB = Metric(
    name="energy_servers_j_per_job",
    title="Energy of servers per job",
    unit="J/job",
    scale="prefixed",
    better="less",
    value=_part("servers"),
    needs="energy of the servers",
    provenance=_part_provenance("servers"),
    rank=617,
    of_energy=True,
)
ENERGY_SWITCH_J_PER_JOB = Metric(
    name="energy_switch_j_per_job",
    title="Energy of switches per job",
    unit="J/job",
    scale="prefixed",
    better="less",
    value=_part("switch"),
    needs="energy of the switches",
    provenance=_part_provenance("switch"),
    rank=622,
    of_energy=True,
)
IDLE_POWER_W = Metric(
    name="idle_power_w",
    title="Idle power",
    unit="W",
    scale="prefixed",
    better="less",
    value=lambda trial: ratio(trial.record.energy.idle_j, _span_s(trial)),
    needs="idle power of the whole site",
    provenance=_provenance,
    rank=661,
    of_energy=True,
)
IDLE_ENERGY_SHARE = Metric(
    name="idle_energy_share",
    title="Share of energy drawn idle",
    unit="",
    scale="share",
    better="less",
    value=lambda trial: ratio(trial.record.energy.idle_j, trial.record.energy.total_j),
    needs="idle power of the whole site",
    provenance=_provenance,
    rank=662,
    of_energy=True,
)
NODE_POWER_W = Metric(
    name="node_power_w",
    title="Mean power of a node",
    unit="W",
    scale="prefixed",
    better="less",
    value=_power_of_one("nodes"),
    needs="energy of the nodes",
    provenance=_part_provenance("nodes"),
    rank=664,
    of_energy=True,
)
SERVER_POWER_W = Metric(
    name="server_power_w",
    title="Mean power of a server",
    unit="W",
    scale="prefixed",
    better="less",
    value=_power_of_one("servers"),
    needs="energy of the servers",
    provenance=_part_provenance("servers"),
    rank=665,
    of_energy=True,
)
DRIVE_POWER_W = Metric(
    name="drive_power_w",
    title="Mean power of a drive",
    unit="W",
    scale="prefixed",
    better="less",
    value=_power_of_one("drives"),
    needs="energy of the drives",
    provenance=_part_provenance("drives"),
    rank=666,
    of_energy=True,
)
