"""A single catalog drive: run under a fio load, replay of traces, fit to fio's results.

Base layer: needs the catalog and the Rust core, but no studies.
"""

from __future__ import annotations

from headrace.drives.fio import Load, parse_fio_bytes, parse_fio_seconds
from headrace.drives.fitting import Fit, fit_drive
from headrace.drives.running import replay_trace, run_drive, run_series
from headrace.drives.traces import Trace, read_trace
from headrace.drives.validating import Validation, validate_drive

__all__ = [
    "Fit",
    "Load",
    "Trace",
    "Validation",
    "fit_drive",
    "parse_fio_bytes",
    "parse_fio_seconds",
    "read_trace",
    "replay_trace",
    "run_drive",
    "run_series",
    "validate_drive",
]
