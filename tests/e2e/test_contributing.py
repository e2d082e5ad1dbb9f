"""The examples of CONTRIBUTING.md are added as another package adds them, and a study uses them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from workspace import ROOT

WANTED = ("metric", "probe", "meter", "workload", "target", "launcher", "fault")
STUDY = """
headrace = 1
title = "Parts of another package"

[target.memory]
kind = "memory"
folder = "{folder}"

[workload.sum]
kind = "checksum"
data = {{ events = 2000, files = 2 }}
piece = "64 KiB"

[meter.wall]
kind = "file"
file = "power of the wall"

[[fault]]
what = "files-uncached"
at = "0 s"

[factors]
fault = ["none", "files-uncached"]
slots = [1, 2]

[plan]
repeats = {{ min = 1 }}

[run]
on = "background"
cache = "warm"
shortest = "1 ms"
"""


def examples(language: str) -> dict[str, str]:
    """The example of each section of CONTRIBUTING.md: what is added -> its code."""
    sections = re.split(r"^## Add an? (\w+)$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.M)
    found: dict[str, str] = {}
    for name, text in zip(sections[1::2], sections[2::2], strict=True):
        for code in re.findall(rf"```{language}\n(.*?)```", text, re.S):
            assert name not in found, "one example each"
            found[name] = code
    return found


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with every example, and the entry points that name them."""
    place = tmp_path / "package"
    facts = place / "examples-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: examples\nVersion: 1.0\n")
    lines: list[str] = []
    for name, code in examples("python").items():
        (place / f"example_{name}.py").write_text(code)
        kind = re.findall(
            r"^class (\w+)\((?:Probe|Meter|Workload|Target|InjectedFault|Local)\):", code, re.M
        )
        added = kind or re.findall(r"^(\w+) = Metric\(", code, re.M)
        lines.append(f"[headrace.{name}s]\n{name} = example_{name}:{added[0]}\n")
    (facts / "entry_points.txt").write_text("\n".join(lines))
    return place


def test_the_examples_work_together(package: Path, tmp_path: Path) -> None:
    assert set(examples("python")) >= set(WANTED)
    folder = tmp_path / "in memory"
    folder.mkdir()
    (tmp_path / "power of the wall").write_text("90.5\n")
    (tmp_path / "study.toml").write_text(STUDY.format(folder=folder))
    ended = subprocess.run(
        [sys.executable, "-m", "headrace", "run", "study.toml", "--results", "results"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = ended.stdout + ended.stderr
    # 5: other programs used the CPUs of this machine; what is looked at here is recorded all the
    # same.
    assert ended.returncode in (0, 5), said
    assert "Mean size of a read call" in (tmp_path / "results" / "report.html").read_text()
    trials = sorted((tmp_path / "results" / "trials").iterdir())
    assert len(trials) == 4
    for trial in trials:
        record = json.loads((trial / "trial.json").read_text())
        assert record["status"] == "done", said
        assert record["run"]["on"] == "background"
        assert record["probes"]["load"]["runnable_max"] >= 1
        assert pq.read_table(trial / "series" / "load.parquet")["runnable"].to_pylist()
        (channel,) = record["energy"]["channels"]
        assert (channel["meter"], channel["kind"], channel["usable"]) == ("wall", "file", True)
        assert channel["mean_power_w"] == pytest.approx(90.5)
        jobs = pq.read_table(trial / "jobs.parquet").to_pylist()
        assert len(jobs) == record["levels"]["slots"]
        assert all(job["bytes_asked"] > 100_000 for job in jobs)
        if record["levels"]["fault"] != "none":
            assert record["faults"][0]["fired"] == 1
    assert list(folder.iterdir()) == [], "the target tears itself down"


def test_the_drive_is_one(tmp_path: Path) -> None:
    (tmp_path / "example-disk.toml").write_text(examples("toml")["drive"])
    ended = subprocess.run(
        [sys.executable, "-m", "headrace", "drive", "show", "example-disk.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "7200" in ended.stdout.replace(" ", "")
