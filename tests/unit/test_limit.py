"""What holds jobs back, from their ledger and the device's counters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.analysis.limit import DeviceLoad, limit_of

DISK = DeviceLoad(
    rate_bytes_per_s=90e6,
    highest_bytes_per_s=100e6,
    busy=0.99,
    request_bytes=512 * 1024,
    in_flight=4.0,
    latency_s=0.02,
)
IDLE = replace(
    DISK, rate_bytes_per_s=0.0, busy=0.0, request_bytes=0.0, in_flight=0.0, latency_s=0.0
)


def ledger(**shares: float) -> dict[str, float]:
    whole = {
        "on_cpu": 0.0,
        "wait_cpu": 0.0,
        "wait_block": 0.0,
        "wait_network": 0.0,
        "other": 0.0,
    } | shares
    assert sum(whole.values()) == pytest.approx(1)
    return whole


def kind(
    shares: dict[str, float], device: DeviceLoad | None = DISK, moved: float | None = 1.0
) -> str:
    return limit_of(shares, 0.9, device, moved, 4, 2).kind


def test_jobs_that_compute_are_limited_by_the_cpu_however_busy_the_device() -> None:
    assert kind(ledger(on_cpu=0.95, wait_block=0.05)) == "cpu"


def test_two_jobs_a_core_on_cached_data_are_cpu_contention() -> None:
    assert kind(ledger(on_cpu=0.5, wait_cpu=0.5), IDLE, 0.0) == "cpu contention"
    assert kind(ledger(on_cpu=0.49, wait_cpu=0.48, other=0.03), None, 0.0) == "cpu contention"


def test_large_requests_at_the_highest_rate_are_bandwidth() -> None:
    limit = limit_of(ledger(on_cpu=0.3, wait_block=0.7), 0.9, DISK, 1.0, 4, 2)
    assert (limit.kind, limit.share) == ("device bandwidth", 0.7)
    for said in ("70 %", "99 %", "90.0 MB/s", "512 KiB", "20 ms", "4.0 in flight"):
        assert said in limit.evidence


@pytest.mark.parametrize(
    "device",
    [
        replace(DISK, request_bytes=8192),
        replace(DISK, rate_bytes_per_s=30e6),
        replace(DISK, busy=0.4),
        replace(DISK, request_bytes=4096, busy=0.2),
        None,
    ],
)
def test_other_waits_for_the_device_are_latency(device: DeviceLoad | None) -> None:
    assert kind(ledger(on_cpu=0.3, wait_block=0.7), device) == "device latency"


def test_waits_for_a_server_are_network() -> None:
    assert kind(ledger(on_cpu=0.3, wait_network=0.6, other=0.1), None) == "network"


def test_unexplained_time_is_the_device_when_it_is_busy() -> None:
    assert kind(ledger(on_cpu=0.2, other=0.8)) == "device bandwidth"


def test_unexplained_time_on_cached_data_is_the_cache() -> None:
    limit = limit_of(ledger(on_cpu=0.6, other=0.4), 0.9, IDLE, 0.001, 4, 2)
    assert limit.kind == "cache"
    assert "0.1 %" in limit.evidence


def test_what_a_watch_says_of_other_comes_before_the_cache() -> None:
    asleep = ledger(on_cpu=0.01, other=0.99)
    limit = limit_of(asleep, 0.9, None, 0.0, 4, 2, {"memory": 0.0, "timer": 0.9, "a pipe": 0.05})
    assert (limit.kind, limit.share) == ("sleep", 0.99)
    assert limit.evidence == "Jobs slept 99 % of their time: timer 90 %, a pipe 5 %."
    limit = limit_of(asleep, 0.9, None, 0.0, 4, 2, {"memory": 0.7, "timer": 0.2})
    assert (limit.kind, limit.share) == ("memory", 0.7)
    assert limit_of(asleep, 0.9, None, 0.0, 4, 2, {"memory": 0.0, "timer": 0.01}).kind == "cache"


@pytest.mark.parametrize(("requested_bytes_per_s", "kind"), [(5e3, "unknown"), (2e8, "cache")])
def test_jobs_that_sleep_and_read_a_little_are_not_fed_by_the_cache(
    requested_bytes_per_s: float, kind: str
) -> None:
    """Of a watched job that waits for timers and reads some bytes, 98 % were the page cache."""
    slept = ledger(on_cpu=0.02, other=0.98)
    assert (
        limit_of(slept, 0.9, None, 0.0, 1, 2, requested_bytes_per_s=requested_bytes_per_s).kind
        == kind
    )


def test_unexplained_time_otherwise() -> None:
    assert kind(ledger(on_cpu=0.2, other=0.8), replace(DISK, busy=0.02), 1.0) == "idle"
    assert kind(ledger(on_cpu=0.2, other=0.8), replace(DISK, busy=0.5), 1.0) == "unknown"
    assert kind(ledger(on_cpu=0.2, other=0.8), None, None) == "unknown"


def test_contention_with_cores_enough_points_at_others() -> None:
    waiting = ledger(on_cpu=0.5, wait_cpu=0.5)
    assert "something else kept the cores busy" in limit_of(waiting, 0.9, None, None, 2, 2).evidence
    assert (
        limit_of(waiting, 0.9, None, None, 3, 2).evidence
        == "Jobs waited for a CPU 50 % of their time with 3 jobs on 2 cores."
    )
