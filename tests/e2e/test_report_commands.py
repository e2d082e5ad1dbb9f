"""`headrace report --output`, `resume --retry-invalid` and `compare --force`, by users."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_server import run_command
from synthetic_records import Truth, plan_of, write_results

CELLS = [{"target": "disk", "workload": "higgs", "slots": slots} for slots in (1, 2)]


def headrace(
    *words: str, code: int = 0, cwd: Path | None = None, columns: int = 80
) -> subprocess.CompletedProcess[str]:
    done = run_command(words, cwd, {**os.environ, "COLUMNS": str(columns)})
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
    }


def test_a_report_goes_elsewhere_and_leaves_the_results_as_they_are(tmp_path: Path) -> None:
    results = write_results(
        tmp_path / "old results", plan_of(CELLS, 3), Truth(trial_sigma=0.01), series=False
    )
    before = snapshot(results)
    done = headrace(
        "report",
        "old results",
        "--format",
        "html",
        "--format",
        "csv",
        "--output",
        "new/the report",
        cwd=tmp_path,
    )
    assert "disk feeds" in done.stdout
    assert snapshot(results) == before
    output = tmp_path / "new" / "the report"
    assert sorted(path.name for path in output.iterdir()) == ["report.csv", "report.html"]
    page = (output / "report.html").read_text(encoding="utf-8")
    links = re.findall(r'href="([^"]*trials/[^"]+)"', page)
    assert len(links) >= 6
    for link in links:
        assert (output / link.replace("%20", " ")).is_dir(), link


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (("report", "r"), "r/report.html"),
        (("compare", "r", "r", "--html", "c.html"), "c.html"),
        (("decide", "r", "--html", "d.html"), "d.html"),
    ],
)
def test_a_page_is_written_though_nobody_reads_the_text(
    words: tuple[str, ...], page: str, tmp_path: Path
) -> None:
    """`headrace report results | head -1`: the reader has gone before the end."""
    write_results(tmp_path / "r", plan_of(CELLS, 3), Truth(trial_sigma=0.01), series=False)
    command = [sys.executable, "-c", "from headrace.cli import main; main()", *words]
    started = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    started.stdout.close()
    assert "Traceback" not in started.communicate(timeout=120)[1]
    assert "</html>" in (tmp_path / page).read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_is_printed_first_and_names_the_way_out(
    tmp_path: Path,
) -> None:
    results = write_results(
        tmp_path / "r", plan_of(CELLS, 3), Truth(trial_sigma=0.01), series=False
    )
    (results / "report.html").mkdir()
    done = headrace("report", str(results), code=6)
    assert "disk feeds" in done.stdout
    assert "cannot be written" in done.stderr
    assert "--output FOLDER" in done.stderr


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory: no device whose other load could make a trial invalid."""
    folder = Path(tempfile.mkdtemp(dir="/dev/shm", prefix="headrace-retry-"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.machine  # a job must end within 0.3 s
def test_invalid_trials_are_run_again_and_their_records_are_kept(
    memory: Path, tmp_path: Path
) -> None:
    flag = memory / "slow"
    program = f"test -e {flag} && sleep 0.4; true"
    (tmp_path / "study.toml").write_text(
        f"""
headrace = 1
title = "Too short at first"
[target.disk]
kind = "path"
path = "{memory}/target"
create = true
[workload.quick]
kind = "command"
command = ["sh", "-c", "{program}"]
[workload.broken]
kind = "command"
command = ["false"]
[plan]
repeats = {{ min = 2 }}
[run]
cache = "as-is"
shortest = "0.3 s"
foreign_load = "warning"
"""
    )
    first = headrace("run", "study.toml", "--results", "r", code=5, cwd=tmp_path)
    assert "headrace resume r --retry-invalid" in first.stderr
    trials = tmp_path / "r" / "trials"
    records = {path.parent.name: path.read_bytes() for path in trials.glob("*/trial.json")}
    assert len(records) == 4
    flag.touch()
    done = headrace("resume", "r", "--retry-invalid", code=5, cwd=tmp_path)
    assert "2 of 4 trials are recorded already" in done.stderr
    told = " ".join(done.stdout.split())
    assert "2 failed. 2 invalid records of earlier attempts at them are in retried/." in told
    kept = {
        path.parent.name: path.read_bytes()
        for path in (tmp_path / "r" / "retried").glob("*/trial.json")
    }
    assert {name.removesuffix(".1") for name in kept} < set(records)
    assert all(records[name.removesuffix(".1")] == text for name, text in kept.items())
    assert sorted(path.name for path in trials.iterdir()) == sorted(records)
    # Nothing is invalid any more: nothing is run, nothing more is set aside.
    again = headrace("resume", "r", "--retry-invalid", code=5, cwd=tmp_path)
    assert "4 of 4 trials are recorded already" in again.stderr
    assert len(list((tmp_path / "r" / "retried").iterdir())) == 2


def test_a_forced_comparison_shows_results_before_what_the_machines_differ_in(
    tmp_path: Path,
) -> None:
    plan = plan_of(CELLS, 3)
    machine = {f"field_{number}": number for number in range(12)}
    a = write_results(tmp_path / "a", plan, Truth(trial_sigma=0.01), series=False)
    b = write_results(
        tmp_path / "b",
        plan,
        Truth(
            engine="simulate", provenance="simulated", environment={**machine, "kernel": "x" * 90}
        ),
        series=False,
    )
    page = tmp_path / "comparison.html"
    text = headrace("compare", str(a), str(b), "--force", "--html", str(page)).stdout
    places = [
        text.index(words)
        for words in ("→ Event rate", "storage", "Differences between the env", "field_7")
    ]
    assert places == sorted(places)
    assert text[: places[0]].count("\n") < 10, "what differs takes the place of the results"
    html = page.read_text(encoding="utf-8")
    assert html.index('id="cells"') < html.index('id="environment"')
