"""The sentences of the answer: each form that it can take."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from headrace.analysis.findings import Estimate, Findings, Growth, Knee, SlotsFed, Unanswered
from headrace.report import wording
from headrace.report.answers import AnswerNumber, answers, leading
from headrace.report.choices import choice_sentences
from headrace.report.html import render
from headrace.report.latex import escape, latex_text
from headrace.report.numbers import probability
from headrace.report.select import (
    CURVES_AT_MOST,
    DRAWN_AT_ONCE,
    POINTS_AT_MOST,
    series_trials,
    shown_curves,
)
from headrace.report.tables import effect_row
from headrace.report.terminal import print_report
from headrace.report.tidy import tidy_table
from headrace.report.wording import LevelNames, cost_text
from sample_findings import sample_findings


def fed(findings: Findings, answer: SlotsFed | None) -> Findings:
    return replace(
        findings, curves=tuple(replace(curve, slots_fed=answer) for curve in findings.curves)
    )


def printed(findings: Findings) -> str:
    out = io.StringIO()
    print_report(findings, Console(file=out, width=80))
    return out.getvalue()


@pytest.fixture
def one() -> Findings:
    return sample_findings(filesystems=("xfs",), schedulers=("none",), left_out=0)


def test_the_answer_names_slots_and_what_limits(one: Findings) -> None:
    (answer,) = answers(fed(one, SlotsFed(6, 6.4, 0.9, False, "device latency")))
    assert answer.figures[0] == AnswerNumber("6", "slots fed")
    assert (
        answer.sentence
        == "scratch feeds 6 slots of higgs at 90\u202f% job efficiency; beyond, jobs wait for "
        "device latency."
    )


def test_a_single_slot_is_singular(one: Findings) -> None:
    (answer,) = answers(fed(one, SlotsFed(1, None, 0.9, False, "network")))
    assert "feeds 1 slot of" in answer.sentence
    assert answer.figures[0] == AnswerNumber("1", "slot fed")


def test_a_censored_answer_says_at_least(one: Findings) -> None:
    (answer,) = answers(fed(one, SlotsFed(8, None, 0.9, True, "")))
    assert answer.figures[0].text == "≥8"
    assert (
        answer.sentence
        == "scratch feeds at least 8 slots of higgs at 90\u202f% job efficiency; more were not "
        "tried."
    )


def test_none_fed_says_fewer_than_the_smallest_number_tried(one: Findings) -> None:
    (answer,) = answers(fed(one, SlotsFed(0, None, 0.99, False, "device latency", smallest=1)))
    assert (
        "feeds fewer than 1 slot of higgs at 99\u202f% job efficiency: with 1 slot it is 9"
        in answer.sentence
    )
    # How few is not known; the rate is, and comes first.
    assert [figure.unit for figure in answer.figures] == ["events/s", "slot fed"]
    assert answer.figures[1].text == "<1"
    without_one = replace(one.curves[0], points=one.curves[0].points[1:])
    tried = replace(one, curves=(without_one,))
    (answer,) = answers(fed(tried, SlotsFed(0, None, 0.99, False, "device latency", smallest=2)))
    assert "feeds fewer than 2 slots of higgs" in answer.sentence
    assert "with 2 slots it is" in answer.sentence
    assert "no slot" not in answer.sentence


@pytest.mark.parametrize(
    ("low", "high", "open_above", "said"),
    [
        (2, 8, False, "(95\u202f% interval: 2 – 8); beyond"),
        (4, 8, True, "(95\u202f% interval: 4 or more); beyond"),
        (0, 6, False, "(95\u202f% interval: up to 6); beyond"),
        (0, 8, True, "(95\u202f% interval: any number); beyond"),
        (4, 4, False, "efficiency; beyond"),
        (None, None, False, "efficiency; beyond"),
    ],
)
def test_slots_fed_are_said_with_what_the_data_allow(
    one: Findings, low: int | None, high: int | None, open_above: bool, said: str
) -> None:
    found = SlotsFed(4, 4.2, 0.9, False, "network", low=low, high=high, open_above=open_above)
    (answer,) = answers(fed(one, found))
    assert said in answer.sentence


def test_a_knee_is_said_with_what_the_data_allow() -> None:
    assert (
        wording.knee_text(Knee(4, "m", 1.0, "level", 2, 8, True), 4, "slot")
        == "at 4 slots (2 – 8), then level"
    )
    assert (
        wording.knee_text(Knee(4, "m", 1.0, "falls", 2, None, True), 4, "slot")
        == "at 4 slots (2 or more), then falls"
    )
    assert (
        wording.knee_text(Knee(1, "m", 1.0, "level", 1, None, False), 1, "slot")
        == "no difference seen"
    )
    assert wording.knee_text(Knee(4, "m", 1.0, "level"), 4, "slot") == "at 4 slots, then level"


def test_an_efficiency_just_below_the_bound_does_not_read_like_the_bound(one: Findings) -> None:
    (curve,) = one.curves
    first = curve.points[0]
    close = replace(first.metrics["efficiency"], value=0.896, low=None, high=None)
    point = replace(first, metrics={**first.metrics, "efficiency": close})
    findings = replace(one, curves=(replace(curve, points=(point, *curve.points[1:])),))
    (answer,) = answers(fed(findings, SlotsFed(0, None, 0.9, False, "device latency")))
    assert "at 90\u202f% job efficiency: with 1 slot it is 89.6\u202f%, and" in answer.sentence


def test_contention_for_cpus_is_not_put_down_to_the_storage(one: Findings) -> None:
    (answer,) = answers(fed(one, SlotsFed(2, None, 0.9, False, "cpu contention")))
    assert answer.sentence.endswith(
        "beyond, jobs wait for a CPU (the CPUs set this limit, not the storage)."
    )


def test_a_workload_that_does_not_compute_is_answered_by_its_rate_and_time(one: Findings) -> None:
    (answer,) = answers(fed(one, None))
    (figure,) = answer.figures
    assert figure.unit == "events/s" and figure.text != "–" and figure.interval
    assert (
        f"gives higgs {figure.text} events/s at 8 slots (event rate; 95\u202f% interval: "
        in answer.sentence
    )
    assert "; a job takes 123 s." in answer.sentence


def loaded(findings: Findings, growth: Growth) -> Findings:
    curves = tuple(
        replace(curve, slots_fed=None, growth=growth, levels={**curve.levels, "nodes": 1 + number})
        for number, curve in enumerate([findings.curves[0]] * 2)
    )
    return replace(findings, curves=curves)


@pytest.mark.parametrize(
    ("growth", "sentence"),
    [
        (
            Growth(
                "asked_bytes_per_s", (1, 4, 12), (11.8e6, 11.9e6, 11.7e6), 1, "level", "network"
            ),
            "scratch gives higgs 11.9 MB/s at most: 1 client reaches it, more add nothing (up to "
            "12 were tried). "
            "At 1 client, jobs wait for the network.",
        ),
        (
            Growth(
                "file_creations_per_s",
                (1, 4, 12),
                (900.0, 2000.0, 1000.0),
                4,
                "falls",
                "cpu contention",
            ),
            "scratch gives higgs 2\u202f000 creations/s at most: 4 clients reach it, with 12 it "
            "falls to 1\u202f000 creations/s. "
            "At 4 clients, jobs wait for a CPU (the clients set this limit, not the storage).",
        ),
        (
            Growth("asked_bytes_per_s", (1, 4), (1e9, 2.5e9), 4, "untried", "unknown"),
            "scratch gives higgs 2.50 GB/s at 4 clients, the most that were tried: the rate still "
            "grows with them.",
        ),
        (
            Growth("asked_bytes_per_s", (4,), (2.5e9,), 4, "untried", "unknown"),
            "scratch gives higgs 2.50 GB/s at 4 clients; no other number of clients was tried.",
        ),
    ],
)
def test_a_workload_that_loads_the_storage_is_answered_by_its_rate_and_clients(
    one: Findings, growth: Growth, sentence: str
) -> None:
    findings = loaded(one, growth)
    (answer,) = answers(findings)
    assert answer.sentence == sentence
    assert [figure.unit for figure in answer.figures] == ["events/s"]
    assert answer.others == 0, "another number of nodes is not another storage"
    out = io.StringIO()
    print_report(findings, Console(file=out, width=80))
    assert "feeds" not in out.getvalue() and "slots fed" not in out.getvalue()
    assert "clients" in out.getvalue()
    assert "Slots fed" not in render(findings, Path("nowhere"))


def test_a_sentence_of_the_analysis_is_taken_as_it_is(one: Findings) -> None:
    (answer,) = answers(fed(one, SlotsFed(2, None, 0.9, False, "the link is full at 117 MB/s.")))
    assert answer.sentence.endswith("beyond, the link is full at 117 MB/s.")


def test_the_best_of_several_is_named_with_what_makes_it() -> None:
    findings = sample_findings()
    (answer,) = answers(findings)
    assert "with xfs, scheduler mq-deadline (95" in answer.sentence
    assert "cache" not in answer.sentence, "a factor with one level makes no difference"
    assert answer.others == 3


def test_choices_name_the_strongest_factor_and_all_together() -> None:
    together, strongest = choice_sentences(sample_findings())
    assert "filesystem ext4, scheduler bfq" in together
    assert strongest.startswith(
        "Event rate of higgs: scheduler matters most. bfq instead of mq-deadline costs 11"
    )
    assert "(8.3 – 14.3)" in strongest, "a cost without its interval"


def test_a_factor_whose_interval_includes_zero_is_not_said_to_matter() -> None:
    findings = sample_findings()
    effects = tuple(
        replace(
            e,
            cost_of_wrong=replace(e.cost_of_wrong, value=0.11, low=-0.20, high=0.34),
            detectable=0.38,
        )
        for e in findings.effects
    )
    unseen = replace(findings, effects=effects, combined=())
    assert choice_sentences(unseen) == [
        "Event rate of higgs: no difference seen between levels of filesystem, scheduler; "
        "a difference of 38\u202f% would have been seen 4 times in 5."
    ]
    for row in (effect_row(effect, "measured", LevelNames({})) for effect in effects):
        assert (row["best"], row["worst"]) == ("–", "–"), "a winner out of noise"
        assert row["verdict"].startswith("no difference seen")
    text = printed(unseen)
    assert "no difference seen" in text and "costs 11" not in text
    assert "−20 – 34" in text, "the interval is left out"


def test_a_cost_is_inside_the_interval_beside_it() -> None:
    """99.77 % was written as 100 % (99.54 – 99.80)."""
    cost = Estimate(0.9977, 0.9954, 0.9980, 6, "t", ())
    assert cost_text(cost) == "99.77\u202f% (99.54 – 99.80)"
    assert cost_text(replace(cost, low=None, high=None)) == "100\u202f%"


def test_a_probability_below_one_per_cent_is_always_written_so() -> None:
    """0.70 % stood in a column beside < 1 %."""
    shares = (0.0, 0.007, 0.0099, 0.05, 0.985, 0.993, 1.0)
    assert [probability(share).replace("\u202f", " ") for share in shares] == [
        "< 1 %", "< 1 %", "< 1 %", "5.00 %", "98.5 %", "> 99 %", "> 99 %",
    ]  # fmt: skip


def test_combinations_that_are_not_told_apart_do_not_deny_the_effect_of_a_factor() -> None:
    """\"64 costs 96 %\" stood beside \"no difference seen\" for the same cells."""
    findings = sample_findings()
    assert any(effect.seen for effect in findings.effects)
    combined = tuple(
        replace(each, cost=replace(each.cost, low=-0.2, high=0.5)) for each in findings.combined
    )
    said = choice_sentences(replace(findings, combined=combined))
    assert "bfq instead of mq-deadline costs" in said[0]
    assert not any("no difference seen" in sentence for sentence in said)
    assert "the repeats of single combinations (4) do not tell their event rate apart" in said[1]


@pytest.mark.parametrize(("alike", "others"), [(1, "1 other."), (2, "2 others.")])
def test_combinations_like_the_best_are_counted_in_words(alike: int, others: str) -> None:
    findings = sample_findings()
    combined = tuple(replace(each, alike_best=alike) for each in findings.combined)
    together, _ = choice_sentences(replace(findings, combined=combined))
    assert together.endswith(f"No difference is seen between the best and {others}")


def test_levels_that_are_not_told_apart_share_the_first_place() -> None:
    findings = sample_findings(schedulers=("mq-deadline", "kyber", "bfq"))
    (effect,) = (effect for effect in findings.effects if effect.factor == "scheduler")
    alike = replace(effect, alike_best=("kyber",), alike_worst=())
    (sentence,) = choice_sentences(replace(findings, effects=(alike,), combined=()))
    assert "bfq instead of mq-deadline or kyber costs" in sentence
    assert "no difference seen between levels joined by “or”" in sentence
    between = replace(alike, alike_worst=("kyber",))
    (sentence,) = choice_sentences(replace(findings, effects=(between,), combined=()))
    assert "bfq instead of mq-deadline costs" in sentence
    assert "kyber: no difference seen to either" in sentence


def test_one_trial_of_each_names_no_winner() -> None:
    findings = sample_findings(repeats=1)
    assert all(curve.rank is None for curve in findings.curves)
    effects = tuple(
        replace(e, cost_of_wrong=replace(e.cost_of_wrong, low=None, high=None))
        for e in findings.effects
    )
    combined = tuple(
        replace(c, cost=replace(c.cost, low=None, high=None)) for c in findings.combined
    )
    for sentence in choice_sentences(replace(findings, effects=effects, combined=combined)):
        assert "one trial of each" in sentence
        assert "bfq" not in sentence and "ext4" not in sentence


def test_many_storages_are_grouped_the_most_important_first() -> None:
    findings = sample_findings(targets=("a", "b", "nas"), workloads=("higgs", "scan", "skim"))
    found = answers(findings)
    assert len(found) == 9
    shown = leading(found)
    assert [answer.workload for answer in shown] == ["higgs", "scan", "skim"]
    text = printed(findings)
    assert text.count("→") == 3
    assert "the other 6 storages and workloads are in the tables below" in " ".join(text.split())
    assert "Storages, best first: scan" in text
    assert (
        sum("costs" in sentence or "seen" in sentence for sentence in choice_sentences(findings))
        > 6
    )
    head = text[: text.index("Storages, best first")]
    assert len(re.findall(r"^  \S", head, re.MULTILINE)) <= 6 + 2, "sentences beyond the first six"
    assert len(re.findall(r'class="choice"', render(findings, Path("nowhere")))) == 6


def test_a_workload_without_a_valid_trial_is_named_with_its_reason(one: Findings) -> None:
    missing = Unanswered(
        "skim", "nas", "NFS", 9, 3, 2, 0, (("the page cache was not cold", 3), ("killed", 2))
    )
    findings = replace(one, unanswered=(missing,))
    wanted = (
        "skim on NFS: no valid trial of 9 (3 invalid, 2 failed, 4 not run): "
        "the page cache was not cold (3 trials; further reasons: 1)."
    )
    assert wanted in " ".join(printed(findings).split())
    assert wanted in render(findings, Path("nowhere"))
    assert wanted in tidy_table(findings)["note"].to_pylist()
    assert escape(wanted) in latex_text(findings, {})


def test_the_trials_are_counted() -> None:
    assert wording.trials_sentence(sample_findings(left_out=3)) == (
        "60 of 63 planned trials done; left out of every finding: 1 invalid, 1 failed, 1 "
        "unsupported."
    )
    assert wording.trials_sentence(sample_findings(left_out=0)).endswith("all of them count.")
    begun = replace(sample_findings(left_out=0), trials_done=0)
    assert wording.trials_sentence(begun) == "0 of 60 planned trials done."


def test_a_large_study_shows_best_and_worst_of_each_storage() -> None:
    findings = sample_findings(
        targets=tuple(f"disk{i}" for i in range(30)),
        filesystems=("ext3", "ext4", "xfs", "btrfs"),
        schedulers=("mq-deadline", "bfq", "none", "kyber"),
        slots=(1, 2),
    )
    shown = shown_curves(findings)
    assert len(shown.curves) <= CURVES_AT_MOST
    assert sum(len(curve.points) for curve in shown.curves) <= POINTS_AT_MOST
    assert shown.left_away == len(findings.curves) - len(shown.curves)
    for target in {curve.target for curve in findings.curves}:
        mine = [curve for curve in findings.curves if curve.target == target]
        kept = [curve for curve in shown.curves if curve.target == target]
        assert mine[0] in kept, "the best of each storage"
    assert all(0 < len(drawn) <= DRAWN_AT_ONCE for drawn in shown.drawn.values())


def test_trials_that_are_asked_for_come_first() -> None:
    shown = shown_curves(sample_findings())
    assert series_trials(shown, ("0003-x",))[0] == "0003-x"
    assert len(series_trials(shown)) == len(set(series_trials(shown)))
