"""Probe `trace`: records every block request of the target's devices as `trace/` in the record.

`[run] trace = true` enables it. A trace that lost events makes its trial invalid: its seeks, queues
and latencies would be wrong.
"""

from __future__ import annotations

from typing import Any, ClassVar

from headrace.errors import HeadraceError, Problem, StudyError
from headrace.probes import Probe, Totals, Watch
from headrace.probes.block import uppermost
from headrace.system.journal import Journal
from headrace.traces import Capture, Captured, lacking, open_trace, summarise, traced_device

FOLDER = "trace"


class TraceProbe(Probe):
    """No series; totals with the trace's main figures, by device."""

    kind: ClassVar[str] = "trace"
    default: ClassVar[bool] = False

    def __init__(self) -> None:
        self._journal: Journal | None = None
        self._capture: Capture | None = None

    def check(self) -> list[Problem]:
        """Return a problem without root or a kernel with block events."""
        found = lacking()
        return [] if found is None else [Problem(found[0], "[run] trace", found[1])]

    def start(self, watch: Watch) -> None:
        """Start to record. A target without a device (a network file system) has no trace."""
        names = sorted(uppermost(list(watch.device_names)))
        if not names:
            return
        devices = [traced_device(name) for name in names]  # before there is a journal to close
        self._journal = Journal.open(f"a trace of {', '.join(names)}")
        self._capture = Capture(self._journal, devices, watch.keep / FOLDER)
        try:
            self._capture.start()
        except BaseException:
            self._abandon()
            raise

    def sample(self) -> list[dict[str, Any]]:
        """Return no rows: everything is in the trace."""
        return []

    def finish(self) -> Totals:
        """Stop and summarise the trace."""
        if self._capture is None:
            return Totals()
        try:
            captured = self._capture.finish()
        except HeadraceError as error:
            return Totals({"events": 0}, [("trace-failed", error.message)])
        finally:
            self._abandon()
        invalid = (
            [("trace-lost-events", f"{captured.lost} events of the block trace were lost")]
            if captured.lost
            else []
        )
        return Totals(_values(captured), invalid)

    def _abandon(self) -> None:
        capture, journal, self._capture, self._journal = self._capture, self._journal, None, None
        try:
            if capture is not None:
                capture.abandon()
        finally:
            if journal is not None:
                journal.close()


def _values(captured: Captured) -> dict[str, Any]:
    by_device: dict[str, Any] = {}
    for name in captured.devices:
        try:
            statistics = summarise(open_trace(captured.directory, name))
        except StudyError:
            by_device[name] = {"requests": 0}
            continue
        total = statistics.total
        latency = total.dispatch_to_complete or total.queue_to_complete
        by_device[name] = {
            "requests": total.requests,
            "bytes": total.bytes,
            "seeks_per_s": total.seeks_per_s,
            "sequential_fraction": total.sequential_fraction,
            "queue_depth_mean": total.queue_depth_mean,
            "latency_ns_p50": latency.p50_ns if latency else None,
            "latency_ns_p99": latency.p99_ns if latency else None,
        }
    return {
        "folder": FOLDER,
        "events": captured.events,
        "lost": captured.lost,
        "devices": by_device,
    }
