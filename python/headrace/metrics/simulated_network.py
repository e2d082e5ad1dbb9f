"""Metrics of a simulated network and its servers: losses of connections, reads without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.metrics import Metric
from headrace.metrics.trial import RecordedTrial, ratio


def _timeouts(trial: RecordedTrial) -> float | None:
    counters: Mapping[str, Any] = trial.record.probes.get("simulator") or {}
    tcp: Mapping[str, int] | None = counters.get("tcp")
    return ratio(tcp["timeouts"], trial.record.duration_s) if tcp else None


def _degraded(trial: RecordedTrial) -> float | None:
    services: Sequence[Mapping[str, Any]] = trial.record.probes.get("services") or ()
    lost = sum(service.get("degraded_reads", 0) for service in services)
    return ratio(lost, trial.record.duration_s) if lost else None


TCP_TIMEOUTS_PER_S = Metric(
    name="tcp_timeouts_per_s",
    title="Timeouts of TCP",
    unit="1/s",
    better="less",
    value=_timeouts,
    needs="a simulation with `[site.tcp]`",
    rank=128,
)
DEGRADED_READS_PER_S = Metric(
    name="degraded_reads_per_s",
    title="Reads computed from parity",
    unit="1/s",
    better="less",
    value=_degraded,
    needs="simulated erasure coding with a server or drive that failed",
    rank=129,
)
