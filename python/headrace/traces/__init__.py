"""Block traces: every request of jobs to a drive, captured, imported, summarised, drawn.

Base layer: a probe, the command line and `headrace drive` use it. crates/blocktrace does the work
in one pass over a trace, with memory bounded by the requests in flight; this package names files,
checks input, and draws.
"""

from __future__ import annotations

from headrace.traces.capture import Capture, Captured, traced_device
from headrace.traces.convert import convert
from headrace.traces.files import TraceFile, open_trace
from headrace.traces.means import lacking
from headrace.traces.pictures import draw
from headrace.traces.rows import RequestRows, read_rows
from headrace.traces.statistics import Latency, RequestGroup, Statistics, TraceDamage, summarise

__all__ = [
    "Capture",
    "Captured",
    "Latency",
    "RequestGroup",
    "RequestRows",
    "Statistics",
    "TraceDamage",
    "TraceFile",
    "convert",
    "draw",
    "lacking",
    "open_trace",
    "read_rows",
    "summarise",
    "traced_device",
]
