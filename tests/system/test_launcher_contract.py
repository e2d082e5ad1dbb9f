"""What every launcher promises (`headrace.launchers.Launcher`), tried with real jobs on each
registered one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest

from agent_process import AHEAD_S, Elsewhere, Process
from dask_cluster import dask_cluster
from headrace import launchers, probes
from headrace.errors import HeadraceError
from headrace.jobs import JobInput, Packet
from headrace.launchers import (
    Ended,
    Event,
    Job,
    JobSpec,
    Launcher,
    LauncherLostError,
    Launchers,
    Nodes,
    NodesWanted,
    PacketWanted,
    Ready,
    Reported,
)
from headrace.launchers.batch.launcher import BatchLauncher
from headrace.probes import Watch
from headrace.probes.sampler import Sampling
from headrace.system import block_queue
from headrace.system.cluster import NodeSettings
from headrace.system.identity import start_ticks
from headrace.system.journal import Journal
from headrace.system.machine_use import Own
from headrace.system.network_namespaces import FOLDER
from headrace.system.storage import storage_of
from headrace.targets import TargetContext
from headrace.targets import kinds as target_kinds
from ssh_server import ssh_server

PATIENCE_S = 60.0
Kind = TypeVar("Kind", Ready, PacketWanted, Reported, Ended)


# Those that are registered, and two whose nodes are processes of their own.
# Batch systems differ from `dask` by where workers come from (tests/e2e/test_slurm_study.py).
LAUNCHERS = {
    **{
        kind: part
        for kind, part in launchers.kinds().items()
        if not issubclass(part, BatchLauncher)
    },
    "process": Process,
    "elsewhere": Elsewhere,
}


@pytest.fixture(scope="module", params=sorted(LAUNCHERS))
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Launcher, Nodes]]:
    """A launcher with its nodes: two, where it can have more than one."""
    part = LAUNCHERS[request.param]
    if request.param != "local" and os.geteuid() != 0:
        pytest.skip("needs root")
    place = tmp_path_factory.mktemp("launcher")
    added = place / "contract-1.0.dist-info"
    added.mkdir()
    (added / "METADATA").write_text("Metadata-Version: 2.1\nName: contract\nVersion: 1.0\n")
    (added / "entry_points.txt").write_text(
        "[headrace.workloads]\ncontract = launcher_jobs:Contract\n"
    )
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("PYTHONPATH", f"{place}:{Path(__file__).parent}")
        patch.setenv("HEADRACE_JOURNAL_DIR", str(place / "journal"))
        address = _address_of(request.param, place, stack, patch)
        two = NodesWanted(
            (NodeSettings("node-0"), NodeSettings("node-1")), reason="two nodes", address=address
        )
        wanted = two if part.refuses(two) is None else NodesWanted(two.clients[:1])
        with (
            Journal.open("a test", place / "journal") as journal,
            Launchers() as opened,
            part(opened) as launcher,
        ):
            with launcher.nodes(journal, wanted) as nodes:
                yield launcher, nodes
            assert not journal.open_entries, "a whole plot leaves nothing until the run ends"
        left = [file.read_text() for file in (place / "journal").iterdir()]
        assert left == [], "nothing is left to undo"


def _address_of(kind: str, place: Path, stack: ExitStack, patch: pytest.MonkeyPatch) -> str:
    """The address of two nodes that are started for a launcher, or nothing."""
    if kind == "dask":
        return stack.enter_context(dask_cluster(2))
    if kind == "ssh":
        variables = {name: os.environ[name] for name in ("PYTHONPATH", "HEADRACE_JOURNAL_DIR")}
        patch.setenv("PATH", stack.enter_context(ssh_server(place / "ssh", variables)).path)
        return "alpha,beta"
    return ""


@dataclass
class Bench:
    """One trial's jobs by hand."""

    launcher: Launcher
    nodes: Nodes
    place: Path
    jobs: list[Job] = field(default_factory=list[Job])
    events: list[Event] = field(default_factory=list[Event])

    def spawn(self, *does: str, packets: bool = False) -> list[Job]:
        """Jobs that are ready for their release."""
        for do in does:
            assert self.launcher.warm("contract", "mine", {"do": do}) is None
        for number, do in enumerate(does, start=len(self.jobs)):
            scratch = self.place / f"job-{number}"
            scratch.mkdir()
            given = JobInput(
                files=(),
                directory=self.place,
                scratch=scratch,
                slot=number,
                slots=len(does),
                seed=1,
                job=number,
                jobs=len(does),
            )
            spec = JobSpec(
                kind="contract",
                name="mine",
                options={"do": do},
                job=number,
                input=given,
                packets=packets,
                network=False,
                log=self.place / f"job-{number}.log",
                environment={"CONTRACT": f"job {number}"},
            )
            agent = self.nodes.agents[number % len(self.nodes.agents)]
            self.jobs.append(self.launcher.spawn(spec, agent))
        self.until(lambda: {event.job for event in self.of(Ready)} >= set(self.jobs))
        return self.jobs[-len(does) :]

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [event for event in self.events if isinstance(event, kind)]

    def until(self, what: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < end, f"waited in vain; so far: {self.events}"
            self.events += self.launcher.wait(0.2)

    def finish(self, jobs: Sequence[Job]) -> None:
        self.launcher.release(jobs)
        self.until(lambda: {event.job for event in self.of(Ended)} >= set(jobs))

    def report(self, job: Job) -> Reported:
        (found,) = [event for event in self.of(Reported) if event.job is job]
        return found

    def began(self, job: Job) -> bool:
        return (job.spec.input.scratch / "began").exists()

    def child(self, job: Job) -> int:
        file = job.spec.input.scratch / "child"
        self.until(lambda: file.exists() and file.read_text() != "")
        return int(file.read_text())

    def gone(self, *pids: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while left := [pid for pid in pids if start_ticks(pid) is not None]:
            assert time.monotonic() < end, f"still there: {left}"
            time.sleep(0.02)


@pytest.fixture
def bench(running: tuple[Launcher, Nodes], tmp_path: Path) -> Iterator[Bench]:
    made = Bench(*running, tmp_path)
    yield made
    made.launcher.kill(made.jobs)
    assert made.launcher.reap(made.jobs, PATIENCE_S) == []


def test_no_job_begins_before_the_release_and_then_all_run_at_once(bench: Bench) -> None:
    jobs = bench.spawn(*["meet"] * 4)
    assert len({job.pid for job in jobs}) == 4
    assert bench.launcher.wait(0.3) == [], "nothing happens before the release"
    assert not any(bench.began(job) for job in jobs)
    assert [job.released_s for job in jobs] == [0.0] * 4
    before = time.monotonic()
    bench.finish(jobs)
    for job in jobs:
        report = bench.report(job)
        assert (report.word, report.cause) == ("ok", None)
        assert report.output is not None and report.output.events == 1
        assert report.ledger is not None
        assert before <= job.released_s <= report.start_s <= report.end_s <= time.monotonic()


def test_each_end_is_told_once_and_after_the_report(bench: Bench) -> None:
    jobs = bench.spawn("meet", "exit", "signal", "raise", "lose")
    bench.finish(jobs)
    bench.launcher.wait(0.2)
    ends = {event.job: event.exit for event in bench.of(Ended)}
    assert len(bench.of(Ended)) == len(ends) == 5
    assert [(ends[job].exit_code, ends[job].signal) for job in jobs] == [
        (0, None),
        (7, None),
        (None, signal.SIGTERM),
        (1, None),
        (1, None),
    ]
    assert [job.exit for job in jobs] == [ends[job] for job in jobs]
    reported = [event.job for event in bench.of(Reported)]
    assert sorted(reported, key=jobs.index) == [jobs[0], jobs[3]], "the others said nothing"
    for job in reported:
        assert bench.events.index(bench.report(job)) < next(
            place
            for place, event in enumerate(bench.events)
            if isinstance(event, Ended) and event.job is job
        )
    raised = bench.report(jobs[3])
    assert (raised.word, raised.output) == ("failed", None)
    assert raised.cause == "ValueError: said by job 3", "its environment reached it"
    assert "what the job printed" in jobs[3].spec.log.read_text()


def test_the_peak_memory_of_a_job_is_its_own(bench: Bench) -> None:
    small, large = bench.spawn("exit", "grow")
    bench.finish([small, large])
    assert small.exit is not None and large.exit is not None
    assert small.exit.peak_rss_bytes > 0
    assert large.exit.peak_rss_bytes - small.exit.peak_rss_bytes > 150 << 20


def test_a_killed_job_ends_and_the_others_go_on(bench: Bench) -> None:
    one, other = bench.spawn("wait", "wait")
    bench.launcher.release([one, other])
    child = bench.child(one)
    bench.child(other)
    bench.launcher.kill([one])
    bench.until(lambda: one.exit is not None)
    assert one.exit is not None and one.exit.signal == signal.SIGKILL
    bench.gone(one.pid, child)
    assert bench.launcher.wait(0.3) == [] and other.exit is None
    (bench.place / "end").touch()
    bench.until(lambda: other.exit is not None)
    assert [event.job for event in bench.of(Reported)] == [other]
    bench.launcher.kill([one, other])


def test_all_are_killed_with_what_they_started(bench: Bench) -> None:
    jobs = bench.spawn(*["wait"] * 4)
    bench.launcher.release(jobs[:3])  # the last one still waits for its release
    children = [bench.child(job) for job in jobs[:3]]
    bench.launcher.kill(jobs)
    assert bench.launcher.reap(jobs, PATIENCE_S) == []
    assert [job.exit.signal if job.exit else None for job in jobs] == [signal.SIGKILL] * 4
    bench.gone(*[job.pid for job in jobs], *children)
    assert not bench.began(jobs[3])
    assert bench.launcher.wait(0.2) == [], "messages of reaped jobs are discarded"


def test_a_launcher_that_dies_leaves_nothing_and_starts_anew(bench: Bench) -> None:
    jobs = bench.spawn("wait", "wait")
    bench.launcher.release(jobs)
    children = [bench.child(job) for job in jobs]
    for pid in {pid for agent in bench.nodes.agents for pid in bench.launcher.pids(agent)}:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(LauncherLostError, match="SIGKILL"):
        bench.until(lambda: False)
    bench.launcher.kill(jobs)
    assert bench.launcher.reap(jobs, PATIENCE_S) == []
    bench.gone(*[job.pid for job in jobs], *children)
    bench.jobs.clear()
    again = Bench(bench.launcher, bench.nodes, bench.place / "again")
    again.place.mkdir()
    jobs = again.spawn("meet", "meet")
    again.finish(jobs)
    assert [again.report(job).word for job in jobs] == ["ok", "ok"]
    assert again.launcher.reap(jobs, PATIENCE_S) == []


def test_waiting_ends_at_its_deadline(bench: Bench) -> None:
    (job,) = bench.spawn("wait")
    bench.launcher.release([job])
    child = bench.child(job)
    begin = time.monotonic()
    assert bench.launcher.wait(0.3) == []
    assert time.monotonic() - begin >= 0.3
    assert bench.launcher.reap([job], 0.1) == [job], "it still runs"
    assert job.exit is None
    bench.launcher.kill([job])
    bench.gone(job.pid, child)


def test_what_a_job_leaves_behind_is_killed_at_its_end(bench: Bench) -> None:
    (job,) = bench.spawn("leave")
    bench.finish([job])
    assert bench.report(job).word == "ok"
    bench.gone(bench.child(job))


def test_the_end_of_a_job_is_told_although_a_child_holds_its_connection(bench: Bench) -> None:
    (job,) = bench.spawn("abandon")
    bench.finish([job])
    assert job.exit is not None and job.exit.exit_code == 3
    assert bench.of(Reported) == []
    child = bench.child(job)
    assert start_ticks(child) is not None, "the end was told before the child ended"
    os.kill(child, signal.SIGKILL)


def test_packets_are_given_one_by_one_until_none_is_left(bench: Bench) -> None:
    (job,) = bench.spawn("read", packets=True)
    left: list[Packet | None] = [Packet("a", 0, 3), Packet("b", 3, 4), None]
    bench.launcher.release([job])
    while left:
        asked = len(bench.of(PacketWanted))
        bench.until(lambda asked=asked: len(bench.of(PacketWanted)) > asked or job.exit is not None)
        bench.launcher.give(job, left.pop(0))
    bench.until(lambda: job.exit is not None)
    output = bench.report(job).output
    assert output is not None and output.events == 7
    assert len(bench.of(PacketWanted)) == 3


def test_each_job_is_in_the_network_of_its_node(bench: Bench) -> None:
    jobs = bench.spawn("look", "look")
    bench.finish(jobs)
    here = Path("/proc/self/ns/net").stat().st_ino
    cluster = bench.nodes.cluster
    for job in jobs:
        output = bench.report(job).output
        assert output is not None
        node = cluster.find(job.agent.name) if cluster is not None else None
        wanted = here if node is None else (FOLDER / node.namespace).stat().st_ino
        assert output.results["network"] == wanted
    assert len({agent.name for agent in bench.nodes.agents}) == len(bench.nodes.agents)


def test_times_of_jobs_are_on_the_engines_clock(bench: Bench) -> None:
    jobs = bench.spawn("tell", "tell")
    before_s = time.monotonic()
    bench.finish(jobs)
    after_s = time.monotonic()
    for job in jobs:
        clock = job.agent.clock
        report = bench.report(job)
        assert report.output is not None
        ((_, begun_s, ended_s),) = report.output.phases
        own_s, engine_s = (report.output.results[name] for name in ("own_s", "engine_s"))
        times = [before_s, report.start_s, begun_s, ended_s, report.end_s, after_s]
        assert all(
            later_s - earlier_s > -clock.uncertainty_s for earlier_s, later_s in pairwise(times)
        )
        assert engine_s == begun_s == clock.engine_s(own_s)
        assert clock.uncertainty_s < 0.1
        elsewhere = isinstance(bench.launcher, Elsewhere)
        assert abs(clock.offset_s + (AHEAD_S if elsewhere else 0)) <= clock.uncertainty_s


def test_probes_are_sampled_by_the_agents(bench: Bench) -> None:
    wanted = [kind for kind, part in probes.kinds().items() if part.default]
    before_s = time.monotonic()
    for agent in bench.nodes.by_kernel():
        kinds = tuple(kind for kind in wanted if kind not in agent.lacking_probes(wanted))
        assert {"block", "cpu", "memory"} <= set(kinds)
        devices = agent.devices(str(bench.place))
        assert devices == storage_of(bench.place).device_names
        agent.start_probes(Sampling(kinds, 0.02, Watch(devices, (), bench.place, bench.place)))
        time.sleep(0.1)
        samples = agent.finish_probes()
        assert samples.failed == {}
        assert set(samples.totals) == set(kinds)
        assert samples.totals["cpu"].values["cores"] == os.cpu_count()
        assert samples.totals["block"].values.get("devices", []) == list(devices)
        times = [row["time_s"] for row in samples.series["memory"]]
        assert len(times) >= 2 and times == sorted(times)
        started_s = agent.clock.engine_s(samples.started_s)
        assert started_s - before_s + agent.clock.uncertainty_s > 0
        assert started_s + times[-1] <= time.monotonic() + agent.clock.uncertainty_s
        assert agent.finish_probes().totals == {}, "none are running"


def test_agents_tell_the_load_of_others_from_that_of_jobs(bench: Bench) -> None:
    (job,) = bench.spawn("spin")
    (agent,) = bench.nodes.by_kernel()
    own = Own(
        jobs=frozenset(pid for each in bench.nodes.agents for pid in bench.launcher.pids(each))
    )
    assert 1 <= agent.watch_load(own) <= (os.cpu_count() or 1)
    # It works beside the job for some tenths of a second, and is there to the end.
    works = ": hog; i=0; while [ $i -lt 500000 ]; do i=$((i + 1)); done; read line"
    hog = subprocess.Popen(["sh", "-c", works], stdin=subprocess.PIPE)
    try:
        bench.finish([job])
        assert agent.other_load() >= 0
        use = agent.finish_load(own)
    finally:
        hog.kill()
        hog.communicate()
    assert use.own_s > 0.25, "a job that runs for half a second"
    found = {program.name: program.cpu_s for program in use.programs}
    assert max(found.values()) > 0.1 and use.foreign_s > 0.1


def test_what_carries_the_messages_of_a_node_is_no_other_program(tmp_path: Path) -> None:
    """A worker of Dask that started the node process; here it is the process of this test."""
    with (
        Journal.open("a test", tmp_path) as journal,
        Launchers() as opened,
        Process(opened) as launcher,
        launcher.nodes(journal, NodesWanted((NodeSettings("node-0"),))) as nodes,
    ):
        agent = nodes.agents[0]
        agent.watch_load(Own())
        end_s = time.process_time() + 0.5
        while time.process_time() < end_s:
            pass
        use = agent.finish_load(Own())
        assert use.own_s > 0.4


def test_a_probe_that_cannot_start_is_an_error_and_leaves_nothing(bench: Bench) -> None:
    watch = Watch(("no-such-device",), (), bench.place, bench.place / "kept")
    for agent in bench.nodes.by_kernel():
        with pytest.raises(HeadraceError, match="no-such-device"):
            agent.start_probes(Sampling(("cpu", "trace"), 0.02, watch))
        samples = agent.finish_probes()
        assert "cpu" in samples.totals
        assert samples.totals["trace"].values == {}


@pytest.mark.usefixtures("needs_root")
def test_settings_of_a_target_are_set_read_back_and_undone_by_the_agents(bench: Bench) -> None:
    part = target_kinds()["block"]
    options = {"image": str(bench.place / "disk.img"), "size": "32 MiB", "filesystem": "ext4"}
    disk = part("disk", part.Options.model_validate(options))
    with Journal.open("a target", bench.place / "journal of the target") as journal:
        context = TargetContext(bench.place, journal, agents=bench.nodes.agents)
        (name,) = disk.prepare(context).device_names
        before = disk.read_settings()
        first, other = block_queue.schedulers(name)[:2]
        wanted = {
            "scheduler": other if before["scheduler"] == first else first,
            "read_ahead": 65536 if before["read_ahead"] != 65536 else 131072,
        }
        asked = disk.options.model_copy(update={**wanted, "queue_depth": 10**9})
        found = {setting.name: setting for setting in disk.apply(asked, context)}
        assert {name: found[name].after for name in wanted} == wanted
        assert [each for each in found if not found[each].applied] == ["queue_depth"]
        assert "takes a queue depth from" in found["queue_depth"].reason
        assert block_queue.read_scheduler(name) == wanted["scheduler"]
        assert disk.read_settings() == {**before, **wanted}
        ours = {entry.action for entry in journal.open_entries}
        assert not {"restore_queue", "release_setting"} & ours, "they are the agents' to undo"
        disk.release(context)
        assert block_queue.read_scheduler(name) == before["scheduler"]
    with pytest.raises(HeadraceError, match="no such directory"):
        bench.nodes.agents[0].read_settings(str(bench.place / "no such directory"))


def test_a_node_reads_files_by_url_and_says_which_it_cannot(bench: Bench) -> None:
    (bench.place / "there").write_bytes(b"x" * 5_000_000)
    agent = bench.nodes.agents[0]
    agent.read_urls([f"file://{bench.place}/there"], {})
    with pytest.raises(HeadraceError, match=r"file://.*/missing: "):
        agent.read_urls([f"file://{bench.place}/{name}" for name in ("there", "missing")], {})


@pytest.mark.usefixtures("needs_root")
def test_an_agent_limits_the_memory_of_its_jobs_until_it_is_lifted(bench: Bench) -> None:
    agent = bench.nodes.agents[0]
    killed = agent.out_of_memory()
    agent.limit_memory(64 << 20, False)
    try:
        (limited,) = bench.spawn("grow")
        bench.finish([limited])
        assert limited.exit is not None and limited.exit.signal == signal.SIGKILL
        assert agent.out_of_memory() == killed + 1
    finally:
        agent.lift_memory_limit()
    agent.limit_memory(1 << 30, False)
    agent.lift_memory_limit()
    agent.lift_memory_limit()
    bench.jobs.clear()
    free = Bench(bench.launcher, bench.nodes, bench.place / "free")
    free.place.mkdir()
    (job,) = free.spawn("grow")
    free.finish([job])
    assert free.report(job).word == "ok"
    assert free.launcher.reap([job, limited], PATIENCE_S) == []


@pytest.mark.usefixtures("needs_root")
def test_agents_limit_the_memory_of_each_job(bench: Bench) -> None:
    agents = bench.nodes.agents
    # Two jobs on each node; they are spawned on the nodes in turn.
    words = ["grow"] * (2 * len(agents))

    def limited_to(size: int) -> list[Job]:
        try:
            for agent in agents:
                agent.limit_memory(size, True)
            jobs = bench.spawn(*words)
            bench.finish(jobs)
            killed.append(sum(agent.out_of_memory() for agent in agents))
        finally:
            for agent in agents:
                agent.lift_memory_limit()
        return jobs

    killed = list[int]()
    # Together the jobs of a node hold more than 300 MB, each holds less.
    fitting = limited_to(300 << 20)
    assert {bench.report(job).word for job in fitting} == {"ok"}
    limited = limited_to(64 << 20)
    assert [job.exit and job.exit.signal for job in limited] == [signal.SIGKILL] * len(words)
    assert killed[0] == 0 and killed[1] > 0


def test_nodes_that_a_launcher_refuses_are_not_set_up(tmp_path: Path) -> None:
    wanted = NodesWanted((NodeSettings("node-0"), NodeSettings("node-1")), reason="two of them")
    with Journal.open("a test", tmp_path) as journal, Launchers() as opened:
        for kind, part in launchers.kinds().items():
            if part.refuses(wanted) is not None:
                with (
                    pytest.raises(HeadraceError, match=f'"{kind}": two of them'),
                    opened[kind].nodes(journal, wanted),
                ):
                    pass
