"""Simulations whose result follows from theory: windows of long links, seeks between files."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.analysis.read import read
from headrace.library import simulate
from headrace.records.trial_record import TrialRecord

FAR = """
headrace = 1
[site.node]
link = {{ rate = "10 Gb/s", latency = "49 ms" }}
[site.server.store]
link = {{ rate = "10 Gb/s", latency = "1 ms"{buffer} }}
[target.far]
kind = "xrootd"
server = "store"
bricks = {{ on = "server", drive = "samsung-pm9a3-3.84tb" }}
tuning = {{ read_request_bytes = 67_108_864, write_request_bytes = 67_108_864 }}
[workload.read]
kind = "sequential"
mode = "{mode}"
file_size = "256 MiB"
record_size = "64 MiB"
[run]
cache = "warm"
[plan]
repeats = {{ min = 1 }}
"""

DISK = """
headrace = 1
[target.disk]
kind = "block"
drive = "disk.toml"
scheduler = "none"
[workload.read]
kind = "random"
file_size = "2000 MiB"
duration = "20 s"
[factors]
slots = [1, 8]
[plan]
repeats = { min = 2 }
"""

DRIVE = """
kind = "hdd"
capacity_bytes = 100_000_000_000
rotation_rpm = 7200.0
rates = { outer_bytes_per_s = 100e6, inner_bytes_per_s = 100e6 }
seek = { curve = "sheet", track_to_track_ms = 1.0, average_ms = 8.0 }
link_bytes_per_s = 300e6
queue = { depth = 1, reordering = 0.0 }
"""


def records_of(study: Path) -> list[TrialRecord]:
    """Simulate a study; return the record of each trial."""
    found = read(simulate(study, study.parent / "results"))
    return [found.trial_record(str(trial)) for trial in found.trials["id"]]


def far_rate(folder: Path, mode: str, buffer: str) -> float:
    """Return the bytes per second that a client moves over a round trip of 100 ms."""
    (folder / "far.toml").write_text(FAR.format(mode=mode, buffer=buffer), "utf-8")
    (record,) = records_of(folder / "far.toml")
    assert record.sums is not None
    moved = record.sums["bytes_asked"] + record.sums["bytes_written"]
    return moved / (record.sums["wait_network_s"] - record.sums["open_s"])


@pytest.mark.parametrize("mode", ["read", "write"])
@pytest.mark.parametrize("mib", [1, 4])
def test_a_socket_buffer_limits_a_connection_to_its_bytes_per_round_trip(
    tmp_path: Path, mode: str, mib: int
) -> None:
    window_rate = mib * 2**20 / 0.1
    rate = far_rate(tmp_path, mode, f', socket_buffer = "{mib} MiB"')
    assert 0.85 * window_rate < rate <= window_rate


@pytest.mark.parametrize("mode", ["read", "write"])
def test_without_a_socket_buffer_a_long_link_carries_its_rate(tmp_path: Path, mode: str) -> None:
    # Four requests of 64 MiB: each takes a round trip, 54 ms on the link and copies; then fsync
    # and close.
    assert 256 * 2**20 / far_rate(tmp_path, mode, "") < 4 * (0.1 + 0.054 + 0.04) + 0.25


def test_clients_seek_between_their_files_each_in_an_order_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "disk.toml").write_text(DRIVE, "utf-8")
    (tmp_path / "study.toml").write_text(DISK, "utf-8")
    requests: dict[object, list[float]] = {1: [], 8: []}
    for record in records_of(tmp_path / "study.toml"):
        assert record.device is not None
        requests[record.levels["slots"]].append(record.device.requests_read / 20)
    # A first-come-first-served disk: overhead, half a turn, and the mean seek over 2 GB of its 100,
    # or from one file to the next: 6.2 ms and 7.2 ms. In equal orders all seeks and turns between
    # two files were the same, and eight clients made 180 requests per second.
    assert requests[1] == pytest.approx([1000 / 6.25] * 2, rel=0.05)
    assert requests[8] == pytest.approx([1000 / 7.3] * 2, rel=0.05)
    assert requests[1][0] != requests[1][1]
