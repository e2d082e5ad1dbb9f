"""Metrics of servers before others (gateways, XCache): what their cache had, and what it cost the
link to the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.metrics import Metric
from headrace.metrics.trial import RecordedTrial, ratio


def _fronts(trial: RecordedTrial) -> list[Mapping[str, int]]:
    """Return the reads of each simulated service that has an upstream."""
    services: Sequence[Mapping[str, Any]] = trial.record.probes.get("services") or ()
    return [service["upstream"] for service in services if service.get("upstream")]


def _hit_share(trial: RecordedTrial) -> float | None:
    fronts = _fronts(trial)
    hit = sum(front["hit_bytes"] for front in fronts)
    return ratio(hit, hit + sum(front["missed_bytes"] for front in fronts))


def _upstream_rate(trial: RecordedTrial) -> float | None:
    fronts = _fronts(trial)
    # Of a chain of servers, the last link is the one to the store.
    return ratio(fronts[-1]["read_bytes"], trial.record.duration_s) if fronts else None


CACHE_HIT_SHARE = Metric(
    name="cache_hit_share",
    title="Bytes read that the XCache had",
    scale="share",
    highest=1.0,
    value=_hit_share,
    needs="a simulated server with an upstream and drives (XCache)",
    rank=127,
)
# The requests that the store answers, with whole blocks and prefetch.
UPSTREAM_BYTES_PER_S = Metric(
    name="upstream_bytes_per_s",
    title="Rate from the upstream",
    unit="B/s",
    scale="prefixed",
    better="less",
    value=_upstream_rate,
    needs="a simulated server with an upstream",
    rank=125,
    byte_boundary=True,
)
