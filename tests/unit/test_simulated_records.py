"""Records of simulated trials: the target's own servers and devices, the server and the time of a
fault, and what the end of a sustained load cuts off."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from headrace import _core, report
from headrace.analysis.find import FindOptions, find
from headrace.analysis.read import read
from headrace.engine.simulate.scenario import scenario_of
from headrace.engine.simulate.trials import PreparedTrial
from headrace.errors import HeadraceError, StudyError
from headrace.library import load_study, report_text
from headrace.metrics import values_of
from headrace.plan.order import make_plan
from headrace.records.rows import LOAD_OVER
from headrace.records.sums import job_sums
from headrace.records.trial_record import TrialRecord, decode
from headrace.study.load import load_study_text
from headrace.study.model import Study
from headrace.study.resolve import resolve

HEAD = """
headrace = 1
title = "Simulated"
"""
SITE = """
[site.node]
count = 2
link = "1 GbE"
drives = { os = "sata-7200-500gb" }
"""
READ = """
[workload.read]
kind = "sequential"
file_size = "64 MiB"
"""
SERVED = """
[target.store]
kind = "KIND"
servers = 3
bricks = { drive = "samsung-870-evo-1tb" }
"""


def study(text: str) -> Study:
    return load_study_text(HEAD + text, file=Path("study.toml"), base=Path("/base"))


def scenario(text: str, target: str = "store") -> Any:
    return scenario_of(resolve(study(text), target, "read", {}), target, "read", 1)


def simulated(text: str, tmp_path: Path) -> list[TrialRecord]:
    """Return the records of a study, with the sums over their jobs."""
    file = tmp_path / "study.toml"
    file.write_text(HEAD + text, encoding="utf-8")
    results = load_study(file).simulate(tmp_path / "results")
    found = sorted(results.glob("trials/*/trial.json"))
    return [decode(each.read_bytes()) for each in found]


@pytest.mark.parametrize("kind", ["hdfs", "glusterfs"])
def test_servers_are_machines_of_their_own(kind: str) -> None:
    made = scenario(SITE + SERVED.replace("KIND", kind) + READ)
    assert [(each["name"], each["count"]) for each in made["servers"]] == [("store-server", 3)]
    assert made["services"][0]["targets"] == [{"host": "store-server", "volume": "data"}]
    on_nodes = SERVED.replace("KIND", kind).replace("servers = 3\n", "")
    assert scenario(SITE + on_nodes + READ)["services"][0]["targets"][0]["host"] == "node"


def test_spare_drives_of_a_node_are_no_devices_of_the_target(tmp_path: Path) -> None:
    text = SITE.replace("count = 2\n", "") + (
        '[target.disk]\nkind = "block"\ndrive = "seagate-st3750640ns"\nread_ahead = "4 MiB"\n'
        '[workload.read]\nkind = "sequential"\nfile_size = "256 MiB"\n'
    )
    (record,) = simulated(text + "[plan]\nrepeats = { min = 1 }\n", tmp_path)
    assert {drive.volume for drive in record.drives} == {"disk", "os"}
    assert record.location["devices"] == ["node/disk"]
    findings, _ = report(tmp_path / "results", ())
    assert findings.curves[0].points[0].limit.kind == "device bandwidth"


FAULT = """
[[fault]]
what = "link-slowed"
name = "first"
share = 0.5
at = "10 ms"
duration = "1 s"
"""


@pytest.mark.parametrize(
    ("given", "host"),
    [("", 2), ("server = 0\n", 0), ("server = 1\n", 1), ('server = "store-1"\n', 1)],
)
def test_a_fault_affects_the_server_that_is_named(given: str, host: int) -> None:
    text = SITE + SERVED.replace("KIND", "xrootd") + READ + FAULT
    assert scenario(text + given)["faults"][0]["host"] == f"store-server[{host}]"
    with pytest.raises(HeadraceError, match="no server 7; there are: store-0, store-1, store-2"):
        scenario(text + "server = 7\n")


def test_a_fault_after_the_end_has_not_fired(tmp_path: Path) -> None:
    late = FAULT.replace("10 ms", "1000 s").replace("first", "late")
    text = SITE + SERVED.replace("KIND", "xrootd") + READ + late + FAULT
    (record,) = simulated(text + "[plan]\nrepeats = { min = 1 }\n", tmp_path)
    fired = {fault.name: (fault.fired, fault.struck_s) for fault in record.faults}
    assert fired == {"late": (0, None), "first": (1, 0.01)}
    assert [reason.code for reason in record.validity.reasons] == ["fault-did-not-fire"]


@pytest.mark.parametrize(
    ("more", "valid"),
    [
        ("", True),
        ('[run]\nload = "sustained"\nduration = "3 s"\n', True),
        (FAULT.replace("10 ms", "1000 s"), False),
    ],
    ids=["batch", "sustained", "invalid"],
)
def test_sums_alone_are_those_of_the_record(more: str, valid: bool) -> None:
    """A calibration takes them alone: it simulates each trial hundreds of times."""
    made = study(SITE + SERVED.replace("KIND", "xrootd") + READ + more)
    trial = make_plan(made).trials[0]
    prepared = PreparedTrial.of(made, trial)
    outcome = _core.simulate_json(prepared.scenario(series=False))
    found = prepared.simulated(outcome, None)
    sums = prepared.sums(outcome)
    assert (sums is not None) == found.record.validity.valid == valid
    if sums is not None:
        record = found.record.with_jobs(found.jobs)
        assert record.cpu is not None
        ending = {"last_done_s": record.last_done_s, "cpu_busy_s": record.cpu.busy_s}
        assert sums == {**(record.sums or {}), **ending}
        assert sums["jobs"] > 0 and sums["last_done_s"] > 0
        assert record.run["load"] == prepared.resolved.run.load
    assert prepared.sums(None) is None


def test_rates_of_a_sustained_load_are_over_its_whole_time(tmp_path: Path) -> None:
    text = (
        '[target.disk]\nkind = "block"\ndrive = "seagate-st3750640ns"\n'
        '[workload.read]\nkind = "sequential"\nfile_size = "64 MiB"\n'
        '[run]\nload = "sustained"\nduration = "1500 ms"\n[plan]\nrepeats = { min = 1 }\n'
    )
    (record,) = simulated(text, tmp_path)
    assert record.last_done_s == pytest.approx(1.5) and record.device is not None
    values = values_of(record)
    moved = record.device.bytes_read + record.device.bytes_written
    assert values["device_bytes_per_s"] == pytest.approx(moved / 1.5)
    assert values["jobs_per_s"] * values["wall_s"] == pytest.approx(1.0)


def test_a_job_that_was_cut_off_counts_by_its_time() -> None:
    whole = {"slot": 0, "node": 0, "start_s": 0.0, "end_s": 8.0, "wall_s": 8.0, "user_s": 4.0}
    cut = {**whole, "start_s": 8.0, "end_s": 10.0, "wall_s": 2.0, "user_s": 1.0}
    sums = job_sums([whole, {**cut, "cause": LOAD_OVER}])
    assert sums["jobs"] == 1.25 and sums["wall_s"] / sums["jobs"] == 8.0
    assert sums["efficiencies"] / sums["jobs"] == 0.5
    assert job_sums([whole, cut])["jobs"] == 2
    assert job_sums([{**cut, "cause": LOAD_OVER}])["jobs"] == 1


@pytest.mark.parametrize(
    ("factor", "heading"), [('"run.nodes" = [1, 2]', "slots × nodes"), ("jobs = [4, 8]", "jobs")]
)
def test_points_of_one_load_say_how_they_differ(factor: str, heading: str, tmp_path: Path) -> None:
    load = '[run]\nload = "sustained"\n' if factor.startswith("jobs") else ""
    target = SERVED.replace("KIND", "xrootd")
    text = f"{SITE}{target}{READ}[factors]\n{factor}\nslots = [1, 2]\n{load}"
    simulated(text + "[plan]\nrepeats = { min = 1 }\n", tmp_path)
    lines = report_text(tmp_path / "results").splitlines()
    assert any(heading in line and "limit" in line for line in lines)


def test_a_factor_that_no_model_knows_is_named(tmp_path: Path) -> None:
    """Otherwise analysis would find with confidence that its levels make no difference."""
    text = (
        SITE.replace("count = 2\n", "")
        + (
            '[target.store]\nkind = "xrootd"\nbricks = { drive = "samsung-870-evo-1tb" }\n'
            '[target.disk]\nkind = "block"\ndrive = "seagate-st3750640ns"\n'
        )
        + READ
        + (
            '[factors]\ntarget = ["store", "disk"]\n"target.store.threads" = [2, 64]\n'
            "slots = [1, 2]\n[plan]\nrepeats = { min = 1 }\n"
        )
    )
    told = {
        (record.target.name, warning.text)
        for record in simulated(text, tmp_path)
        for warning in record.validity.warnings
    }
    said = "no model knows target.store.threads: its levels are simulated alike"
    assert told == {("store", said)}
    assert said in find(read(tmp_path / "results")).warnings


def test_jobs_that_take_longer_than_the_timeout_are_named_and_not_ended(tmp_path: Path) -> None:
    """A simulation has no timeout; nothing said so."""
    target = '[target.disk]\nkind = "block"\ndrive = "sata-7200-500gb"\n'
    text = target + READ + "[plan]\nrepeats = { min = 1 }\n[run]\nslots = 2\n"
    (tmp_path / "a").mkdir()
    (record,) = simulated(text + 'timeout = "1 ms"\n', tmp_path / "a")
    said = "2 jobs take longer than timeout (1 ms): a simulation ends no job"
    assert record.validity.valid
    assert [warning.text[: len(said)] for warning in record.validity.warnings] == [said]
    (tmp_path / "b").mkdir()
    (record,) = simulated(text + 'timeout = "1 h"\n', tmp_path / "b")
    assert not record.validity.warnings


def test_series_of_a_drive_add_up_to_its_totals_until_the_end_of_the_run(tmp_path: Path) -> None:
    target = '[target.disk]\nkind = "block"\ndrive = "sata-7200-500gb"\n'
    text = target + READ + "[plan]\nrepeats = { min = 1 }\n[run]\nslots = 3\n"
    (record,) = simulated(text + 'series_interval = "1 s"\n', tmp_path)
    (folder,) = (tmp_path / "results" / "trials").iterdir()
    rows = pq.read_table(folder / "series" / "block.parquet").to_pylist()
    ends = [row["time_s"] for row in rows]
    spans = [end - begin for begin, end in pairwise([0.0, *ends])]
    assert ends[-1] == record.duration_s
    assert 0 < spans[-1] < 1
    moved = sum(row["read_bytes_per_s"] * span for row, span in zip(rows, spans, strict=True))
    (drive,) = record.drives
    assert moved == pytest.approx(drive.bytes_read)
    calls = sum(row["read_iops"] * span for row, span in zip(rows, spans, strict=True))
    assert calls == pytest.approx(drive.requests_read)
    busy = sum(row["busy"] * span for row, span in zip(rows, spans, strict=True))
    assert busy == pytest.approx(drive.busy_s, rel=1e-6)


def test_power_is_level_while_jobs_compute_alike_until_the_end(tmp_path: Path) -> None:
    target = '[target.disk]\nkind = "block"\ndrive = "samsung-870-evo-1tb"\n'
    work = '[workload.read]\nkind = "analysis"\ndata = { events = 60_000, files = 1 }\n'
    text = target + work + '[plan]\nrepeats = { min = 1 }\n[run]\nseries_interval = "300 ms"\n'
    (record,) = simulated(text, tmp_path)
    (folder,) = (tmp_path / "results" / "trials").iterdir()
    rows = pq.read_table(folder / "series" / "power.parquet").to_pylist()
    nodes = [row for row in rows if row["channel"] == "nodes"]
    assert nodes[-1]["time_s"] == record.duration_s
    assert len(nodes) > 2
    watts = [row["power_w"] for row in nodes]
    assert watts == pytest.approx([watts[0]] * len(watts))


def test_fewer_jobs_than_slots_count_as_the_jobs_that_ran(tmp_path: Path) -> None:
    target = SERVED.replace("KIND", "xrootd")
    text = f"{SITE}{target}{READ}[factors]\nslots = [1, 2, 8]\n[run]\njobs = 2\nnodes = 1\n"
    simulated(text + "[plan]\nrepeats = { min = 1 }\n", tmp_path)
    findings = find(read(tmp_path / "results"))
    points = [point for curve in findings.curves for point in curve.points]
    assert {point.slots: point.load for point in points} == {1: 1, 2: 2, 8: 2}
    assert any("slots stayed empty in trials with 2 jobs" in each for each in findings.warnings)


def test_copies_without_as_many_servers_are_refused_in_words_of_the_study(tmp_path: Path) -> None:
    target = SERVED.replace("KIND", "hdfs")
    text = f"{SITE}{target}{READ}[run]\nnodes = 1\n"
    with pytest.raises(StudyError) as caught:
        simulated(text.replace("servers = 3", "servers = 1"), tmp_path)
    said = str(caught.value)
    assert (
        "target.store.replicas: it cannot be simulated: each file has 3 copies by default" in said
    )
    assert "servers is 1 (given: 3); allowed: replicas = 1, or more servers" in said


def test_files_in_the_memory_of_a_node_are_served_to_its_jobs(tmp_path: Path) -> None:
    """Six jobs read one file of NFS: the node receives it once, the jobs all of it each."""
    served = SERVED.replace("KIND", "nfs").replace("servers = 3\nbricks", "export")
    text = SITE.replace("count = 2\n", "") + served + (
        '[workload.read]\nkind = "scan"\ndata = { events = 100_000, files = 1 }\n'
        "[run]\nslots = 1\njobs = 6\n[plan]\nrepeats = { min = 1 }\n"
    )  # fmt: skip
    (record,) = simulated(text, tmp_path)
    assert record.sums is not None
    assert record.sums["bytes_served"] >= record.sums["bytes_asked"] > 0


@pytest.mark.parametrize("metric", ["efficiency", "energy_wh_per_job", "events_per_wh"])
def test_a_fault_leaves_a_share_of_a_rate_whatever_the_study_is_about(
    metric: str, tmp_path: Path
) -> None:
    text = SITE + SERVED.replace("KIND", "xrootd") + (
        '[workload.read]\nkind = "scan"\ndata = { events = 100_000, files = 6 }\n'
    ) + FAULT + '[factors]\nfault = ["none", "first"]\n[plan]\nrepeats = { min = 2 }\n'  # fmt: skip
    simulated(text, tmp_path)
    (usual,) = find(read(tmp_path / "results")).faults
    options = replace(FindOptions(), metric=metric)
    (found,) = find(read(tmp_path / "results"), options).faults
    assert usual.rate is not None and found.rate is not None
    assert (found.rate_metric, found.rate.value) == (usual.rate_metric, usual.rate.value)
