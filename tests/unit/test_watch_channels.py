"""Kernel functions in which threads sleep, and kernels whose block I/O waits are misplaced."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.system.accounting import Times, delays_misplaced
from headrace.system.wait_channels import WaitChannel, channel_of
from headrace.verdict.doing import TreeLook, doing
from headrace.watching import FoundJob
from headrace.watching.awake import AwakeSamples
from headrace.watching.job import JobMeter
from headrace.watching.ledger import State
from headrace.watching.process import read_processes
from headrace.watching.together import SeenThread


@pytest.mark.parametrize(
    ("function", "kind", "filesystem"),
    [
        ("folio_wait_bit_common", "block", ""),
        ("wait_on_page_bit_common", "block", ""),
        ("io_schedule", "block", ""),
        ("balance_dirty_pages", "block", ""),
        ("mem_cgroup_handle_over_high", "memory", ""),
        ("rpc_wait_bit_killable", "network", "nfs"),
        ("nfs_wait_bit_killable", "network", "nfs"),
        ("ptlrpc_set_wait", "network", "lustre"),
        ("cl_sync_io_wait", "network", "lustre"),
        ("ceph_mdsc_do_request", "network", "ceph"),
        ("wait_for_response", "network", "cifs"),
        ("p9_client_rpc", "network", "9p"),
        ("request_wait_answer", "fuse", "fuse"),
        ("fuse_wait_on_page_writeback", "fuse", "fuse"),
        ("hrtimer_nanosleep", "sleep", ""),
        ("wait_woken", "connection", ""),
        ("__skb_wait_for_more_packets", "connection", ""),
        ("anon_pipe_read", "pipe", ""),
        ("futex_wait_queue", "lock", ""),
        ("locks_lock_inode_wait", "file-lock", ""),
        ("fcntl_setlk", "file-lock", ""),
        ("nlmclnt_block", "file-lock", ""),
        ("nfs4_retry_setlk", "file-lock", ""),
        ("ep_poll", "poll", ""),
        ("read_events", "requests", ""),
        ("io_cqring_wait", "requests", ""),
        ("do_wait", "unknown", ""),
        ("0", "unknown", ""),
    ],
)
def test_kernel_functions_name_the_wait(function: str, kind: str, filesystem: str) -> None:
    found = channel_of(function.encode())
    assert found.kind == kind and (found.filesystems or ("",))[0] == filesystem


def test_the_function_of_a_thread_that_sleeps_here() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        channel, end_s = WaitChannel("unknown"), time.monotonic() + 20
        while channel.kind != "sleep" and time.monotonic() < end_s:
            channel = channel_of(Path(f"/proc/{process.pid}/wchan").read_bytes())
            time.sleep(0.01)
        found = doing([process.pid]).what
        process.kill()
    assert channel.kind == found == "sleep"


@pytest.mark.parametrize("how", ["flock", "lockf"])
def test_a_program_that_waits_for_a_lock_of_a_file(tmp_path: Path, how: str) -> None:
    file = tmp_path / "lock"
    code = f"import fcntl, sys; fcntl.{how}(open(sys.argv[1], 'w'), fcntl.LOCK_EX)"
    with file.open("w") as held:
        getattr(fcntl, how)(held, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, "-S", "-c", code, str(file)]) as process:
            found, end_s = None, time.monotonic() + 20
            while found != "file-lock" and time.monotonic() < end_s:
                found = doing([process.pid]).what
                time.sleep(0.01)
            process.kill()
    assert found == "file-lock"


def test_threads_that_run_or_wait_for_a_cpu_are_counted() -> None:
    spin = "import threading\ndef spin():\n while True: pass\n"
    code = f"{spin}[threading.Thread(target=spin).start() for _ in range(2)]"
    with subprocess.Popen([sys.executable, "-S", "-c", code]) as process:
        looks, end_s = list[TreeLook](), time.monotonic() + 20
        while time.monotonic() < end_s and not any(look.running for look in looks):
            looks.append(doing([process.pid]))
            time.sleep(0.01)
        process.kill()
    # The lock of the interpreter lets one compute: the other sleeps, or has just got it.
    assert 1 <= looks[-1].running <= 3 and looks[-1].on_storage == 0
    assert looks[-1].what == "running"


@pytest.mark.parametrize(
    ("release", "features", "misplaced"),
    [
        ("4.18.0-553.el8_10.x86_64", "", False),
        ("6.8.0-45-generic", "", False),
        ("6.12.0-55.el10", "", True),
        ("6.18.44", "", True),
        ("7.0-rc1", "", True),
        ("6.6.60-deepin", "PLACE_LAG DELAY_DEQUEUE DELAY_ZERO", True),
        ("6.18.44", "PLACE_LAG NO_DELAY_DEQUEUE DELAY_ZERO", False),
        ("5.14.0", "GENTLE_FAIR_SLEEPERS START_DEBIT", False),
    ],
)
def test_kernels_that_count_waits_in_another_thread(
    release: str, features: str, misplaced: bool
) -> None:
    assert delays_misplaced(release, features) == misplaced


@pytest.mark.parametrize("samples", [1000, 10])  # 10: among many jobs
@pytest.mark.parametrize(("misplaced", "believed"), [(True, False), (False, True)])
def test_samples_bound_the_wait_for_a_cpu_of_a_watched_job(
    misplaced: bool, believed: bool, samples: int
) -> None:
    """Linux 6.18 may count sleep as a run queue: a sleeper waited for a CPU."""
    core = str(min(os.sched_getaffinity(0)))
    spin = ["taskset", "-c", core, sys.executable, "-S", "-c", "while True: pass"]
    with subprocess.Popen(spin) as job, subprocess.Popen(spin) as other:
        found = FoundJob("job", "job", frozenset({job.pid}), follow=True)
        meter = JobMeter(found, None, misplaced=misplaced)
        try:
            waited_s, moment = 0.0, 0
            sleeps = SeenThread(job.pid, State(None), running=False)
            for _ in range(100):
                meter.join([job.pid])
                for _ in range(samples):  # all of them show sleep
                    moment += 1
                    meter.add_look([sleeps], moment)
                readings, _ = read_processes([*meter.processes.values()], False, False)
                waited_s = (
                    meter.look(time.monotonic_ns(), readings, []).total.spent.wait_cpu_ns / 1e9
                )
                if waited_s > 0.5:
                    break
                time.sleep(0.05)
        finally:
            meter.close()
            for each in (job, other):
                each.kill()
    assert (waited_s > 0.5) == believed, waited_s


@pytest.mark.parametrize("threads", [1, 8, 16])
def test_threads_that_wake_up_together_are_seen_together(threads: int) -> None:
    """They wait for a CPU for a quarter of the time, all at once: samples of one moment say the
    same, and took up to a seventh of it away."""
    chance, awake, waited_ns, given_ns = random.Random(1), AwakeSamples(), 0, 0
    for look in range(400):
        moments = 96 // threads
        for moment in range(moments):
            waiting = chance.random() < 0.25
            for _ in range(threads):
                awake.add(look * moments + moment, awake=waiting)
        spent = Times(0, round(0.25 * threads * 1e9), 0)
        waited_ns += spent.wait_cpu_ns
        given_ns += awake.believed(spent, threads * 1_000_000_000).wait_cpu_ns
    assert given_ns > 0.98 * waited_ns, given_ns / waited_ns
