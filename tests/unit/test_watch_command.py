"""`headrace watch`: tables of 80 columns, JSON, ends of jobs, and what cannot be watched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headrace.cli.watch import watch
from headrace.errors import HeadraceError, UsageError
from headrace.system.accounting import Times
from headrace.watching import Watcher
from headrace.watching.finders.pid import PidFinder
from headrace.watching.ledger import Spent, State, StorageWait, WaitEstimate
from workspace import HEADRACE

SDA, NFS = StorageWait("block", "sda"), StorageWait("network", "/data")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_a_table_of_80_columns_and_its_sources(
    sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    watch(pid=[str(sleeper.pid)], interval="0.2 s", once=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("job ") and max(map(len, lines)) <= 80
    assert lines[2].startswith(f"{sleeper.pid} sleep") and "100%" in lines[2]
    assert any(line.startswith("source: ") for line in lines)


def test_json_has_parts_that_add_up(
    sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    watch(pid=[str(sleeper.pid)], interval="0.2 s", once=True, as_json=True)
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    total = job["total"]
    parts = ("on_cpu_s", "wait_cpu_s", "wait_block_s", "wait_network_s", "wait_memory_s", "other_s")
    assert sum(total[part] for part in parts) == pytest.approx(total["wall_s"])
    assert total["other_s"] > 0.9 * total["wall_s"] > 0


def test_a_job_that_ends_ends_the_watch() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        command = [HEADRACE, "watch", "--pid", str(process.pid), "--interval", "0.2 s"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            first = watching.stdout.readline()
            process.kill()
            process.wait()
            rest = watching.stdout.read()
            assert watching.wait(60) == 0
    assert first.startswith("1 job, 1 process") and "1 of 1 ended" in rest


def test_ctrl_c_ends_with_a_summary(sleeper: subprocess.Popen[bytes]) -> None:
    command = [HEADRACE, "watch", "--pid", str(sleeper.pid), "--interval", "0.2 s"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        out, err = watching.communicate(timeout=60)
    assert watching.returncode == 0 and "whole watch of" in out and not err


def test_children_are_followed_and_do_not_get_lost() -> None:
    """A shell starts one program after the other: their CPU time is the job's."""
    spin = "import time\nend=time.process_time()+0.2\nwhile time.process_time()<end: pass"
    script = f"while true; do '{sys.executable}' -c '{spin}'; done"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as process:
        try:
            with Watcher(PidFinder([str(process.pid)])) as watcher:
                for _ in range(5):
                    watcher.watch(0.5)
                (job,) = watcher.watch(0.5).jobs
            shares = job.total.ledger.shares
            # Starting Python waits for little else than a CPU.
            assert shares["on_cpu"] + shares["wait_cpu"] > 0.7, shares
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pid": ["4194304999"]}, "not a process id"),
        ({"pid": ["x"]}, "not a process id"),
        ({"pid": ["2147483000"]}, "no such process"),
        ({}, "no jobs given"),
        ({"pid": ["1"], "interval": "soon"}, "--interval soon"),
        ({"pid": ["1"], "interval": "1 ms"}, "between 0.1 s and 1 h"),
    ],
)
def test_what_cannot_be_watched(options: dict[str, object], said: str) -> None:
    with pytest.raises(HeadraceError, match=said) as raised:
        watch(**options, once=True)  # pyright: ignore[reportArgumentType]
    assert isinstance(raised.value, UsageError)


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
