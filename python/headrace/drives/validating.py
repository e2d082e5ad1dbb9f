"""A drive model against the response times of a real drive, request by request.

The demerit is the root mean square horizontal distance between the two distributions of response
times: at each of 10 000 quantiles, the difference of the times (Ruemmler and Wilkes, "An
introduction to disk drive modeling", IEEE Computer 27(3), 1994).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from headrace._core import SECTOR_BYTES
from headrace.drives.running import replay_trace
from headrace.drives.traces import OP_WORDS, Trace
from headrace.errors import FileProblem, StudyError
from headrace.scenario import Table
from headrace.whole_file import whole, write_errors

if TYPE_CHECKING:
    from headrace.catalog import CatalogEntry

Times = npt.NDArray[np.float64]

QUANTILES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
NEAR_BYTES = 1 << 20
_POINTS = np.linspace(1e-4, 1.0, 10_000)
_FEWEST = 20
"""Kinds of request with fewer requests are not compared."""


@dataclass(frozen=True)
class Kind:
    """Requests of one kind: operation, place, and the operation before."""

    name: str
    share: float
    measured_ns: float
    """Mean response time."""
    modelled_ns: float
    demerit_ns: float
    part_of_error: float
    """Part of the squared demerits of all kinds, weighted by their requests."""


@dataclass(frozen=True)
class Validation:
    """A replay beside the measurement."""

    drive: str
    traces: tuple[str, ...]
    requests: int
    measured_mean_ns: float
    modelled_mean_ns: float
    demerit_ns: float
    """Mean over the angles of the platter at the start."""
    demerits_ns: tuple[float, ...]
    """One for each angle; a single one for a drive without a platter."""
    null_demerit_ns: float
    """Demerit of a model whose every request takes the measured mean."""
    quantiles: tuple[tuple[float, float, float], ...]
    """Quantile, measured and modelled time in nanoseconds."""
    kinds: tuple[Kind, ...]
    """The kind with the largest part of the error first."""
    measured_ns: Times
    modelled_ns: Times
    """Response times of all angles."""


def demerit_ns(measured_ns: Times, modelled_ns: Times) -> float:
    """Return the root mean square horizontal distance between two distributions, nanoseconds."""
    apart = np.quantile(measured_ns, _POINTS) - np.quantile(modelled_ns, _POINTS)
    return float(np.sqrt(np.mean(apart**2)))


def validate_drive(
    found: CatalogEntry, traces: list[Trace], *, angles: int = 5, raid: Table | None = None
) -> Validation:
    """Replay traces of a real drive on its model, each on an unused model and at its own times, and
    compare the response times. `raid`: a RAID of such drives served them.

    `angles`: replays with different angles of a disk's platter at the start, which no trace tells.
    Raises StudyError for a trace without response times, or that the drive cannot serve.
    """
    if found.table["kind"] != "hdd":
        angles = 1
    for trace in traces:
        check_times(trace)
    measured = np.concatenate([measured_ns(trace) for trace in traces])
    kinds = np.concatenate([_kinds(trace) for trace in traces])
    replays = [
        np.concatenate(
            [
                replay_trace(found, trace, iodepth=0, seed=seed, raid=raid).astype(np.float64)
                for trace in traces
            ]
        )
        for seed in range(angles)
    ]
    demerits = [demerit_ns(measured, each) for each in replays]
    modelled = np.concatenate(replays)
    return Validation(
        drive=found.name,
        traces=tuple(str(trace.file) for trace in traces),
        requests=len(measured),
        measured_mean_ns=float(np.mean(measured)),
        modelled_mean_ns=float(np.mean(modelled)),
        demerit_ns=float(np.mean(demerits)),
        demerits_ns=tuple(demerits),
        null_demerit_ns=demerit_ns(measured, np.array([measured.mean()])),
        quantiles=tuple(
            (at, float(np.quantile(measured, at)), float(np.quantile(modelled, at)))
            for at in QUANTILES
        ),
        kinds=_compared(kinds, measured, np.tile(kinds, angles), modelled),
        measured_ns=measured,
        modelled_ns=modelled,
    )


def measured_ns(trace: Trace) -> Times:
    """Return the measured response times. Raises StudyError without them."""
    if trace.response_ns is None:
        raise StudyError(
            [
                FileProblem(
                    trace.file,
                    0,
                    "response_ns",
                    "",
                    "the trace does not have the completion of every request",
                    "a trace of a real drive with completions, or CSV with response_ns",
                )
            ]
        )
    return trace.response_ns.astype(np.float64)


def check_times(trace: Trace) -> None:
    """Raise StudyError if all measured response times are 0."""
    if not measured_ns(trace).any():
        problem = "every response time is 0: none was measured"
        allowed = "times from issue to completion in nanoseconds"
        raise StudyError([FileProblem(trace.file, 0, "response_ns", "0", problem, allowed)])


def _kinds(trace: Trace) -> npt.NDArray[np.str_]:
    """Return the kind of each request: operation, place against the request before, and the
    operation before."""
    words = np.array(OP_WORDS)
    start = trace.sector.astype(np.int64)
    end = start + trace.sectors
    apart = np.abs(np.diff(start, prepend=start[0])) * SECTOR_BYTES
    continues = start == np.concatenate([[-1], end[:-1]])
    place = np.where(continues, "sequential", np.where(apart < NEAR_BYTES, "near", "far"))
    before = words[np.concatenate([trace.op[:1], trace.op[:-1]])]
    return np.char.add(
        np.char.add(np.char.add(np.char.add(place, " "), words[trace.op]), " after "), before
    )


def _compared(
    kinds: npt.NDArray[np.str_],
    measured: Times,
    modelled_kinds: npt.NDArray[np.str_],
    modelled: Times,
) -> tuple[Kind, ...]:
    found: list[tuple[float, Kind]] = []
    for name in np.unique(kinds):
        here, there = measured[kinds == name], modelled[modelled_kinds == name]
        if len(here) < _FEWEST:
            continue
        apart = demerit_ns(here, there)
        share = len(here) / len(measured)
        kind = Kind(str(name), share, float(here.mean()), float(there.mean()), apart, 0.0)
        found.append((share * apart**2, kind))
    total = sum(weight for weight, _ in found) or 1.0
    found.sort(key=lambda each: -each[0])
    return tuple(
        Kind(
            kind.name,
            kind.share,
            kind.measured_ns,
            kind.modelled_ns,
            kind.demerit_ns,
            weight / total,
        )
        for weight, kind in found
    )


def save_distributions(validation: Validation, path: Path) -> None:
    """Draw both distributions of response times: PNG, SVG or PDF by the name's end. Raises
    HeadraceError if the file cannot be written, ValueError for another end."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "headrace"}):
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for name, times, dashes in (
            ("measured", validation.measured_ns, "-"),
            ("modelled", validation.modelled_ns, "--"),
        ):
            axes.plot(np.quantile(times, _POINTS) / 1e6, _POINTS, dashes, label=name)
        axes.set_xlabel("response time (ms)")
        axes.set_ylabel("share of requests")
        axes.set_title(f"{validation.drive}: demerit {validation.demerit_ns / 1e6:.3f} ms")
        axes.legend()
        axes.grid(alpha=0.3)
        without_date = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}.get(path.suffix)
        kind = path.suffix.removeprefix(".")

        def write(part: Path) -> None:
            figure.savefig(part, dpi=150, format=kind, metadata=without_date)

        with write_errors(path):
            whole(path, write, seeks=True)
