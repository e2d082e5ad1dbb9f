"""The first screen: one recommendation with its reason and its doubt, and as text for a ticket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.analysis.find import find
from headrace.analysis.findings import Estimate, Findings
from headrace.analysis.read import read
from headrace.cli.report import report as command
from headrace.report.answers import answers, rate_figure
from headrace.report.first_screen import filters_of
from headrace.report.html import render
from headrace.report.recommendation import Recommendation, recommendation
from headrace.report.select import shown_curves
from headrace.report.ticket import ticket_text
from headrace.report.tidy import tidy_table
from headrace.report.wording import trials_sentence
from synthetic_records import Truth, plan_of, write_results

ONE: list[dict[str, Any]] = [
    {"target": "disk", "workload": "higgs", "slots": slots} for slots in (1, 2, 4, 8)
]
TWO = [{**cell, "filesystem": name} for cell in ONE for name in ("ext4", "xfs")]


def found(
    folder: Path, cells: list[dict[str, Any]], repeats: int = 4, **more: Any
) -> tuple[Findings, Recommendation]:
    broken = more.pop("broken", None)
    more.setdefault("trial_sigma", 0.01)
    truth = Truth(**more)
    results = write_results(
        folder / "r", plan_of(cells, repeats), truth, broken=broken, series=False
    )
    findings = find(read(results))
    said = recommendation(findings)
    assert said is not None
    return findings, said


def test_a_storage_without_choices_gets_a_number_of_slots(tmp_path: Path) -> None:
    # 25 MB/s a job from 100 MB/s: four slots are fed, eight are not.
    _, said = found(tmp_path, ONE)
    assert said.action == "Run 4 slots of higgs on disk, no more."
    assert "k events/s" in said.reason and "at its full bandwidth" in said.reason
    assert said.doubts == ()
    assert said.interfered.startswith("Nothing")
    assert said.measure_next == ("Numbers of slots between 4 and 8.",)


def test_a_choice_is_named_with_what_the_wrong_one_costs(tmp_path: Path) -> None:
    _, said = found(tmp_path, TWO, effects={"filesystem": {"xfs": 0.3}})
    assert said.action.startswith("Take disk with filesystem xfs, and run 4 slots of higgs")
    assert "ext4 instead of xfs costs" in said.reason
    assert said.curve.levels["filesystem"] == "xfs"
    assert said.doubts == ()


def test_levels_that_are_worse_over_all_trials_may_not_do_as_well(tmp_path: Path) -> None:
    """Two repeats of 16 combinations tell few pairs apart; sixteen trials of each level do."""
    names = ("a", "b", "c", "d")
    cells = [
        {**ONE[0], "filesystem": name, "scheduler": scheduler}
        for name in names
        for scheduler in names
    ]
    effects = {"filesystem": {"a": 0.2, "b": 0.2, "c": 0.1}}
    _, said = found(tmp_path, cells, 2, effects=effects, trial_sigma=0.02, device_bytes_per_s=1e7)
    assert said.action.startswith("Take disk with filesystem b,")
    assert said.doubts == (
        "No difference is seen to 15 of 15 other combinations: the cheapest of them may do as "
        "well, but not those with filesystem d: over all trials they are worse.",
    )


def test_no_difference_is_a_doubt(tmp_path: Path) -> None:
    _, said = found(tmp_path, TWO)
    assert "No difference is seen to 1 of 1 other combinations" in " ".join(said.doubts)
    assert "may do as well." in " ".join(said.doubts)
    assert any("More repeats" in text for text in said.measure_next)
    assert "costs" not in said.reason


def test_of_storages_with_rates_that_are_not_told_apart_the_one_that_feeds_more_is_taken(
    tmp_path: Path,
) -> None:
    """A storage was taken whose rate was 0.1 % higher by chance, and that fed no slot."""
    findings, said = found(tmp_path, TWO)
    first, second = said.curve, next(c for c in findings.curves if c.levels != said.curve.levels)
    assert (first.rank, second.rank) == (1, 1)

    def fed(slots: dict[Any, int], rank: int) -> Findings:
        curves = tuple(
            replace(
                curve,
                slots_fed=replace(curve.slots_fed, slots=slots[curve.levels["filesystem"]]),
                rank=rank if curve is second else curve.rank,
            )
            for curve in findings.curves
            if curve.slots_fed is not None
        )
        return replace(findings, curves=curves)

    names = first.levels["filesystem"], second.levels["filesystem"]
    for slots, rank, taken in (((1, 4), 1, 1), ((4, 4), 1, 0), ((4, 1), 1, 0), ((1, 4), 2, 0)):
        now = recommendation(fed(dict(zip(names, slots, strict=True)), rank))
        assert now is not None and now.curve.levels["filesystem"] == names[taken]


def test_single_trials_simulations_and_losses_are_doubts(tmp_path: Path) -> None:
    _, said = found(
        tmp_path, TWO, repeats=1, engine="simulate", provenance="simulated", broken={0: "invalid"}
    )
    doubts = " ".join(said.doubts)
    assert "No real job ran" in doubts and "One trial of each" in doubts
    assert said.interfered == "1 trial left out (1 invalid)."
    assert any("--retry-invalid" in text for text in said.measure_next)
    assert any("three times" in text for text in said.measure_next)


def test_more_slots_are_wanted_when_the_most_are_still_fed(tmp_path: Path) -> None:
    _, said = found(tmp_path, ONE[:2])
    assert said.action == "Run 2 slots of higgs on disk; more were not tried."
    assert said.measure_next[0] == "More slots: 2 are still fed. Try 4 and 8 slots."
    _, said = found(tmp_path / "one", ONE[:1])
    assert said.measure_next[0] == "More slots: 1 is still fed. Try 2 and 4 slots."


def test_an_interval_with_other_numbers_of_slots_wants_more_repeats(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [{**ONE[0], "slots": slots} for slots in range(1, 7)]
    # Four jobs keep 90 % efficiency, up to what differs from trial to trial.
    _, said = found(tmp_path, cells, repeats=3, device_bytes_per_s=90e6, trial_sigma=0.4)
    assert said.doubts == ("The intervals allow 3 – 4 slots.",)
    assert said.measure_next == ("More repeats: the intervals allow 3 – 4 slots.",)


def test_the_text_for_a_ticket_fits_and_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    findings, said = found(tmp_path, TWO)
    text = ticket_text(replace(findings, title="Which filesystem?"))
    assert text.startswith("Which filesystem?\n\n" + said.action[:40])
    assert max(map(len, text.splitlines())) <= 76
    for part in ("Why: ", "Doubt: ", "What interfered: ", "Measure next: ", "Headrace "):
        assert f"\n{part}" in text
    assert "\u202f" not in text and "   8 " in text
    command(tmp_path / "r", text=True)
    assert capsys.readouterr().out == ticket_text(findings)
    assert not (tmp_path / "r" / "report.html").exists()


def test_nothing_valid_recommends_nothing(tmp_path: Path) -> None:
    results = write_results(
        tmp_path / "r", plan_of(ONE[:1], 2), Truth(), broken={0: "failed", 1: "invalid"}
    )
    findings, _ = headrace.report(results, formats=("html",))
    assert recommendation(findings) is None
    assert "No trial can be trusted" in ticket_text(findings)


@pytest.mark.parametrize(
    ("value", "said"),
    [(2_512_000.0, "2.51 M events/s"), (24_548.0, "24.5 k events/s"), (612.0, "612 events/s")],
)
def test_rates_are_in_words_of_the_field(value: float, said: str) -> None:
    figure = rate_figure("events_per_s", Estimate(value, None, None, 1, "one trial", ()))
    assert f"{figure.text} {figure.unit}" == said


def test_filters_are_the_factors_that_vary(tmp_path: Path) -> None:
    cells = [
        {**cell, "target": target, "scheduler": "bfq", "read_ahead": ahead}
        for cell in TWO[:4]
        for target in ("disk", "ssd")
        for ahead in ("128 KiB", "1 MiB")
    ]
    findings, _ = found(tmp_path, cells, repeats=2)
    filters = filters_of(shown_curves(findings))
    assert {each.title: set(each.levels) for each in filters} == {
        "Storage": {"disk", "ssd"},
        "Filesystem": {"ext4", "xfs"},
        "Read-ahead": {"128 KiB", "1 MiB"},
    }


@pytest.mark.parametrize("fate", ["failed", "invalid"])
def test_slots_that_were_tried_in_vain_are_not_called_untried(tmp_path: Path, fate: str) -> None:
    """Four slots are fed; with eight every trial failed, for example for lack of memory."""
    broken = {trial.index: fate for trial in plan_of(ONE, 4).trials if trial.levels["slots"] == 8}
    findings, said = found(tmp_path, ONE, broken=broken)
    assert said.action == "Run 4 slots of higgs on disk; no trial with 8 slots is valid."
    assert said.measure_next[0] == "8 slots again: no trial with them is valid."
    (answer,) = answers(findings)
    assert "at least 4 slots" in answer.sentence
    assert answer.sentence.split(";")[1].startswith(" no trial with 8 slots is valid.")
    (row,) = [row for row in rows_of(findings) if row["metric"] == "slots_fed"]
    assert row["note"].endswith("at least; no trial with 8 slots is valid")


def test_clients_that_were_tried_in_vain_are_not_called_untried(tmp_path: Path) -> None:
    trials = plan_of(ONE, 4).trials
    broken = {trial.index: "failed" for trial in trials if trial.levels["slots"] in (4, 8)}
    findings, _ = found(tmp_path, ONE, broken=broken, loads_storage=True, job_events=0)
    (answer,) = answers(findings)
    assert "at 2 clients, the most with a valid trial: the rate still grows" in answer.sentence
    broken |= {trial.index: "failed" for trial in trials if trial.levels["slots"] == 2}
    findings, _ = found(tmp_path / "one", ONE, broken=broken, loads_storage=True, job_events=0)
    (answer,) = answers(findings)
    assert "at 1 client; no trial with 2, 4, 8 clients is valid." in answer.sentence


def test_a_rate_without_a_seen_difference_is_not_said_to_grow(tmp_path: Path) -> None:
    """Two repeats that scatter: the answer sees no difference, so more clients are no advice."""
    findings, said = found(tmp_path, ONE[:2], 2, trial_sigma=0.6, loads_storage=True, job_events=0)
    (answer,) = answers(findings)
    assert "no difference is seen between 1 and 2 clients" in answer.sentence
    assert "More repeats: no difference is seen between 1 and 2 clients." in said.measure_next
    assert not any("grows" in each for each in said.measure_next)


def test_a_ticket_says_how_many_loads_it_leaves_away(tmp_path: Path) -> None:
    many = [{**ONE[0], "slots": slots} for slots in range(1, 16)]
    lines = ticket_text(found(tmp_path, many)[0]).splitlines()
    at = lines.index("(3 more in the report)")
    assert lines[at - 1].split()[0] == "11" and lines[at + 1].split()[0] == "15"


def rows_of(findings: Findings) -> list[dict[str, Any]]:
    return tidy_table(findings).to_pylist()


def test_a_damaged_record_is_left_out_and_a_lost_plan_is_told(tmp_path: Path) -> None:
    """A disk that lost half of one record, then the plan: neither is called undisturbed."""
    results = tmp_path / "r"
    cells = [{"target": "disk", "workload": "higgs", "slots": slots} for slots in (1, 2, 4)]
    write_results(results, plan_of(cells, 3), Truth())
    whole = find(read(results))
    assert trials_sentence(whole) == "9 of 9 planned trials done; all of them count."
    victim = min((results / "trials").iterdir())
    record = victim / "trial.json"
    record.write_bytes(record.read_bytes()[:300])
    findings = find(read(results))
    said = recommendation(findings)
    assert said is not None and said.interfered == "1 trial left out (1 damaged)."
    assert any("headrace resume" in text for text in said.measure_next)
    sentence = "8 of 9 planned trials done; left out of every finding: 1 damaged."
    assert trials_sentence(findings) == sentence
    (left,) = findings.left_out
    assert (left.trial, left.status, left.levels["slots"]) == (victim.name, "damaged", 1)
    for text in (ticket_text(findings), render(findings, results)):
        assert "Nothing: no trial is left out" not in text and "all of them count" not in text
    (results / "plan.parquet").unlink()
    lost = trials_sentence(find(read(results)))
    assert lost.startswith("8 trials done, and the plan cannot be read: how many are missing is")


def test_the_reason_does_not_speak_against_the_recommendation(tmp_path: Path) -> None:
    """One trial was lucky with the level that is worse over all others: that is a doubt."""
    cells = [
        {**cell, "scheduler": name, "filesystem": filesystem}
        for cell in ONE[:2]
        for name in ("bfq", "none")
        for filesystem in ("ext4", "xfs", "btrfs", "ext3")
    ]
    findings, _ = found(tmp_path, cells, 3, effects={"scheduler": {"bfq": -0.1}})
    bad = next(curve for curve in findings.curves if curve.levels["scheduler"] == "bfq")
    others = tuple(curve for curve in findings.curves if curve is not bad)
    lucky = replace(findings, curves=(bad, *others), combined=())
    said, usual = recommendation(lucky), recommendation(replace(findings, combined=()))
    assert said is not None and usual is not None
    cost = "bfq instead of none costs"
    assert cost in usual.reason and not any(cost in each for each in usual.doubts)
    assert cost not in said.reason
    (doubt,) = [each for each in said.doubts if cost in each]
    assert doubt.startswith("Over all other settings the other level is better: ")


def test_where_no_slot_is_fed_nothing_is_beyond(tmp_path: Path) -> None:
    _, said = found(tmp_path, ONE, cpu_s=0.1)
    assert "Beyond" not in said.reason and "No number of slots keeps 90" in said.reason


def test_one_number_of_clients_shows_no_growth(tmp_path: Path) -> None:
    cells = [{"target": name, "workload": "read", "slots": 1} for name in ("disk", "nas")]
    _, said = found(tmp_path, cells, loads_storage=True)
    asked = [each for each in said.measure_next if each.startswith("More than 1 client")]
    assert asked == ["More than 1 client: no other number of clients was tried."]


def test_a_number_that_costs_says_of_what(tmp_path: Path) -> None:
    cells = [{**cell, "servers": servers} for cell in ONE for servers in (2, 64)]
    findings, _ = found(tmp_path, cells, effects={"servers": {64: -0.5}})
    said = recommendation(replace(findings, combined=()))
    assert said is not None and "servers 64 instead of 2 costs" in said.reason
