"""Numbers of one trial, from which metrics are computed. Unknown numbers are NaN, also in sums."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from headrace.records.trial_record import TrialRecord


def ratio(value: float | None, over: float | None) -> float | None:
    """Return `value / over`, or None where either is unknown or `over` is not more than 0."""
    if value is None or over is None or not over > 0:
        return None
    return value / over


class RecordedTrial:
    """The record of one trial, with derived numbers that several metrics need.

    Rates of a batch are over the time until the last job is done; rates of a sustained load are
    over the window in which no slot was idle.
    """

    def __init__(self, record: TrialRecord) -> None:
        self.record = record
        self._sums: Mapping[str, float] = record.sums or {}
        # Almost every metric needs these.
        self._sustained = record.run.get("load") == "sustained" and self.sum("window_s") > 0
        self.time_s = self.sum("window_s") if self._sustained else record.last_done_s
        """The time that rates are divided by."""
        self.jobs = self.sum("jobs") * record.workload.part_of_job
        """Number of whole jobs that ran; parts of jobs are added up."""

    def sum(self, name: str) -> float:
        """Return a sum over the jobs (`records/sums.py`), NaN if unknown."""
        return self._sums.get(name, math.nan)

    def done(self, name: str) -> float:
        """Return the sum over the jobs within the time that rates of this load refer to."""
        return self.sum(f"window_{name}") if self._sustained else self.sum(name)

    def rate(self, name: str) -> float | None:
        """Return the rate per second; None when the sum is not positive."""
        return ratio(self.done(name), self.time_s) if self.sum(name) > 0 else None

    @property
    def last_done_s(self) -> float | None:
        """Time from the release until the last job is done."""
        return self.record.last_done_s

    @property
    def nodes(self) -> int:
        """Number of nodes that ran jobs."""
        return self.record.nodes

    @property
    def computes(self) -> bool:
        """Whether its jobs compute. For jobs that only load the storage, CPU time is the cost of
        requests.
        """
        return not self.record.workload.loads_storage

    @cached_property
    def requested_bytes(self) -> float:
        """Bytes that the jobs read and wrote."""
        return self.sum("bytes_asked") + self.sum("bytes_written")

    @cached_property
    def device_bytes(self) -> float:
        """Bytes that the devices moved; without device counters, those the kernel charged to the
        jobs.
        """
        device = self.record.device
        return (
            self.sum("bytes_device") if device is None else device.bytes_read + device.bytes_written
        )

    @cached_property
    def network_bytes(self) -> float | None:
        """Bytes sent and received by the nodes that run jobs; None when no node was sampled."""
        network: Mapping[str, Any] = self.record.probes.get("network") or {}
        nodes = [counts for name, counts in network.items() if name.startswith("node-")]
        return (
            sum(counts["bytes_sent"] + counts["bytes_received"] for counts in nodes)
            if nodes
            else None
        )

    @property
    def own_rates(self) -> Mapping[str, float | None]:
        """Rates that the workload measured itself, by name."""
        return self.record.results.get("rates") or {}
