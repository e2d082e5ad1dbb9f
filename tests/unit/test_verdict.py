"""Verdicts: shares of the wall time, the limit, and the five lines, from what was seen."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from headrace.verdict.attached import observation_from
from headrace.verdict.limit import limit_of
from headrace.verdict.observation import Access, Observation, StoragePlace, TimeShare
from headrace.verdict.shares import Counts, parts_of
from headrace.verdict.watching import TreeSampler
from headrace.verdict.words import COLUMNS, LINES, verdict_of
from headrace.watching import JobSample
from headrace.watching.ledger import Spent, State, StorageWait
from headrace.watching.states import IDLE, RUNNING
from headrace.watching.together import SeenThread, TogetherLooks
from headrace.watching.used import Used

DISK = StoragePlace("block", "sda1", "ext4", True, 128 << 10)
NFS = StoragePlace(
    "network", "/mnt/a rather long name of a directory/of the experiment/data", "nfs4"
)
RANDOM = Access(DISK, 500, 500 * 4096, 500 * 4096, 2_310_000_000, 0, 4096.0, 1.0, 4.1, 490, 8.3e-3)

SLOW = replace(RANDOM, waited_s=9.4)


def seen(*shares: TimeShare, **fields: object) -> Observation:
    wall_s = sum(share.seconds for share in shares)
    return replace(
        Observation(("job",), wall_s, tuple(sorted(shares, key=lambda each: -each.seconds))),
        **fields,
    )


def shares_of(counts: Counts, accesses: Sequence[Access]) -> tuple[TimeShare, ...]:
    return parts_of(counts, accesses).shares


def test_shares_add_up_to_the_wall_time() -> None:
    counts = Counts(10.0, 5.7, 0.2, samples={"running": 57, "block": 40, "sleep": 3})
    shares = shares_of(counts, [RANDOM])
    assert sum(share.seconds for share in shares) == pytest.approx(10.0)
    by_kind = {(share.kind, share.where): share.seconds for share in shares}
    # 4.1 s in calls are not more than the time in which it neither ran nor waited for a CPU.
    assert by_kind["block", "sda1"] == pytest.approx(4.1)
    assert by_kind["cpu", ""] == pytest.approx(5.7)


def test_two_processes_on_one_cpu_wait_for_it_half_of_their_time() -> None:
    shares = shares_of(Counts(3.0, 3.0, 3.0), [])
    assert {share.kind: share.seconds for share in shares} == pytest.approx(
        {"cpu": 1.5, "wait-cpu": 1.5}
    )


def test_calls_that_were_preempted_do_not_count_twice() -> None:
    shares = shares_of(Counts(4.0, 2.0, 1.9), [RANDOM])
    block_s = sum(share.seconds for share in shares if share.kind == "block")
    assert block_s == pytest.approx(0.1)


def test_samples_bound_what_long_calls_may_have_waited() -> None:
    running = Counts(10.0, 4.0, 1.0, samples={"running": 100})
    assert sum(share.seconds for share in shares_of(running, [RANDOM]) if share.where) < 0.5
    waiting = replace(running, samples={"running": 55, "block": 45})
    block = [share for share in shares_of(waiting, [RANDOM]) if share.where]
    assert block[0].seconds == pytest.approx(4.5)  # a little more than the calls: samples are few


@pytest.mark.parametrize(
    "busy", [{(1, 0): 90, (0, 1): 10}, {(0, 0): 2, (1, 0): 87, (0, 1): 10, (1, 1): 1}]
)
def test_threads_that_take_turns_are_one_thread(busy: dict[tuple[int, int], int]) -> None:
    """A shell and its command, or a thread that waits for another: on busy CPUs, what the command
    waited for a CPU in its calls was half storage."""
    counts = Counts(
        10.0, 0.5, 8.5, threads=2, all_threads=2, samples={"running": 90, "block": 10},
        busy=busy,
    )  # fmt: skip
    shares = {share.kind: share.seconds for share in shares_of(counts, [SLOW])}
    assert shares["wait-cpu"] == pytest.approx(8.5, abs=0.5)
    assert shares["block"] == pytest.approx(1.0, abs=0.5)


def test_time_asleep_is_no_wait_for_a_cpu_whatever_the_kernel_counts() -> None:
    """It waited for the lock of a file; Linux 6.18 may call that a run queue."""
    counts = Counts(
        10.0, 0.02, 8.8, samples={"file-lock": 94, "running": 6}, busy={(0, 0): 94, (1, 0): 6}
    )
    shares = shares_of(counts, [])
    assert shares[0].kind == "file-lock"
    assert shares[0].seconds > 8.5


def test_threads_that_wait_at_once_may_wait_longer_than_the_program_ran() -> None:
    counts = Counts(
        10.0, 1.0, 1.0, threads=4, all_threads=4, samples={"running": 20, "block": 80},
        busy={(0, 4): 50, (1, 3): 50},
    )  # fmt: skip
    shares = {share.kind: share.seconds for share in shares_of(counts, [SLOW, SLOW, SLOW])}
    assert shares["block"] == pytest.approx(9.33, abs=0.1)  # 28 of 30 s of threads


def moments(
    counts: Counts, looks: Sequence[Sequence[str]], cpu_ns: Mapping[int, float] | None = None
) -> Counts:
    """Return the counts with looks at all threads: `run`, `queue`, `read` or `sleep`."""
    at_once = TogetherLooks(2, lambda _: cpu_ns or {})
    busy: Counter[tuple[int, int]] = Counter()
    for look in looks:
        states = {"run": RUNNING, "queue": RUNNING, "read": State(StorageWait("block", ""))}
        awake = [did in ("run", "queue") for did in look]
        at_once.add(
            [
                SeenThread(number, states.get(did, IDLE), awake[number], did == "run")
                for number, did in enumerate(look)
            ]
        )
        busy[sum(awake), look.count("read")] += 1
    return replace(counts, busy=busy, together=at_once.settle())


def test_threads_that_read_ahead_of_one_that_computes_are_not_the_limit() -> None:
    """Summed over threads, 80 % were waits, and storage that answers at once saved as much."""
    counts = Counts(10.0, 10.0, threads=5, all_threads=5, samples={"running": 100})
    counts = moments(counts, [["run", *["read"] * 4]] * 100, {0: 1e9, 1: 1e6, 2: 1e6, 3: 1e6, 4: 0})
    parts = parts_of(counts, [replace(RANDOM, waited_s=40.0)])
    assert {share.kind: share.seconds for share in parts.shares} == {"cpu": pytest.approx(10.0)}
    assert parts.waits_bounds_s == pytest.approx((0.0, 10.0))
    verdict = verdict_of(
        replace(seen(*parts.shares), cpu_s=10.0, waits_bounds_s=parts.waits_bounds_s)
    )
    assert verdict.limit.kind == "cpu"
    assert "0 to 100 %: threads wait while others run" in " ".join(map(str.strip, verdict.lines))


@pytest.mark.parametrize("waited_s", [20.0, 0.0])
def test_each_moment_is_shared_by_what_threads_do_then(waited_s: float) -> None:
    """A fifth of the time all four compute on two CPUs, then one of them does; for the last half
    of the time two of them read. With the times of calls and without."""
    looks = [["run", "run", "queue", "queue"]] * 20
    looks += [["run", "sleep", "sleep", "sleep"]] * 30 + [["read", "read", "sleep", "sleep"]] * 50
    counts = Counts(
        20.0, 14.0, 8.0, threads=4, all_threads=4, samples={"running": 50, "block": 50}
    )  # fmt: skip
    parts = parts_of(moments(counts, looks), [replace(RANDOM, waited_s=waited_s)])
    shares = {share.kind: share.seconds for share in parts.shares}
    assert shares == {
        "cpu": pytest.approx(8.0, abs=0.4),
        "wait-cpu": pytest.approx(2.0, abs=0.4),
        "block": pytest.approx(10.0, abs=0.01),
    }
    assert parts.waits_bounds_s == pytest.approx((10.0, 10.0), abs=0.01)


def test_sums_over_threads_are_called_so() -> None:
    """A stored profile does not tell what its threads did at once."""
    parts = parts_of(Counts(10.0, 10.0, threads=5), [replace(RANDOM, waited_s=40.0)])
    summed = replace(seen(*parts.shares), summed_threads=parts.summed_threads)
    assert verdict_of(summed).lines[0].startswith("10 s, sums of 5 threads: 80 % block I/O on sda1")
    one = parts_of(Counts(10.0, 5.0, threads=5), [replace(RANDOM, waited_s=4.0)])
    assert one.summed_threads == 0


def test_page_faults_of_maps_are_block_io_without_a_call() -> None:
    counts = Counts(10.0, 2.0, samples={"running": 20, "block": 80})
    shares = shares_of(counts, [replace(RANDOM, waited_s=0.0)])
    assert (shares[0].kind, shares[0].where) == ("block", "")
    assert shares[0].seconds == pytest.approx(8.0)


def test_memory_pressure_comes_before_block_io() -> None:
    counts = Counts(10.0, 1.0, memory_stall_s=6.0, samples={"block": 90, "running": 10})
    assert limit_of(seen(*shares_of(counts, []))).kind == "memory"


def test_a_sleeping_program_is_not_limited_by_storage() -> None:
    counts = Counts(10.0, 0.1, samples={"sleep": 99, "running": 1})
    verdict = verdict_of(seen(*shares_of(counts, [replace(RANDOM, waited_s=0.2)])))
    assert verdict.limit.kind == "sleep"
    assert "sleeps" in verdict.lines[1]


def test_few_samples_say_nothing() -> None:
    shares = shares_of(Counts(1.0, 0.1, samples={"sleep": 3}), [])
    assert {share.kind for share in shares} == {"cpu", "other"}


def test_a_thread_that_waits_for_its_client_librarys_reader_waits_for_the_connection() -> None:
    counts = Counts(10.0, 0.5, samples={"lock": 95, "running": 5}, connections=("10.0.0.1:1094",))
    (first, *_) = shares_of(counts, [])
    assert (first.kind, first.where) == ("connection", "10.0.0.1:1094")


@pytest.mark.parametrize(
    ("observation", "limit", "words"),
    [
        (seen(TimeShare("cpu", "", 9.9), TimeShare("block", "sda1", 0.1)), "cpu", "more than 1 %"),
        (
            seen(TimeShare("cpu", "", 9.9), TimeShare("other", "", 0.1)),
            "cpu",
            "no storage would make",
        ),
        (
            replace(seen(TimeShare("cpu", "", 9.9)), cpu_s=31.2, cores=4),
            "cpu",
            "on 3.15 of 4 cores. Change: no storage would make it faster; faster code, or more",
        ),
        (
            seen(TimeShare("cpu", "", 6.0), TimeShare("wait-cpu", "", 4.0)),
            "cpu",
            "faster code or CPUs would; fewer jobs at once, by 40 % at most",
        ),
        (
            replace(seen(TimeShare("block", "", 10.0)), major_faults=3),
            "block",
            "storage, in waits that its calls do not show, 3 page faults among them",
        ),
        (
            seen(TimeShare("wait-cpu", "", 6.0), TimeShare("cpu", "", 4.0)),
            "wait-cpu",
            "60 %, at most",
        ),
        (
            replace(
                seen(TimeShare("wait-cpu", "", 9.9), TimeShare("cpu", "", 0.1)), cpu_s=8.0, cores=2
            ),
            "wait-cpu",
            "too few CPUs for its threads and other programs: it used 0.80 of 2 "
            "cores. Change: fewer jobs at once on these cores would save 60 %, "
            "at most; more cores 99 %, as its own threads take turns.",
        ),
        (
            replace(
                seen(TimeShare("wait-cpu", "", 7.5), TimeShare("cpu", "", 2.5)), cpu_s=19.8, cores=2
            ),
            "wait-cpu",
            "too few CPUs for its own threads: it used 1.98 of 2 cores. Change: more cores "
            "would save 75 %, at most: its own threads",
        ),
        (
            replace(
                seen(TimeShare("cpu", "", 5.5), TimeShare("wait-cpu", "", 4.5)), cpu_s=19.8, cores=2
            ),
            "cpu",
            "no storage would make it faster; faster code, or more cores, would.",
        ),
        (
            seen(TimeShare("block", "sda1", 6.0), TimeShare("cpu", "", 4.0), accesses=(RANDOM,)),
            "block",
            "reads of 4 KiB at random over 2.31 GB, 8.3 ms a wait",
        ),
        (
            seen(
                TimeShare("block", "sda1", 6.0),
                accesses=(
                    replace(
                        RANDOM,
                        other_calls_s=RANDOM.waited_s,
                        slowest_other="fsyncs",
                        slow_others=1,
                        slow_other_s=2.5,
                        bytes_written=4096,
                    ),
                ),
            ),
            "block",
            "Limit: sda1: 1 fsync of 2.5 s; 4.10 kB written",
        ),
        (
            seen(
                TimeShare("block", "sda1", 6.0),
                accesses=(
                    replace(
                        RANDOM,
                        other_calls_s=RANDOM.waited_s,
                        slowest_other="fsyncs",
                        slow_others=500,
                        slow_other_s=8e-3,
                        slow_other_files=("/data/a.db-journal", "/data/a.db"),
                        bytes_written=4096,
                    ),
                ),
            ),
            "block",
            "Limit: sda1: 500 fsyncs of 8 ms (a.db-journal, 1 more); 4.10 kB written. Change: "
            "storage that answers at once would save 100 %, at most; fewer fsyncs, too: each waits "
            "for the drive, so group several commits into one.",
        ),
        (
            seen(
                TimeShare("memory", "", 4.0),
                TimeShare("block", "abcd", 3.0),
                TimeShare("wait-cpu", "", 2.0),
                TimeShare("cpu", "", 1.0),
            ),
            "memory",
            "40 % waiting for memory, 30 % block I/O on abcd, 30 % rest",
        ),
        (
            seen(TimeShare("network", NFS.name, 6.0), TimeShare("cpu", "", 4.0)),
            "network",
            "save 60 %",
        ),
        (seen(TimeShare("memory", "", 6.0), TimeShare("cpu", "", 4.0)), "memory", "more memory"),
        (seen(TimeShare("cpu", "", 0.2)), "too-short", "too short to judge"),
        (seen(TimeShare("other", "", 5.0)), "other", "neither ran nor waited"),
        (seen(TimeShare("file-lock", "", 5.0)), "file-lock", "which another program holds"),
    ],
)
def test_five_lines_of_80_columns(observation: Observation, limit: str, words: str) -> None:
    lacking = ("not seen: 12 MB read (the kernel counted 14 MB): the profile lacks them",) * 5
    for each in (observation, replace(observation, lacks=lacking, exit_code=-9)):
        verdict = verdict_of(each)
        assert verdict.limit.kind == limit
        assert words in " ".join(line.strip() for line in verdict.lines)
        assert len(verdict.lines) <= LINES
        assert max(map(len, verdict.lines)) <= COLUMNS


def test_one_sample_is_not_samples() -> None:
    observation = replace(seen(TimeShare("cpu", "", 5.0)), samples=1, sources="samples")
    text = " ".join(verdict_of(observation).lines)
    assert "rom 1 sample" in text and "1 samples" not in text


def test_cores_that_are_not_known_are_left_out() -> None:
    observation = replace(seen(TimeShare("cpu", "", 5.0)), cores=0, cpu_s=4.95)
    (line,) = [line for line in verdict_of(observation).lines if line.startswith("Limit:")]
    assert re.search(r"computes, on \d\.\d\d cores\.$", line), line


def test_threads_without_a_recording_wait_for_storage_too() -> None:
    """The kernel's count is of all threads; the recorder saw the first program alone."""
    counts = Counts(3.0, 1.7, 3.0, kernel_block_s=5.3, all_threads=5)
    shares = {share.kind: share.seconds for share in shares_of(counts, [])}
    assert shares["block"] == pytest.approx(3.0 * 5.3 / 10.0)
    assert sum(shares.values()) == pytest.approx(3.0)


def test_of_many_running_processes_the_watch_s_own_samples_say_what_they_do() -> None:
    """A look at all of them takes so long that there are few."""
    waits = {StorageWait("idle", "timer"): 7e9, StorageWait("idle", "events"): 2e9}
    used = Used(Spent(wall_ns=10_000_000_000, yielding_ns=waits))
    job = JobSample("4711.1", "4711 farm", 500, 500, False, used, used, 0.0, ("samples",), ())
    found = observation_from(job, TreeSampler(os.getpid()))
    summed = {kind: found.seconds(kind) for kind in ("sleep", "other")}
    assert summed == {"sleep": pytest.approx(7.0), "other": pytest.approx(3.0)}
    assert verdict_of(found).limit.kind == "sleep"


def test_another_user_s_process_may_not_be_read() -> None:
    """It was said to wait for nothing of this machine, without a word that it cannot be seen."""
    used = Used(Spent(wall_ns=10_000_000_000))
    lacks = (
        "devices and mounts of waits (/proc/PID/syscall): owner or root only",
        "bytes (/proc/PID/io): owner or root only",
    )
    job = JobSample(
        "7", "7 job", 1, 1, False, used, used, 0.0, ("samples",), lacks, io_readable=False
    )
    time, limit, change, *doubt = verdict_of(observation_from(job, TreeSampler(os.getpid()))).lines
    assert time.endswith("100 % other")
    assert "not readable" in limit
    assert "no storage" not in change
    assert " ".join(doubt).startswith("Not readable (owner or root only): devices and mounts of")
    assert "syscall), bytes (/proc/PID/io); its reads" in " ".join(map(str.strip, doubt))


def test_a_local_socket_is_no_server() -> None:
    """A nearer server or a local copy would not help a program that waits for its neighbour."""
    local = seen(TimeShare("connection", "", 9.0), TimeShare("cpu", "", 1.0))
    said = verdict_of(local)
    assert "another program, at a socket" in said.lines[1]
    assert "a faster program at the other end would save 90 %" in said.lines[2]
    remote = verdict_of(replace(local, connections=("10.0.0.1:1094",)))
    assert "10.0.0.1:1094" in remote.lines[1] and "nearer or faster server" in remote.lines[2]
