"""`headrace simulate`: a study in virtual time becomes records and a report; equal seeds give equal bytes; it resumes."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headrace.errors import InterruptedRunError
from headrace.library import Silent, load_study

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
    done = subprocess.run(
        [sys.executable, "-c", "from headrace.cli import main; main()", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=cwd,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def digests(results: Path) -> dict[str, str]:
    return {
        str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((results / "trials").rglob("*"))
        if path.is_file()
    }


def test_records_report_and_equal_bytes(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    headrace("simulate", "study.toml", "--results", "one", cwd=tmp_path)
    trials = sorted((tmp_path / "one" / "trials").iterdir())
    assert len(trials) == 16
    record = json.loads((trials[0] / "trial.json").read_text())
    assert record["provenance"] == "simulated"
    assert record["started_utc"] is None
    assert record["validity"]["valid"]
    page = (tmp_path / "one" / "report.html").read_text()
    assert "simulated" in page
    headrace("simulate", "study.toml", "--results", "two", cwd=tmp_path)
    assert digests(tmp_path / "one") == digests(tmp_path / "two")


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    headrace("simulate", "study.toml", "--results", "whole", cwd=tmp_path)
    shutil.copytree(tmp_path / "whole", tmp_path / "part")
    for path in sorted((tmp_path / "part" / "trials").iterdir())[3:9]:
        shutil.rmtree(path)
    headrace("resume", "part", cwd=tmp_path)
    assert digests(tmp_path / "whole") == digests(tmp_path / "part")


def test_a_real_medium_without_a_drive_that_stands_for_it_is_refused(tmp_path: Path) -> None:
    text = STUDY.replace(
        'drive = "wd-wd3200bekt"\n\n[target.nas]', 'image = "disk.img"\nsize = "1 GiB"\n\n[target.nas]'
    )
    text = text.replace('drive = ["wd-wd3200bekt", "corsair-f40"]\n', "").replace(
        "count = 2\n", "count = 2\n", 1
    )
    text = text.replace('drives = { os = "sata-7200-250gb" }', "")
    (tmp_path / "study.toml").write_text(text)
    done = headrace("simulate", "study.toml", "--results", "none", code=3, cwd=tmp_path)
    assert "stands for it" in done.stderr.replace("\n", " ")


def test_a_kind_that_lives_in_models_only_cannot_be_measured(tmp_path: Path) -> None:
    text = STUDY.replace('kind = "nfs"', 'kind = "lustre"').replace("slots = [1, 2]", "slots = [1]")
    (tmp_path / "study.toml").write_text(text)
    done = headrace("run", "study.toml", "--results", "none", code=3, cwd=tmp_path)
    assert "cannot be measured by this version" in done.stderr.replace("\n", " ")
    assert "headrace simulate" in done.stderr


def test_reproduce_prints_the_promised_json(tmp_path: Path) -> None:
    done = headrace("reproduce", "proof-ssd", "--json", "--html", "page.html", cwd=tmp_path)
    (study,) = json.loads(done.stdout)["studies"]
    assert study["id"] == "proof-ssd"
    assert {"parameter", "value", "unit", "rows"} <= set(study["fitted"][0])
    assert {"table", "row", "column", "unit", "published", "obtained", "error", "role"} <= set(
        study["numbers"][0]
    )
    assert all({"id", "holds", "why"} <= set(finding) for finding in study["findings"])
    assert len(study["findings"]) == 13
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 2
    assert "does not hold" in page
    assert "matplotlib.org" not in page


def test_an_unknown_study_is_one_message(tmp_path: Path) -> None:
    done = headrace("reproduce", "prof-ssd", code=2, cwd=tmp_path)
    assert 'did you mean "proof-ssd"' in done.stderr.replace("\n", " ")


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
    headrace("simulate", "sweep.toml", "--results", "whole", cwd=tmp_path)
    whole = digests(tmp_path / "whole")
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


def test_ctrl_c_in_the_middle_of_a_trial_stops_cleanly_and_resume_completes(tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(LONG)
    headrace("simulate", "long.toml", "--results", "whole", cwd=tmp_path)
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
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "Traceback" not in err
    assert "stopped" in err and "headrace resume part" in err
    left = digests(tmp_path / "part")
    assert 0 < sum(name.endswith("trial.json") for name in left) < 6
    assert all(path.name.count(".making") == 0 for path in (tmp_path / "part").rglob("*"))
    headrace("resume", "part", cwd=tmp_path)
    assert digests(tmp_path / "part") == digests(tmp_path / "whole")


class Watching(Silent):
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
        LONG.replace("count = 12", "count = 1000").replace("[1, 2, 4]", "[8]").replace("min = 2", "min = 1")
    )
    (tmp_path / "large.toml").write_text(large)
    stop = threading.Event()
    watching = Watching(stop)
    with pytest.raises(InterruptedRunError):
        load_study(tmp_path / "large.toml").run(
            tmp_path / "results", engine="simulate", observer=watching, stop=stop
        )
    assert watching.seen_s[-1] > 0
    assert watching.seen_s == sorted(watching.seen_s)
    assert not list((tmp_path / "results").glob("trials/*")), "it was told within the only trial"
