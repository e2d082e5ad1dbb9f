"""The ledger adds up, whatever was counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.probes.ledger import (
    BlockWaits,
    block_waits,
    ended_descendants,
    of_processes,
    share_out,
)
from headrace.system.accounting import Times, possible
from headrace.system.children import Polled
from headrace.system.taskstats import TaskDelays
from headrace.system.thread_states import states_of

SECONDS = st.floats(0, 1000)


@given(
    wall=st.floats(1e-3, 1000),
    cpu=SECONDS,
    runnable=SECONDS,
    block=SECONDS,
    reads=SECONDS,
    network=st.booleans(),
    counted=st.booleans(),
    others_wait=st.booleans(),
)
def test_shares_add_up_to_the_wall_time(
    wall: float,
    cpu: float,
    runnable: float,
    block: float,
    reads: float,
    network: bool,
    counted: bool,
    others_wait: bool,
) -> None:
    shares = share_out(
        wall,
        cpu,
        runnable,
        block,
        reads,
        network=network,
        block_counted=counted,
        others_wait=others_wait,
    )
    parts = (
        shares.on_cpu_s,
        shares.wait_cpu_s,
        shares.wait_block_s,
        shares.wait_network_s,
        shares.other_s,
    )
    assert all(part >= 0 for part in parts)
    assert sum(parts) == pytest.approx(wall)
    assert (shares.wait_block_s == 0) if network else (shares.wait_network_s == 0)
    # Time in read calls never makes a ledger overflow by itself: only what the kernel counted can.
    assert shares.residue_s == pytest.approx(max(0.0, cpu + runnable + block - wall), abs=1e-9)


@given(st.data())
def test_every_ended_process_below_the_job_is_found_in_any_order(data: st.DataObject) -> None:
    # A forest: process n has a parent among 1 … n-1, or is a stranger's child (parent 0). The job
    # is process 1.
    size = data.draw(st.integers(2, 30))
    parents = {pid: data.draw(st.integers(0, pid - 1)) for pid in range(2, size + 1)}
    ended = [
        TaskDelays(
            pid=pid,
            process=pid,
            parent=parent,
            run_ns=1,
            wait_cpu_ns=0,
            wait_block_ns=0,
            peak_rss_bytes=0,
        )
        for pid, parent in parents.items()
    ]

    def below(pid: int) -> bool:
        return pid == 1 or (pid != 0 and below(parents[pid]))

    shuffled = data.draw(st.permutations(ended))
    assert {task.pid for task in ended_descendants(1, [1], [1], shuffled)} == {
        pid for pid in parents if below(pid)
    }


def test_without_counted_waits_only_sleep_inside_reads_is_block_io() -> None:
    shares = share_out(10, 6, 1, 0, 8, network=False, block_counted=False)
    assert (shares.wait_block_s, shares.other_s) == (3, 0)


def test_asynchronous_waits_count_beyond_what_cpu_and_run_queue_explain() -> None:
    shares = share_out(10, 1, 1, 0.5, 9.5, network=False, block_counted=True)
    assert shares.wait_block_s == 7.5
    assert shares.other_s == 0.5


LIVES = st.integers(0, 10**12)


@given(run=LIVES, wait=LIVES, block=st.integers(0, 10**14), lived=LIVES)
def test_no_thread_is_believed_to_wait_longer_than_it_slept(
    run: int, wait: int, block: int, lived: int
) -> None:
    true, believed = possible(Times(run, wait, block), lived)
    assert (true.run_ns, true.wait_cpu_ns) == (run, wait)
    assert 0 <= true.wait_block_ns <= block
    assert true.wait_block_ns + run + wait <= max(lived, run + wait)
    if believed and block + run + wait <= lived:
        assert true.wait_block_ns == block
    if block > lived + 10**9:
        assert (true.wait_block_ns, believed) == (0, False)


def test_an_impossible_wait_of_a_polled_program_is_left_out() -> None:
    """As Linux 6.18 counted a program for 1 s, 1 954 s after boot: its wait for block I/O."""
    spinning = Times(run_ns=276_950_873, wait_cpu_ns=280_666_927, wait_block_ns=1_954_270_000_000)
    other = Times(run_ns=276_181_055, wait_cpu_ns=282_483_049, wait_block_ns=10_000_000)
    polled = Polled().plus([spinning, other], 1_000_000_000)
    assert polled.implausible == 1
    assert polled.times == Times(
        run_ns=spinning.run_ns + other.run_ns,
        wait_cpu_ns=spinning.wait_cpu_ns + other.wait_cpu_ns,
        wait_block_ns=10_000_000,
    )


SEEN = [
    ("R", b"", 200.0),
    ("S", b"hrtimer_nanosleep", 300.0),
    ("D", b"folio_wait_bit_common", 300.0),
    ("D", b"0", 100.0),
    ("D", b"kernel_clone", 50.0),
    ("S", b"request_wait_answer", 50.0),
    ("Z", b"", 500.0),
]
"""Times in ns of one thread in samples that stand for 1000 ns."""


def test_waits_of_threads_that_read_ahead_delay_no_work() -> None:
    of_any = share_out(10, 9, 0.5, 5, 0, network=False, block_counted=True)
    assert of_any.wait_block_s == pytest.approx(10 * 5 / 14.5)
    ahead = share_out(10, 9, 0.5, 5, 0, network=False, block_counted=True, others_wait=True)
    assert ahead.on_cpu_s == 9 and ahead.wait_cpu_s == 0.5
    assert ahead.wait_block_s == pytest.approx(0.5)
    assert ahead.residue_s == of_any.residue_s == pytest.approx(4.5)
    busy = share_out(10, 12, 0.5, 5, 0, network=False, block_counted=True, others_wait=True)
    assert busy.wait_block_s == 0 and busy.on_cpu_s + busy.wait_cpu_s == pytest.approx(10)


def test_samples_share_out_the_time_asleep() -> None:
    states = states_of(SEEN, 10, 1000.0, cost_ns=0, waited_ns=0)
    # Asleep by the counters: 900 of 1000. By samples 450 of 800 were for storage: with FUSE, but
    # not until a child executes its program.
    assert states.storage_wait_ns(1000, Times(60, 40, 999)) == round(900 * 450 / 800)


@pytest.mark.parametrize(
    ("samples", "counted", "most"), [(10_000, 600, 50), (10_000, 20, 20), (10, 600, 600)]
)
def test_time_asleep_is_no_wait_for_a_cpu(samples: int, counted: int, most: int) -> None:
    """It ran for 60 of 1000 and slept; the kernel counted its sleep on a run queue, as seen
    with Linux 6.18. Few samples say nothing."""
    seen = [("S", b"hrtimer_nanosleep", 890.0), ("R", b"", 110.0)]
    states = states_of(seen, samples, 1000.0, cost_ns=0, waited_ns=0)
    assert states.wait_cpu_ns(1000, Times(60, counted)) == pytest.approx(most, abs=15)


def test_without_a_sample_asleep_the_kernels_count_is_taken() -> None:
    """A job that ends after a few milliseconds must not have waits of 0 for that reason."""
    states = states_of([("R", b"", 5.0)], 1, 5.0, cost_ns=0, waited_ns=0)

    def waits(spent: Times) -> BlockWaits:
        return block_waits(
            spent, states, 1_000_000, source="taskstats", counted=True, believed=True
        )

    slept = waits(Times(400_000, 0, 500_000))
    assert (slept.block_s, slept.source, slept.complete) == (0.0005, "taskstats", True)
    busy = waits(Times(999_000, 0, 500_000))
    assert (busy.block_s, busy.source) == (0.0, "samples")
    # Nothing counts: share_out then takes the time in read calls, and the row says so.
    unknown = block_waits(
        Times(400_000), None, 1_000_000, source="read-calls", counted=False, believed=True
    )
    assert not unknown.complete
    assert unknown.source_with(complete=True) == "read-calls"


def thread_of(process: int, *, block_ns: int, lived_ns: int, pid: int | None = None) -> TaskDelays:
    return TaskDelays(
        pid=pid or process,
        process=process,
        parent=1,
        run_ns=0,
        wait_cpu_ns=0,
        wait_block_ns=block_ns,
        peak_rss_bytes=0,
        lived_ns=lived_ns,
    )


def test_each_process_is_bounded_by_the_lives_of_its_own_threads() -> None:
    """One lives through the job, one began before it and ended in it with two threads, one lived in
    it."""
    wall_ns = 1000
    through = thread_of(1, block_ns=700, lived_ns=0)
    before = {1: thread_of(1, block_ns=200, lived_ns=0), 2: thread_of(2, block_ns=5000, lived_ns=0)}
    ended = [
        thread_of(2, block_ns=5100, lived_ns=9000),
        thread_of(2, pid=21, block_ns=100, lived_ns=400),
        thread_of(3, block_ns=50, lived_ns=60),
        thread_of(1, pid=11, block_ns=30, lived_ns=300),
    ]
    family = ended_descendants(1, [1, 2], [1], ended)
    counted = of_processes(before, {1: (through, 3)}, family, ended, wall_ns)
    assert counted == {
        1: (Times(0, 0, 500), 4 * wall_ns),
        2: (Times(0, 0, 200), wall_ns + 400),
        3: (Times(0, 0, 50), 60),
    }
