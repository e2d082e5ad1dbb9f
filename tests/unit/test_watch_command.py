"""`headrace watch`: tables of 80 columns, JSON, ends of jobs, and what cannot be watched."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.parser import text_string_to_metric_families

from headrace.analysis.find import find
from headrace.analysis.gate import as_json as gate_json
from headrace.analysis.history import history
from headrace.analysis.read import read as read_records
from headrace.cli.compare import compare
from headrace.cli.watch import watch
from headrace.errors import CannotRecordError, HeadraceError, RefusedError, UsageError
from headrace.library import gate, resume
from headrace.system.waiting import wait_until
from headrace.watching import Watcher
from headrace.watching.finders.pid import PidFinder
from headrace.watching.metrics import WatchMetrics
from headrace.watching.recording import Recorder
from headrace.watching.sources import lacks
from workspace import HEADRACE, ROOT

# Time that a hypervisor takes counts as the load of others.
_BUSY = ("user", "nice", "system", "irq", "softirq", "steal")
_ALL = (*_BUSY, "idle", "iowait")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        seen = psutil.Process(process.pid)
        # What it waits for a CPU until it sleeps is no part of what the tests expect.
        assert wait_until(lambda: (seen.name(), seen.status()) == ("sleep", "sleeping"), 30, 0.01)
        yield process
        process.kill()


def test_a_table_of_80_columns_and_its_sources(
    sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    watch(pid=[str(sleeper.pid)], interval="0.2 s", once=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("job ") and max(map(len, lines)) <= 80
    assert lines[2].startswith(f"{sleeper.pid} sleep") and " 100 % " in lines[2]
    assert any(line.startswith("source: ") for line in lines)


CLIENT = "import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)"


def test_a_long_name_and_a_long_place_leave_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """A row had 83: the end of a name of a server takes more room than that of a disk."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        argv = [sys.executable, "-m", "timeit", CLIENT.format(port=port)]
        with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as client:
            try:
                connection, _ = server.accept()
                with connection:
                    watch(pid=[str(client.pid)], interval="0.5 s", once=True)
            finally:
                client.kill()
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80, lines
    assert f".1:{port}" in lines[2] and "python -m" in lines[2][:20]


@pytest.mark.parametrize(
    ("root", "said"), [(False, "owner or root only"), (True, "denied, even to root (ptrace)")]
)
def test_what_is_not_readable_is_told_in_80_columns(
    sleeper: subprocess.Popen[bytes],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    root: bool,
    said: str,
) -> None:
    def denied(*_: bool, **__: bool) -> tuple[str, ...]:
        return lacks(io_readable=False, denied=True, ended_unseen=False, root=root)

    monkeypatch.setattr("headrace.watching.job.lacks", denied)
    watch(pid=[str(sleeper.pid)], interval="0.2 s", once=True)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    words = f"devices and mounts of waits (/proc/PID/syscall): {said}"
    assert f"not readable: {words}" in " ".join(text.split())


def test_json_has_parts_that_add_up(
    sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    watch(pid=[str(sleeper.pid)], interval="0.2 s", once=True, as_json=True)
    (job,) = json.loads(capsys.readouterr().out)["jobs"]
    total = job["total"]
    parts = ("on_cpu_s", "wait_cpu_s", "wait_block_s", "wait_network_s", "wait_memory_s", "other_s")
    assert sum(total[part] for part in parts) == pytest.approx(total["wall_s"])
    assert total["other_s"] > 0.9 * total["wall_s"] > 0


def test_load_of_others_is_told(sleeper: subprocess.Popen[bytes]) -> None:
    """A program that computes is foreign until it is watched."""
    spin = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(spin) as spinning:
        try:
            for pids in ([sleeper.pid], [sleeper.pid, spinning.pid]):
                with Watcher(PidFinder([str(pid) for pid in pids])) as watcher:
                    before = psutil.cpu_times()
                    sample = watcher.watch(2.0)
                    after = psutil.cpu_times()
                busy = sum(getattr(after, kind) - getattr(before, kind) for kind in _BUSY)
                mine = sum(job.last.cpu_s for job in sample.jobs)
                assert sample.foreign_cpus is not None and busy > 0.1
                # By the counters' own time: a test that is kept waiting outside reads more of both.
                total = sum(getattr(after, kind) - getattr(before, kind) for kind in _ALL)
                elapsed_s = total / (psutil.cpu_count() or 1)
                others = (busy - mine - sample.cost_s) / elapsed_s
                # Counters move by 10 ms.
                assert sample.foreign_cpus == pytest.approx(max(0, others), abs=0.05)
                assert (mine > 0.1) == (spinning.pid in pids)
        finally:
            spinning.kill()


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
    assert first.startswith("1 job, 1 process: ") and "1 of 1 ended" in rest


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


def test_metrics_for_prometheus(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    file = tmp_path / "watch.prom"
    watch(pid=[str(sleeper.pid)], interval="0.3 s", once=True, textfile=file, openmetrics="0")
    rows = [
        each
        for family in text_string_to_metric_families(file.read_text())
        for each in family.samples
    ]
    parts = {
        row.labels["part"]: row.value for row in rows if row.name.endswith("job_seconds_total")
    }
    assert parts["other"] == pytest.approx(sum(parts.values()), rel=0.1) and parts["other"] > 0.2
    with pytest.raises(UsageError, match="--textfile"):
        watch(pid=[str(sleeper.pid)], once=True, textfile=tmp_path / "watch.txt")


def test_the_dashboard_asks_for_metrics_that_are_served(sleeper: subprocess.Popen[bytes]) -> None:
    file = ROOT / "examples" / "grafana" / "headrace-watch.json"
    dashboard = Dashboard.from_json(json.loads(file.read_text()))
    assert len(dashboard.panels or []) == 14
    metrics = WatchMetrics()
    with Watcher(PidFinder([str(sleeper.pid)])) as watcher:
        metrics.add(watcher.watch(0.1))
    served = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in metrics.collect()
    }
    asked = set(re.findall(r"headrace_watch_\w+", file.read_text()))
    assert asked == served


def test_records_of_windows_are_read_as_those_of_a_study(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "a day"
    job = PidFinder([str(sleeper.pid)])
    intervals_s: list[float] = []
    with Watcher(job) as watcher, Recorder(folder, 0.4) as recorder:
        for _ in range(5):
            sample = watcher.watch(0.2)
            recorder.add(sample)
            intervals_s.append(sample.interval_s)
    read = read_records(folder)
    windows = len(read.trials)
    # A look that took as long as a window, on a busy machine, is one by itself.
    assert windows == 3 or (3 < windows <= 5 and max(intervals_s) > 0.35)
    assert set(read.trials["status"]) == {"done"} and read.plan is not None
    assert len(read.plan.trials) == windows and not read.warnings
    assert sum(read.trials["other_s"]) == pytest.approx(sum(read.trials["wall_s"]), rel=0.1)
    assert sum(read.trials["wall_s"]) == pytest.approx(sum(intervals_s), rel=0.1)
    with pytest.raises(RefusedError, match="holds results already"):
        watch(pid=[str(sleeper.pid)], record=folder, once=True)


@contextmanager
def no_byte_more() -> Generator[None]:
    """No file can grow, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_metrics_file_that_cannot_be_written_is_an_error(
    sleeper: subprocess.Popen[bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A timer that runs `watch --once` for node_exporter sees that the file is old."""
    file = tmp_path / "watch.prom"
    watch(pid=[str(sleeper.pid)], interval="0.2 s", once=True, textfile=file)
    before = file.read_text()
    with no_byte_more(), pytest.raises(HeadraceError) as failed:
        watch(pid=[str(sleeper.pid)], interval="0.2 s", once=True, textfile=file)
    assert failed.value.exit_code == 6
    assert failed.value.message.startswith(f"metrics file {file}: File too large")
    assert "tried again" not in capsys.readouterr().err
    assert [path.read_text() for path in tmp_path.iterdir()] == [before]
    # As soon as there is room, it is written, and nothing is wrong.
    watch(pid=[str(sleeper.pid)], interval="0.2 s", once=True, textfile=file)
    assert "headrace_watch" in file.read_text() != before


def test_a_watch_that_cannot_record_more_is_not_to_be_resumed(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """What it did not see is over: `headrace resume` has no trial to run."""
    folder = tmp_path / "a day"
    with Watcher(PidFinder([str(sleeper.pid)])) as watcher:
        with pytest.raises(CannotRecordError) as failed, Recorder(folder, 0.2) as recorder:
            recorder.add(watcher.watch(0.2))
            sample = watcher.watch(0.2)
            with no_byte_more():
                recorder.add(sample)
        hint = failed.value.hint or ""
        assert "resume" not in hint and "--record" in hint
        with no_byte_more(), pytest.raises(CannotRecordError) as failed:
            Recorder(tmp_path / "another", 0.2)
        assert "resume" not in (failed.value.hint or "")
    assert read_records(folder).trials["status"].to_list()[:1] == ["done"]
    with pytest.raises(RefusedError, match="the records of a watch: there is nothing to resume"):
        resume(folder)


def test_reports_of_a_watch_lead_with_efficiency(tmp_path: Path) -> None:
    """A job counts in each window: a rate over jobs would say nothing."""
    folder = tmp_path / "a day"
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
        try:
            with (
                Watcher(PidFinder([str(spinning.pid)])) as watcher,
                Recorder(folder, 0.4) as recorder,
            ):
                for _ in range(4):
                    recorder.add(watcher.watch(0.2))
        finally:
            spinning.kill()
    findings = find(read_records(folder))
    assert findings.headline == {"watched": "efficiency"}


def test_a_recorded_job_that_waits_for_timers_is_not_limited_by_the_cache(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    folder = tmp_path / "a day"
    finder = PidFinder([str(sleeper.pid)])
    with Watcher(finder, samples_per_s=400) as watcher, Recorder(folder, 0.4) as recorder:
        for _ in range(4):
            recorder.add(watcher.watch(0.2))
    ((point,),) = [curve.points for curve in find(read_records(folder)).curves]
    assert point.limit.kind == "sleep" and "timer" in point.limit.evidence


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pid": ["4194304999"]}, "not a process id"),
        ({"pid": ["x"]}, "not a process id"),
        ({"pid": ["2147483000"]}, "no such process"),
        ({}, "no jobs given"),
        ({"pid": ["1"], "everything": True}, "--pid and --all given"),
        ({"user": ["no such user"]}, "no such user"),
        ({"cgroup": ["no such group"]}, "no such control group"),
        ({"slurm": ["mine"]}, "not a job of Slurm"),
        ({"condor": ["1.2.3"]}, "not a job of HTCondor"),
        (
            {"pid": ["1"], "interval": "2 s", "record": Path("unused"), "window": "1 s"},
            "--window 1 s",
        ),
        ({"pid": ["1"], "interval": "soon"}, "--interval soon"),
        ({"pid": ["1"], "interval": "1 ms"}, "between"),
    ],
)
def test_what_cannot_be_watched(options: dict[str, object], said: str) -> None:
    with pytest.raises(HeadraceError, match=said) as raised:
        watch(**options, once=True)  # pyright: ignore[reportArgumentType]
    assert isinstance(raised.value, UsageError)


def test_a_profile_in_a_folder_that_is_missing(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """It is said before anything is watched, not at the end of a long watch."""
    place = tmp_path / "missing" / "job.toml"
    with pytest.raises(UsageError, match="is not a folder"):
        watch(pid=[str(sleeper.pid)], interval="0.2 s", once=True, profile=place)
    assert not place.parent.exists()


def test_a_refused_port_leaves_no_folder(sleeper: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """It would be refused the next time."""
    folder = tmp_path / "day"
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        with pytest.raises(UsageError, match="cannot listen"):
            watch(
                pid=[str(sleeper.pid)], once=True, interval="0.2 s", record=folder,
                openmetrics=str(used.getsockname()[1]),
            )  # fmt: skip
    assert not folder.exists()


def recorded(folder: Path, jobs: int) -> Path:
    """Record four windows of so many jobs that compute half of the time."""
    half = "import time\nwhile True:\n e = time.process_time() + .01\n"
    half += " while time.process_time() < e: pass\n time.sleep(.01)"
    started = [subprocess.Popen([sys.executable, "-c", half]) for _ in range(jobs)]
    try:
        finder = PidFinder([str(each.pid) for each in started])
        with Watcher(finder) as watcher, Recorder(folder, 0.3) as recorder:
            for _ in range(4):
                recorder.add(watcher.watch(0.3))
    finally:
        for each in started:
            each.kill()
            each.wait()
    return folder


def test_jobs_that_only_slept_are_not_compared_by_their_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sleeper: subprocess.Popen[bytes]
) -> None:
    """A job counts in every window: its rate is that of the windows."""
    days = [tmp_path / "monday", tmp_path / "tuesday"]
    for day in days:
        finder = PidFinder([str(sleeper.pid)])
        with Watcher(finder) as watcher, Recorder(day, 0.2) as recorder:
            for _ in range(2):
                recorder.add(watcher.watch(0.2))
    compare(days[0], days[1])
    told = " ".join(capsys.readouterr().out.split())
    assert "jobs of A and B used no CPU time" in told and "Job rate" not in told
    cells = history([read_records(day) for day in days]).cells
    assert "jobs_per_s" not in {cell.metric for cell in cells}


def test_windows_with_other_numbers_of_jobs_are_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --all a day hardly ever has as many jobs as another."""
    monday, tuesday = recorded(tmp_path / "monday", 1), recorded(tmp_path / "tuesday", 3)
    compare(monday, tuesday)
    told = " ".join(capsys.readouterr().out.split())
    assert "A has 1, B has 3 jobs per window" in told and "node, watched" in told
    found = gate(tuesday, monday, metric="efficiency", tolerance=0.9)
    assert [(cell.difference.slots, cell.difference.a.n) for cell in found.cells] == [(None, 4)]
    assert json.loads(gate_json(found))["cells"][0]["slots"] is None
    (efficiency,) = [
        each for each in history([read_records(monday), read_records(tuesday)]).cells
        if each.metric == "efficiency"
    ]  # fmt: skip
    assert [point.run for point in efficiency.points] == [0, 1]
