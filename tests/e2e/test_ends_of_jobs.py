"""Jobs that end, and jobs and helpers that are killed, in a study as a user runs it.

Needs root, for a device of its own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import psutil
import pytest

from workspace import Started, Workspace

BLOCK = """
headrace = 1
title = "ends of jobs"
[target.disk]
kind = "block"
image = "disk.img"
size = "300 MB"
[workload.scan]
kind = "scan"
reader = "rdataframe"
data = { events = 20_000, files = 2 }
[factors]
slots = [2]
[plan]
repeats = { min = 2 }
[run]
shortest = 0
series_interval = 0.1
"""


def test_series_and_device_counts_end_with_the_last_job_of_root(workspace: Workspace) -> None:
    """ROOT takes SIGCHLD.

    The ends of its jobs once went unheard for 10 s, in which probes ran on.
    """
    pytest.importorskip("ROOT")
    ended = workspace.measure(workspace.study(BLOCK))
    assert ended.returncode in (0, 5), ended.stderr
    for trial in workspace.trials():
        assert trial["status"] == "done" and trial["teardown_errors"] == []
        series = workspace.place / "results" / "trials" / trial["id"] / "series" / "block.parquet"
        rows = duckdb.sql(
            f"SELECT time_s, device, read_bytes_per_s AS rate FROM '{series}' ORDER BY time_s"
        ).fetchall()
        # A loaded machine may be late with the last sample, but not by ten seconds.
        assert trial["last_done_s"] <= rows[-1][0] < trial["last_done_s"] + 3
        times = [0.0, *[time_s for time_s, _, _ in rows]]
        while_jobs_ran = sum(
            rate * (after - before)
            for (after, _, rate), before in zip(rows, times[:-1], strict=True)
        )
        counted = trial["device"]["bytes_read"]
        assert counted > 100_000
        assert while_jobs_ran == pytest.approx(counted, rel=0.05, abs=20_000)


COMMANDS = """
headrace = 1
title = "killed"
[target.here]
kind = "path"
path = "storage"
create = true
[workload.first]
kind = "command"
command = ["sleep", "2.5"]
[factors]
slots = [1, 2]
[plan]
repeats = { min = 1 }
[run]
cache = "as-is"
shortest = 0
"""


def descendants(process: Started, chosen: Callable[[list[str]], bool]) -> list[psutil.Process]:
    """Waits until the command has such processes below it."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        found: list[psutil.Process] = []
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                if chosen(child.cmdline()):
                    found.append(child)
            except psutil.Error:
                continue
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("no such process")


def test_a_killed_fork_server_costs_one_trial(workspace: Workspace) -> None:
    process = workspace.start(
        "run", workspace.study(COMMANDS), "--results", "results", "--cache-dir", workspace.cache
    )
    sleeper = descendants(process, lambda line: line[1:] == ["2.5"])[0]
    job = sleeper.parent()
    assert job is not None
    fork_server = job.parent()
    assert fork_server is not None and "fork_server" in " ".join(fork_server.cmdline())
    os.kill(fork_server.pid, signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 5, err
    assert "Traceback" not in err
    failed, done = sorted(workspace.trials(), key=lambda trial: trial["status"] == "done")
    assert failed["status"] == "failed" and done["status"] == "done"
    assert failed["run"]["on"] == done["run"]["on"] == "local"
    assert "fork server" in failed["cause"] and "killed by SIGKILL" in failed["cause"]
    assert not sleeper.is_running()
    assert not list(Path(workspace.place / "storage" / ".headrace").rglob("job-*"))
    assert "resume results --retry-invalid" in " ".join(err.split())
    again = workspace.run("resume", "results", "--retry-invalid", "--cache-dir", workspace.cache)
    assert again.returncode in (0, 5), again.stdout + again.stderr
    assert {trial["status"] for trial in workspace.trials()} == {"done"}


def test_a_trial_in_which_headrace_was_stopped_is_run_again(workspace: Workspace) -> None:
    """As by Ctrl-Z: free slots stayed empty, and half of the rate was a valid number."""
    sustained = COMMANDS.replace("2.5", "0.3").replace("slots = [1, 2]", "slots = [2]")
    sustained += 'load = "sustained"\nduration = "4 s"\n'
    process = workspace.start(
        "run", workspace.study(sustained), "--results", "results", "--cache-dir", workspace.cache
    )
    descendants(process, lambda line: line[1:] == ["0.3"])
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(2.5)
    os.kill(process.pid, signal.SIGCONT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 5, err
    (stopped,) = workspace.trials()
    assert "stopped" in [reason["code"] for reason in stopped["validity"]["reasons"]], stopped
    again = workspace.run("resume", "results", "--retry-invalid", "--cache-dir", workspace.cache)
    (trial,) = workspace.trials()
    codes = [reason["code"] for reason in trial["validity"]["reasons"]]
    assert "stopped" not in codes, again.stdout + again.stderr


PACKETS = """
headrace = 1
title = "packets"
[target.here]
kind = "path"
path = "storage"
create = true
[workload.search]
kind = "analysis"
data = { events = 8_000, files = 2, cluster_events = 500 }
[factors]
slots = [2, 1]
[plan]
repeats = { min = 1 }
[run]
feed = "packets"
packet_events = 500
shortest = 0
"""


def test_a_killed_packet_worker_loses_its_packet_alone(workspace: Workspace) -> None:
    study = workspace.study(PACKETS)
    process = workspace.start("run", study, "--results", "results", "--cache-dir", workspace.cache)
    making = workspace.place / "results"
    deadline = time.monotonic() + 120
    # A job that reads the data set on the target is at work.
    victim: psutil.Process | None = None
    while victim is None and time.monotonic() < deadline:
        for child in psutil.Process(process.pid).children(recursive=True):
            try:
                files = [Path(file.path).name for file in child.open_files()]
            except psutil.Error:
                continue
            logs = any(name.startswith("job-") for name in files)
            if logs and any(name.endswith(".root") for name in files):
                victim = child
        time.sleep(0.005)
    assert victim is not None
    victim.kill()
    _, err = process.communicate(timeout=120)
    assert process.returncode == 5, err
    trials = workspace.trials()
    (killed,) = [trial for trial in trials if trial["packets"]["deaths"]]
    (other,) = [trial for trial in trials if not trial["packets"]["deaths"]]
    assert "job-killed" in {reason["code"] for reason in killed["validity"]["reasons"]}
    (death,) = killed["packets"]["deaths"]
    assert killed["packets"]["handed_out_again"] == 1, "what it had finished is kept"
    assert death["events_again"] % 500 == 0 and "SIGKILL" in death["cause"]
    for trial in trials:
        assert trial["packets"]["events"] == 8_000
        assert trial["packets"]["events_not_processed"] == 0
    events = duckdb.sql(
        f"SELECT sum(events) FROM '{making}/trials/*/jobs.parquet' GROUP BY filename"
    ).fetchall()
    assert events == [(8_000,), (8_000,)]
    assert killed["results"] == other["results"], "histograms are equal, bin by bin"
