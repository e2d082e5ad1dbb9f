"""`[report] metric` can be any metric: energy and price lead findings, report and comparison."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import headrace
from headrace.analysis.compare import compare
from headrace.analysis.find import FindOptions, find
from headrace.analysis.findings import Findings
from headrace.analysis.read import Records, read
from headrace.errors import StudyError
from headrace.report.answers import answers
from headrace.report.latex import latex_text
from headrace.report.terminal import print_report
from headrace.report.wording import best_heading
from headrace.study.model import Price
from synthetic_records import Truth, plan_of, write_results

WH = "energy_wh_per_job"
CELLS: list[dict[str, Any]] = [
    {"target": target, "workload": "higgs", "slots": slots, "scheduler": scheduler}
    for target in ("disk", "nas")
    for slots in (1, 2, 4, 8)
    for scheduler in ("none", "bfq")
]
TRUTH = Truth(site_w=180.0, effects={"scheduler": {"bfq": -0.3}}, trial_sigma=0.01)
STUDY = (
    'headrace = 1\n[report]\nmetric = "{}"\n[report.price]\ndisk = {{ price = {}, drives = 2 }}\n'
)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    root = tmp_path_factory.mktemp("records") / "r"
    text = STUDY.format(WH, 50)
    return read(write_results(root, plan_of(CELLS, 4), TRUTH, study_text=text, series=False))


@pytest.fixture(scope="module")
def findings(records: Records) -> Findings:
    return find(records)


def terminal(findings: Findings) -> str:
    text = io.StringIO()
    print_report(findings, Console(file=text, width=80))
    return " ".join(text.getvalue().split())


def test_energy_per_job_ranks_curves_and_has_a_knee(findings: Findings) -> None:
    assert findings.headline == {"higgs": WH} and findings.warnings == ()
    best = findings.curves[0]
    assert best.levels["scheduler"] == "none" and best.rank == 1
    assert findings.curves[-1].levels["scheduler"] == "bfq"
    # 180 W for 4 s on one slot; from 4 slots on, jobs share the device, which sets energy per job.
    values = {point.slots: point.metrics[WH].value for point in best.points}
    assert values[1] == pytest.approx(180 * 4 / 3600, rel=0.03)
    assert values[8] == pytest.approx(180 / 3600, rel=0.03)
    assert best.knee is not None
    assert (best.knee.slots, best.knee.metric, best.knee.beyond) == (4, WH, "level")


def test_the_cost_of_a_choice_is_more_energy(findings: Findings) -> None:
    ours = [each for each in findings.effects if each.factor == "scheduler"]
    # Joules per job would be the same effect once more.
    (effect,) = [each for each in ours if each.metric.startswith("energy")]
    assert (effect.metric, effect.best, effect.worst) == (WH, "none", "bfq")
    assert effect.less_is_better and effect.seen
    assert effect.cost_of_wrong.value == pytest.approx(2.718281828**0.3 - 1, rel=0.1)
    for each in findings.combined:
        assert each.metric == WH and each.best_value < each.worst_value


def test_the_report_says_lowest_and_best_value(findings: Findings) -> None:
    text = terminal(findings)
    assert "Its lowest energy per job is" in text and "best value" in text
    assert "best rate" not in text
    assert "Slots fed and best value" in latex_text(findings, {})
    assert WH.replace("_", "") not in text  # the title, not the name
    sentence = answers(findings)[0].sentence
    assert "Wh/job at" in sentence and "energy per job" in sentence


def test_the_best_efficiency_is_no_rate() -> None:
    """A study of job efficiency had the column "best rate" with 16.9 %."""
    assert best_heading(["efficiency"]) == best_heading(["events_per_s", WH]) == "best value"
    assert best_heading(["events_per_s", "file_creations_per_s", None]) == "best rate"


def test_energy_that_rises_with_load_says_so(tmp_path: Path) -> None:
    truth = replace(TRUTH, effects={"slots": {8: -0.5}}, loads_storage=True, job_events=0)
    cells = [{"target": "disk", "workload": "scan", "slots": slots} for slots in (1, 2, 4, 8)]
    root = write_results(tmp_path / "r", plan_of(cells, 4), truth, series=False)
    found = find(read(root), FindOptions(metric=WH))
    (curve,) = found.curves
    assert curve.knee is not None and (curve.knee.slots, curve.knee.beyond) == (4, "rises")
    assert curve.growth is not None and (curve.growth.enough, curve.growth.beyond) == (4, "rises")
    assert "at least: 4 clients reach it" in answers(found)[0].sentence
    assert "it rises to" in answers(found)[0].sentence


def test_a_price_leads(records: Records) -> None:
    name = "events_per_s_per_eur"
    price = {"disk": Price(price=50, drives=2), "nas": Price(price=900)}
    found = find(records, FindOptions(metric=name, price=price))
    assert found.headline == {"higgs": name}
    assert [curve.target for curve in found.curves] == ["disk", "disk", "nas", "nas"]
    assert {effect.metric for effect in found.effects} >= {name}
    assert found.curves[0].points[0].metrics[name].provenance == "stated"
    assert terminal(found)


def test_a_metric_that_trials_lack_is_not_replaced_silently(tmp_path: Path) -> None:
    truth = replace(TRUTH, site_w=None)
    text = STUDY.format(WH, 50)
    a = read(write_results(tmp_path / "a", plan_of(CELLS[:4], 2), truth, study_text=text))
    found = find(a)
    assert found.headline == {"higgs": "events_per_s"}
    (warning,) = found.warnings
    assert f"higgs has no {WH} ([report] metric), which needs energy of the whole site" in warning
    assert any(warning.startswith(f"A has no {WH}") for warning in compare(a, a).warnings)


def test_compare_says_which_needs_less_energy(records: Records, tmp_path: Path) -> None:
    truth = replace(TRUTH, site_w=200.0)
    text = STUDY.format(WH, 25)
    b = read(write_results(tmp_path / "b", plan_of(CELLS, 4), truth, seed=2, study_text=text))
    compared = compare(records, b)
    energy = [each for each in compared.differences if each.metric == WH]
    assert len(energy) == len(CELLS) and {each.better for each in energy} == {"a"}
    assert energy[0].ratio.value == pytest.approx(200 / 180, rel=0.03)
    # The trials are measured; their power is modelled.
    assert {energy[0].a.provenance, energy[0].b.provenance} == {"modelled"}
    # Each side has the price of its own study: half the price, double the rate for it.
    name = "events_per_s_per_eur"
    compared = compare(
        records, b, FindOptions(metric=name, price={"disk": Price(price=50, drives=2)})
    )
    ratios = [each.ratio.value for each in compared.differences if each.metric == name]
    assert len(ratios) == len(CELLS) / 2 and ratios[0] == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        ("energy_wh_per_jub", 'unknown metric; did you mean "energy_wh_per_job"?'),
        ("events_per_s_per_eur", "needs the price of each target: [report] price"),
        ("watts per job", "metric"),
    ],
)
def test_a_metric_that_does_not_exist_is_refused(tmp_path: Path, metric: str, problem: str) -> None:
    study = tmp_path / "study.toml"
    text = (
        'headrace = 1\n[target.t]\nkind = "path"\npath = "/tmp"\n[workload.w]\n'
        'kind = "sequential"\n[report]\nmetric = "{}"\n'
    )
    study.write_text(text.format(metric))
    with pytest.raises(StudyError) as error:
        headrace.load_study(study)
    (found,) = error.value.problems
    assert (found.field, found.line) == ("report.metric", 8) and problem in f"{found}"
    study.write_text(text.format("energy_wh_per_job"))
    assert headrace.load_study(study).study.report_options.metric == WH
