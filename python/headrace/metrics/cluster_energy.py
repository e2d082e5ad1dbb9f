"""Metrics as the study cluster-energy defines them (docs/reproduce.md), for several nodes.

They are for comparison with its tables. Its energy per job is that of the whole cluster over the
jobs of one of its nodes: with three nodes, three times the energy of a job (`energy_wh_per_job`).
"""

from headrace.metrics import Metric
from headrace.metrics.energy import JOULES_PER_WH
from headrace.metrics.trial import RecordedTrial, ratio


def _per_job_of_one_node_wh(trial: RecordedTrial) -> float | None:
    if trial.nodes < 2:
        return None
    energy = trial.record.energy
    per_job_j = ratio(energy.total_j, trial.jobs / trial.nodes)
    return None if per_job_j is None else per_job_j / JOULES_PER_WH


def _per_relative_slot_s(trial: RecordedTrial) -> float | None:
    """Return the mean wall time of a job, divided by the slots per core."""
    cpu = trial.record.cpu
    if trial.nodes < 2 or cpu is None:
        return None
    wall_s = ratio(trial.sum("wall_s"), trial.jobs)
    return None if wall_s is None else wall_s * cpu.cores / (trial.record.slots * trial.nodes)


CLUSTER_ENERGY_WH_PER_JOB = Metric(
    name="cluster_energy_wh_per_job",
    title="Energy of all nodes per job of one",
    unit="Wh/job",
    scale="prefixed",
    better="less",
    value=_per_job_of_one_node_wh,
    needs="energy of the whole site, and several nodes",
    provenance=lambda record: record.energy.provenance,
    rank=605,
    of_energy=True,
)
WALL_S_PER_RELATIVE_SLOT = Metric(
    name="wall_s_per_relative_slot",
    title="Wall time per slot of a core",
    scale="time",
    better="less",
    value=_per_relative_slot_s,
    needs="several nodes, and the number of their cores",
    rank=165,
)
