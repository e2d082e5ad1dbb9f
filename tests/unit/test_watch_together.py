"""How the threads of a watched job share its wall time: in virtual time, where the truth is known.

Threads follow a plan of what they want; so many CPUs run them. Counters and looks at random moments
are those of the kernel, without its errors.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.system.accounting import Times
from headrace.system.waiting import wait_until
from headrace.watching.as_json import line
from headrace.watching.estimate import Together, WaitEstimate, Waits, shared_out
from headrace.watching.ledger import JobLedger, Spent, State, StorageWait
from headrace.watching.states import IDLE, RUNNING
from headrace.watching.together import SeenThread, ThreadCpu, TogetherLooks
from headrace.watching.used import JobSample, Used
from headrace.watching.view import footnotes
from headrace.watching.watcher import NodeSample

POINTS = 0.02
STEP_NS = 250_000
SDA = StorageWait("block", "sda")
READS = State(SDA)
PERIOD = 80
"""Steps of 20 ms."""
Plan = Callable[[int, random.Random], Iterator[str]]


def computes(_: int, __: random.Random) -> Iterator[str]:
    while True:
        yield "compute"


def sleeps(_: int, __: random.Random) -> Iterator[str]:
    while True:
        yield "sleep"


def bursts(_: int, __: random.Random) -> Iterator[str]:
    """1 ms of CPU, every 20 ms of the clock."""
    while True:
        yield from ["compute"] * 4
        yield "next period"


def reads(_: int, chosen: random.Random) -> Iterator[str]:
    """All the time, with a little CPU."""
    while True:
        yield from ["read"] * chosen.randint(10, 40)
        yield "compute"


def works(_: int, chosen: random.Random) -> Iterator[str]:
    """60 % of CPU, 40 % of reads."""
    while True:
        yield from ["compute"] * chosen.randint(2, 40)
        yield from ["read"] * chosen.randint(2, 26)


def now_and_then(_: int, chosen: random.Random) -> Iterator[str]:
    """1 ms of CPU every 20 ms or so, each thread at its own times."""
    while True:
        yield from ["compute"] * 4
        yield from ["sleep"] * chosen.randint(10, 142)


def in_turn(number: int, chosen: random.Random) -> Iterator[str]:
    """One of four after the other computes and reads."""
    yield from ["sleep"] * (40 * number)
    while True:
        yield from ["compute"] * 25
        yield from ["read"] * 15
        yield from ["sleep"] * 120


@dataclass
class Job:
    """Threads on CPUs, with the counters of the kernel and the truth."""

    plans: list[Plan]
    cpus: int
    busy: bool = False
    """Whether other programs take some of the CPUs."""
    seed: int = 1
    run_ns: Counter[int] = field(default_factory=Counter[int])
    queued_ns: int = 0
    true: dict[str, float] = field(default_factory=dict[str, float])
    least_ns: int = 0
    most_ns: int = 0

    def states(self, steps: int) -> Iterator[list[str]]:
        """Yield what the threads do in each step."""
        chosen = random.Random(self.seed)
        plans = [plan(number, chosen) for number, plan in enumerate(self.plans)]
        wants = [next(plan) for plan in plans]
        for step in range(steps):
            for number, want in enumerate(wants):
                if want == "next period" and step % PERIOD == 0:
                    wants[number] = next(plans[number])
            ready = [number for number, want in enumerate(wants) if want == "compute"]
            ready.sort(key=lambda number: self.run_ns[number])  # the fair scheduler
            free = chosen.randint(0, self.cpus) if self.busy else self.cpus
            run = set(ready[:free])
            doing = [
                ("run" if number in run else "queue") if want == "compute" else want
                for number, want in enumerate(wants)
            ]
            yield doing
            for number, did in enumerate(doing):
                if did in ("run", "read", "sleep"):
                    wants[number] = next(plans[number])

    def count(self, doing: list[str]) -> None:
        """Count a step."""
        for number, did in enumerate(doing):
            self.run_ns[number] += STEP_NS * (did == "run")
            self.queued_ns += STEP_NS * (did == "queue")
        self.most_ns += STEP_NS * ("read" in doing)
        awake = [number for number, did in enumerate(doing) if did in ("run", "queue")]
        self.least_ns += STEP_NS * ("read" in doing and not awake)

    def share(self, doing: list[str], cpu_ns: Counter[int]) -> None:
        """Count the truth of a step; `cpu_ns` of all threads in the end."""
        awake = [number for number, did in enumerate(doing) if did in ("run", "queue")]
        most_ns = max((cpu_ns[number] for number in awake), default=0)
        active = [
            did
            for number, did in enumerate(doing)
            if number in awake or (did == "read" and 5 * cpu_ns[number] > most_ns)
        ]
        active = active or [did for did in doing if did == "read"]
        for did in active:
            self.true[did] = self.true.get(did, 0.0) + STEP_NS / len(active)


class Found(NamedTuple):
    """The ledger of a watch, and the truth."""

    ledger: JobLedger
    job: Job


def watched(
    plans: list[Plan], cpus: int, *, busy: bool = False, looks_per_s: int = 1500, seconds: int = 6
) -> Found:
    """Watch a job for some intervals of 1 s."""
    job, chosen = Job(plans, cpus, busy), random.Random(2)
    steps = [list(doing) for doing in job.states(seconds * 1_000_000_000 // STEP_NS)]
    estimate, total = WaitEstimate(), Spent()
    together = TogetherLooks(cpus, lambda _: job.run_ns)
    per_s = len(steps) // seconds
    for begin in range(0, len(steps), per_s):
        states: Counter[State] = Counter()
        before_ns, before_queued_ns = sum(job.run_ns.values()), job.queued_ns
        for doing in steps[begin : begin + per_s]:
            job.count(doing)
            if chosen.random() < looks_per_s * STEP_NS * 1e-9:
                seen = [_seen(*each) for each in enumerate(doing)]
                states.update(each.state for each in seen if not each.running)
                together.add(seen)
        found, wall_ns = together.settle(), per_s * STEP_NS
        run_ns = sum(job.run_ns.values()) - before_ns
        queued_ns = job.queued_ns - before_queued_ns
        used = Times(run_ns, queued_ns, 0)
        waits = estimate.waits(used, 0, wall_ns * len(plans), states, found)
        total.add(shared_out(wall_ns, used, waits, found))
    for doing in steps:
        job.share(doing, job.run_ns)
    return Found(total.ledger(), job)


def _seen(number: int, did: str) -> SeenThread:
    if did in ("run", "queue"):
        return SeenThread(number, RUNNING, running=True)
    return SeenThread(number, READS if did == "read" else IDLE, running=False)


MIXES: list[list[Plan]] = [
    [computes],
    [reads],
    [computes] * 4,
    [computes] + [sleeps] * 6,
    [bursts] * 8,
    [now_and_then] * 8,
    [reads] * 4,
    [computes] + [reads] * 4,
    [works] * 2,
    [works] * 8,
    [in_turn] * 4,
    [in_turn] * 4 + [sleeps] * 3,
    [bursts] * 2 + [works] * 3,
]


def name(plans: list[Plan]) -> str:
    return " ".join(f"{n}*{plan.__name__}" for plan, n in Counter(plans).items())


@pytest.mark.parametrize("plans", MIXES, ids=name)
@pytest.mark.parametrize("cpus", [1, 2, 8])
def test_threads_share_the_wall_time(plans: list[Plan], cpus: int) -> None:
    ledger, job = watched(plans, cpus)
    true = {did: spent_ns / 1e9 / ledger.wall_s for did, spent_ns in job.true.items()}
    known = {name: true.get(did, 0.0) for name, did in _PARTS.items()}
    found = {name: ledger.shares[name] for name in known}
    assert found == pytest.approx(known, abs=POINTS), ledger
    bounds_s = job.least_ns / 1e9, job.most_ns / 1e9
    assert ledger.waits_bounds_s == pytest.approx(bounds_s, abs=POINTS * ledger.wall_s)


_PARTS = {"on_cpu": "run", "wait_cpu": "queue", "wait_block": "read"}


@pytest.mark.parametrize("plans", MIXES, ids=name)
def test_other_programs_take_some_of_the_cpus(plans: list[Plan]) -> None:
    """Which threads waited for a CPU of their own job, and which for one of others, is not seen:
    on CPU and no CPU may be further off, together they are not."""
    ledger, job = watched(plans, 2, busy=True)
    true = {did: spent_ns / 1e9 / ledger.wall_s for did, spent_ns in job.true.items()}
    shares = ledger.shares
    awake = true.get("run", 0.0) + true.get("queue", 0.0)
    assert shares["on_cpu"] + shares["wait_cpu"] == pytest.approx(awake, abs=POINTS)
    assert shares["wait_block"] == pytest.approx(true.get("read", 0.0), abs=POINTS)
    assert shares["on_cpu"] == pytest.approx(true.get("run", 0.0), abs=3 * POINTS)


@pytest.mark.parametrize(("active", "least"), [(100, 0.98), (50, 0.38), (20, 0.3)])
def test_no_less_is_counted_than_the_looks_show(active: int, least: float) -> None:
    """Where the watch is late it sees threads too seldom, never too often."""
    looks = Together(looks=100, active=active, part_of_running=0.5, part_of_awake=0.5)
    spent = shared_out(10**9, Times(400_000_000, 200_000_000, 0), Waits(), looks)
    assert (spent.run_ns + spent.wait_cpu_ns) / 1e9 >= least - 1e-9
    assert spent.run_ns == pytest.approx(2 * spent.wait_cpu_ns)
    assert spent.cpu_ns == 400_000_000


def test_threads_that_run_are_told_from_those_that_could() -> None:
    """A broadcast wakes four threads up: they wait for a CPU together, and each runs alone."""
    looks = TogetherLooks(2, lambda _: {})
    for number in range(200):
        alone = number % 2 == 0
        awake = [
            SeenThread(each, RUNNING, running=True, has_cpu=alone) for each in range(4 - 3 * alone)
        ]
        looks.add(awake)
    together = looks.settle()
    assert together.part_of_running == pytest.approx(1.0, abs=POINTS)
    assert together.part_of_awake == pytest.approx(200 / 500)
    spent = shared_out(10**9, Times(500_000_000, 2_000_000_000, 0), Waits(), together)
    assert spent.run_ns / 1e9 == pytest.approx(0.5, abs=POINTS)
    assert spent.wait_cpu_ns / 1e9 == pytest.approx(0.5, abs=POINTS)


def test_a_few_threads_that_were_seen_to_run_tell_little() -> None:
    """None of eight was seen on one of two CPUs: still their part is not a whole moment."""
    looks = TogetherLooks(2, lambda _: {})
    for _ in range(30):
        looks.add([SeenThread(each, RUNNING, running=True, has_cpu=False) for each in range(8)])
    assert looks.settle().part_of_running == pytest.approx(1 / 8)


def test_cpu_time_of_threads_of_late() -> None:
    """A thread that computes, and one that has ended: its counter is not there any more."""
    cpu, ended = ThreadCpu(), threading.Thread()
    ended.start()
    ended.join()
    own = threading.get_native_id()
    threads = [own, ended.native_id or 0]
    cpu.begin(threads)
    before_ns = time.thread_time_ns()
    while time.thread_time_ns() < before_ns + 50_000_000:
        pass
    time.sleep(0.001)  # the counter is as old as the last switch of threads, or tick
    found = cpu.recent_ns(threads)
    assert found == {own: pytest.approx(time.thread_time_ns() - before_ns, abs=10_000_000)}
    assert cpu.recent_ns(threads)[own] == pytest.approx(0.7 * found[own], abs=10_000_000)


def test_a_thread_that_has_ended_keeps_the_cpu_time_that_it_had() -> None:
    cpu, ends = ThreadCpu(), threading.Event()

    def works() -> None:
        before_ns = time.thread_time_ns()
        while time.thread_time_ns() < before_ns + 50_000_000:
            pass
        time.sleep(0.001)
        worked.set()
        ends.wait()

    worked, begun = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (begun.wait(), works()))
    thread.start()
    number = thread.native_id or 0
    cpu.begin([number])
    begun.set()
    worked.wait()
    found = cpu.recent_ns([number])
    assert found[number] > 40_000_000
    ends.set()
    thread.join()
    assert wait_until(lambda: not Path(f"/proc/{number}").exists(), 20, 0.01)
    assert cpu.recent_ns([number]) == found


@pytest.mark.parametrize(("beside_s", "told"), [(8, True), (1, False)])
def test_waits_beside_threads_that_run_are_told_with_their_bounds(
    beside_s: int, told: bool
) -> None:
    spent = Spent(10**10, 7e9, waits_ns={SDA: 3e9}, beside_ns=beside_s * 1e9, beside_counted_ns=1e9)
    ledger = spent.ledger()
    assert ledger.waits_bounds_s == (2.0, max(3.0, 2.0 + beside_s))
    used = Used(spent)
    job = JobSample("1", "job", 1, 5, False, used, used, 0.0, (), ())
    notes = " ".join(footnotes([job], ()))
    assert ("job: threads wait while others run" in notes) == told
    assert ("that answer at once would save 20 to 100 %" in notes) == told
    shown = json.loads(line(NodeSample(0.0, 1.0, (job,), 0.0)))["jobs"][0]["total"]
    assert (shown["waits_least_s"], shown["waits_most_s"]) == ledger.waits_bounds_s
