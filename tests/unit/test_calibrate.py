"""A site learnt from itself: hidden values come back, what is not known is said, cells are checked.

The measurements are simulated with hidden values (`rehearse`, or the simulator alone).
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from calibrating import LOCAL, REMOTE, SERVED, learnt_of, planned, study_of
from headrace.analysis.read import read
from headrace.calibration.cells import calibration_plan
from headrace.calibration.fitting import SiteFit
from headrace.calibration.observed import observed
from headrace.calibration.parameters import learnables
from headrace.calibration.running import SimulatedCells
from headrace.calibration.site_file import SiteFacts, site_text, with_site
from headrace.calibration.spread import JobsOfTrial, cpu_spreads, jobs_side_by_side
from headrace.library import load_study, simulate
from headrace.records.interference import Interference
from headrace.records.sums import job_sums
from headrace.site import SiteCalibration
from headrace.workloads.scan import Scan


@settings(max_examples=2, deadline=None, derandomize=True)
@given(
    scan=st.floats(0.4, 3.0),
    search=st.floats(0.4, 3.0),
    scans_slower=st.floats(0.0, 0.4),
    searches_slower=st.floats(0.0, 0.4),
    drive_rate=st.floats(3e7, 8e7),
)
def test_hidden_values_of_local_storage_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    scan: float,
    search: float,
    scans_slower: float,
    searches_slower: float,
    drive_rate: float,
) -> None:
    _, plan = planned(tmp_path_factory.mktemp("study"), LOCAL)
    hidden = {
        "cpu.scan": scan,
        "cpu.search": search,
        "busy_core_slowdown.scan": scans_slower,
        "busy_core_slowdown.search": searches_slower,
        "target.here.drive_rate": drive_rate,
    }
    found = learnt_of(plan, hidden)
    values = found.values
    assert values["cpu.scan"] == pytest.approx(scan, rel=0.05)
    assert values["cpu.search"] == pytest.approx(search, rel=0.05)
    assert values["busy_core_slowdown.scan"] == pytest.approx(scans_slower, abs=0.06)
    assert values["busy_core_slowdown.search"] == pytest.approx(searches_slower, abs=0.06)
    if "target.here.drive_rate" in values:
        assert values["target.here.drive_rate"] == pytest.approx(drive_rate, rel=0.35)
    for each in found.learnt:
        assert each.low <= each.value <= each.high


def test_what_acts_alike_is_said_to_be_undetermined_and_keeps_its_default(tmp_path: Path) -> None:
    _, plan = planned(tmp_path, SERVED)
    found = learnt_of(plan, {"target.nas.network_latency": 400e-6, "cpu.scan": 1.3})
    assert found.values["target.nas.network_latency"] == pytest.approx(400e-6, rel=0.15)
    assert found.values["cpu.scan"] == pytest.approx(1.3, rel=0.05)
    said = {each.parameter.name: each.why for each in found.undetermined}
    # One client at a time waits for latency and server alike.
    assert "cannot be distinguished from" in said["target.nas.server_request"]
    assert not set(said) & set(found.values)
    # An emulated drive is the one of the catalog: its rate is known.
    assert "target.nas.drive_rate" not in {*said, *found.values}


def test_the_time_until_files_are_open_is_told_from_that_of_reads(tmp_path: Path) -> None:
    """A scan of 0.1 s whose client takes as long to connect."""
    _, plan = planned(tmp_path, REMOTE.replace('"scan", "search"', '"scan"'))
    start = "target.nas.client_start"
    found = learnt_of(plan, {start: 0.08, "target.nas.network_latency": 300e-6, "cpu.scan": 1.4})
    assert found.values[start] == pytest.approx(0.08, rel=0.05)
    assert found.values["cpu.scan"] == pytest.approx(1.4, rel=0.1)
    # Without it the time is that of a catalog's client, which is connected at once.
    assert start not in learnt_of(plan, {"cpu.scan": 1.4}).values


def test_a_servers_cpu_time_is_told_from_the_latency_of_its_network(tmp_path: Path) -> None:
    """On one machine only what takes the jobs' cores slows more slots."""
    one = REMOTE.replace("[site.node]", "[site]\none_machine = true\n[site.node]")
    _, plan = planned(tmp_path, one.replace('"scan", "search"', '"scan"'))
    request, latency = "target.nas.server_request", "target.nas.network_latency"
    hidden = {request: 1.5e-3, latency: 200e-6, "cpu.scan": 1.4}
    found = learnt_of(plan, hidden)
    assert found.values[request] == pytest.approx(hidden[request], rel=0.15)


def test_what_the_system_does_beside_jobs_is_told_from_their_cpu_time(tmp_path: Path) -> None:
    one = LOCAL.replace("[site.node]", "[site]\none_machine = true\n[site.node]")
    _, plan = planned(tmp_path, one)
    hidden = {"target.here.beside_job": 20e-3, "cpu.scan": 1.4}
    found = learnt_of(plan, hidden)
    assert found.values["target.here.beside_job"] == pytest.approx(20e-3, rel=0.1)
    assert found.values["cpu.scan"] == pytest.approx(1.4, rel=0.05)
    # Nodes of their own do not tell it.
    _, apart = planned(tmp_path, LOCAL)
    assert "target.here.beside_job" not in learnt_of(apart, {"cpu.scan": 1.4}).values


def test_cpu_time_of_servers_is_what_neither_jobs_nor_others_used() -> None:
    rows = [{"wall_s": 1.0, "events": 10, "end_s": 1.0, "start_s": 0.0, "user_s": 0.7}]
    shared = Interference(
        cpus=2.0,
        capacity_s=2.0,
        jobs_s=0.7,
        own_s=0.4,
        kernel_s=0.1,
        foreign_s=0.2,
        steal_s=0.05,
        idle_s=0.5,
        waited_s=0.0,
        throttled_s=0.0,
        wall_s=1.0,
        lost_share=0.0,
        pressure=None,
        programs=(),
    )
    seen = observed({**job_sums(rows), "last_done_s": 1.0, "interference": shared})
    assert seen is not None and seen.served == pytest.approx(0.055)
    unknown = observed({**job_sums(rows), "last_done_s": 1.0, "engine": "measure"})
    assert unknown is not None and unknown.served is None


def test_records_of_jobs_say_how_long_files_took_to_open() -> None:
    rows = [
        {"wall_s": 1.0, "events": 10, "end_s": 1.0, "start_s": 0.0, "open_s": seconds}
        for seconds in (0.1, 0.3)
    ]
    seen = observed({**job_sums(rows), "last_done_s": 1.0})
    assert seen is not None and seen.open == pytest.approx(0.02)
    # One job that does not know makes the sum unknown, not smaller.
    partly = observed({**job_sums([*rows, {**rows[0], "open_s": None}]), "last_done_s": 1.0})
    assert partly is not None and partly.open is None


def test_work_and_time_of_jobs_without_end_are_of_one_window() -> None:
    """Slots that write: the second one goes on alone after the first one's end."""
    rows = [
        {"slot": slot, "bytes_written": 100 * seconds, "start_s": 0.0, "end_s": float(seconds)}
        for slot, seconds in ((0, 1), (1, 3))
    ]
    seen = observed({**job_sums(rows), "last_done_s": 3.0, "load": "sustained"})
    assert seen is not None and seen.seconds == pytest.approx(1 / 200)


def test_a_drive_whose_controller_takes_no_time_can_be_learnt(tmp_path: Path) -> None:
    file = study_of(tmp_path, LOCAL.replace('"scan", "search"', '"scan"'))
    drive = tmp_path / "small.toml"
    text = drive.read_text()
    for name in ("read", "write"):
        text = re.sub(rf"{name}_overhead_us = [0-9.]+", f"{name}_overhead_us = 0", text)
    drive.write_text(text)
    loaded = load_study(file)
    plan = calibration_plan(loaded.study, loaded.text)
    cells = SimulatedCells(plan.study, SiteFacts(), lambda: False)
    free = learnables([cells.modelled(plan.every[0])], several_slots=False)
    read = {each.path[-1]: each for each in free}["drive_read"]
    assert read.value(read.scaled(read.start)) == pytest.approx(read.low)


def test_cost_of_creating_files_comes_back(tmp_path: Path) -> None:
    kind = 'kind = "metadata"\nitems = 200\nwrite_bytes = "4 KiB"'
    text = LOCAL.replace('kind = "scan"\ndata = { events = 60_000, files = 4 }', kind)
    _, plan = planned(tmp_path, text.replace('"scan", "search"', '"scan"'))
    name = f"target.{plan.every[0].target}.create"
    assert learnt_of(plan, {name: 0.5}).values[name] == pytest.approx(0.5, rel=0.1)


def test_cells_to_learn_and_to_check_are_few_and_apart(tmp_path: Path) -> None:
    study, plan = planned(tmp_path, LOCAL)
    of = {trial.cell: trial.levels for trial in plan.every}
    learn = {(of[c]["workload"], of[c]["slots"], of[c]["cache"]) for c in plan.learn}
    check = {(of[c]["workload"], of[c]["slots"], of[c]["cache"]) for c in plan.check}
    assert learn == {
        (name, slots, cache)
        for name in ("scan", "search")
        for slots, cache in ((1, "cold"), (2, "cold"), (1, "warm"))
    }
    assert check == {("scan", 4, "cold"), ("search", 4, "cold")}
    # A study without slots gets some; the most of them check.
    text = LOCAL.replace("slots = [1, 2, 4]\n", "").replace('"scan", "search"', '"scan"')
    _, alone = planned(tmp_path, text)
    of = {trial.cell: trial.levels for trial in alone.every}
    assert {of[c]["slots"] for c in alone.learn} == {1, 2}
    assert {of[c]["slots"] for c in alone.check} == {4}
    assert not calibration_plan(study, LOCAL, 0).check


def test_turns_at_a_core_are_learnt_from_a_warm_cell_with_more_jobs_than_cores(
    tmp_path: Path,
) -> None:
    study, _ = planned(tmp_path, SERVED)
    plan = calibration_plan(study, SERVED, cores=2)
    of = {trial.cell: trial for trial in plan.every}
    crowded = [of[cell] for cell in plan.learn if of[cell].levels["slots"] == 4]
    assert {(t.workload, t.levels["cache"]) for t in crowded} == {
        ("scan", "warm"),
        ("search", "warm"),
    }
    assert {t.target for t in crowded} == {"nas"}, "one target tells what cores do: the first"
    assert all(of[cell].levels["cache"] == "cold" for cell in plan.check)
    # No study with as many cores needs it.
    assert calibration_plan(study, SERVED, cores=4).learn == calibration_plan(study, SERVED).learn
    # A few slots are more than one core.
    alone = calibration_plan(study, SERVED, cores=1)
    assert alone.learn == calibration_plan(study, SERVED).learn


@pytest.mark.parametrize("reload_s", [0.0, 2e-3, 4e-3])
def test_what_turns_at_a_core_cost_comes_back(tmp_path: Path, reload_s: float) -> None:
    study, _ = planned(tmp_path, LOCAL)
    plan = calibration_plan(study, LOCAL, cores=2)
    hidden = {"cpu.scan": 1.4, "cache_reload.scan": reload_s, "cache_reload.search": 2e-3}
    found = learnt_of(plan, hidden)
    values = {"cache_reload.scan": 0.0, **found.values}
    assert values["cache_reload.scan"] == pytest.approx(reload_s, rel=0.25, abs=5e-5)
    assert found.values["cpu.scan"] == pytest.approx(1.4, rel=0.05)


FORMATS = LOCAL.replace(
    "slots = [1, 2, 4]", 'format = ["ttree", "rntuple"]\nslots = [1, 2, 4]'
).replace('"scan", "search"', '"scan"')


def test_the_code_of_each_format_has_a_cpu_time_of_its_own(tmp_path: Path) -> None:
    """And what busy neighbours cost it."""
    study, plan = planned(tmp_path, FORMATS)
    of = {trial.cell: trial.levels for trial in plan.every}
    assert {(of[c]["format"], of[c]["slots"], of[c]["cache"]) for c in plan.learn} == {
        ("ttree", 1, "cold"),
        ("ttree", 2, "cold"),
        ("ttree", 1, "warm"),
        ("rntuple", 1, "cold"),
        ("rntuple", 2, "cold"),
    }
    assert {(of[c]["format"], of[c]["slots"]) for c in plan.check} == {("ttree", 4), ("rntuple", 4)}
    assert len(calibration_plan(study, FORMATS, 1).check) == 1
    hidden = {
        "cpu.scan": 1.4,
        'cpu_of.scan."data.format".rntuple': 0.6,
        "busy_core_slowdown.scan": 0.1,
        'busy_core_slowdown_of.scan."data.format".rntuple': 0.3,
    }
    values = learnt_of(plan, hidden).values
    assert {name: values[name] for name in hidden} == pytest.approx(hidden, rel=0.05, abs=0.02)


def test_a_study_of_one_format_takes_the_cpu_time_of_that_format() -> None:
    learnt = SiteCalibration.model_validate(
        {
            "cpu": {"scan": 2.0},
            "cpu_of": {"scan": {"data.format": {"rntuple": 0.5}}},
            "busy_core_slowdown": {"scan": 0.2},
            "busy_core_slowdown_of": {"scan": {"data.format": {"rntuple": 0.1}}},
        }
    )
    of = {
        name: Scan.Options.model_validate({"data": {"format": name}})
        for name in ("ttree", "rntuple")
    }
    assert learnt.cpu_of_jobs("scan", of["ttree"]) == 2.0
    assert learnt.cpu_of_jobs("scan", of["rntuple"]) == 1.0
    assert learnt.cpu_of_jobs("search", of["rntuple"]) == 1.0
    assert learnt.slowdown_of_jobs("scan", of["ttree"]) == 0.2
    assert learnt.slowdown_of_jobs("scan", of["rntuple"]) == pytest.approx(0.1)
    assert learnt.slowdown_of_jobs("search", of["rntuple"]) is None
    for value in (-0.1, 1.0):
        with pytest.raises(ValidationError, match=r"scan\.data\.format\.rntuple = .*allowed"):
            SiteCalibration.model_validate(
                {"busy_core_slowdown_of": {"scan": {"data.format": {"rntuple": value}}}}
            )


def test_how_much_jobs_differ_comes_back(tmp_path: Path) -> None:
    """From jobs that ran side by side, and in the simulation with the site that was learnt."""
    different = "[site.calibration]\ncpu_spread = { scan = 0.3 }\n[site.node]"
    text = LOCAL.replace("[site.node]", different).replace("min = 2", "min = 12, max = 12")
    study, plan = planned(tmp_path, LOCAL)
    trial = next(t for t in plan.every if (t.workload, t.levels["slots"]) == ("scan", 4))
    written = tmp_path / "different.toml"
    written.write_text(text)
    made = read(simulate(written, tmp_path / "results"))
    trials = jobs_side_by_side(made, {str(cell) for cell in made.trials["cell"]})
    assert {len(each.cpu) for each in trials} >= {1, 4}
    found = cpu_spreads(trials)
    assert found["scan"] == pytest.approx(0.3, rel=0.2)
    assert found.get("search", 0.0) < 0.05, "pieces of work vary, jobs do not"
    # What slows all jobs of a trial alike is no difference between them, nor are too few jobs one.
    slowed = [
        replace(each, cpu=[(1 + number % 3) * one for one in each.cpu])
        for number, each in enumerate(trials)
    ]
    assert cpu_spreads(slowed) == pytest.approx(found)
    assert not cpu_spreads([JobsOfTrial("scan", [1.0, 1.2, 0.9])])
    assert not cpu_spreads([JobsOfTrial("scan", [1.0])] * 9 + [JobsOfTrial("scan", [0.0] * 9)])

    file = tmp_path / "site.toml"
    file.write_text(site_text(SiteFit((), (), 0), SiteFacts(cpu_spread=found), ["From repeats."]))
    loaded, _ = with_site(study, LOCAL, file)
    made = SimulatedCells(loaded, SiteFacts(), lambda: False).scenario(trial)
    assert made["run"].get("cpu_spread") == pytest.approx(found["scan"], abs=0.005)
