"""Metrics of the study cluster-energy, and numbers per job where a trial runs parts of jobs."""

from __future__ import annotations

import msgspec
import pytest

from headrace.metrics import values_of
from headrace.records.sums import job_sums
from headrace.records.trial_record import TrialRecord
from synthetic_records import Truth, plan_of, trial_record


def _record(nodes: int, part_of_job: float) -> TrialRecord:
    plan = plan_of([{"target": "a", "workload": "tau", "slots": 4, "nodes": nodes}], 1)
    truth = Truth(site_w=300.0, cores=2 * nodes)
    record, jobs = trial_record(plan.trials[0], plan, truth, 0.0, "done", "synthetic")
    workload = msgspec.structs.replace(record.workload, part_of_job=part_of_job)
    return msgspec.structs.replace(record, workload=workload, sums=job_sums(jobs))


def test_the_study_s_energy_per_job_is_that_of_all_nodes_over_the_jobs_of_one() -> None:
    values = values_of(_record(3, 1.0))
    assert values["cluster_energy_wh_per_job"] == pytest.approx(3 * values["energy_wh_per_job"])
    # 4 slots on 2 cores are a relative slot size of 2.
    assert values["wall_s_per_relative_slot"] == pytest.approx(values["wall_s"] / 2)


def test_one_node_has_no_second_energy_per_job() -> None:
    values = values_of(_record(1, 1.0))
    assert values["energy_wh_per_job"] > 0
    assert not {"cluster_energy_wh_per_job", "wall_s_per_relative_slot"} & values.keys()


def test_numbers_per_job_are_of_whole_jobs() -> None:
    whole, parts = values_of(_record(3, 1.0)), values_of(_record(3, 0.02))
    for name in ("energy_wh_per_job", "cluster_energy_wh_per_job", "wall_s"):
        assert parts[name] == pytest.approx(50 * whole[name])
    assert parts["jobs_per_s"] == pytest.approx(whole["jobs_per_s"] / 50)
    for name in ("mean_job_efficiency", "throughput_jobs", "mean_power_w", "events_per_s"):
        assert parts[name] == whole[name]
