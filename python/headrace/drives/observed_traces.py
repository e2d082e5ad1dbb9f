"""A measured trace that a drive, or a RAID of such drives, is fitted to."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace import _core
from headrace.catalog import CatalogEntry
from headrace.drives.running import replay_trace
from headrace.drives.traces import OP_WORDS, READ, WRITE, Trace, read_trace
from headrace.drives.validating import check_times, demerit_ns, measured_ns
from headrace.errors import FileProblem, StudyError
from headrace.scenario import Table
from headrace.text_file import decoded

MOST_REQUESTS = 4000
"""Requests from the start of a trace that the fit replays again and again."""
FEWEST = 50
"""Operations with fewer requests have no quantiles."""
SHOWN = (0.1, 0.5, 0.9, 0.99)
RATIO_WEIGHT = 0.1
"""What the logarithm of model/measured counts beside the distance: short times, such as those of a
cache, would have no weight, and tell overheads."""
_FITTED = (np.arange(20) + 0.5) / 20
"""Quantiles that the fit compares: their root mean square distance is a short demerit."""

_HEAD_BYTES = 1 << 16
_FIO = re.compile(r'^\{\s*"fio version"|^\d;fio-\d|^\S.*: \(g=\d+\): rw=', re.MULTILINE)
"""JSON of fio, its terse output, and its normal output, which the reader of results refuses."""

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TraceReplay:
    """How traces are replayed."""

    seed: int = 0
    angles: int = 2
    """Replays with different angles of the platter at the start, which no trace tells."""
    raid: Table | None = None
    """The RAID of equal drives that served the trace: `RaidSpec` of crates/model."""


@dataclass(frozen=True)
class ObservedTrace:
    """A trace with measured response times."""

    name: str
    trace: Trace
    how: TraceReplay
    entry: CatalogEntry
    values: dict[str, float]
    """Measured quantiles of response times in nanoseconds."""
    mean_ns: float

    def model(self, table: Table) -> dict[str, float]:
        """Return the model's quantiles."""
        times_ns = self._times(table)
        return _quantiles(np.tile(self.trace.op, len(times_ns)), np.concatenate(times_ns))

    def misfit(self, table: Table) -> Values:
        """Return the differences of quantiles by operation, divided by the measured mean, and the
        logarithms of their ratios."""
        times_ns = np.concatenate(self._times(table))
        ops = np.tile(self.trace.op, self.how.angles)
        parts: list[Values] = []
        for op in (READ, WRITE):
            mine = self.trace.op == op
            if int(mine.sum()) >= FEWEST:
                real_ns = np.quantile(measured_ns(self.trace)[mine], _FITTED)
                model_ns = np.quantile(times_ns[ops == op], _FITTED)
                share = np.sqrt(float(mine.sum()) / len(self.trace))
                parts.append((model_ns - real_ns) / self.mean_ns * share)
                # A time that a coarse clock rounded to 0 has no ratio to any other.
                told_ns = np.where(real_ns > 0, real_ns, np.maximum(model_ns, 1.0))
                ratio = np.log(np.maximum(model_ns, 1.0) / told_ns)
                parts.append(RATIO_WEIGHT * ratio * share)
        return np.concatenate(parts)

    def demerit(self, table: Table) -> float:
        """Return the demerit of the model divided by the measured mean."""
        real_ns = measured_ns(self.trace)
        found = [demerit_ns(real_ns, each) for each in self._times(table)]
        return float(np.mean(found)) / self.mean_ns

    def _times(self, table: Table) -> list[Values]:
        drive = replace(self.entry, table=table)
        seeds = range(self.how.seed, self.how.seed + self.how.angles)
        return [
            replay_trace(drive, self.trace, iodepth=0, seed=seed, raid=self.how.raid).astype(
                np.float64
            )
            for seed in seeds
        ]


def is_trace(file: Path) -> bool:
    """Return whether a file is a trace, not a result of fio."""
    if not file.is_file():
        return file.is_dir() or bool(_core.trace_files(str(file)))
    with file.open("rb") as text:
        # fio's warnings come before its JSON, in which its version is the first field.
        head = decoded(text.read(_HEAD_BYTES))
    return not (head.lstrip().startswith("{") or _FIO.search(head))


def observe_trace(file: Path, entry: CatalogEntry, how: TraceReplay) -> ObservedTrace:
    """Read a trace. Raises StudyError if it is none, lacks response times, or has too few
    requests."""
    trace = read_trace(file)
    times_ns = measured_ns(trace)[:MOST_REQUESTS]
    assert trace.response_ns is not None
    short = Trace(
        trace.file,
        trace.time_ns[:MOST_REQUESTS],
        trace.op[:MOST_REQUESTS],
        trace.sector[:MOST_REQUESTS],
        trace.sectors[:MOST_REQUESTS],
        trace.response_ns[:MOST_REQUESTS],
    )
    _check_requests(short)
    check_times(short)
    values = _quantiles(short.op, times_ns)
    return ObservedTrace(file.name, short, how, entry, values, float(times_ns.mean()))


def _check_requests(trace: Trace) -> None:
    """Raise StudyError if no operation has enough requests for quantiles."""
    reads, writes = (int((trace.op == op).sum()) for op in (READ, WRITE))
    if max(reads, writes) < FEWEST:
        first = f" in the first {MOST_REQUESTS} requests" if len(trace) == MOST_REQUESTS else ""
        counts = f"{reads} reads and {writes} writes{first}"
        needed = f"at least {FEWEST} reads or {FEWEST} writes"
        problem = FileProblem(trace.file, 0, "", counts, "too few requests for a fit", needed)
        raise StudyError([problem])


def _quantiles(op: npt.NDArray[np.uint8], times_ns: Values) -> dict[str, float]:
    found: dict[str, float] = {}
    for each in (READ, WRITE):
        mine = times_ns[op == each]
        if len(mine) >= FEWEST:
            for at in SHOWN:
                found[f"{OP_WORDS[each]}.p{at * 100:g}_ns"] = float(np.quantile(mine, at))
    return found
