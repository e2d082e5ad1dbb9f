"""Site files that calibrate writes: rehearsed, read, refused, and how far they can be trusted."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from calibrating import COMMAND, LOCAL, SERVED, planned, study_of
from headrace.analysis.read import read
from headrace.calibration.parameters import as_calibration
from headrace.calibration.running import SimulatedCells, site_facts, with_facts
from headrace.calibration.site_file import SiteFacts
from headrace.calibration.verdict import PredictedCell, judge
from headrace.engine.simulate.calibrated import calibrated
from headrace.errors import InterruptedRunError, RefusedError, StudyError
from headrace.library import Silent, calibrate, load_study
from headrace.plan.trial import Trial
from headrace.site import SiteCalibration, TargetCalibration
from synthetic_records import ENVIRONMENT, Truth, plan_of, write_results

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
