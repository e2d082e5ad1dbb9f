"""The fork server and the job pool with real jobs.

How ends are heard of, whatever libraries and kills do.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.datasets import materialise, read_manifest
from headrace.engine.measure import validity
from headrace.engine.measure.job_pool import JobPool, PoolResult, PoolTask
from headrace.engine.measure.outcome import failure_of
from headrace.engine.measure.packet_files import QueryFile
from headrace.engine.measure.packets import Packetiser
from headrace.engine.packet_sizes import Sizes
from headrace.errors import HeadraceError
from headrace.launchers import Job, Launcher, Launchers
from headrace.launchers.fork_server import ForkServerDiedError
from headrace.launchers.local import MachineAgent
from headrace.system.cgroups import hierarchy, make_group
from headrace.system.identity import start_ticks
from headrace.system.journal import Journal
from headrace.workloads import JobInput, Workload, kinds

DATA = {"events": 6000, "files": 3, "cluster_events": 250, "signal_fraction": 0.3}
needs_root_package = pytest.mark.skipif(
    importlib.util.find_spec("ROOT") is None, reason="the optional package root is not there"
)


@pytest.fixture(scope="module")
def launcher() -> Iterator[Launcher]:
    """One for all tests that leave its fork server as it was: with what it has imported."""
    with Launchers() as launchers:
        yield launchers["local"]


@pytest.fixture
def new_launcher() -> Iterator[Launcher]:
    """One whose fork server has imported nothing yet."""
    with Launchers() as launchers:
        yield launchers["local"]


@pytest.fixture
def datasets(shared_folder: Path) -> Path:
    """A cache of data sets, for all tests of a run."""
    return shared_folder / "datasets"


class Telling(MachineAgent):
    """The agent of this machine, which tells of each process before its job starts."""

    def __init__(self, journal: Journal, slot: int, told: Callable[[int, int], None]) -> None:
        super().__init__(journal)
        self._slot = slot
        self._told = told

    def adopt(self, pid: int) -> None:
        super().adopt(pid)
        self._told(pid, self._slot)


OF_THE_C_LIBRARY = 1 << 31 | 1 << 32
"""Signals 32 and 33, which it handles itself as soon as a process has threads (nptl(7))."""


def caught(pid: int) -> int:
    """The signals that a process handles itself, as /proc has them, as bits."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    return int(found, 16) & ~OF_THE_C_LIBRARY


def task(
    journal: Journal,
    workload: Workload,
    kind: str,
    options: dict[str, Any],
    place: Path,
    **fields: Any,
) -> PoolTask:
    place.mkdir(exist_ok=True)

    def given(job: int, slot: int) -> JobInput:
        scratch = place / f"job-{job:04d}"
        scratch.mkdir(exist_ok=True)
        files = tuple(fields.get("files", ()))
        return JobInput(
            files=files, directory=place, scratch=scratch, slot=slot, slots=1, seed=1, job=job
        )

    adopt = fields.get("adopt", lambda pid, slot: None)
    agents = [Telling(journal, slot, adopt) for slot in range(fields.get("slots", 1))]
    return PoolTask(
        kind=kind,
        name=workload.name,
        options=options,
        slots=fields.get("slots", 1),
        network=False,
        make_input=given,
        agent=agents.__getitem__,
        log_dir=place,
        timeout_s=120,
        packets=fields.get("packets"),
        here=fields.get("here", lambda file, slot: file),
    )


def run(launcher: Launcher, wanted: PoolTask) -> PoolResult:
    pool = JobPool(launcher, wanted, lambda: False)
    try:
        pool.get_ready()
        return pool.run()
    finally:
        pool.close()


@needs_root_package
@pytest.mark.parametrize("reader", ["rdataframe", "event-loop"])
def test_root_takes_no_signals_and_hides_no_end(
    reader: str, new_launcher: Launcher, journal: Journal, tmp_path: Path, datasets: Path
) -> None:
    """ROOT's TUnixSystem replaces eleven handlers, SIGCHLD's among them, when it is started up."""
    options = {"data": DATA, "reader": reader}
    part = kinds()["scan"]
    scan = part("mine", part.Options.model_validate(options))
    assert new_launcher.warm("command", "first", {"command": ["true"]}) is None
    (fork_server,) = new_launcher.pids(MachineAgent(journal))
    before = caught(fork_server)
    assert new_launcher.warm("scan", "mine", options) is None
    assert caught(fork_server) == before
    dataset = scan.dataset(1)
    assert dataset is not None
    file = str(materialise(dataset, datasets)[0])
    result = run(
        new_launcher, task(journal, scan, "scan", options, tmp_path / "jobs", files=[file])
    )
    assert [job.exit for job in result.jobs] == ["ok"]
    assert result.jobs[0].peak_rss_bytes > 0, "how the process ended was reported"


def test_a_killed_fork_server_says_so_and_is_started_anew(
    new_launcher: Launcher, journal: Journal, tmp_path: Path
) -> None:
    options = {"command": ["sleep", "0.3"]}
    part = kinds()["command"]
    sleep = part("mine", part.Options.model_validate(options))
    pids: list[int] = []

    def adopt(pid: int, slot: int) -> None:
        pids.append(pid)
        if slot == 1:
            os.kill(*new_launcher.pids(MachineAgent(journal)), signal.SIGKILL)

    wanted = task(journal, sleep, "command", options, tmp_path / "jobs", slots=2, adopt=adopt)
    with pytest.raises(ForkServerDiedError, match="was killed by SIGKILL"):
        run(new_launcher, wanted)
    assert len(pids) == 2
    assert [start_ticks(pid) for pid in pids] == [None, None], "jobs die with it"
    again = run(new_launcher, task(journal, sleep, "command", options, tmp_path / "jobs", slots=2))
    assert [job.exit for job in again.jobs] == ["ok", "ok"]


@pytest.mark.parametrize(
    ("killed_by", "cause"),
    [
        (signal.SIGABRT, "killed by signal SIGABRT: no code of a class"),
        (signal.SIGKILL, "killed by signal SIGKILL"),
    ],
)
def test_a_crash_has_its_likely_reason(
    killed_by: signal.Signals, cause: str, launcher: Launcher, journal: Journal, tmp_path: Path
) -> None:
    options = {"command": ["sleep", "0.3"]}
    part = kinds()["command"]
    sleep = part("mine", part.Options.model_validate(options))

    def adopt(pid: int, slot: int) -> None:
        os.kill(pid, killed_by)

    wanted = task(journal, sleep, "command", options, tmp_path / "jobs", adopt=adopt)
    result = run(launcher, replace(wanted, crash_note="no code of a class"))
    assert [job.cause for job in result.jobs] == [cause]


def test_a_fork_server_that_may_not_fork_says_so_and_goes_on(
    new_launcher: Launcher, journal: Journal, tmp_path: Path
) -> None:
    """As with `ulimit -u`, or with the limit of a container. It died, with the jobs it had."""
    if hierarchy("pids") is None:
        pytest.skip("no control group limits processes here")
    options = {"command": ["sleep", "0.3"]}
    part = kinds()["command"]
    sleep = part("mine", part.Options.model_validate(options))
    group, entries = make_group(journal, "pids")
    wanted = task(journal, sleep, "command", options, tmp_path / "jobs", slots=2)
    try:
        assert new_launcher.warm("command", "mine", options) is None
        (fork_server,) = new_launcher.pids(MachineAgent(journal))
        (group / "cgroup.procs").write_text(str(fork_server))
        (group / "pids.max").write_text((group / "pids.current").read_text())
        with pytest.raises(HeadraceError, match="no process can be started for a job") as caught:
            run(new_launcher, wanted)
        failure = failure_of(caught.value)
        assert failure.passing == "processes" and "ulimit -u" in failure.cause, failure
        (group / "pids.max").write_text("max")
        assert [job.exit for job in run(new_launcher, wanted).jobs] == ["ok", "ok"]
        assert new_launcher.pids(MachineAgent(journal)) == {fork_server}
    finally:
        new_launcher.close()
        journal.put_back(entries)


def test_a_stop_of_headrace_itself_is_counted(
    launcher: Launcher, journal: Journal, tmp_path: Path
) -> None:
    """As by Ctrl-Z, or of a suspended batch job. Free slots of a sustained load stay empty."""
    part = kinds()["command"]

    def ran(*command: str) -> PoolResult:
        options = {"command": list(command)}
        mine = part("mine", part.Options.model_validate(options))
        wanted = task(journal, mine, "command", options, tmp_path / "jobs")
        return run(launcher, replace(wanted, duration_s=3.0))

    assert ran("sleep", "0.2").stopped_s == 0.0
    # One of the jobs stops this process.
    stop = f"kill -STOP {os.getpid()}; sleep 2; kill -CONT {os.getpid()}"
    result = ran("sh", "-c", f"if mkdir {tmp_path}/once; then {stop}; else sleep 0.2; fi")
    assert 1.5 < result.stopped_s < 3.0, result
    (reason,) = validity.stopped(result.stopped_s)
    assert reason.code == "stopped" and reason.text.startswith("headrace was stopped for ")


def test_a_later_job_that_does_not_get_ready_is_killed(
    launcher: Launcher, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was never released, so that no time limit of the run counts for it."""
    options = {"command": ["true"]}
    part = kinds()["command"]
    command = part("mine", part.Options.model_validate(options))
    pids: list[int] = []

    def adopt(pid: int, slot: int) -> None:
        pids.append(pid)
        if len(pids) == 2:
            os.kill(pid, signal.SIGSTOP)
            monkeypatch.setattr("headrace.engine.measure.job_pool._READY_PATIENCE_S", 0.2)

    wanted = task(journal, command, "command", options, tmp_path / "jobs", adopt=adopt)
    result = run(launcher, replace(wanted, jobs_total=2))
    assert [job.exit for job in result.jobs] == ["ok", "timeout"]
    assert result.jobs[1].cause == "did not get ready within 0.2 s and was killed"


def test_a_job_that_ends_as_others_are_killed_at_the_time_limit_was_late(
    launcher: Launcher, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine time passes between two signals: it has the lock of the first meanwhile."""
    lock, began = tmp_path / "lock", tmp_path / "began"
    program = f"test -e {began} || {{ touch {began}; exec sleep 60; }}"
    options = {"command": ["flock", str(lock), "sh", "-c", program]}
    part = kinds()["command"]
    command = part("mine", part.Options.model_validate(options))
    kill = launcher.kill

    def slowly(jobs: Iterable[Job]) -> None:
        kill(jobs)
        time.sleep(1.0)

    monkeypatch.setattr(launcher, "kill", slowly)
    wanted = task(journal, command, "command", options, tmp_path / "jobs", slots=2)
    result = run(launcher, replace(wanted, timeout_s=1.0))
    assert [job.exit for job in result.jobs] == ["timeout", "timeout"]
    assert {job.cause for job in result.jobs} == {"did not end within 1 s and was killed"}


_AT_ONCE_S = 1e-9
"""Time of a packet that makes each as small as a packet may be: one cluster."""


def test_a_job_whose_log_cannot_be_made_says_why(
    launcher: Launcher, journal: Journal, tmp_path: Path
) -> None:
    """As where the file system of the logs is full."""
    options = {"command": ["true"]}
    part = kinds()["command"]
    mine = part("mine", part.Options.model_validate(options))
    assert launcher.warm("command", "mine", options) is None
    wanted = task(journal, mine, "command", options, tmp_path / "jobs")
    (job,) = run(launcher, replace(wanted, log_dir=tmp_path / "missing")).jobs
    assert job.exit == "failed"
    assert str(job.cause).startswith("the job's log cannot be made: "), job.cause
    assert "No such file" in str(job.cause)


def packets_task(
    journal: Journal,
    tmp_path: Path,
    datasets: Path,
    slots: int,
    dies: Callable[[str, int], bool],
    *,
    packet_events: int = 250,
) -> tuple[PoolTask, Workload]:
    """A query over a data set, in packets of `packet_events`.

    A worker for which `dies(file name, slot)` is true is killed with the packet in its hands.
    """
    options: dict[str, Any] = {"data": DATA}
    part = kinds()["analysis"]
    search = part("mine", part.Options.model_validate(options))
    dataset = search.dataset(1)
    assert dataset is not None
    files = materialise(dataset, datasets)
    (manifest,) = {path.parent for path in files}
    events = {str(entry["name"]): int(entry["events"]) for entry in read_manifest(manifest).files}
    pids: dict[int, int] = {}

    def here(file: str, slot: int) -> str:
        if dies(Path(file).name, slot):
            os.kill(pids[slot], signal.SIGKILL)
        return file

    wanted = task(
        journal,
        search,
        "analysis",
        options,
        tmp_path / "jobs",
        slots=slots,
        packets=Packetiser(
            [QueryFile(str(file), events[file.name]) for file in files],
            homes=[""] * slots,
            sizes=Sizes(packet_events, 0.0, _AT_ONCE_S),
            cluster_events=packet_events,
        ),
        adopt=lambda pid, slot: pids.__setitem__(slot, pid),
        here=here,
    )
    return wanted, search


def merged(search: Workload, result: PoolResult) -> tuple[int, dict[str, Any]]:
    outputs = [job.output for job in result.jobs if job.output is not None]
    return sum(output.events for output in outputs), search.merge(
        [output.results for output in outputs]
    )


# Each packet takes a fifth of a second of CPU time. Of 24, each of three workers takes some.
@pytest.mark.parametrize(("slots", "packet_events"), [(1, 1000), (3, 250)])
def test_packets_of_a_dead_worker_are_done_by_others(
    slots: int,
    packet_events: int,
    launcher: Launcher,
    journal: Journal,
    tmp_path: Path,
    datasets: Path,
) -> None:
    def made(dies: Callable[[str, int], bool]) -> tuple[PoolTask, Workload]:
        return packets_task(journal, tmp_path, datasets, slots, dies, packet_events=packet_events)

    wanted, search = made(lambda file, slot: False)
    whole = merged(search, run(launcher, wanted))
    given: list[int] = []

    def third_packet_of_slot_0(file: str, slot: int) -> bool:
        given.append(slot)
        return slot == 0 and given.count(0) == 3

    wanted, search = made(third_packet_of_slot_0)
    result = run(launcher, wanted)
    assert sorted(job.exit for job in result.jobs).count("killed") == 1
    assert result.packets is not None
    assert result.packets.handed_out_again == 1, "the one in its hands"
    (death,) = result.packets.deaths
    assert death.events_kept == 2 * packet_events, "results came with its requests"
    assert result.packets.events_not_processed == 0
    assert merged(search, result) == whole


def test_a_packet_that_kills_twice_is_given_up(
    launcher: Launcher, journal: Journal, tmp_path: Path, datasets: Path
) -> None:
    # A file is one packet, however fast the workers are: both die with the same one.
    one_per_file = DATA["events"] // DATA["files"]
    deaths: list[str] = []

    def of_the_last_file(file: str, slot: int) -> bool:
        if file.endswith("2.root") and len(deaths) < 2:
            deaths.append(file)
            return True
        return False

    wanted, search = packets_task(
        journal, tmp_path, datasets, 2, of_the_last_file, packet_events=one_per_file
    )
    result = run(launcher, wanted)
    assert len(deaths) == 2
    assert result.packets is not None
    (given_up,) = result.packets.given_up
    assert "SIGKILL" in given_up.cause
    assert result.packets.events_not_processed == given_up.events > 0
    events, _ = merged(search, result)
    assert events == DATA["events"] - given_up.events
