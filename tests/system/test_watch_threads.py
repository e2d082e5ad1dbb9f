"""`headrace watch` shares the wall time of a job among its threads as they shared it themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.watching import JobSample, Watcher
from headrace.watching.finders.pid import PidFinder

JOB = Path(__file__).with_name("thread_mixes.py")
POINTS = 0.02
ONLY_READS = 5
LONGEST_S = 60.0
SAMPLES = round((3 * 0.5 / POINTS) ** 2)


class Truth(NamedTuple):
    """Shares of the wall time."""

    awake: float
    reads: float
    least: float
    """Reads while no thread computed."""
    most: float
    """Any thread read."""


def truth(threads: Sequence[dict[str, object]], begin_s: float, end_s: float) -> Truth:
    """What threads did between two times: at each moment those that compute or read share it."""
    edges: list[tuple[float, int, str, int]] = []
    for number, thread in enumerate(threads):
        for what, begun_s, ended_s in thread["spans"]:  # type: ignore[attr-defined]
            if what != "sleep" and ended_s > begin_s and begun_s < end_s:
                edges.append((max(begun_s, begin_s), number, what, 1))
                edges.append((min(ended_s, end_s), number, what, 0))
    edges.sort(key=lambda edge: (edge[0], edge[3]))
    cpu_s = [float(thread["cpu_s"]) for thread in threads]  # type: ignore[arg-type]
    computing, reading = set[int](), set[int]()
    sums, last_s = [0.0] * 4, begin_s
    for at_s, number, what, begins in edges:
        busiest_s = max((cpu_s[each] for each in computing), default=0.0)
        working = sum(1 for each in reading if cpu_s[each] * ONLY_READS > busiest_s)
        if active := len(computing) + working:
            lasted_s = at_s - last_s
            sums[0] += lasted_s * len(computing) / active
            sums[1] += lasted_s * working / active
        sums[2] += (at_s - last_s) * (bool(reading) and not computing)
        sums[3] += (at_s - last_s) * bool(reading)
        last_s = at_s
        group = computing if what == "compute" else reading
        group.add(number) if begins else group.discard(number)
    return Truth(*(each / (end_s - begin_s) for each in sums))


def watched(path: str, groups: Sequence[str], seconds: float = 8.0) -> tuple[JobSample, Truth]:
    """What the watch says of such a job, and what it says itself of the same time."""
    argv = [sys.executable, str(JOB), path, *groups]
    with subprocess.Popen(argv, stdin=-1, stdout=-1, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "\n"
            time.sleep(0.5)
            finder = PidFinder([str(process.pid)])
            with Watcher(finder, samples_per_s=3000, seed=1) as watcher:
                began_s = time.monotonic()
                while True:
                    sample = watcher.watch(1.0)
                    (job,) = sample.jobs
                    watched_s = time.monotonic() - began_s
                    enough = watched_s >= seconds and job.total.samples >= SAMPLES
                    if enough or watched_s > LONGEST_S:
                        break
            told, _ = process.communicate("")
        finally:
            process.kill()
    return job, truth(json.loads(told), job.began_s, sample.time_s)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """On the storage of this machine."""
    path = tmp_path_factory.mktemp("read") / "a file"
    path.write_bytes(os.urandom(1 << 20) * 256)
    with path.open("rb") as written:
        os.fsync(written.fileno())
    return str(path)


@pytest.mark.machine
@pytest.mark.parametrize(
    "groups",
    [
        "4*cpu", "1*cpu 6*sleep", "8*burst", "4*read", "1*cpu 4*read", "8*work", "4*turns 3*sleep",
        "2*burst 3*read",
    ],
)  # fmt: skip
def test_threads_share_the_wall_time(file: str, groups: str) -> None:
    job, true = watched(file, groups.split())
    shares = job.total.ledger.shares
    found = shares["on_cpu"] + shares["wait_cpu"], shares["wait_block"]
    assert found == pytest.approx((true.awake, true.reads), abs=POINTS)
    bounds = [each / job.total.ledger.wall_s for each in job.total.ledger.waits_bounds_s]
    assert bounds == pytest.approx((true.least, true.most), abs=POINTS)
