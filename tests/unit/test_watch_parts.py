"""What a watch is made of: how jobs are found, what their threads wait for, and how long."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import UsageError
from headrace.system.accounting import Times
from headrace.watching import FoundJob, Watcher, finder_kinds
from headrace.watching.births import Births
from headrace.watching.estimate import WaitEstimate
from headrace.watching.finders import Finder
from headrace.watching.job import JobMeter
from headrace.watching.ledger import Spent, State, StorageWait
from headrace.watching.places import Places
from headrace.watching.process import read_processes
from headrace.watching.process_table import Process
from headrace.watching.states import StateReader
from headrace.watching.used import JobSample

SDA, NFS = StorageWait("block", "sda"), StorageWait("network", "/data")


@contextmanager
def program(**variables: str) -> Generator[int]:
    """A process with a session of its own, and these environment variables."""
    with subprocess.Popen(
        ["sleep", "600"], env={**os.environ, **variables}, start_new_session=True
    ) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def found_by(kind: str, name: str) -> dict[str, FoundJob]:
    return {job.name: job for job in finder_kinds()[kind]([name]).find()}


def test_batch_jobs_are_found_by_what_their_processes_have(tmp_path: Path) -> None:
    ad = tmp_path / "job ad"
    ad.write_text('MyType = "Job"\nClusterId = 4711\nProcId = 3\n')
    array = {"SLURM_ARRAY_JOB_ID": "98765430", "SLURM_ARRAY_TASK_ID": "3"}
    with (
        program(SLURM_JOB_ID="98765431", **array) as slurm,
        program(_CONDOR_JOB_AD=str(ad)) as condor,
    ):
        assert found_by("slurm", "98765431")["slurm 98765431"].pids == {slurm}
        assert found_by("slurm", "98765430_3")["slurm 98765430_3"].pids == {slurm}
        for name in ("4711", "4711.3"):
            assert found_by("condor", name)["condor 4711.3"].pids == {condor}
    for kind, name in (("slurm", "98765431"), ("condor", "4711.3"), ("condor", "4711.4")):
        with pytest.raises(UsageError, match="no such job"):
            found_by(kind, name)


def test_the_number_of_an_array_names_all_its_tasks() -> None:
    """Its last task has the number of the array: only this one was watched."""
    array = {"SLURM_ARRAY_JOB_ID": "98765440"}
    with (
        program(SLURM_JOB_ID="98765441", SLURM_ARRAY_TASK_ID="1", **array) as first,
        program(SLURM_JOB_ID="98765440", SLURM_ARRAY_TASK_ID="2", **array) as last,
    ):
        found = found_by("slurm", "98765440")
        assert {key: job.pids for key, job in found.items()} == {
            "slurm 98765440_1": {first},
            "slurm 98765440_2": {last},
        }
        assert found_by("slurm", "98765441")["slurm 98765441"].pids == {first}


@pytest.mark.parametrize(
    ("group", "key"),
    [
        ("/slurm/uid_1000/job_17/step_0/task_0", "slurm 17"),
        ("/slurm_node3/uid_1000/job_17/step_batch", "slurm 17"),
        ("/system.slice/slurmstepd.scope/job_17/step_0/user/task_0", "slurm 17"),
        ("/system.slice/node3_slurmstepd.scope/job_17", "slurm 17"),
        (
            "/system.slice/condor.service/condor_var_lib_condor_execute_slot1_2@host",
            "condor slot1_2@host",
        ),
        ("/user.slice/user-1000.slice/session-3.scope", "session-3.scope"),
        ("/system.slice/cron.service", "cron.service"),
        ("/lxc.payload.web/system.slice/cron.service", "cron.service in lxc.payload.web"),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/a.service", "user@1000.service"),
        ("/", "session 7"),
    ],
)
def test_jobs_of_control_groups(group: str, key: str) -> None:
    process = Process(pid=0, name="a", session=7, started=0, user=0, kernel=False)
    vars(process)["groups"] = (group,)
    assert process.job[0] == key


def test_a_name_that_comes_back_with_another_program_is_a_new_job() -> None:
    """A batch slot has its name again when its next job comes."""

    class Slot(Finder):
        kind = "slot"
        ends = False
        pid = 0

        def find(self) -> list[FoundJob]:
            return [FoundJob("slot1", "slot1", frozenset({self.pid}))]

    slot = Slot([])
    with program() as first, program() as second:
        slot.pid = first
        with Watcher(slot) as watcher:
            os.kill(first, signal.SIGKILL)
            while watcher.living:
                watcher.watch(0.05)
            watcher.watch(0.05)
            assert not watcher.living
            slot.pid = second
            watcher.watch(0.05)
            assert watcher.living


def test_users_and_all_jobs_are_sessions_where_nothing_else_is_known() -> None:
    with program() as pid:
        for kind, name in (("user", str(os.getuid())), ("all", "all")):
            jobs = finder_kinds()[kind]([name]).find()
            (mine,) = (job for job in jobs if pid in job.pids)
            assert mine.pids == {pid} or "session" not in mine.key
            assert not any(os.getpid() in job.pids for job in jobs)


def test_samples_share_out_the_time_asleep() -> None:
    """A second of which 0.4 s ran: of the rest two of three samples waited for a disk."""
    states = {State(SDA, counted=True): 20, State(None): 10}
    waits = WaitEstimate().waits(Times(400, 0, 0), 0, 1000, states)
    assert waits.sampled == {SDA: pytest.approx(400)}
    # Times asleep without a sample are told by the next one.
    estimate = WaitEstimate()
    assert estimate.waits(Times(400, 0, 0), 0, 1000, {}).sampled == {}
    assert estimate.waits(Times(1000, 0, 0), 0, 1000, {State(NFS): 1}).sampled == {NFS: 600}


def test_what_the_kernel_counts_goes_to_the_places_that_samples_show() -> None:
    states = {State(SDA, counted=True): 3, State(NFS, counted=True): 1, State(None): 6}
    estimate = WaitEstimate()
    waits = estimate.waits(Times(0, 0, 400), 100, 1000, states)
    assert waits.counted == {SDA: 225, NFS: 75, StorageWait("memory", ""): 100}
    assert estimate.consistent
    estimate.waits(Times(0, 0, 0), 0, 1_000_000, {State(SDA, counted=True): 100})
    assert not estimate.consistent, "the kernel counts nothing though threads wait"


def test_threads_that_count_more_than_the_wall_time_are_cut_off_in_proportion() -> None:
    ledger = Spent(wall_ns=10, run_ns=10, wait_cpu_ns=5, waits_ns={SDA: 5.0}).ledger()
    assert ledger.shares == {
        "on_cpu": pytest.approx(0.5),
        "wait_cpu": pytest.approx(0.25),
        "wait_block": pytest.approx(0.25),
        "wait_network": 0.0,
        "wait_memory": 0.0,
        "other": pytest.approx(0.0),
    }
    assert ledger.longest_wait in ("CPU", "sda")


def _look(meter: JobMeter) -> JobSample:
    meter.follow(None)
    readings, _ = read_processes([*meter.processes.values()], False, False)
    return meter.look(time.monotonic_ns(), readings, [])


def test_a_job_that_ends_unseen_counts_until_the_look_before() -> None:
    """Without root no report of the kernel tells what it did then; it did not sleep."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        found = FoundJob("job", "job", frozenset({process.pid}), follow=True)
        meter = JobMeter(found, None)
        meter.join(found.pids)
        _look(meter)
        time.sleep(0.3)
        before = _look(meter)
        time.sleep(0.3)
        process.kill()
        process.wait()
    after = _look(meter)
    assert after.ended and after.last.ledger.wall_s == 0
    assert after.total.ledger == before.total.ledger
    assert after.total.ledger.shares["other"] < 0.5
    assert any("the end" in each for each in after.lacks)


def test_parents_of_new_processes_are_known() -> None:
    """Only those that have started others since the last look, or the look before."""
    births = Births()
    try:
        births.parents()
        births.parents()
        with subprocess.Popen(["sleep", "600"]) as child:
            found = births.parents()
            child.kill()
        assert found is None or os.getpid() in found
        # After many numbers in between any process may have new children.
        for _ in range(60):
            subprocess.run(["true"], check=True)
        births.parents()
        for _ in range(60):
            subprocess.run(["true"], check=True)
        assert births.parents() is None
    finally:
        births.close()


class _Reader:
    """A thread that sleeps in a call."""

    def __init__(self, call: str) -> None:
        self.call = call.encode()

    def read_thread(self, _: int, name: str) -> bytes:
        return {"syscall": self.call, "stat": b"1 (a) D 1", "wchan": b"folio_wait_bit_common"}[name]


def test_a_file_that_is_sent_is_what_is_waited_for(tmp_path: Path) -> None:
    """sendfile has it second; the first may be a pipe."""
    if platform.machine() != "x86_64":
        pytest.skip("the calls that the fixture shows have the numbers of x86-64")
    ends = os.pipe()
    with (tmp_path / "data").open("wb") as file:
        places, seen = Places(), []
        for call, first, second in ((0, file.fileno(), 0), (40, ends[1], file.fileno())):
            reader: Any = _Reader(f"{call} {first:#x} {second:#x} 0x0 0x0 0x0 0x0 0x1 0x2")
            places.of_descriptor(os.getpid(), file.fileno())  # reads the mount table
            seen.append(StateReader(places).read(os.getpid(), reader, os.getpid()))
    for end in ends:
        os.close(end)
    assert seen[0] == seen[1] and seen[0].wait is not None
