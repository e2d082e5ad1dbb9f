"""What holds for simulated storage whatever the drive, the RAID, the jobs and the seed are."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.simulate.simulator import Cores
from headrace.whatif.sweep import sweep

DRIVES = st.sampled_from(
    ["wd-wd3200bekt", "sata-7200-500gb", "samsung-870-evo-1tb", "intel-670p-1tb", "corsair-f40"]
)
SEEDS = st.integers(1, 5)
SLACK = 1.05
"""Jobs start at different moments, and their files lie at other places of a disk."""
JOBS = {
    "read": 'kind = "sequential"\nmode = "read"\nfile_size = "16 MiB"',
    "scan": 'kind = "scan"\ndata = { shape = "bench", events = 20_000, files = 8 }',
    "skim": 'kind = "skim"\ndata = { shape = "bench", events = 20_000, files = 8 }',
    "analysis": 'kind = "analysis"\n'
    'data = { shape = "bench", events = 8_000, files = 8, order = "unordered" }',
}


@cache
def _values(target: str, job: str, run: str, seed: int) -> dict[str, float]:
    text = (
        f'headrace = 1\ntitle = "laws"\n{target}\n[workload.w]\n{job}\n'
        f"[plan]\nrepeats = {{ min = 1 }}\nseed = {seed}\n[run]\n{run}\n"
    )
    (study,) = sweep([text], Path("/"), Cores())
    assert not study.problem, study.problem
    (trial,) = study.trials
    assert not trial.problem, trial.problem
    return dict(trial.metrics)


def _rate(values: dict[str, float]) -> float:
    return values.get("events_per_s") or values["asked_bytes_per_s"]


def _disk(drive: str, raid: str = "") -> str:
    node = '[site.node]\nmachine = "generic-node"\n'
    return f'{node}[target.t]\nkind = "block"\ndrive = "{drive}"\n{raid}'


@settings(max_examples=12)
@given(drive=DRIVES, job=st.sampled_from(list(JOBS)), slots=st.sampled_from([1, 2, 4]), seed=SEEDS)
def test_more_slots_never_raise_the_rate_of_one(
    drive: str, job: str, slots: int, seed: int
) -> None:
    few, many = (
        _values(_disk(drive), JOBS[job], f"slots = {count}", seed) for count in (slots, 2 * slots)
    )
    assert _rate(many) / (2 * slots) <= SLACK * _rate(few) / slots
    assert many.get("efficiency", 1.0) <= 1 + 1e-9


@settings(max_examples=10)
@given(drive=DRIVES, count=st.sampled_from([2, 3, 4]), seed=SEEDS)
def test_a_stripe_is_no_faster_than_its_drives_together_and_no_slower_than_one(
    drive: str, count: int, seed: int
) -> None:
    job = JOBS["read"].replace("16 MiB", "128 MiB")
    one = _rate(_values(_disk(drive), job, "slots = 1", seed))
    raid = f"raid = {{ level = 0, drives = {count} }}"
    several = _rate(_values(_disk(drive, raid), job, "slots = 1", seed))
    assert one / SLACK <= several <= SLACK * count * one


@settings(max_examples=10)
@given(drive=DRIVES, job=st.sampled_from(["read", "scan", "analysis"]), seed=SEEDS)
def test_warm_is_never_slower_than_cold(drive: str, job: str, seed: int) -> None:
    cold, warm = (
        _values(_disk(drive), JOBS[job], f'slots = 2\ncache = "{cache}"', seed)
        for cache in ("cold", "warm")
    )
    assert _rate(warm) >= _rate(cold) / SLACK
    assert warm["device_bytes_per_s"] == 0


SERVED = """
[site.node]
machine = "generic-node"
link = "LINK"
[site.server.s]
machine = "generic-server"
count = COUNT
link = "LINK"
[target.t]
"""
NFS = SERVED + 'kind = "nfs"\nserver = "s"\nexport = { drive = "samsung-870-evo-1tb" }\n'
GLUSTERFS = SERVED + ('kind = "glusterfs"\nbricks = { on = "s", drive = "samsung-870-evo-1tb" }\n')


@settings(max_examples=8)
@given(
    target=st.sampled_from([NFS, GLUSTERFS]),
    job=st.sampled_from(["read", "scan", "analysis"]),
    slots=st.sampled_from([1, 4]),
    seed=SEEDS,
)
def test_a_faster_network_is_never_slower(target: str, job: str, slots: int, seed: int) -> None:
    text = target.replace("COUNT", "1")
    rates = [
        _rate(_values(text.replace("LINK", link), JOBS[job], f"slots = {slots}", seed))
        for link in ("1 GbE", "10 GbE", "25 GbE")
    ]
    assert all(after >= before / SLACK for before, after in pairwise(rates))
    assert all(
        _values(text.replace("LINK", "1 GbE"), JOBS[job], f"slots = {slots}", seed)[name] <= 125e6
        for name in ("network_bytes_per_s",)
    )


@settings(max_examples=6)
@given(slots=st.sampled_from([2, 8]), seed=SEEDS)
def test_more_servers_are_never_slower(slots: int, seed: int) -> None:
    text = GLUSTERFS.replace("LINK", "10 GbE")
    rates = [
        _rate(_values(text.replace("COUNT", count), JOBS["read"], f"slots = {slots}", seed))
        for count in ("1", "2", "4")
    ]
    assert all(after >= before / SLACK for before, after in pairwise(rates))


@settings(max_examples=8)
@given(drive=DRIVES, depth=st.sampled_from([1, 2, 8]), seed=SEEDS)
def test_deeper_queues_never_lower_the_rate_of_random_reads(
    drive: str, depth: int, seed: int
) -> None:
    few, many = (
        _values(
            _disk(drive),
            f'kind = "random"\nfile_size = "64 MiB"\namount = "4 MiB"\niodepth = {count}',
            "",
            seed,
        )
        for count in (depth, 2 * depth)
    )
    assert _rate(many) >= _rate(few) / SLACK


@settings(max_examples=8)
@given(drive=DRIVES, job=st.sampled_from(list(JOBS)), slots=st.sampled_from([1, 4]), seed=SEEDS)
def test_a_site_draws_no_less_than_when_it_is_idle(
    drive: str, job: str, slots: int, seed: int
) -> None:
    found = _values(_disk(drive), JOBS[job], f"slots = {slots}", seed)
    assert found["mean_power_w"] >= found["idle_power_w"] * (1 - 1e-9) > 0
    assert 0 < found["idle_energy_share"] <= 1 + 1e-9
