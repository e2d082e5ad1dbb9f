"""The sentences of the answer: each form that it can take."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from headrace.analysis.findings import Findings, Growth, SlotsFed
from headrace.report import wording
from headrace.report.html import render
from headrace.report.select import CURVES_AT_MOST, DRAWN_AT_ONCE, POINTS_AT_MOST, series_trials, shown_curves
from headrace.report.terminal import print_report
from sample_findings import sample_findings


def fed(findings: Findings, answer: SlotsFed | None) -> Findings:
    return replace(findings, curves=tuple(replace(curve, slots_fed=answer) for curve in findings.curves))


@pytest.fixture
def one() -> Findings:
    return sample_findings(filesystems=("xfs",), schedulers=("none",), left_out=0)


def test_the_answer_names_slots_and_what_limits(one: Findings) -> None:
    (answer,) = wording.answers(fed(one, SlotsFed(6, 6.4, 0.9, False, "device latency")))
    assert answer.big == "6"
    assert (
        answer.sentence
        == "scratch feeds 6 slots of higgs at 90\u202f% job efficiency; beyond, jobs wait for device latency."
    )


def test_a_single_slot_is_singular(one: Findings) -> None:
    (answer,) = wording.answers(fed(one, SlotsFed(1, None, 0.9, False, "network")))
    assert "feeds 1 slot of" in answer.sentence


def test_a_censored_answer_says_at_least(one: Findings) -> None:
    (answer,) = wording.answers(fed(one, SlotsFed(8, None, 0.9, True, "")))
    assert answer.big == "≥8"
    assert (
        answer.sentence
        == "scratch feeds at least 8 slots of higgs at 90\u202f% job efficiency; more were not tried."
    )


def test_none_fed_says_what_one_slot_reaches(one: Findings) -> None:
    (answer,) = wording.answers(fed(one, SlotsFed(0, None, 0.99, False, "device latency")))
    assert answer.big == "0"
    assert "feeds no slot of higgs at 99\u202f% job efficiency: with 1 slot it is 9" in answer.sentence


def test_an_efficiency_just_below_the_bound_does_not_read_like_the_bound(one: Findings) -> None:
    (curve,) = one.curves
    first = curve.points[0]
    close = replace(first.metrics["efficiency"], value=0.896, low=None, high=None)
    point = replace(first, metrics={**first.metrics, "efficiency": close})
    findings = replace(one, curves=(replace(curve, points=(point, *curve.points[1:])),))
    (answer,) = wording.answers(fed(findings, SlotsFed(0, None, 0.9, False, "device latency")))
    assert "at 90\u202f% job efficiency: with 1 slot it is 89.6\u202f%, and" in answer.sentence


def test_contention_for_cpus_is_not_put_down_to_the_storage(one: Findings) -> None:
    (answer,) = wording.answers(fed(one, SlotsFed(2, None, 0.9, False, "cpu contention")))
    assert answer.sentence.endswith("beyond, jobs wait for a CPU (the CPUs set this limit, not the storage).")


def test_a_workload_that_does_not_compute_is_answered_by_its_rate(one: Findings) -> None:
    (answer,) = wording.answers(fed(one, None))
    assert answer.big == "–"
    assert "events/s at 8 slots" in answer.sentence


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
            Growth("asked_bytes_per_s", (1, 4, 12), (11.8e6, 11.9e6, 11.7e6), 1, "level", "network"),
            "scratch gives higgs 11.9 MB/s at most: 1 client reaches it, more add nothing (up to 12 were tried). "
            "At 1 client, jobs wait for the network.",
        ),
        (
            Growth("file_creations_per_s", (1, 4, 12), (900.0, 2000.0, 1000.0), 4, "falls", "cpu contention"),
            "scratch gives higgs 2\u202f000 creations/s at most: 4 clients reach it, with 12 it falls to 1\u202f000 creations/s. "
            "At 4 clients, jobs wait for a CPU (the clients set this limit, not the storage).",
        ),
        (
            Growth("asked_bytes_per_s", (1, 4), (1e9, 2.5e9), 4, "untried", "unknown"),
            "scratch gives higgs 2.50 GB/s at 4 clients, the most that were tried: the rate still grows with them.",
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
    (answer,) = wording.answers(findings)
    assert answer.sentence == sentence
    assert f"{answer.big} {answer.unit}" in sentence
    assert answer.others == 0, "another number of nodes is no other storage"
    out = io.StringIO()
    print_report(findings, Console(file=out, width=80))
    assert "feeds" not in out.getvalue() and "slots fed" not in out.getvalue()
    assert "clients" in out.getvalue()
    assert "Slots fed" not in render(findings, Path("nowhere"))


def test_a_sentence_of_the_analysis_is_taken_as_it_is(one: Findings) -> None:
    (answer,) = wording.answers(fed(one, SlotsFed(2, None, 0.9, False, "the link is full at 117 MB/s.")))
    assert answer.sentence.endswith("beyond, the link is full at 117 MB/s.")


def test_the_best_of_several_is_named_with_what_makes_it() -> None:
    findings = sample_findings()
    (answer,) = wording.answers(findings)
    assert "with filesystem xfs, scheduler mq-deadline" in answer.sentence
    assert "cache" not in answer.sentence, "a factor with one level makes no difference"
    assert answer.others == 3


def test_choices_name_the_strongest_factor_and_all_together() -> None:
    together, strongest = wording.choice_sentences(sample_findings())
    assert "filesystem ext4, scheduler bfq" in together
    assert "What matters most for the event rate of higgs is" in strongest


def test_a_factor_whose_interval_includes_zero_is_not_said_to_matter() -> None:
    findings = sample_findings()
    effects = tuple(
        replace(e, cost_of_wrong=replace(e.cost_of_wrong, value=0.01, low=-0.02)) for e in findings.effects
    )
    sentences = wording.choice_sentences(replace(findings, effects=effects, combined=()))
    assert sentences == [
        "No factor other than slots is seen to change the event rate of higgs: all intervals include zero."
    ]


def test_the_trials_are_counted() -> None:
    assert wording.trials_sentence(sample_findings(left_out=3)) == (
        "60 of 63 planned trials done; left out of every finding: 1 invalid, 1 failed, 1 unsupported."
    )
    assert wording.trials_sentence(sample_findings(left_out=0)).endswith("all of them count.")


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
        assert max(mine, key=lambda c: wording.rank(c, "events_per_s")) in kept
    assert all(0 < len(drawn) <= DRAWN_AT_ONCE for drawn in shown.drawn.values())


def test_trials_that_are_asked_for_come_first() -> None:
    shown = shown_curves(sample_findings())
    assert series_trials(shown, ("0003-x",))[0] == "0003-x"
    assert len(series_trials(shown)) == len(set(series_trials(shown)))
