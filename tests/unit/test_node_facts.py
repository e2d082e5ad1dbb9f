"""What a record has of each node that ran jobs."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headrace.engine.measure.cache_watch import CacheWatch
from headrace.engine.measure.clock_drift import ClockDrift
from headrace.engine.measure.job_pool import JobEnd, PoolResult
from headrace.engine.measure.node_probes import TrialSamples
from headrace.engine.measure.node_validity import node_reasons
from headrace.engine.measure.node_watch import NodeWatch
from headrace.engine.measure.target_servers import ServerWatch, TargetServers
from headrace.engine.measure.trial_meters import Metering
from headrace.launchers import AgentEvent, Clock, LauncherLostError
from headrace.launchers.local import MachineAgent
from headrace.meters.hwmon import Hwmon
from headrace.probes.ledger import LedgerRow
from headrace.probes.sampler import SampleRows
from headrace.records.nodes import NodeClock, NodeEvent, NodeFacts
from headrace.records.trial_record import decode, encode
from headrace.study.model import NamedPlugin, RunOptions
from headrace.system.journal import Journal
from synthetic_records import failed_trial

LEDGER = msgspec.convert(
    dict.fromkeys(LedgerRow.__annotations__, 0) | {"ledger_source": ""}, LedgerRow
)


class Node(MachineAgent):
    """A node of another clock, which is lost while jobs run if the test wants it."""

    lost = False
    offset_s = 0.0
    measured = 0

    def measure_clock(self) -> Clock:
        if self.lost:
            raise LauncherLostError(f"node {self.name} is lost")
        self.measured += 1
        return Clock(self.offset_s + 0.25 * (self.measured - 1), 0.001 * self.measured)

    def out_of_memory(self) -> int:
        return super().out_of_memory() if not self.lost else self.measure_clock() and 0

    def page_cache_drops(self) -> int | None:
        if self.lost:
            self.measure_clock()
        # A machine that never dropped it has the count 0, as a lost one once had.
        return (super().page_cache_drops() or 0) + 1

    def take_events(self) -> list[AgentEvent]:
        return [AgentEvent("lost", 1002.0, "cut")] if self.lost else []


def job(number: int, slot: int, start_s: float, began: bool = True) -> JobEnd:
    ledger = LEDGER if began else None
    return JobEnd(number, slot, None, "ok", None, start_s, 9.0, None, ledger, 1000.0 + start_s)


def test_the_page_cache_of_a_lost_machine_is_not_said_to_be_dropped(tmp_path: Path) -> None:
    with Journal.open("a test", tmp_path / "journal") as journal:
        node = Node(journal)
        watch = CacheWatch([node])
        node.lost = True
        assert watch.dropped() == ()


def test_each_node_is_recorded_with_the_start_of_its_jobs(tmp_path: Path) -> None:
    with Journal.open("a test", tmp_path / "journal") as journal:
        nodes = [Node(journal), Node(journal)]
        for number, node in enumerate(nodes):
            node.name, node.offset_s = f"node-{number}", 5.0 * number
        watch = NodeWatch(nodes, slots=2)
        nodes[1].lost = True
        watch.finish()
        jobs = [
            job(0, 0, 0.01),
            job(1, 1, 0.04),
            job(2, 2, 0.02),
            job(3, 3, 0.9, began=False),  # the time of its loss, not of its begin
            job(4, 0, 5.0),  # started later, in a slot that had become free
        ]
        first, second = watch.facts(PoolResult(jobs, 1000.0, 9.0, 9.0, None, 4), {})
    assert (first.number, first.name, first.host) == (0, "node-0", platform.node())
    assert first.cpus == len(os.sched_getaffinity(0)) and (first.memory_bytes or 0) > 1 << 20
    assert first.clock == NodeClock(offset_s=0.0, uncertainty_s=0.002, drift_s=0.25)
    assert (first.start_first_s, first.start_last_s) == (0.01, 0.04)
    assert first.oom_kills == 0 and first.events == ()
    assert second.clock == NodeClock(offset_s=5.0, uncertainty_s=0.001)
    assert (second.start_first_s, second.start_last_s) == (0.02, 0.02)
    assert second.oom_kills is None
    assert second.events == (NodeEvent(what="lost", at_s=2.0, cause="cut"),)
    record = msgspec.structs.replace(failed_trial("0000-a-r0"), node_facts=(first, second))
    assert decode(encode(record)) == record


LATER_S = 1000.0


@pytest.fixture
def drifting(tmp_path: Path) -> Iterator[Node]:
    """A node whose clock is behind the engine's by LATER_S, and by 0.25 s more after the jobs."""
    with Journal.open("a test", tmp_path / "journal") as journal:
        node = Node(journal)
        node.name, node.offset_s = "node-0", LATER_S
        yield node


def test_series_of_the_only_kernel_are_corrected_by_the_drift_of_its_clock(drifting: Node) -> None:
    watch = NodeWatch([drifting], slots=1)
    watch.finish()
    rows: SampleRows = [{"time_s": 5.0}]
    watch.corrected(PoolResult([], 0.0, 1.0, 1.0), {"memory": rows}, time.monotonic())
    assert rows == [{"time_s": 5.25}]


def test_series_of_a_server_are_corrected_by_the_drift_of_its_clock(
    drifting: Node, tmp_path: Path
) -> None:
    watch = ServerWatch(TargetServers("nas", (drifting,)), interval_s=0.05)
    watch.start(tmp_path)
    watch.finish()
    watch.measure_clocks()
    found, release_s = TrialSamples(), time.monotonic()
    watch.put_into(found, release_s)
    samples = watch.samples["node-0"]
    there_s = samples.started_s + samples.series["memory"][-1]["time_s"]
    last = found.series["server-memory"][-1]
    assert last["node"] == "node-0"
    assert last["time_s"] + release_s == pytest.approx(there_s + LATER_S + 0.25)
    (facts,) = watch.facts(release_s)
    assert facts.clock == NodeClock(offset_s=LATER_S, uncertainty_s=0.002, drift_s=0.25)
    assert facts.host == platform.node()


def test_readings_of_meters_are_corrected_by_the_drift_of_their_nodes_clock(
    drifting: Node, tmp_path: Path
) -> None:
    sensors = tmp_path / "hwmon"
    (sensors / "hwmon0").mkdir(parents=True)
    (sensors / "hwmon0" / "name").write_text("psu\n")
    (sensors / "hwmon0" / "power1_input").write_text("80000000\n")
    options = Hwmon.Options.model_validate({"tree": str(sensors), "covers": "node"})
    part = NamedPlugin(name="board", kind="hwmon", written={}, options=options)
    drifting.renew_clock()

    def times_s(drifts: dict[str, ClockDrift]) -> list[float]:
        metering = Metering({"board": part}, nodes=[drifting])
        metering.start()
        metering.stop()
        metering.finish(0.0, 1.0, drifts)
        assert {row["node"] for row in metering.rows} == {"node-0"}
        there = drifting.meters.logs(0.0)[0].readings
        return [row["time_s"] - each.time_s for row, each in zip(metering.rows, there, strict=True)]

    assert times_s({}) == pytest.approx([LATER_S] * 2)
    ended_s = time.monotonic()
    assert times_s({"node-0": ClockDrift(0.0, ended_s, 0.25)}) == pytest.approx(
        [LATER_S + 0.25] * 2
    )


def nodes(
    *starts: tuple[float, float], drift_s: float = 0.0, uncertainty_s: float = 1e-4
) -> list[NodeFacts]:
    clock = NodeClock(offset_s=3.0, uncertainty_s=uncertainty_s, drift_s=drift_s)
    return [
        NodeFacts(number=n, name=f"node-{n}", clock=clock, start_first_s=first, start_last_s=last)
        for n, (first, last) in enumerate(starts)
    ]


RAN = PoolResult([job(0, 0, 0.0), job(1, 2, 0.4)], 1000.0, 9.0, 9.0, None, 4)
"""The shortest of its jobs ran for 8.6 s."""


def test_a_node_that_is_lost_makes_a_trial_invalid() -> None:
    lost = NodeEvent(what="lost", at_s=2.5, cause="cut")
    found = [msgspec.structs.replace(nodes((0.0, 0.1))[0], events=(lost,))]
    (reason,) = node_reasons(RunOptions.model_validate({}), found, RAN, clocks_s=10.0)
    assert reason.code == "node-lost"
    assert reason.text == "node-0 was lost 2.5 s after the release of the jobs: cut"
    late = msgspec.structs.replace(lost, at_s=1234.5)
    found = [msgspec.structs.replace(nodes((0.0, 0.1))[0], events=(late,))]
    (reason,) = node_reasons(RunOptions.model_validate({}), found, RAN, clocks_s=2000.0)
    assert reason.text.startswith("node-0 was lost 20 min 34 s after the release")


@pytest.mark.parametrize(
    ("found", "share", "codes"),
    [
        (nodes((0.0, 0.1), (0.05, 0.4)), 0.25, []),
        (nodes((0.0, 0.1), (0.05, 0.4)), 0.01, ["start-spread"]),
        (nodes((0.0, 0.05), (0.05, 0.09)), 0.001, []),
        (nodes((0.0, 0.4)), 0.01, []),
        (nodes((0.0, 0.1), (0.0, 0.1), uncertainty_s=3.0), 0.25, ["clock-uncertain"] * 2),
        (nodes((0.0, 0.1), (0.0, 0.1), drift_s=-0.01), 0.25, ["clock-step"] * 2),
        (nodes((0.0, 0.1), (0.0, 0.1), drift_s=-0.004), 0.25, []),
    ],
)
def test_nodes_that_cannot_be_compared_make_a_trial_invalid(
    found: list[NodeFacts], share: float, codes: list[str]
) -> None:
    run = RunOptions.model_validate({"start_spread": share})
    assert [each.code for each in node_reasons(run, found, RAN, clocks_s=10.0)] == codes
