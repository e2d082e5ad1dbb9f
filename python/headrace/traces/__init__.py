"""Block traces: what jobs asked of a drive, request by request. Captured here, imported from others, summed up, drawn, converted.

Ground beside the way: a probe, the faces and `headrace drive` use it. The work is done by crates/blocktrace, in one pass over a trace
with memory bounded by the requests in flight; what stands here names files, checks what was asked, and draws.
"""

from __future__ import annotations

from headrace.traces.capture import Capture, Captured, traced_device
from headrace.traces.convert import convert
from headrace.traces.files import TraceFile, open_trace
from headrace.traces.means import lacking
from headrace.traces.pictures import draw
from headrace.traces.rows import Rows, read_rows
from headrace.traces.statistics import Damage, Latency, Part, Statistics, summarise

__all__ = [
    "Capture",
    "Captured",
    "Damage",
    "Latency",
    "Part",
    "Rows",
    "Statistics",
    "TraceFile",
    "convert",
    "draw",
    "lacking",
    "open_trace",
    "read_rows",
    "summarise",
    "traced_device",
]
