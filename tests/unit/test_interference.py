"""What other programs on the CPUs say against a trial.

Rules, and real samples of this machine with real ledgers.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest
from rich.console import Console

from busy import SPIN, programs
from headrace.analysis.find import find
from headrace.analysis.findings import Findings
from headrace.analysis.interference import Disturbance
from headrace.analysis.read import read
from headrace.engine.measure import validity
from headrace.engine.measure.interference import interference_of, lost_share
from headrace.records.interference import ForeignProgram, Interference
from headrace.records.trial_record import decode, encode
from headrace.report import interference as report
from headrace.report.terminal import print_report
from headrace.report.write import write_report
from headrace.study.model import RunOptions
from headrace.system.machine_use import Own, snapshot, usable_cpus, use_between
from sample_findings import sample_findings
from synthetic_records import Truth, failed_trial, plan_of, write_results

RUN = RunOptions.model_validate({})
CPUS = usable_cpus()

QUIET = Interference(
    cpus=2.0,
    capacity_s=20.0,
    jobs_s=9.0,
    own_s=0.1,
    kernel_s=0.2,
    foreign_s=0.1,
    steal_s=0.0,
    idle_s=10.0,
    waited_s=0.1,
    throttled_s=0.0,
    wall_s=10.0,
    lost_share=0.01,
    pressure=0.02,
    programs=(),
)


@pytest.mark.parametrize(
    ("wall_s", "on_cpu_s", "waited_s", "foreign_s", "steal_s", "expected"),
    [
        # On 2 CPUs for 10 s. One job beside six hogs: it had 3 s and waited for 7.
        (10, 3, 7, 17, 0, 0.7),
        # One job, one hog: each had a core of its own.
        (10, 10, 0.05, 10, 0, 0.005),
        # Four jobs that compute share two cores among themselves: nobody else to blame.
        (40, 20, 20, 0, 0, 0.0),
        # The same, and a program that takes 3 of the 20 CPU seconds: everybody has 15 % less.
        (40, 17, 23, 3, 0, 0.15),
        # A job that waits for its disk, on a core that others use half of: it seldom wants it.
        (10, 0.5, 0.2, 10, 0, 0.02),
        # Programs of the lowest priority fill what jobs leave; jobs never wait for them.
        (10, 9.9, 0.01, 10, 0, 0.001),
        # A hypervisor that takes a quarter of the time; the kernel counts it as nobody's.
        (40, 15, 25, 0, 5, 0.25),
    ],
)
def test_time_lost_to_others(
    wall_s: float,
    on_cpu_s: float,
    waited_s: float,
    foreign_s: float,
    steal_s: float,
    expected: float,
) -> None:
    found = lost_share(
        wall_s=wall_s,
        on_cpu_s=on_cpu_s,
        waited_s=waited_s,
        foreign_s=foreign_s,
        steal_s=steal_s,
        capacity_s=20.0,
    )
    assert found == pytest.approx(expected, rel=0.01)


def test_a_trial_without_jobs_has_lost_nothing() -> None:
    assert lost_share(wall_s=0, on_cpu_s=0, waited_s=0, foreign_s=9, steal_s=1, capacity_s=10) == 0


def test_much_is_a_reason_and_some_a_warning() -> None:
    hogs = (ForeignProgram("yes", 6, 13.0), ForeignProgram("cron", 1, 0.01))
    much = replace(QUIET, foreign_s=13.0, waited_s=7.0, lost_share=0.7, programs=hogs)
    assert validity.foreign_load(RUN, QUIET) == ([], [])
    (told,), warned = validity.foreign_load(RUN, much)
    assert told.code == "foreign-load" and not warned
    assert "1.3 of 2 CPUs" in told.text and "70 %" in told.text
    assert "(yes: 6 processes, 13 CPU s)" in told.text and "cron" not in told.text
    assert validity.foreign_load(RUN, replace(much, lost_share=0.05))[0] == []
    assert len(validity.foreign_load(RUN, replace(much, lost_share=0.05))[1]) == 1
    accepting = RunOptions.model_validate({"foreign_load": "warning"})
    assert validity.foreign_load(accepting, much) == ([], [told])


def test_minutes_of_cpu_time_are_told_without_an_exponent() -> None:
    hogs = (ForeignProgram("yes", 1, 1234.0), ForeignProgram("make", 1, 99.7))
    much = replace(QUIET, foreign_s=1334.0, capacity_s=2000.0, lost_share=0.7, programs=hogs)
    (told,), _ = validity.foreign_load(RUN, much)
    assert "(yes: 1234 CPU s, make: 100 CPU s)" in told.text


def test_a_hypervisor_that_takes_cpus_is_told_of() -> None:
    (told,), _ = validity.foreign_load(RUN, replace(QUIET, steal_s=5.0, lost_share=0.3))
    assert told.text.startswith("the hypervisor withheld 0.5 of 2 CPUs (steal) while"), told.text
    hogs = (ForeignProgram("yes", 1, 5.0),)
    both = replace(QUIET, steal_s=5.0, foreign_s=5.0, lost_share=0.3, programs=hogs)
    (told,), _ = validity.foreign_load(RUN, both)
    assert "used 0.5 of 2 CPUs (yes: 1" not in told.text, "one process needs no number"
    assert "used 0.5 of 2 CPUs (yes: 5 CPU s) and the hypervisor withheld 0.5 (steal)" in told.text


def test_steal_is_not_laid_on_programs_that_used_nothing() -> None:
    """The banner above a report, and the note on an answer."""

    def findings(foreign_cpus: float, stolen_cpus: float) -> Findings:
        found = Disturbance(
            target="disk",
            workload="higgs",
            looked_at=3,
            invalid=("a",),
            warned=("b",),
            foreign_cpus=foreign_cpus,
            stolen_cpus=stolen_cpus,
            cpus=2.0,
            lost_share=0.3,
            lost_share_counted=0.05,
            programs=("sshd",),
        )
        return replace(sample_findings(), interference=(found,))

    stolen = findings(0.61, 0.6)
    assert "because the hypervisor withheld up to 0.60 of 2 CPUs" in report.warning(stolen)
    assert report.note(stolen, "disk", "higgs").startswith("The hypervisor withheld CPUs (steal)")
    assert "sshd" not in report.warning(stolen) + report.note(stolen, "disk", "higgs")
    both = report.warning(findings(1.5, 0.5))
    assert "(sshd) used up to 1.0 and the hypervisor withheld up to 0.50 of 2 CPUs" in both
    programs = findings(1.5, 0.0)
    assert "other programs (sshd) used up to 1.5 of 2 CPUs" in report.warning(programs)
    assert "hypervisor" not in report.warning(programs) + report.note(programs, "disk", "higgs")
    assert report.rows(stolen)[0]["cpus"] == "0.61 of 2, 0.60 by steal"


def test_busy_clients_are_the_trials_own_work() -> None:
    busy = replace(QUIET, jobs_s=17.0, own_s=1.0, kernel_s=1.9, idle_s=0.1)
    (told,) = validity.clients_saturated(busy)
    assert (
        told.code == "clients-saturated"
        and "99 %" in told.text
        and "85 % with its jobs" in told.text
    )
    assert validity.clients_saturated(QUIET) == []
    # The machine is as busy, with hogs: it is not the clients that were the limit.
    hogs = replace(busy, jobs_s=5.0, foreign_s=12.0)
    assert validity.clients_saturated(hogs) == []
    # A little of others does not hide it: they left 19 CPU seconds, and the trial took them all.
    assert len(validity.clients_saturated(replace(busy, jobs_s=16.0, foreign_s=1.0))) == 1
    # Servers on other CPUs than the jobs' keep those of the jobs no busier.
    assert validity.clients_saturated(replace(QUIET, jobs_s=8.0, own_s=15.0)) == []


def test_a_record_gives_back_what_was_put_into_it() -> None:
    found = replace(QUIET, programs=(ForeignProgram("yes", 6, 13.0),))
    record = msgspec.structs.replace(failed_trial("0000"), interference=found)
    assert decode(encode(record)).interference == found
    assert decode(encode(failed_trial("0000"))).interference is None


JOB = """
import time
from dataclasses import asdict
from headrace.probes.ledger import LedgerMeter
meter = LedgerMeter(network=False)
print("ready", flush=True)
input()
begun = time.process_time()
meter.begin()
inside = time.thread_time()  # samples are taken by another thread, and are not the job's
while time.thread_time() < inside + 0.6:
    pass
inside = time.thread_time() - inside
ledger = asdict(meter.end())
told = {"ledger": ledger, "least_s": inside, "most_s": time.process_time() - begun}
print(__import__("json").dumps(told), flush=True)
"""


@dataclass(frozen=True)
class Used:
    """What processes used while a job ran by other counts, CPU seconds."""

    others_s: float
    least_s: float
    """Of the job: within its ledger, and with what opens and closes that."""
    most_s: float


def judged(beside: AbstractContextManager[object] | None = None) -> tuple[Interference, Used]:
    """One real job on this machine as it is, or with what begins when the job is ready."""
    process = subprocess.Popen([sys.executable, "-c", JOB], stdin=-1, stdout=-1, text=True)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    with beside or nullcontext():
        own = {os.getpid(), process.pid}
        before, used_before = snapshot(CPUS), _used_s(own)
        start = time.monotonic()
        process.stdin.write("\n")
        process.stdin.flush()
        told = json.loads(process.stdout.readline())
        ledger: Any = SimpleNamespace(**told["ledger"])
        last_done_s = time.monotonic() - start
        used_after, after = _used_s(own), snapshot(CPUS)
        use = use_between(before, after, CPUS, Own(jobs=frozenset({process.pid})))
    process.communicate()
    jobs: list[Any] = [SimpleNamespace(ledger=ledger)]
    others_s = sum(max(0.0, used - used_before.get(key, 0.0)) for key, used in used_after.items())
    used = Used(others_s, told["least_s"], told["most_s"])
    return interference_of(use, jobs, last_done_s), used


def _used_s(own: set[int]) -> dict[tuple[int, float], float]:
    """CPU time of every process but our own, its ended children too."""
    found: dict[tuple[int, float], float] = {}
    for process in psutil.process_iter(["pid", "cpu_times", "create_time"]):
        times = process.info["cpu_times"]
        if process.pid not in own and times is not None:
            found[process.pid, process.info["create_time"]] = sum(times[:4])
    return found


@pytest.mark.slow
def test_no_false_alarm_on_this_machine_as_it_is() -> None:
    """Whatever else runs here.

    No more is laid to other programs than they used, and than the job waited.
    """
    for _ in range(5):
        found, used = judged()
        lost_s = found.lost_share * found.wall_s
        assert lost_s <= found.waited_s + found.steal_s + 0.01, found
        # Each process's count in clock ticks may be short by one.
        assert lost_s <= used.others_s + found.steal_s + 0.05 * found.wall_s + 0.05, (found, used)
        # Both counts are in clock ticks on some kernels.
        assert used.least_s - 0.02 <= found.jobs_s <= used.most_s + 0.02, (found, used)


@pytest.mark.slow
def test_hogs_are_seen_by_a_real_job(tmp_path: Path) -> None:
    hog = f"hog-{os.getpid()}.py"  # tests beside it have programs of this name, too
    found, _ = judged(programs(tmp_path, hog, SPIN, 2 * len(CPUS)))
    (told,), _ = validity.foreign_load(RUN, found)
    assert hog in told.text
    assert found.lost_share > 0.3


CELLS: list[dict[str, Any]] = [
    {"target": target, "workload": "higgs", "slots": slots}
    for target in ("disk", "nas")
    for slots in (1, 2)
]


def said_of(results: Path) -> tuple[Findings, str, str]:
    """Findings, what the terminal shows, and the page."""
    findings = find(read(results))
    console = Console(file=io.StringIO(), width=80)
    print_report(findings, console)
    (page, *_) = write_report(results, findings, ("html",), ())
    assert isinstance(console.file, io.StringIO)
    return findings, " ".join(console.file.getvalue().split()), " ".join(page.read_text().split())


def test_an_answer_that_rests_on_disturbed_trials_says_so(tmp_path: Path) -> None:
    # A program takes 0.05 CPUs of two from one job, or two: 5 % and 2.5 % of their time.
    truth = Truth(hogs_cpus=0.05, cores=2)
    findings, said, page = said_of(write_results(tmp_path / "r", plan_of(CELLS, 3), truth))
    assert [(each.target, len(each.warned), each.invalid) for each in findings.interference] == [
        ("disk", 3, ()),
        ("nas", 3, ()),
    ]
    assert findings.interference[0].lost_share == pytest.approx(0.05)
    for text in (said, page.replace("\u202f", " ")):
        assert "Other programs (hogs) were at work in 3 of the trials of this evidence" in text
        assert "a limit of the CPUs may be theirs" in text
    assert "left out because other programs" not in said


def test_trials_that_others_have_spoilt_are_left_out_with_their_names(tmp_path: Path) -> None:
    truth = Truth(hogs_cpus=1.0, cores=2)
    findings, said, page = said_of(write_results(tmp_path / "r", plan_of(CELLS, 3), truth))
    # Shown with the reason, used for nothing.
    assert not any(curve.points for curve in findings.curves) and len(findings.left_out) == 12
    assert all(
        "hogs" in reason for c in findings.curves for p in c.distrusted for reason in p.reasons
    )
    assert "12 trials are left out because other programs (hogs) used up to 1.0 of 2 CPUs" in said
    assert 'id="interference"' in page and "6 of 6" in page


def test_a_quiet_machine_is_not_mentioned(tmp_path: Path) -> None:
    findings, said, page = said_of(write_results(tmp_path / "r", plan_of(CELLS, 3), Truth()))
    assert findings.interference == ()
    assert (
        "ther programs" not in said
        and "Interference" not in said
        and 'id="interference"' not in page
    )
