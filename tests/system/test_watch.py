"""`headrace watch` names what jobs wait for within two points of the truth, which jobs measure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.catalog import entry
from headrace.system import emulator
from headrace.system.cgroups import MemoryLimit
from headrace.system.journal import Journal
from headrace.system.owned import work_directory
from headrace.system.shared_settings import set_file
from headrace.system.waiting import wait_until
from headrace.targets import TargetContext
from headrace.watching import JobSample, Watcher
from headrace.watching.finders.pid import PidFinder
from headrace.watching.ledger import StorageWait
from served_targets import made, standing

JOB = Path(__file__).with_name("watched_jobs.py")
POINTS = 0.02
SAMPLES = round((3 * 0.5 / POINTS) ** 2)
"""So many that three standard deviations of a share are within the points."""
LONGEST_S = 60.0
DELAYACCT = Path("/proc/sys/kernel/task_delayacct")
PARTS = ("on_cpu", "wait_cpu", "reads", "again")
needs_root = pytest.mark.usefixtures("needs_root")


@dataclass
class Running:
    """A job, and the log of what it did."""

    process: subprocess.Popen[bytes]
    log: Path

    def rows(self) -> list[dict[str, float]]:
        """Its log without the last line, which may be incomplete."""
        return [json.loads(line) for line in self.log.read_text().splitlines()[:-1]]

    def off_s(self, time_s: float) -> float:
        """How far its nearest line is from a time."""
        return min(abs(row["time_s"] - time_s) for row in self.rows())

    def truth(self, began_s: float, ended_s: float) -> dict[str, float]:
        """What it did between two times, as shares; `bytes` as they are."""
        rows = self.rows()
        begin = min(rows, key=lambda row: abs(row["time_s"] - began_s))
        end = min(rows, key=lambda row: abs(row["time_s"] - ended_s))
        wall_s = end["time_s"] - begin["time_s"]
        assert wall_s == pytest.approx(ended_s - began_s, abs=1.0)
        shares = {name: (end[name] - begin[name]) / wall_s for name in PARTS}
        return {**shares, "bytes": end["bytes"] - begin["bytes"]}


@contextmanager
def jobs(*arguments: Sequence[object], before: Sequence[str] = ()) -> Generator[list[Running]]:
    """Jobs whose logs are in memory: a log on a drive makes a job read inodes of its file system,
    many in order, when another drops the caches."""
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as folder:
        made: list[Running] = []
        try:
            for number, each in enumerate(arguments):
                log = Path(folder) / f"log {number}"
                argv = [*before, sys.executable, str(JOB), str(log), *map(str, each)]
                made.append(Running(subprocess.Popen(argv), log))
            for job in made:
                assert wait_until(
                    lambda job=job: job.log.exists() and job.log.read_text(), 60, 0.05
                )
            yield made
        finally:
            for job in made:
                job.process.kill()
                job.process.wait()


def watched(
    running: list[Running], seconds: float = 8.0, samples: int = SAMPLES
) -> list[tuple[JobSample, dict[str, float]]]:
    """What the watch says of jobs, and what they say themselves of the same time.

    The samples of a second are shared by the jobs: one alone has enough in half the time of two. A
    busy machine takes fewer samples and writes fewer lines: then for longer.
    """
    finder = PidFinder([str(job.process.pid) for job in running])
    with Watcher(finder, samples_per_s=1500, seed=1) as watcher:
        began_s = time.monotonic()
        while True:
            sample = watcher.watch(1.0)
            watched_s = time.monotonic() - began_s
            enough = all(
                found.total.samples >= samples
                and job.off_s(found.began_s) + job.off_s(sample.time_s) < POINTS / 2 * watched_s
                for found, job in zip(sample.jobs, running, strict=True)
            )
            if watched_s > LONGEST_S or (watched_s >= seconds and enough):
                break
    for job in running:
        assert wait_until(lambda job=job: job.rows()[-1]["time_s"] > sample.time_s, 60, 0.05)
    return [
        (found, job.truth(found.began_s, sample.time_s))
        for found, job in zip(sample.jobs, running, strict=True)
    ]


def within(limit: MemoryLimit) -> list[str]:
    """Starts a program under a limit."""
    return ["sh", "-c", f'echo $$ > {limit.group}/cgroup.procs; exec "$@"', "sh"]


def check(sample: JobSample, truth: dict[str, float], **expected: float) -> None:
    shares = sample.total.ledger.shares
    known = {"on_cpu": truth["on_cpu"], "wait_cpu": truth["wait_cpu"], **expected}
    assert shares == pytest.approx({**dict.fromkeys(shares, 0.0), **known}, abs=POINTS), truth
    assert sum(shares.values()) == pytest.approx(1.0)


@pytest.mark.machine
def test_jobs_that_share_a_cpu() -> None:
    cpu = min(os.sched_getaffinity(0))
    alone = ["taskset", "-c", str(cpu)]
    with jobs(("-", 0, 0.01, 0), ("-", 0, 0.01, 0), before=alone) as running:
        for sample, truth in watched(running, 4, samples=0):  # by counters of the kernel alone
            check(sample, truth)
            assert sample.total.ledger.longest_wait == "CPU"
            assert truth["wait_cpu"] > 0.3


@contextmanager
def attached(drive: str, place: Path) -> Generator[emulator.EmulatedDevice]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_JOURNAL_DIR", str(place / "journal"))
        with Journal.open("a test") as journal:
            directory, _ = work_directory(journal, place)
            storage: Any = {"drives": [entry("drives", drive).table]}
            made = emulator.attach(journal, storage, 256 << 20, directory, seed=1)
            yield made
            made.detach()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[emulator.EmulatedDevice]:
    """An emulated disk, whose reads take milliseconds."""
    with attached("seagate-st3750640ns", tmp_path_factory.mktemp("disk")) as made:
        yield made


@pytest.fixture
def ssd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[emulator.EmulatedDevice]:
    with attached("mtron-msp-sata7035064", tmp_path_factory.mktemp("ssd")) as made:
        yield made


@needs_root
@pytest.mark.quiet
@pytest.mark.parametrize("counted", [False, True])
def test_random_reads_of_a_disk(
    disk: emulator.EmulatedDevice, journal: Journal, counted: bool
) -> None:
    """One job only reads, another computes and sleeps as well; with the kernel's delay accounting
    and without."""
    set_file(journal, DELAYACCT, str(int(counted)))
    path = str(disk.device)
    size = 256 << 20
    with jobs((path, size, 0, 0), (path, size, 0.004, 0.01)) as running:
        for sample, truth in watched(running):
            assert truth["reads"] > 0.05
            check(
                sample,
                truth,
                wait_block=truth["reads"],
                other=1 - truth["reads"] - truth["on_cpu"] - truth["wait_cpu"],
            )
            waits_s = sample.total.ledger.waits_s
            assert max(waits_s, key=lambda wait: waits_s[wait]).place == disk.name
            assert sample.total.moved.storage_read == pytest.approx(truth["bytes"], rel=0.05)


@needs_root
@pytest.mark.parametrize("engine", ["libaio", "io_uring"])
def test_requests_that_are_waited_for_in_other_calls(
    disk: emulator.EmulatedDevice, engine: str
) -> None:
    """A thread that has made requests waits for them in a call that names no file."""
    options = "--rw=randread --bs=64k --direct=1 --iodepth=4 --time_based --runtime=600 --thread"
    fio = ["fio", "--name=read", f"--filename={disk.device}", f"--ioengine={engine}"]
    counts = Path(f"/sys/block/{disk.name}/stat")
    before = counts.read_text().split()[0]
    with subprocess.Popen([*fio, *options.split(), "--output=/dev/null"]) as process:
        try:
            # fio sleeps for most of a second before its first request.
            assert wait_until(lambda: counts.read_text().split()[0] != before, 30.0, 0.02)
            with Watcher(PidFinder([str(process.pid)]), samples_per_s=400, seed=1) as watcher:
                (job,) = watcher.watch(1.0).jobs
                while not job.ended and job.total.samples < 1500:
                    (job,) = watcher.watch(1.0).jobs
        finally:
            process.terminate()
    ledger = job.total.ledger
    # On a busy machine it also waits for a CPU each time.
    asleep_s = ledger.wall_s - ledger.on_cpu_s - ledger.wait_cpu_s
    assert ledger.wait_block_s > 0.8 * asleep_s, ledger
    assert ledger.longest_wait == disk.name


@needs_root
@pytest.mark.machine
def test_pages_that_memory_was_too_short_for(
    ssd: emulator.EmulatedDevice, journal: Journal
) -> None:
    """A job reads 32 MiB at random with 20 MiB of memory: the more it has read, the more of its
    reads are of pages that it had before."""
    limit = MemoryLimit(journal, 20 << 20)
    with limit, jobs((ssd.device, 32 << 20, 0, 0), before=within(limit)) as running:
        for sample, truth in watched(running, 5):
            assert truth["again"] > 0.05
            shares = sample.total.ledger.shares
            # It also waits for pages of its own program, which its reads pushed out of memory.
            asleep = 1 - truth["on_cpu"] - truth["wait_cpu"]
            assert shares["wait_block"] + shares["wait_memory"] == pytest.approx(asleep, abs=POINTS)
            # An upper estimate, since it is made from bytes.
            assert shares["wait_memory"] > truth["again"] - POINTS
            assert "memory: refaults of the control group" in sample.sources


def test_a_job_that_waits_at_a_pipe_does_not_wait_for_storage(tmp_path: Path) -> None:
    pipe = tmp_path / "a pipe"
    os.mkfifo(pipe)
    # Open at both ends: the read waits, not the opening.
    end = os.open(pipe, os.O_RDWR)
    with subprocess.Popen(["cat", pipe]) as reading:
        try:
            with Watcher(PidFinder([str(reading.pid)]), samples_per_s=400) as watcher:
                watcher.watch(0.5)
                (job,) = watcher.watch(0.5).jobs
        finally:
            reading.kill()
            os.close(end)
    assert not job.total.ledger.waits_s and job.total.ledger.shares["other"] > 0.9


@needs_root
@pytest.mark.machine  # its server's mount namespace would hold what other tests have mounted
def test_reads_of_network_storage(context: TargetContext) -> None:
    """A job reads a file of an NFS server at random."""
    with standing(made("nfs"), context) as (location, _):
        (folder,) = location.node_directories
        file = folder / "data"
        size = 64 << 20
        file.write_bytes(os.urandom(1 << 20) * 64)
        fd = os.open(file, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
        with jobs((file, size, 0.002, 0, "direct")) as running:
            for sample, truth in watched(running, 5):
                assert truth["reads"] > 0.02
                check(sample, truth, wait_network=truth["reads"])
                waits_s = sample.total.ledger.waits_s
                longest = max(waits_s, key=lambda wait: waits_s[wait])
                assert longest == StorageWait("network", str(folder))


_NAMES = """
import os, sys, time
made = sys.argv[1] + "/made"
while True:
    os.close(os.open(made, os.O_CREAT | os.O_WRONLY))
    os.stat(made)
    os.rename(made, made + " again")
    os.unlink(made + " again")
    time.sleep(0.0005)
"""


@needs_root
@pytest.mark.machine  # its server's mount namespace would hold what other tests have mounted
@pytest.mark.parametrize("working_directory", [False, True], ids=["absolute", "relative"])
def test_names_on_network_storage(context: TargetContext, working_directory: bool) -> None:
    """A job opens, renames and removes files: a FUSE mount makes it wait in an interruptible
    state."""
    with standing(made("nfs"), context) as (location, _):
        (folder,) = location.node_directories
        begun = [sys.executable, "-c", _NAMES, "." if working_directory else str(folder)]
        with subprocess.Popen(begun, cwd=folder) as process:
            try:
                with Watcher(PidFinder([str(process.pid)]), samples_per_s=400) as watcher:
                    watcher.watch(1.0)
                    (job,) = watcher.watch(2.0).jobs
            finally:
                process.kill()
    ledger = job.total.ledger
    # It sleeps a little by itself.
    assert ledger.shares["wait_network"] > ledger.shares["other"]
    assert max(ledger.waits_s, key=lambda wait: ledger.waits_s[wait]) == StorageWait(
        "network", str(folder)
    )


_AS_ANOTHER_USER = """
import os, sys
import headrace.cli._watch_show, headrace.watching.finders.pid, headrace.watching.view
from headrace.cli.watch import watch
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
watch(pid=[sys.argv[1]], once=True, interval="0.3 s")
"""


@needs_root
def test_a_process_of_another_user() -> None:
    """CPU, run queue and state are seen; what is missing is named."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            ended = subprocess.run(
                [sys.executable, "-c", _AS_ANOTHER_USER, str(process.pid)],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
        finally:
            process.kill()
    assert ended.returncode == 0 and not ended.stderr
    assert f"{process.pid} sleep" in ended.stdout and " 100 % " in ended.stdout
    for missing in ("/proc/PID/io", "/proc/PID/syscall"):
        assert any(
            line.startswith("not readable") and missing in line
            for line in ended.stdout.splitlines()
        )


_BESIDE_AN_OWN_JOB = """
import os, subprocess, sys
import headrace.cli._watch_show, headrace.watching.finders.pid, headrace.watching.as_json
from headrace.cli.watch import watch
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
with subprocess.Popen(["sleep", "600"]) as own:
    watch(pid=[sys.argv[1], str(own.pid)], once=True, interval="0.5 s", as_json=True)
    own.kill()
"""


@needs_root
def test_only_the_job_of_another_user_lacks_something() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            ended = subprocess.run(
                [sys.executable, "-c", _BESIDE_AN_OWN_JOB, str(process.pid)],
                capture_output=True,
                text=True,
                timeout=120,
                check=True,
            )
        finally:
            process.kill()
    jobs = json.loads(ended.stdout)["jobs"]
    lacks = {job["key"].partition(".")[0]: len(job["lacks"]) for job in jobs}
    assert lacks.pop(str(process.pid)) == 2
    assert list(lacks.values()) == [0]
