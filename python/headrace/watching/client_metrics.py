"""The metrics of clients of network storage, for Prometheus (docs/watch.md)."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from headrace.watching.clients import ClientSample

_PLACE = ["mount", "filesystem"]


def client_metrics(clients: Iterable[ClientSample]) -> list[Metric]:
    """Return the metrics of these clients."""
    number = CounterMetricFamily(
        "headrace_watch_client_operations",
        "Operations of a client of network storage, of all programs",
        labels=[*_PLACE, "operation"],
    )
    moved = CounterMetricFamily(
        "headrace_watch_client_bytes",
        "Bytes of operations of a client of network storage",
        labels=[*_PLACE, "operation"],
    )
    seconds = CounterMetricFamily(
        "headrace_watch_client_operation_seconds",
        "Times of operations of a client of network storage from call to end, summed",
        labels=[*_PLACE, "operation"],
    )
    round_trips = CounterMetricFamily(
        "headrace_watch_client_round_trip_seconds",
        "Part of the times of operations between request and reply (NFS)",
        labels=[*_PLACE, "operation"],
    )
    waiting = GaugeMetricFamily(
        "headrace_watch_client_waiting", "Requests that wait for the server (FUSE)", labels=_PLACE
    )
    for client in clients:
        place = [client.mount, client.kind]
        if client.waiting is not None:
            waiting.add_metric(place, client.waiting)
            continue
        for name, operations in client.total.by_name.items():
            number.add_metric([*place, name], operations.number)
            moved.add_metric([*place, name], operations.bytes)
            seconds.add_metric([*place, name], operations.time_s)
            if client.kind == "nfs":
                round_trips.add_metric([*place, name], operations.round_trip_s)
    return [number, moved, seconds, round_trips, waiting]
