"""A site learnt from itself: hidden values come back, what is not known is said, cells are checked.

The measurements are simulated with hidden values (`rehearse`, or the simulator alone).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from headrace.analysis.read import read
from headrace.calibration.cells import CalibrationPlan, calibration_plan
from headrace.calibration.fitting import MeasuredCell, SiteFit, fit
from headrace.calibration.observed import ObservedCell, observed
from headrace.calibration.parameters import as_calibration, learnables
from headrace.calibration.running import REPEATS, SimulatedCells, site_facts, with_facts
from headrace.calibration.site_file import SiteFacts, site_text, with_site
from headrace.calibration.spread import RepeatedCell, cpu_spreads
from headrace.calibration.verdict import PredictedCell, judge
from headrace.catalog.load import ROOT
from headrace.engine.simulate.calibrated import calibrated
from headrace.errors import InterruptedRunError, RefusedError, StudyError
from headrace.library import Silent, calibrate, load_study
from headrace.plan.trial import Trial
from headrace.records.interference import Interference
from headrace.records.sums import job_sums
from headrace.site import SiteCalibration, TargetCalibration
from headrace.study.model import Study
from headrace.workloads.scan import Scan
from synthetic_records import ENVIRONMENT, Truth, plan_of, write_results

LOCAL = """
headrace = 1
[target.here]
kind = "path"
path = "data"
create = true
[site.node]
cores = 2
drives = { here = "small.toml" }
[workload.scan]
kind = "scan"
data = { events = 60_000, files = 4 }
[workload.search]
kind = "analysis"
data = { events = 100_000, files = 4 }
[factors]
workload = ["scan", "search"]
slots = [1, 2, 4]
[plan]
repeats = { min = 2 }
"""
NAS = """
[target.nas]
kind = "nfs"
export = { drive = "small.toml" }
"""
SERVED = LOCAL.replace("[site.node]", NAS + "[site.node]").replace(
    "[factors]", '[factors]\ntarget = ["nas"]'
)

REMOTE = SERVED.replace('kind = "nfs"', 'kind = "xrootd"').replace("export =", "bricks =")

COMMAND = LOCAL.replace(
    'kind = "scan"\ndata = { events = 60_000, files = 4 }', 'kind = "command"\ncommand = ["true"]'
)


def study_of(folder: Path, text: str, name: str = "study.toml") -> Path:
    """Write a study, and a small drive beside it: a map of few pages is soon made."""
    drive = (ROOT / "drives" / "mtron-msp-sata7035064.toml").read_text()
    drive = drive.replace("64_023_257_088", "536_870_912").replace("queue_depth = 1", "")
    (folder / "small.toml").write_text(drive.replace("120e6", "548e6"))
    file = folder / name
    file.write_text(text)
    return file


def planned(folder: Path, text: str) -> tuple[Study, CalibrationPlan]:
    loaded = load_study(study_of(folder, text))
    return loaded.study, calibration_plan(loaded.study, loaded.text)


def learnt_of(plan: CalibrationPlan, hidden: dict[str, float]) -> SiteFit:
    """What is learnt from the cells of a plan that were simulated with hidden values."""
    cells = SimulatedCells(plan.study, SiteFacts(), lambda: False)
    trials = [trial for trial in plan.every if trial.cell in plan.learn]
    truth = cells.simulate(as_calibration(hidden), trials)
    measured = [
        MeasuredCell(cell.target, cell.workload, cell.choices, seen)
        for cell, seen in zip(map(cells.modelled, trials), truth, strict=True)
        if seen is not None
    ]
    assert len(measured) == len(trials)
    free = learnables([cells.modelled(trial) for trial in trials], several_slots=True)

    def simulate(values: dict[str, float], numbers: Sequence[int]) -> list[ObservedCell | None]:
        return cells.simulate(as_calibration(values), [trials[number] for number in numbers])

    return fit(measured, free, simulate)


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
    """From repeats, and in the simulation of a study with the site that was learnt."""
    study, plan = planned(tmp_path, LOCAL)
    trial = next(t for t in plan.every if (t.workload, t.levels["slots"]) == ("scan", 4))
    hidden = SiteCalibration.model_validate({"cpu_spread": {"scan": 0.3}})
    seen: list[ObservedCell] = []
    for seed in range(12):
        cells = SimulatedCells(plan.study, SiteFacts(), lambda: False)
        seen += [cell for cell in cells.simulate(hidden, [replace(trial, seed=seed)]) if cell]
    jobs = 4 * REPEATS  # of which each is the mean
    found = cpu_spreads([RepeatedCell("scan", jobs, seen), RepeatedCell("search", 4, seen[:1])])
    assert found == {"scan": pytest.approx(0.3, rel=0.3)}
    # Jobs that are alike, and too few repeats, say nothing.
    assert not cpu_spreads(
        [RepeatedCell("scan", 4, seen[:1] * 12), RepeatedCell("search", 4, seen[:4])]
    )

    file = tmp_path / "site.toml"
    file.write_text(site_text(SiteFit((), (), 0), SiteFacts(cpu_spread=found), ["From repeats."]))
    loaded, _ = with_site(study, LOCAL, file)
    made = SimulatedCells(loaded, SiteFacts(), lambda: False).scenario(trial)
    assert made["run"].get("cpu_spread") == pytest.approx(found["scan"], abs=0.005)


HIDDEN = """
[site.calibration]
cpu = { scan = 1.5, search = 0.7 }
busy_core_slowdown = 0.2
[site.calibration.target.here]
drive_rate = "80 MB/s"
"""


class StopsAfter(Silent):
    """An observer that stops a run after some trials."""

    def __init__(self, count: int) -> None:
        self.stop = threading.Event()
        self.finished = 0
        self._count = count

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        self.finished += 1
        if self.finished == self._count:
            self.stop.set()


def test_a_rehearsal_is_stopped_gone_on_with_and_predicts_what_simulate_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE_DIR", str(tmp_path / "cache"))
    study = study_of(tmp_path, LOCAL)
    hidden = study_of(tmp_path, HIDDEN, "hidden.toml")
    root, out = tmp_path / "results", tmp_path / "new folder" / "my site.toml"
    first = StopsAfter(3)
    with pytest.raises(InterruptedRunError):
        calibrate(study, root, out=out, rehearse=hidden, observer=first, stop=first.stop)
    assert not out.exists()
    second = StopsAfter(0)
    site, file = calibrate(study, root, out=out, rehearse=hidden, observer=second)
    assert file == out and 0 < second.finished < 20
    assert site.verdict.trusted and (site.verdict.good_to or 1) < 0.05
    assert site.verdict.typical is not None and site.verdict.null_typical is not None
    assert site.verdict.typical < site.verdict.null_typical
    # The file that was written gives the same times as were predicted.
    loaded = load_study(study, site=out)
    simulated = SimulatedCells(loaded.study, SiteFacts(), lambda: False)
    for cell in site.cells:
        levels = {name: level for name, level in cell.trial.levels.items() if name != "cache"}
        if cell.trial.levels["cache"] == "cold":
            trial = next(each for each in loaded.plan().trials if each.levels == levels)
            made = simulated.simulate(as_calibration({}), [trial])[0]
            assert made is not None
            assert made.seconds * made.work == pytest.approx(cell.predicted_s, rel=0.05)
    assert loaded.study.site is not None and loaded.study.site.calibration is not None
    assert loaded.study.site.calibration.cpu["scan"] == pytest.approx(1.5, rel=0.05)
    with pytest.raises(RefusedError, match="something else"):
        calibrate(study_of(tmp_path, SERVED, "other.toml"), root, rehearse=hidden)
    mine = study_of(tmp_path, "mine", "mine.toml")
    with pytest.raises(RefusedError, match="not a site that headrace calibrate wrote"):
        calibrate(study, root, out=mine, rehearse=hidden)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[site.calibration]\ncpu = { scan = 0 }\n", "hidden.toml:2: site.calibration.cpu"),
        ("[site.calibration]\nfast = 1\n", "hidden.toml:2: site.calibration.fast"),
        ("[run]\nslots = 1\n", "hidden.toml:1: run"),
        ("title = 3\n", "[site] is missing"),
    ],
)
def test_a_wrong_site_file_is_refused_by_line(tmp_path: Path, text: str, words: str) -> None:
    study = study_of(tmp_path, LOCAL)
    with pytest.raises(StudyError) as caught:
        load_study(study, site=study_of(tmp_path, text, "hidden.toml"))
    assert words in str(caught.value)


OTHERS = (
    ('[site.calibration.target.tape]\ndrive_read = "1 s"\n', "target.tape"),
    ("[site.calibration.cpu_spread]\nmerge = 0.1\n", "cpu_spread.merge"),
    ('[site.calibration.cpu_of.scan."data.reader"]\nroot = 2.0\n', "cpu_of.scan.data.reader"),
    (
        "[site.calibration.busy_core_slowdown_of.scan.nosuch]\nroot = 0.1\n",
        "busy_core_slowdown_of.scan.nosuch",
    ),
)


@pytest.mark.parametrize(("text", "place"), OTHERS)
def test_learnt_values_of_other_studies_parts_are_left_out(
    tmp_path: Path, text: str, place: str
) -> None:
    file = study_of(tmp_path, HIDDEN + text, "site.toml")
    loaded = load_study(study_of(tmp_path, LOCAL), site=file)
    assert loaded.study.site is not None and (learnt := loaded.study.site.calibration) is not None
    assert set(learnt.target) == {"here"} and not learnt.cpu_spread
    assert not any(learnt.cpu_of.values()) and not any(learnt.busy_core_slowdown_of.values())
    # In a study file they are a mistake.
    with pytest.raises(StudyError, match=re.escape(f"site.calibration.{place}")):
        load_study(study_of(tmp_path, LOCAL + HIDDEN + text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LOCAL.replace('drives = { here = "small.toml" }', ""), "study.toml:4: target.here.kind"),
        (COMMAND, "study.toml:11: workload.scan.kind"),
    ],
)
def test_what_has_no_model_is_refused_by_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(StudyError) as caught:
        calibrate(study_of(tmp_path, text), tmp_path / "results")
    assert words in str(caught.value) and "nothing can be learnt" in str(caught.value)
    assert not (tmp_path / "results").exists()


def cell(
    slots: int, error: float | None, null: float | None = None, **levels: object
) -> PredictedCell:
    trial = Trial(0, "disk", "scan", {"slots": slots, "cache": "cold", **levels}, 0, 1, 0)
    measured = None if error is None else 1.0
    role = "checked" if error is not None else "predicted"
    nulls = None if null is None else (1 + null, 9.0)
    return PredictedCell(trial, slots, role, 1 + (error or 0), measured, nulls)


def test_the_verdict_says_how_far_the_site_can_be_trusted() -> None:
    good = judge([cell(1, 0.03), cell(4, -0.08, 0.3), cell(64, None)], 0.15)
    assert good.trusted and good.good_to == pytest.approx(0.08)
    assert good.sentences[0].startswith("good to 8 % in 2 cells")
    assert good.sentences[1].startswith("better than no model") and good.null == "time"
    assert "do not trust it beyond 4 slots" in good.sentences[-1]
    bad = judge([cell(2, 0.01), cell(8, 0.4, 0.1)], 0.15)
    assert not bad.trusted
    assert any("no better" in each for each in bad.sentences)
    assert any("beyond 2 slots for scan on disk: +40 % at 8" in each for each in bad.sentences)
    assert judge([cell(2, 0.4), cell(8, 0.5)], 0.15).sentences[0].startswith("off by up to 50 %")
    unknown = judge([cell(1, None)], 0.15)
    assert not unknown.trusted and unknown.good_to is None


def test_the_verdict_names_every_level_of_a_cell() -> None:
    ttree = {"format": "ttree", "run.threads": 2}
    cells = [
        cell(2, -0.5, **ttree),
        cell(4, 0.4, format="rntuple", threads=1),
        cell(2, 0.01, format="rntuple", threads=1),
    ]
    said = judge(cells, 0.15).sentences
    assert "worst: disk, scan, ttree, threads = 2, 2 slots, -50 %" in said[0]
    assert "do not trust it at all for scan on disk, ttree, threads = 2: -50 % at 2 slots" in said
    # What is good elsewhere is no reason to trust another format.
    beyond = (
        "do not trust it beyond 2 slots for scan on disk, rntuple, threads = 1: +40 % at 4 slots"
    )
    assert beyond in said
    assert "half within" in said[0] and "half within" not in judge(cells[:2], 0.15).sentences[0]


def test_nodes_and_servers_of_one_machine_share_its_cores(tmp_path: Path) -> None:
    """A server's work takes as long from the jobs as their own."""
    text = SERVED.replace("cores = 2", "cores = 1").replace("slots = [1, 2, 4]", "slots = [1, 2]")
    slow = SiteCalibration(target={"nas": TargetCalibration(server_rate=10e6)})

    def seconds(folder: str, site: str) -> tuple[float, float]:
        (place := tmp_path / folder).mkdir()
        _, plan = planned(place, text.replace("[site.node]", f"{site}\n[site.node]"))
        cells = SimulatedCells(plan.study, SiteFacts(), lambda: False)
        (trial, *_) = (each for each in plan.every if each.levels["slots"] == 2)
        made = cells.scenario(trial)
        assert made.get("one_machine", False) == bool(site)
        (cell,) = cells.simulate(slow, [trial])
        assert cell is not None
        return cell.seconds * cell.work, cell.cpu * cell.work

    shared_s, shared_cpu_s = seconds("shared", "[site]\none_machine = true")
    apart_s, apart_cpu_s = seconds("apart", "")
    assert shared_cpu_s == pytest.approx(apart_cpu_s, rel=0.01), "the jobs compute as much"
    # Two jobs on one core, and a server that needs a second for each 10 MB: nothing overlaps.
    assert shared_s > 1.2 * apart_s


def test_a_targets_own_cost_of_creating_files_goes_first(tmp_path: Path) -> None:
    """Site files of before have one for all targets."""
    _, plan = planned(tmp_path, LOCAL)
    scenario = SimulatedCells(plan.study, SiteFacts(), lambda: False).modelled(plan.every[0])
    learnt = as_calibration({"create": 2.0, "target.here.create": 3.0})

    def create_ns(target: str) -> int:
        (node,) = calibrated(scenario.scenario, learnt, target, "scan", None)["nodes"]
        return node.get("create_ns", 0)

    (node,) = scenario.scenario["nodes"]
    given = node.get("create_ns", 0)
    assert given > 0 and (create_ns("here"), create_ns("there")) == (3 * given, 2 * given)


@pytest.mark.parametrize(
    ("kernel", "on", "rules"),
    [
        ("6.18.44-example", "local", "large_folios"),
        ("6.15.2", "local", None),
        ("6.18.44-example", "ssh://one.example.org", None),
    ],
)
def test_the_kernel_that_was_measured_reads_ahead_in_the_simulation(
    kernel: str, on: str, rules: str | None, tmp_path: Path
) -> None:
    """That of other machines is not known."""
    cells = [{"target": "here", "workload": "scan", "slots": slots} for slots in (1, 2)]
    truth = Truth(environment={**ENVIRONMENT, "kernel": kernel})
    write_results(tmp_path / "results", plan_of(cells, 1), truth)
    text = LOCAL.replace("cores = 2\n", "")
    study, _ = planned(tmp_path, f'{text}\n[run]\non = "{on}"\n')
    facts = site_facts(study, read(tmp_path / "results"))
    assert facts.node.get("read_ahead_rules") == rules
    site = with_facts(study, facts).site
    assert site is not None and site.node.read_ahead_rules == rules


@pytest.mark.parametrize(
    ("on", "cores"), [("namespaces", 8), ("ssh://a.example.org,b.example.org", 4)]
)
def test_cores_of_other_machines_are_those_of_one(on: str, cores: int, tmp_path: Path) -> None:
    """The record has the cores of all machines together."""
    cells = [{"target": "here", "workload": "scan", "slots": 1, "nodes": 2}]
    write_results(tmp_path / "results", plan_of(cells, 1), Truth(environment=ENVIRONMENT, cores=8))
    text = LOCAL.replace("cores = 2\n", "").replace("create = true", 'create = true\non = "node"')
    study, _ = planned(tmp_path, f'{text}\n[run]\non = "{on}"\nnodes = 2\n')
    assert site_facts(study, read(tmp_path / "results")).node["cores"] == cores
