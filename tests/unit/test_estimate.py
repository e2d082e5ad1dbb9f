"""What a plan will take, of real study files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.engine.estimate import Guess, estimate
from headrace.plan import make_plan
from headrace.study import load_study, load_study_text

# Not the drives of our own that studies name, which lie beside them.
STUDIES = sorted(
    file
    for file in (Path(__file__).parents[2] / "studies").rglob("*.toml")
    if file.parent.name != "drives"
)

STUDY = """
headrace = 1
title = "t"
[target.disk]
kind = "path"
path = "/tmp"
[workload.w]
kind = "analysis"
data = {{ shape = "bench", events = {events}, files = 4 }}
[factors]
slots = [1, 2]
[run]
{run}
"""


def guess(*, events: int = 100_000, run: str = 'cache = "as-is"', more: str = "") -> Guess:
    study = load_study_text(
        STUDY.format(events=events, run=run) + more, file=Path("t.toml"), base=Path("/")
    )
    return estimate(study, make_plan(study))


def test_time_and_disk_grow_with_the_data() -> None:
    small, large = guess(), guess(events=1_000_000)
    assert small.target_bytes["disk"] > 0
    assert large.target_bytes["disk"] == pytest.approx(10 * small.target_bytes["disk"], rel=0.01)
    assert large.cache_bytes == pytest.approx(10 * small.cache_bytes, rel=0.01)
    assert large.seconds > 2 * small.seconds


def test_a_sustained_load_takes_its_duration() -> None:
    long, short = (guess(run=f'load = "sustained"\nduration = {seconds}') for seconds in (100, 10))
    # 2 cells, 3 repeats, 90 s longer each
    assert long.seconds - short.seconds == pytest.approx(2 * 3 * 90)


def test_what_needs_root_is_said() -> None:
    assert guess().needs_root == ()
    assert any("page cache" in text for text in guess(run='cache = "cold"').needs_root)
    assert any(
        "memory" in text for text in guess(run='cache = "as-is"\nmemory_limit = "1 GiB"').needs_root
    )


def test_nodes_and_servers_need_root_to_be_built() -> None:
    """Without root `run` refuses them, so `plan` names them."""
    assert any("[run] on" in text for text in guess(run='cache = "as-is"\nnodes = 3').needs_root)
    there = guess(run='cache = "as-is"\nnodes = 2\non = "ssh://a,b"')
    assert there.needs_root == ()
    served = '[target.nas]\nkind = "nfs"\n[target.mine]\nkind = "nfs"\n'
    served += 'address = "nas"\nexport = "/data"\n'
    (said,) = guess(more=served).needs_root
    assert "target nas" in said and "address" in said


def test_levels_that_no_trial_has_are_warned_of() -> None:
    found = guess(more="[[exclude]]\nslots = 2\n")
    assert found.warnings == ("no trial has slots = 2: excluded, or without meaning here",)


@pytest.mark.parametrize("file", STUDIES, ids=lambda file: file.stem)
def test_every_study_of_ours_has_a_plan_and_an_estimate(file: Path) -> None:
    study = load_study(file)
    plan = make_plan(study)
    assert plan.trials
    found = estimate(study, plan)
    assert found.seconds > 0
    assert set(found.target_bytes) == {trial.target for trial in plan.trials}
