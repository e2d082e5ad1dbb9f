"""`headrace simulate`: a study in virtual time becomes records and a report.

Equal seeds give equal bytes; it resumes.
"""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from command_server import run_command
from headrace.analysis.metrics import trial_metrics
from headrace.analysis.read import read
from headrace.catalog import entry
from headrace.engine.simulate.simulator import Cores
from headrace.errors import InterruptedRunError
from headrace.library import Silent, load_study, resume
from headrace.plan.intervals import interval
from headrace.plan.trial import Trial
from workspace import documented_fields

STUDY = """
headrace = 1
title = "Which disk feeds these jobs?"

[site.node]
count = 2
machine = "dell-r210"
link = "1 GbE"
drives = { os = "sata-7200-250gb" }

[site.server.nas]
machine = "dell-r710"
link = "4 x 1 GbE"

[target.local]
kind = "block"
drive = "wd-wd3200bekt"

[target.nas]
kind = "nfs"
server = "nas"
export = { drive = "wd-wd3200bekt", raid = { level = 5, drives = 4 } }

[workload.read]
kind = "replay"
profile = "iozone-read"
data = { files = 8, file_size = "200 MB" }

[factors]
target = ["local", "nas"]
drive = ["wd-wd3200bekt", "corsair-f40"]
slots = [1, 2]

[plan]
repeats = { min = 2 }
"""


def headrace(*words: str, code: int = 0, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = run_command(words, cwd)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def simulated_here(study: Path, results: str) -> dict[str, str]:
    """Simulate a study in this process, without the command's report; return the digests."""
    return digests(load_study(study).run(study.parent / results, engine="simulate"))


def digests(results: Path) -> dict[str, str]:
    return {
        str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((results / "trials").rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of STUDY; nothing may change them."""
    folder = tmp_path_factory.mktemp("simulated")
    (folder / "study.toml").write_text(STUDY)
    headrace("simulate", "study.toml", "--results", "results", cwd=folder)
    return folder / "results"


def test_records_report_and_equal_bytes(simulated: Path, tmp_path: Path) -> None:
    trials = sorted((simulated / "trials").iterdir())
    assert len(trials) == 16
    record = json.loads((trials[0] / "trial.json").read_text())
    assert record["provenance"] == "simulated"
    assert record["started_utc"] is None
    assert record["validity"]["valid"]
    page = (simulated / "report.html").read_text()
    assert "simulated" in page
    (tmp_path / "study.toml").write_text(STUDY)
    assert digests(simulated) == simulated_here(tmp_path / "study.toml", "again")


def test_energy_reaches_the_report(tmp_path: Path) -> None:
    """Joules per job and event, and Wh per job: modelled, as the simulator counted them."""
    (tmp_path / "study.toml").write_text(
        STUDY.replace('kind = "replay"\nprofile = "iozone-read"', 'kind = "scan"').replace(
            'data = { files = 8, file_size = "200 MB" }', "data = { files = 8, events = 80_000 }"
        )
    )
    done = headrace("simulate", "study.toml", "--results", "results", cwd=tmp_path)
    assert "energy per job" in " ".join(done.stdout.split())
    headrace("report", "results", "--format", "csv", cwd=tmp_path)
    rows = list(csv.DictReader((tmp_path / "results" / "report.csv").open()))
    points = {(row["metric"], row["trials"]): row for row in rows if row["about"] == "point"}
    told = [key for key in points if key[0] == "energy_j_per_job"]
    assert len(told) == 8
    for _, trials in told:
        joules, jobs, events = 0.0, 0, 0
        for trial in trials.split():
            record = json.loads(
                (tmp_path / "results" / "trials" / trial / "trial.json").read_text()
            )
            energy = record["energy"]
            assert energy["total_j"] == pytest.approx(
                sum(energy[f"{part}_j"] for part in ENERGY_PARTS)
            )
            assert energy["drives_j"] > 0 and energy["nodes_j"] > energy["drives_j"]
            joules, jobs = joules + energy["total_j"], jobs + record["sums"]["jobs"]
            events += record["sums"]["events"]
        for metric, expected in (
            ("energy_j_per_job", joules / jobs),
            ("energy_wh_per_job", joules / 3600 / jobs),
            ("energy_j_per_event", joules / events),
        ):
            row = points[metric, trials]
            assert float(row["value"]) == pytest.approx(expected, rel=1e-6)
            assert row["provenance"] == "modelled"
    page = (tmp_path / "results" / "report.html").read_text()
    assert "Energy per job (Wh/job)" in page and "Energy per event" in page


ENERGY_PARTS = ("nodes", "servers", "drives", "switch")


def test_a_simulated_record_has_every_field_that_is_documented(simulated: Path) -> None:
    for path in (simulated / "trials").iterdir():
        record = json.loads((path / "trial.json").read_text())
        assert set(record) == documented_fields()
        assert record["run"]["nodes"] == 2, "as many as the site has"
        assert set(record["probes"]["network"]) == (
            {"node-0", "node-1"} if record["target"]["name"] == "nas" else set()
        )


SSDS = """
headrace = 1
title = "How fast do these SSDs read?"

[target.local]
kind = "block"
drive = "samsung-870-evo-1tb"

[workload.reads]
kind = "random"
read_fraction = 0.5
file_size = "1 GiB"
duration = "1 s"

[factors]
drive = [
  "samsung-870-evo-1tb", "intel-670p-1tb", "mtron-msp-sata7035064", "corsair-f40", "slow.toml",
]

[plan]
repeats = { min = 1 }
"""


def test_files_on_ssds_are_read_from_flash_and_writes_have_times_of_their_own(
    tmp_path: Path,
) -> None:
    evo = entry("drives", "samsung-870-evo-1tb").file.read_text()
    (tmp_path / "slow.toml").write_text(evo.replace("read_us = 45.0", "read_us = 4500.0"))
    (tmp_path / "ssds.toml").write_text(SSDS)
    headrace("simulate", "ssds.toml", "--results", "results", cwd=tmp_path)
    read_us: dict[str, float] = {}
    write_us: dict[str, float] = {}
    for trial in (tmp_path / "results" / "trials").iterdir():
        record = json.loads((trial / "trial.json").read_text())
        device, drive = record["device"], record["levels"]["drive"]
        read_us[drive] = device["read_latency_s"] / device["requests_read"] * 1e6
        write_us[drive] = device["write_latency_s"] / device["requests_write"] * 1e6
        series: Any = pd.read_parquet(trial / "series" / "block.parquet")
        busy = series[series["read_iops"] * series["write_iops"] > 0]
        assert len(busy) and (busy["read_latency_ms"] != busy["write_latency_ms"]).all()
    # Now and then a page is still in its die's register.
    assert read_us.pop("slow.toml") >= 0.99 * 4500
    # Its writes end in the buffer, whatever reading the flash takes.
    assert write_us["slow.toml"] < 450
    for drive, took_us in read_us.items():
        assert took_us >= entry("drives", drive).table["flash"]["read_us"], drive


def test_it_goes_on_where_it_was_stopped(simulated: Path, tmp_path: Path) -> None:
    shutil.copytree(simulated, tmp_path / "part")
    for path in sorted((tmp_path / "part" / "trials").iterdir())[3:9]:
        shutil.rmtree(path)
    headrace("resume", "part", cwd=tmp_path)
    assert digests(simulated) == digests(tmp_path / "part")


def test_a_real_medium_without_a_drive_that_stands_for_it_is_refused(tmp_path: Path) -> None:
    text = STUDY.replace(
        'drive = "wd-wd3200bekt"\n\n[target.nas]',
        'image = "disk.img"\nsize = "1 GiB"\n\n[target.nas]',
    )
    text = text.replace('drive = ["wd-wd3200bekt", "corsair-f40"]\n', "").replace(
        "count = 2\n", "count = 2\n", 1
    )
    text = text.replace('drives = { os = "sata-7200-250gb" }', "")
    (tmp_path / "study.toml").write_text(text)
    done = headrace("simulate", "study.toml", "--results", "none", code=2, cwd=tmp_path)
    assert "study.toml:16: target.local.kind: it cannot be simulated" in done.stderr
    assert "stands for it" in done.stderr.replace("\n", " ")


def test_a_kind_that_lives_in_models_only_cannot_be_measured(tmp_path: Path) -> None:
    text = STUDY.replace('kind = "nfs"', 'kind = "lustre"').replace("slots = [1, 2]", "slots = [1]")
    (tmp_path / "study.toml").write_text(text)
    done = headrace("run", "study.toml", "--results", "none", code=3, cwd=tmp_path)
    assert "cannot be measured by this version" in done.stderr.replace("\n", " ")
    assert "headrace simulate" in done.stderr


def test_an_unknown_study_is_one_message(tmp_path: Path) -> None:
    done = headrace("reproduce", "prof-ssd", code=2, cwd=tmp_path)
    assert 'did you mean "proof-ssd"' in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--emulate", "--html", "page.html"), "--html"),
        (("--emulate", "--vary"), "--vary"),
        (("--emulate", "--fit"), "--fit"),
        (("--emulate", "--threads", "2"), "--threads"),
        (("--records", "kept"), "--records"),
    ],
)
def test_options_that_reproduce_would_ignore_are_refused(
    tmp_path: Path, words: tuple[str, ...], option: str
) -> None:
    done = headrace("reproduce", "proof-ssd", *words, code=2, cwd=tmp_path)
    assert f"command line: {option}:" in done.stderr
    assert not list(tmp_path.iterdir())


SWEEP = """
headrace = 1
title = "A sweep"

[target.local]
kind = "block"
drive = "wd-wd3200bekt"

[workload.tau]
kind = "replay"
profile = "cms-tau-analysis-sample"

[factors]
drive = ["wd-wd3200bekt", "seagate-st3750640ns", "samsung-pm9a3-3.84tb"]
filesystem = ["ext3", "ext4", "xfs"]
scheduler = ["noop", "deadline", "cfq", "kyber", "bfq"]
slots = [1, 2, 4, 8]

[plan]
repeats = { min = 1 }
"""


def test_a_sweep_killed_in_the_middle_ends_as_one_that_was_not(tmp_path: Path) -> None:
    (tmp_path / "sweep.toml").write_text(SWEEP)
    whole = simulated_here(tmp_path / "sweep.toml", "whole")
    command = ["simulate", "sweep.toml", "--results", "killed"]
    process = subprocess.Popen(
        [sys.executable, "-c", "from headrace.cli import main; main()", *command],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    trials = tmp_path / "killed" / "trials"
    deadline = time.monotonic() + 120
    while not trials.is_dir() or sum(1 for _ in trials.iterdir()) < 20:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.wait()
    assert 20 <= sum(1 for trial in trials.iterdir() if (trial / "trial.json").exists()) < 180
    headrace("resume", "killed", cwd=tmp_path)
    assert digests(tmp_path / "killed") == whole
    assert sum(name.endswith("trial.json") for name in whole) == 180


ADAPTIVE = """
headrace = 1
title = "Repeats until the interval is narrow"

[target.disk]
kind = "block"
drive = "wd-wd3200bekt"

[workload.tau]
kind = "replay"
profile = "cms-tau-analysis-sample"

[workload.random]
kind = "random"
file_size = "64 MiB"
amount = "100 KiB"

[factors]
slots = [1, 2]

[plan]
repeats = { min = 2, max = 9, interval = 0.04 }
"""


def test_repeats_end_once_the_interval_is_narrow_whatever_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cell stops at the first repeat after which its interval is narrow, on any thread count,
    after any stop."""
    (tmp_path / "study.toml").write_text(ADAPTIVE)
    study = load_study(tmp_path / "study.toml")
    study.run(tmp_path / "whole", engine="simulate")
    trials: Any = read(tmp_path / "whole").trials
    made = trials.groupby("cell")["repeat"].apply(sorted)
    assert len(made) == 4
    assert 8 < len(trials) < 36, (
        "some cells need more than the least, none needs to be made for nothing"
    )
    for cell, repeats in made.items():
        metrics: Any = trial_metrics(trials)
        rates = metrics["asked_bytes_per_s"][trials["cell"] == cell].to_list()
        narrow = [
            interval(rates[:count], 0.95).half_width <= 0.04 for count in range(2, len(rates) + 1)
        ]
        assert repeats == list(range(len(rates)))
        assert narrow == [False] * (len(rates) - 2) + [len(rates) < 9 or narrow[-1]]
    monkeypatch.setattr(Cores, "at_once", 1)
    study.run(tmp_path / "singly", engine="simulate")
    assert digests(tmp_path / "singly") == digests(tmp_path / "whole")
    for path in sorted((tmp_path / "singly" / "trials").iterdir())[1::3]:
        shutil.rmtree(path)
    resume(tmp_path / "singly")
    assert digests(tmp_path / "singly") == digests(tmp_path / "whole")


def test_a_budget_of_virtual_time_ends_repeats(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(ADAPTIVE.replace("[plan]", '[plan]\nbudget = "60 s"'))
    seen = Skipped()
    load_study(tmp_path / "study.toml").run(tmp_path / "results", engine="simulate", observer=seen)
    trials: Any = read(tmp_path / "results").trials
    spent_s = trials.groupby("repeat")["duration_s"].sum().cumsum()
    assert (spent_s[:-1] < 60).all(), "no round was begun after the budget was spent"
    assert "the time budget is spent" in seen.why


class Skipped(Silent):
    """Notes why trials were skipped."""

    def __init__(self) -> None:
        self.why: list[str] = []

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        if status == "skipped":
            self.why.append(summary)


def test_a_short_virtual_time_is_no_reason_against_a_trial(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(ADAPTIVE.replace('"100 KiB"', '"8 KiB"'))
    load_study(tmp_path / "study.toml").run(tmp_path / "results", engine="simulate")
    trials: Any = read(tmp_path / "results").trials
    assert trials["last_done_s"].min() < 0.5, "below the default of [run] shortest"
    assert trials["valid"].all()


LONG = """
headrace = 1
title = "Trials of seconds"

[site.node]
count = 12

[site.server.nas]
link = "10 GbE"

[target.nas]
kind = "nfs"
server = "nas"
export = { drive = "samsung-pm9a3-3.84tb" }

[workload.tau]
kind = "replay"
profile = "cms-tau-analysis"

[factors]
slots = [1, 2, 4]

[plan]
repeats = { min = 2 }
"""


@pytest.fixture(scope="module")
def whole_long(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digests of LONG's records, simulated without a stop."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "long.toml").write_text(LONG)
    return simulated_here(folder / "long.toml", "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_stop_in_the_middle_of_a_trial_is_clean_and_resume_completes(
    number: signal.Signals, whole_long: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "long.toml").write_text(LONG)
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from headrace.cli import main; main()",
            "simulate",
            "long.toml",
            "--results",
            "part",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    trials = tmp_path / "part" / "trials"
    deadline = time.monotonic() + 120
    while not trials.is_dir() or not list(trials.glob("*/trial.json")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number, out + err
    assert "Traceback" not in err
    assert "stopped" in err and "headrace resume part" in err
    left = digests(tmp_path / "part")
    assert 0 < sum(name.endswith("trial.json") for name in left) < 6
    assert all(path.name.count(".making") == 0 for path in (tmp_path / "part").rglob("*"))
    headrace("resume", "part", cwd=tmp_path)
    assert digests(tmp_path / "part") == whole_long


class ProgressObserver(Silent):
    """Stops the run once virtual time is seen to move within a trial."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self.seen_s: list[float] = []

    def simulated(self, virtual_s: float) -> None:
        self.seen_s.append(virtual_s)
        if virtual_s > 0:
            self.stop.set()


def test_virtual_time_is_told_while_a_trial_runs(tmp_path: Path) -> None:
    # So large that it is under way for seconds, of which the test waits for the first news alone.
    large = (
        LONG.replace("count = 12", "count = 1000")
        .replace("[1, 2, 4]", "[8]")
        .replace("min = 2", "min = 1")
    )
    (tmp_path / "large.toml").write_text(large)
    stop = threading.Event()
    observer = ProgressObserver(stop)
    with pytest.raises(InterruptedRunError):
        load_study(tmp_path / "large.toml").run(
            tmp_path / "results", engine="simulate", observer=observer, stop=stop
        )
    assert observer.seen_s[-1] > 0
    assert observer.seen_s == sorted(observer.seen_s)
    assert not list((tmp_path / "results").glob("trials/*")), "it was told within the only trial"
