"""Metrics of a query whose events are handed out in packets."""

from __future__ import annotations

from headrace.metrics import Metric
from headrace.metrics.trial import RecordedTrial, ratio


def _local_share(trial: RecordedTrial) -> float | None:
    packets = trial.record.packets
    if packets is None or packets.events_local is None:
        return None
    return ratio(packets.events_local, packets.events)


def _tail_s(trial: RecordedTrial) -> float | None:
    record = trial.record
    if record.packets is None or record.stonewall_s is None or record.last_done_s is None:
        return None
    # Job and engine take these times: the last job may end before it is seen to be idle.
    return max(0.0, record.last_done_s - record.stonewall_s)


LOCAL_EVENT_SHARE = Metric(
    name="local_event_share",
    title="Events read on the node of their file",
    scale="share",
    highest=1.0,
    value=_local_share,
    needs="packets of files whose location is known",
)
PACKET_TAIL_S = Metric(
    name="packet_tail_s",
    title="Time from the first idle worker to the end",
    scale="time",
    better="less",
    value=_tail_s,
    needs="packets",
)
