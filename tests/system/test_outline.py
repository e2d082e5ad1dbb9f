"""Profiles in outline of real programs: what they read lies within the stated bounds, and so does
what a simulation of the profile reads."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.outline import JobOutline
from headrace.system.waiting import wait_until
from headrace.watching import Watcher
from headrace.watching.finders.pid import PidFinder
from workspace import Workspace

RANDOM = Path(__file__).with_name("watched_jobs.py")
IN_ORDER = Path(__file__).with_name("reads_in_order.py")
SIZE = 64 << 20
WATCHED_S = 4.0


@dataclass
class Outlined:
    """A profile in outline, and the truth: the least and the most that the job can have read."""

    table: dict[str, Any]
    bytes_read: tuple[int, int]
    calls: tuple[int, int]

    def bounds(self, name: str) -> tuple[float, float]:
        outline = self.table["outline"]
        assert name in outline["figures"], outline
        figure = outline["figures"][name]
        assert figure["low"] <= figure["value"] <= figure["high"]
        return figure["low"], figure["high"]

    def hold(self, name: str, truth: tuple[float, float]) -> None:
        """The bounds of a figure hold the truth."""
        low, high = self.bounds(name)
        assert low <= truth[1] and truth[0] <= high, (name, low, high, truth)


def outlined(folder: Path, program: Path, read_bytes: int, *arguments: str) -> Outlined:
    """Watch a program that reads a file, and keeps a log of it in memory: a log on a drive makes
    the job read inodes of its file system, many in order, when another drops the caches."""
    with tempfile.TemporaryDirectory(prefix="headrace-test-", dir="/dev/shm") as logs:
        return _outlined(folder, Path(logs) / "log", program, read_bytes, *arguments)


def _outlined(folder: Path, log: Path, program: Path, read_bytes: int, *arguments: str) -> Outlined:
    data, profile = folder / "data.bin", folder / "job.toml"
    with data.open("wb") as file:
        for number in range(SIZE >> 20):
            file.write(number.to_bytes(4, "little") * (1 << 18))
    subprocess.run(["sync", str(data)], check=True)
    argv = [sys.executable, str(program), str(log), str(data), str(SIZE), *arguments]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL) as job:
        try:
            assert wait_until(lambda: log.exists() and len(_rows(log)) > 1, 60, 0.05)
            finder = PidFinder([str(job.pid)])
            began_s = 0.0
            (found,) = finder.find()
            with JobOutline(found, profile) as outline, Watcher(finder) as watcher:
                for _ in range(round(WATCHED_S)):
                    sample = watcher.watch(1.0)
                    began_s = sample.jobs[0].began_s
                    outline.add(sample)
                ended_s = time.monotonic()
            assert wait_until(lambda: _rows(log)[-1]["time_s"] > ended_s, 60, 0.05)
        finally:
            job.kill()
    rows = _rows(log)
    before = max((row for row in rows if row["time_s"] < began_s), key=lambda row: row["bytes"])
    first = min((row for row in rows if row["time_s"] > began_s), key=lambda row: row["bytes"])
    last = max((row for row in rows if row["time_s"] < sample.time_s), key=lambda row: row["bytes"])
    after = min((row for row in rows if row["time_s"] > ended_s), key=lambda row: row["bytes"])
    read = (last["bytes"] - first["bytes"], after["bytes"] - before["bytes"])
    calls = (read[0] // read_bytes, read[1] // read_bytes)
    return Outlined(tomllib.loads(profile.read_text()), read, calls)


def _rows(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()[:-1]]


def simulated(folder: Path) -> dict[str, float]:
    """Return the sums over the jobs of a simulated study with the profile."""
    workspace = Workspace(folder, folder / "cache")
    workspace.study(
        'headrace = 1\ntitle = "outline"\n[site.node]\ncount = 1\n'
        '[target.storage]\nkind = "block"\ndrive = "samsung-870-evo-1tb"\n'
        '[workload.job]\nkind = "replay"\nprofile = "job.toml"\n'
        '[factors]\nslots = [1]\n[plan]\nrepeats = { min = 1 }\n[run]\nshortest = "0 s"\n'
    )
    ended = workspace.run("simulate", "study.toml", "--results", "results")
    assert ended.returncode == 0, ended.stderr
    assert "in outline, from outside; it can be: CPU time" in ended.stderr
    (trial,) = (folder / "results" / "trials").glob("*/trial.json")
    return json.loads(trial.read_text())["sums"]


@pytest.mark.parametrize("program", [RANDOM, IN_ORDER])
def test_the_truth_lies_within_the_bounds(
    program: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """One job reads 4 KiB at random places, and /proc between its reads; the other 64 KiB in order.

    A simulated job reads as much as the profile says, and thus within the bounds, too.
    """
    if program == RANDOM:
        request.getfixturevalue("needs_root")
        seen = outlined(tmp_path, program, 4096, "0.002", "0.004", "locked")
    else:
        seen = outlined(tmp_path, program, 65536, "0.002", "0.01")
    seen.hold("read_bytes", seen.bytes_read)
    seen.hold("read_calls", seen.calls)
    sums = simulated(tmp_path)
    figures = seen.table["outline"]["figures"]
    for name, key in (("read_bytes", "bytes_asked"), ("read_calls", "read_calls")):
        assert sums[key] == pytest.approx(figures[name]["value"], rel=0.01)
        low, high = seen.bounds(name)
        assert 0.99 * low <= sums[key] <= 1.01 * high
    assert sums["bytes_asked"] == pytest.approx(sum(seen.bytes_read) / 2, rel=0.12)


@pytest.mark.usefixtures("needs_root")
@pytest.mark.parametrize(("program", "share"), [(RANDOM, 0.0), (IN_ORDER, 1.0)])
def test_block_events_tell_the_order(program: Path, share: float, tmp_path: Path) -> None:
    seen = outlined(tmp_path, program, 4096, "0.002", "0.004", "locked")
    low, high = seen.bounds("sequential_share")
    assert low <= share <= high
    figure = seen.table["outline"]["figures"]["sequential_share"]
    assert figure["value"] == pytest.approx(share, abs=0.2)
    orders = {
        step.get("order", {}).get("kind", "sequential")
        for step in seen.table["steps"]
        if step["do"] == "pattern"
    }
    assert ("random" if share == 0 else "sequential") in orders
