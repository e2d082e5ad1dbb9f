"""A single catalog drive: run under a fio load, replay of traces, fit to fio's results.

Base layer: needs the catalog and the Rust core, but no studies.
"""

from __future__ import annotations

from headrace.drives.fio import Load, parse_fio_bytes, parse_fio_seconds
from headrace.drives.fitting import Fit, fit_drive
from headrace.drives.running import replay_trace, run_drive
from headrace.drives.traces import Trace, read_trace

__all__ = [
    "Fit",
    "Load",
    "Trace",
    "fit_drive",
    "parse_fio_bytes",
    "parse_fio_seconds",
    "read_trace",
    "replay_trace",
    "run_drive",
]
