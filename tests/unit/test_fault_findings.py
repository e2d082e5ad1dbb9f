"""What faults did, from series and jobs: stall, recovery, rate left.

Completion delay of emulated drives; order and shape of small studies.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from rich.console import Console

from headrace.analysis.faults import fault_effects
from headrace.analysis.find import find
from headrace.analysis.read import read
from headrace.analysis.trial_row import TrialRow, trial_rows
from headrace.engine.measure.validity import completion_delay
from headrace.library import decide
from headrace.records.inventory import InventoryItem
from headrace.records.trial_record import FaultRecord
from headrace.report.answers import answers
from headrace.report.recommendation import recommendation
from headrace.reproduce.small_study import judged, spread
from synthetic_records import Truth, plan_of, write_results


class Told:
    """Records of one fault, as `fault_effects` reads them."""

    def __init__(
        self, rows: list[dict[str, Any]], rates: dict[str, list[float]], exits: list[str]
    ) -> None:
        self.trials = pd.DataFrame(rows)
        self._rates = rates
        self._exits = exits
        self.root = Path()

    def __len__(self) -> int:
        return len(self.trials)

    @property
    def rows(self) -> list[TrialRow]:
        return trial_rows(self.trials)

    def trial_jobs(self, trial: str, columns: list[str]) -> pd.DataFrame:
        return pd.DataFrame(
            {"exit": self._exits, "cause": [None if e == "ok" else "EIO" for e in self._exits]}
        )

    def series(self, trial: str, kind: str) -> pd.DataFrame:
        if kind != "block":
            return pd.DataFrame()
        rates = self._rates[trial]
        times = [0.5 * (place + 1) for place in range(len(rates))]
        return pd.DataFrame({"time_s": times, "read_bytes_per_s": rates, "write_bytes_per_s": 0.0})


def row(trial: str, level: str, faults: list[FaultRecord], status: str = "done") -> dict[str, Any]:
    return {
        "id": trial, "cell": level, "provenance": "emulated", "status": status,
        "valid": status == "done",
        "target": "disk", "workload": "reads", "slots": 2, "levels": {"fault": level, "slots": 2},
        "last_done_s": 5.0, "faults": faults,
    }  # fmt: skip


def fault(**more: Any) -> FaultRecord:
    usual = FaultRecord(what="stall", name="stall", at_s=1.0, struck_s=1.0, lifted_s=2.0, fired=3)
    return msgspec.structs.replace(usual, **more)


RATES = [100.0, 100.0, 0.0, 0.0, 20.0, 90.0, 100.0, 100.0, 100.0, 100.0]


def test_stall_and_recovery_come_from_the_series_and_the_rate_from_the_cell_without_it() -> None:
    told: Any = Told(
        [row("a", "none", []), row("b", "stall", [fault()])], {"b": RATES}, ["ok", "failed"]
    )
    (found,) = fault_effects(told, {"a": 10.0, "b": 7.0}, {"reads": "iops"}, 0.95)
    assert (found.stall_s, found.recovered_s) == (1.0, 0.5)
    assert (found.jobs, found.failed_jobs, found.error, found.fired) == (2, 1, "EIO", 3)
    assert found.rate is not None and found.rate.value == pytest.approx(0.7)
    assert found.against == "the same without it"


def test_without_such_a_cell_the_time_before_is_what_it_is_set_against() -> None:
    told: Any = Told([row("b", "stall", [fault()])], {"b": RATES}, ["ok"])
    (found,) = fault_effects(told, {"b": 7.0}, {"reads": "iops"}, 0.95)
    assert found.rate is not None and found.rate.value == pytest.approx(0.0)
    assert found.against == "before the fault"


@pytest.mark.parametrize(
    ("drives", "raid_level", "what", "seen", "effect"),
    [
        (1, None, "drop-off", {}, (2.0, 0.0)),
        (2, None, "drop-off", {}, (0.0, 0.0)),
        (2, None, "drop-off", {"every_drive": False}, (0.0, 0.0)),
        (2, None, "drop-off", {"every_drive": True}, (2.0, 0.0)),
        (2, 0, "drop-off", {"every_drive": True}, (4.0, None)),
        (2, 1, "power-loss", {}, (2.0, 0.0)),
    ],
)
def test_failed_requests_of_drives_that_are_gone_move_no_bytes(
    drives: int,
    raid_level: int | None,
    what: str,
    seen: dict[str, Any],
    effect: tuple[float, float | None],
) -> None:
    """Their devices count them. Of two drives, the other one goes on unless both are gone; a RAID
    does not take back what it lost."""
    drive = InventoryItem(
        part="drive",
        name="d",
        host="node",
        count=drives,
        usable_bytes=1e9,
        raid_level=raid_level,
    )
    gone = fault(what=what, name="drop-off", struck_s=1.0, lifted_s=3.0, seen=seen)
    rates = [100.0, 100.0, 20.0, 20.0, 20.0, 20.0, 90.0, 100.0, 100.0, 100.0]
    told: Any = Told(
        [{**row("b", "drop-off", [gone]), "inventory": (drive,)}], {"b": rates}, ["ok", "failed"]
    )
    (found,) = fault_effects(told, {"b": 7.0}, {"reads": "iops"}, 0.95)
    assert (found.stall_s, found.recovered_s) == effect


def test_where_all_trials_failed_there_is_no_rate_to_set_against_the_cell_without_it() -> None:
    """What moved between the fault and the jobs' end is no rate of the jobs."""
    told: Any = Told(
        [row("a", "none", []), row("b", "stall", [fault()], "failed")],
        {"b": [20.0, 20.0, 90.0, 90.0, 0.0]},
        ["failed"],
    )
    (found,) = fault_effects(told, {"a": 10.0}, {"reads": "iops"}, 0.95)
    assert (found.rate, found.against) == (None, "")


def test_what_a_fault_saw_itself_comes_first_and_one_that_never_fired_is_no_finding() -> None:
    own = {"stall_s": 0.25, "recovered_s": 0.1, "acknowledged_writes": 9, "lost_writes": 1}
    told: Any = Told([row("b", "stall", [fault(seen=own)], "failed")], {"b": RATES}, ["failed"])
    (found,) = fault_effects(told, {}, {}, 0.95)
    assert (found.stall_s, found.recovered_s) == (0.25, 0.1)
    assert (found.lost_writes, found.acknowledged_writes) == (1, 9)
    never: Any = Told([row("b", "stall", [fault(fired=0)])], {"b": RATES}, ["ok"])
    assert fault_effects(never, {"b": 1.0}, {}, 0.95) == ()


def report(mean_ns: int, service_ns: float, *, rotational: bool, **more: Any) -> dict[str, Any]:
    late = {
        "timed": 100,
        "mean": mean_ns,
        "p50": 0,
        "p99": 9 * mean_ns,
        "p999": 10 * mean_ns,
        "max": 11 * mean_ns,
    }
    return {
        "device": "loop9",
        "rotational": rotational,
        "full": 0,
        "lateness_ns": late,
        "submission_ns": {"mean": 9e6},
        "kernel_wake_ns": {"mean": 9e6},
        "service_ns_mean": service_ns,
        **more,
    }


def test_the_bound_of_lateness_is_4_per_cent_for_a_disk_and_20_for_an_ssd() -> None:
    assert (
        completion_delay(
            [report(300_000, 8e6, rotational=True), report(29_000, 1e5, rotational=False)]
        )
        == []
    )
    (late,) = completion_delay([report(400_000, 8e6, rotational=True)])
    assert late.code == "emulator-late" and "400 us of 8000 us" in late.text
    assert completion_delay([report(40_000, 1e5, rotational=False)])[0].code == "emulator-late"
    assert completion_delay([report(40_000, 1e6, rotational=False)]) == []
    assert completion_delay([report(0, 1e6, rotational=True, full=2)])[0].code == "emulator-full"
    assert (
        completion_delay([{"device": "loop9", "error": "it has ended"}])[0].code == "emulator-gone"
    )


def test_late_requests_count_where_no_one_sees_when_they_were_issued() -> None:
    unseen: dict[str, Any] = {"submission_ns": None, "kernel_wake_ns": {"mean": 400_000}}
    (late,) = completion_delay([report(0, 8e6, rotational=True, **unseen)])
    assert late.code == "emulator-late" and "400 us late on average" in late.text
    assert completion_delay([report(0, 2e7, rotational=True, **unseen)]) == []


def test_a_claim_is_neither_true_nor_false_where_a_number_is_missing() -> None:
    found = judged(
        "id",
        "a > b",
        lambda rates: rates["a"] > rates["b"],
        str,
        {"a": 2.0, "b": 1.0},
        {"a": 2.0, "b": None},
    )  # pyright: ignore[reportOptionalOperand]
    assert (found.simulated, found.emulated) == (True, None)
    assert "emulated lacks a valid trial" in found.why
    assert spread([2.0, None, 3.0]) == pytest.approx(0.5)


def test_a_fault_is_no_choice_that_is_recommended(tmp_path: Path) -> None:
    """A report said "Take disk with no fault", or with a fault where that had a better rate."""
    cells: list[dict[str, Any]] = [
        {"target": "disk", "workload": "higgs", "slots": slots, "fault": level, **more}
        for slots in (1, 2)
        for level in ("none", "slow")
        for more in ({"filesystem": "ext4"}, {"filesystem": "xfs"})
    ]
    effects = {"fault": {"slow": 0.3}, "filesystem": {"ext4": 0.1}}
    truth = Truth(effects=effects, trial_sigma=0.001)
    root = write_results(tmp_path / "r", plan_of(cells, 3), truth, series=False)
    findings = find(read(root))
    assert [curve.levels["fault"] for curve in findings.curves] == ["none"] * 2 + ["slow"] * 2
    (answer,) = answers(findings)
    assert (answer.best.levels["filesystem"], answer.others) == ("ext4", 1)
    action = recommendation(findings)
    assert action is not None
    for said in (answer.sentence, action.action, *action.doubts):
        assert "fault" not in said and "slow" not in said, said
    text = io.StringIO()
    decide([root], console=Console(file=text, width=200))
    assert "disk, filesystem ext4, 2 slots" in text.getvalue() and "fault" not in text.getvalue()


def test_one_storage_with_and_without_a_fault_is_no_choice(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [
        {"target": "disk", "workload": "higgs", "slots": 1, "fault": level}
        for level in ("none", "slow")
    ]
    root = write_results(tmp_path / "r", plan_of(cells, 3), Truth(), series=False)
    found = recommendation(find(read(root)))
    assert found is not None and "Take" not in found.action and "fault" not in found.action
