"""Studies with power meters, run as a user runs them: joules with their uncertainty, to the report.

Each meter answers by its real protocol, with power that the test knows.
"""

from __future__ import annotations

import csv
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from bmc_simulator import PASSWORD, USER, bmc
from pdu_simulator import pdu
from power_simulators import PowercapTree, PowerLogger, http_meter, shelly_plug, steady, watts_up
from workspace import Workspace

# They measure energy over time, in trials that must be valid.
pytestmark = pytest.mark.quiet

STUDY = """
headrace = 1
title = "energy"
[target.here]
kind = "path"
path = "{memory}"
[workload.wait]
kind = "command"
command = ["sleep", "3"]
{meters}
[plan]
repeats = {{ min = 1 }}
[run]
slots = 2
cache = "as-is"
foreign_load = "warning"
"""


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: what simulators write there is no I/O of a device."""
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as folder:
        (Path(folder) / "storage").mkdir()
        yield Path(folder)


def run(workspace: Workspace, memory: Path, meters: str) -> dict[str, Any]:
    """Run a study with these meters and return its only trial."""
    text = STUDY.format(memory=memory / "storage", meters=meters)
    ended = workspace.run("run", workspace.study(text), "--results", "results")
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}"
    (trial,) = workspace.trials()
    assert trial["status"] == "done" and trial["validity"]["valid"], trial["validity"]
    return trial


def channels(trial: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["channel"]: each for each in trial["energy"]["channels"]}


def reported(workspace: Workspace) -> dict[str, tuple[float, str]]:
    """Metrics of the report as other programs read it: mean and provenance."""
    ended = workspace.run("report", "results", "--format", "csv")
    assert ended.returncode == 0, ended.stderr
    with (workspace.place / "results" / "report.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {row["metric"]: (float(row["value"]), row["provenance"]) for row in rows if row["value"]}


def test_processors_by_rapl(workspace: Workspace, memory: Path) -> None:
    zones = {
        "intel-rapl:0": ("package-0", steady(40.0)),
        "intel-rapl:0:0": ("core", steady(25.0)),
        "intel-rapl:0:1": ("dram", steady(6.0)),
    }
    meters = f'[meter.cpu]\nkind = "rapl"\ntree = "{memory}/powercap"\nidle = "1 s"'
    # 200 J: the package's counter wraps once while the jobs run.
    with PowercapTree(memory / "powercap", zones, 200_000_000):
        trial = run(workspace, memory, meters)
    energy, seconds = trial["energy"], trial["last_done_s"]
    assert seconds > 3
    found = channels(trial)
    for name, watts in {"package-0": 40, "package-0/core": 25, "package-0/dram": 6}.items():
        assert found[name]["usable"], found[name]["reasons"]
        assert found[name]["energy_j"] == pytest.approx(watts * seconds, rel=0.01)
        assert found[name]["idle_power_w"] == pytest.approx(watts, rel=0.02)
        # 5 % as bounds of a uniform distribution.
        assert found[name]["uncertainty_j"] / found[name]["energy_j"] == pytest.approx(
            0.05 / 3**0.5, rel=0.1
        )
    # Cores are in the package, memory is not; the rest of the node has no meter.
    assert energy["metered_j"] == pytest.approx(46 * seconds, rel=0.01)
    assert energy["metered_boundaries"] == ["socket"] and energy["total_j"] is None
    series = pq.read_table(next(workspace.place.glob("results/trials/*/series/power.parquet")))
    rows = series.to_pylist()
    assert {row["channel"] for row in rows} == set(found)
    # The median: the thread that advances the counter may itself be late for one sample.
    watts = [row["power_w"] for row in rows if row["channel"] == "package-0"]
    assert statistics.median(watts) == pytest.approx(40, rel=0.05)
    metrics = reported(workspace)
    wh_per_job = energy["metered_j"] / 2 / 3600
    assert metrics["energy_metered_wh_per_job"] == (pytest.approx(wh_per_job), "measured")
    assert metrics["energy_uncertainty_wh_per_job"][0] == pytest.approx(
        0.0289 * wh_per_job, rel=0.2
    )
    assert "energy_wh_per_job" not in metrics
    assert "Metered energy per job" in (workspace.place / "results" / "report.html").read_text()


def noisy(watts: float) -> float:
    return watts + time.monotonic() % 1


def test_wh_per_job_of_the_whole_site_by_a_plug(workspace: Workspace, memory: Path) -> None:
    """The wall socket of the only node: all energy there is, and a better meter beside a worse."""
    with (
        http_meter(shelly_plug(lambda: noisy(89.5), generation=2)) as plug,
        watts_up(lambda: noisy(89.5)) as line,
    ):
        meters = (
            f'[meter.plug]\nkind = "shelly"\naddress = "{plug}"\ninterval = "200 ms"\n'
            f'[meter.wall]\nkind = "wattsup"\ndevice = "{line}"\naccuracy = 0.001'
        )
        trial = run(workspace, memory, meters)
    energy, seconds = trial["energy"], trial["last_done_s"]
    assert {each["meter"]: each["usable"] for each in energy["channels"]} == {
        "plug": True,
        "wall": True,
    }, energy
    assert energy["total_j"] == pytest.approx(90 * seconds, rel=0.01)
    assert energy["provenance"] == "measured" and energy["contained"] == {"drives": "nodes"}
    assert 0 < energy["uncertainty_j"] < 0.01 * energy["total_j"]
    metrics = reported(workspace)
    wh_per_job = energy["total_j"] / 2 / 3600
    assert metrics["energy_wh_per_job"] == (pytest.approx(wh_per_job), "measured")
    uncertainty = metrics["energy_uncertainty_wh_per_job"][0]
    assert uncertainty == pytest.approx(energy["uncertainty_j"] / 2 / 3600)
    assert "Energy per job" in (workspace.place / "results" / "report.html").read_text()


def test_a_node_by_its_bmc_and_by_an_outlet_of_its_pdu(workspace: Workspace, memory: Path) -> None:
    """Two meters of the same node by IPMI and SNMP: both are recorded, one counts."""
    stop = threading.Event()
    for name in ("bmc", "pdu"):
        (memory / name).mkdir()
    (workspace.place / "bmc.secret").write_text(f"{PASSWORD}\n")
    with bmc(memory / "bmc") as host, pdu(memory / "pdu") as outlets:

        def vary() -> None:
            while not stop.wait(0.1):
                host.set_dcmi(89 if time.monotonic() % 0.4 < 0.2 else 91)

        thread = threading.Thread(target=vary)
        thread.start()
        meters = (
            f'[meter.bmc]\nkind = "ipmi"\nhost = "127.0.0.1"\nport = {host.port}\n'
            f'user = "{USER}"\npassword_file = "bmc.secret"\ncipher_suite = 3\n'
            'privilege = "ADMINISTRATOR"\ninterval = "150 ms"\naccuracy = 0.01\n'
            f'[meter.pdu]\nkind = "snmp"\nhost = "127.0.0.1"\nport = {outlets.port}\n'
            'preset = "apc-rpdu2"\noutlets = [1]\ninterval = "150 ms"'
        )
        try:
            trial = run(workspace, memory, meters)
        finally:
            stop.set()
            thread.join()
    energy, seconds = trial["energy"], trial["last_done_s"]
    found = channels(trial)
    assert set(found) == {"power", "outlet 1"}
    for channel in found.values():
        assert channel["usable"], channel["reasons"]
        assert channel["energy_j"] == pytest.approx(90 * seconds, rel=0.015)
    assert energy["total_j"] == found["power"]["energy_j"], "the smaller uncertainty counts"
    assert energy["provenance"] == "measured"
    assert reported(workspace)["energy_wh_per_job"][0] == pytest.approx(
        90 * seconds / 7200, rel=0.015
    )


def test_a_plug_that_disappears_leaves_the_trial_valid(workspace: Workspace, memory: Path) -> None:
    plug = shelly_plug(lambda: noisy(89.5), generation=1)
    asked: list[float] = []

    def answer(path: str, given: dict[str, str], authorization: str) -> Any:
        asked.append(time.monotonic())
        # Enough for the check before the run and the first seconds of the jobs.
        return plug(path, given, authorization) if len(asked) < 12 else (500, {}, {})

    with http_meter(answer) as address:
        meters = f'[meter.plug]\nkind = "shelly"\naddress = "{address}"\ninterval = "200 ms"'
        trial = run(workspace, memory, meters)
    (channel,) = trial["energy"]["channels"]
    assert channel["lost"] > 3 and not channel["usable"]
    assert "nothing is known for" in channel["reasons"][0]
    assert trial["energy"]["total_j"] is None and trial["energy"]["metered_j"] is None


@pytest.mark.parametrize(
    ("watts", "why"),
    [
        (lambda: -noisy(20.0), "usable readings while the jobs ran; of "),
        (lambda: 0.0, "it read 0 W all the time"),
    ],
    ids=["negative", "zero"],
)
def test_why_a_meter_gave_no_energy_is_said_while_it_runs_and_in_the_report(
    watts: Callable[[], float], why: str, workspace: Workspace, memory: Path
) -> None:
    """Its user would miss the energy, and be shown none or 0 Wh per job, without a word."""
    with http_meter(shelly_plug(watts, generation=2)) as plug:
        trial = run(workspace, memory, f'[meter.plug]\nkind = "shelly"\naddress = "{plug}"')
    assert trial["energy"]["total_j"] is None and trial["energy"]["metered_j"] is None
    (warning,) = (
        each["text"] for each in trial["validity"]["warnings"] if each["code"] == "no-energy"
    )
    assert warning.startswith("meter plug, power gives no energy: ") and why in warning
    report = workspace.run("report", "results")
    assert "warning: meter plug, power gives no energy" in report.stdout


def test_a_meter_that_is_not_there_is_named_before_anything_starts(
    workspace: Workspace, memory: Path
) -> None:
    meters = '[meter.plug]\nkind = "shelly"\naddress = "127.0.0.1:9"\ntimeout = "1 s"'
    text = STUDY.format(memory=memory / "storage", meters=meters)
    ended = workspace.run("run", workspace.study(text), "--results", "results")
    assert ended.returncode == 3 and not workspace.trials()
    said = " ".join((ended.stdout + ended.stderr).split())
    assert "127.0.0.1:9 is not reachable" in said and "meter plug" in said, said


def test_the_log_of_a_meter_whose_clock_is_ahead(workspace: Workspace, memory: Path) -> None:
    """By a stated offset: other programs may load this machine all the time, so that no log could
    be aligned with it. tests/unit/test_power_logs.py finds offsets, by a load that it knows."""
    log = memory / "watts.csv"
    meters = (
        f'[meter.wall]\nkind = "csv"\nfile = "{log}"\ncolumns = {{ "Power (W)" = "W" }}\n'
        'time = ["Date", "Time"]\ntime_format = "%d.%m.%Y %H:%M:%S.%f"\nzone = "UTC"\n'
        'offset = 8.2\nidle = "2 s"\nwait = "12 s"\naccuracy = 0.01'
    )
    begin_s = time.monotonic()

    def profile(time_s: float) -> float:
        return 80.0 + 2.0 * (time_s - begin_s)

    with PowerLogger(log, profile, ahead_s=8.2):
        trial = run(workspace, memory, meters)
    (channel,) = trial["energy"]["channels"]
    assert channel["usable"], channel["reasons"]
    assert channel["notes"] == [
        "the clock of the log is 8.20 s ahead of this machine's (as stated)"
    ]
    assert channel["interval_s"] == pytest.approx(0.2, rel=0.2) and channel["samples"] > 10
    energy_j, seconds = trial["energy"]["total_j"], trial["last_done_s"]
    assert energy_j / seconds == pytest.approx(channel["mean_power_w"])
    # Power rises by 2 W/s: idle time lies before the jobs, and the series is on the trial's clock.
    assert channel["mean_power_w"] - channel["idle_power_w"] == pytest.approx(
        2 * (seconds + 2) / 2, abs=0.7
    )
    series = pq.read_table(next(workspace.place.glob("results/trials/*/series/power.parquet")))
    inside = [row for row in series.to_pylist() if 0 <= row["time_s"] <= seconds]
    assert statistics.fmean(row["power_w"] for row in inside) == pytest.approx(
        channel["mean_power_w"], rel=0.01
    )
    assert reported(workspace)["energy_wh_per_job"][0] == pytest.approx(energy_j / 2 / 3600)
