"""A real trace, counted as `btt` and `blkparse` count it.

Theirs are the judges of what both define.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.traces import Statistics, open_trace, summarise

REAL = Path(__file__).parent / "traces" / "random"


@pytest.fixture(scope="module")
def ours() -> Statistics:
    return summarise(open_trace(REAL))


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CPUs' files as one, as btt wants it."""
    assert shutil.which("blkparse") and shutil.which("btt"), "apt-get install blktrace"
    out = tmp_path_factory.mktemp("btt") / "merged"
    subprocess.run(["blkparse", "-q", "-O", "-i", REAL, "-d", out], check=True, capture_output=True)
    return out


def btt(merged: Path, *options: str) -> str:
    done = subprocess.run(
        ["btt", "-i", merged, *options],
        check=True,
        capture_output=True,
        text=True,
        cwd=merged.parent,
    )
    return done.stdout


def test_latencies_are_those_of_btt(ours: Statistics, merged: Path) -> None:
    text = btt(merged)
    for name, latency in (
        ("Q2C", ours.total.queue_to_complete),
        ("D2C", ours.total.dispatch_to_complete),
    ):
        found = re.search(rf"^{name} +([\d.]+) +([\d.]+) +([\d.]+) +(\d+)$", text, re.M)
        assert found is not None and latency is not None
        _, mean_s, max_s, count = found.groups()
        assert latency.count == int(count)
        assert latency.mean_ns == pytest.approx(float(mean_s) * 1e9, abs=1)
        assert latency.max_ns == pytest.approx(float(max_s) * 1e9, abs=1)


@pytest.mark.parametrize(("option", "name"), [((), "closeness"), (("-a",), "absolute")])
def test_seek_distances_are_those_of_btt(
    ours: Statistics, merged: Path, option: tuple[str, ...], name: str
) -> None:
    prefix = f"seeks-{name}"
    btt(merged, *option, "-s", prefix)
    lines = (merged.parent / f"{prefix}_7,0_d2d_c.dat").read_text().splitlines()
    # Its first distance is from the start of the drive, not from a request.
    distances = [abs(int(line.split()[1])) for line in lines[1:]]
    assert len(distances) == ours.total.requests - 1
    mine = ours.total.values[f"seek_distance_{name}"]
    assert mine["mean_sectors"] == pytest.approx(sum(distances) / len(distances), rel=1e-12)
    assert sum(mine["count"]) == len(distances)


def test_counts_and_bytes_are_those_of_blkparse(ours: Statistics) -> None:
    done = subprocess.run(["blkparse", "-i", REAL], check=True, capture_output=True, text=True)
    total = done.stdout[done.stdout.index("Total (") :]
    for word, op in (("Reads", "read"), ("Writes", "write")):
        for stage, column in (("Queued", "queued"), ("Completed", "completed")):
            found = re.search(rf"{word} {stage}: +(\d+), +(\d+)KiB", total)
            assert found is not None
            assert ours.total.amount(op, column) == (int(found[1]), int(found[2]) * 1024)


def test_the_text_of_blkparse_says_the_same(ours: Statistics, tmp_path: Path) -> None:
    text = tmp_path / "trace.txt"
    done = subprocess.run(["blkparse", "-i", REAL], check=True, capture_output=True)
    text.write_bytes(done.stdout)
    found = summarise(open_trace(text))
    assert found.format == "blkparse-text" and found.damage_count == 0
    assert found.total.queue_to_complete == ours.total.queue_to_complete
    assert found.total.dispatch_to_complete == ours.total.dispatch_to_complete
    assert found.values["queue_depth_share"] == ours.values["queue_depth_share"]
    assert found.processes[0].name == "fio"
