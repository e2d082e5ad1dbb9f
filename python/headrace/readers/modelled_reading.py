"""An event-reading job as a profile made from the layout of its files.

`simulate` runs it for scan, analysis and skim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from headrace.datasets.layout import FileLayout
from headrace.errors import HeadraceError
from headrace.jobs import ModelledJob
from headrace.readers import costs
from headrace.readers.asking import Asked, asked, opening
from headrace.readers.modelled_data import ModelledData
from headrace.readers.options import ReadingOptions
from headrace.readers.uproot_reader import FEW_COLUMNS
from headrace.scenario import Access, AccessList, FileSet, Packets, Parallel, Step

FILE = "data"
"""Name of the file set that is read."""

JOB_MEMORY_BYTES = 400_000_000
"""Resident memory of a job with uproot and its arrays, or with ROOT: measured on `bench`."""

CLUSTERS_AHEAD = 1
"""Clusters of an RNTuple that ROOT reads ahead (RNTupleReadOptions: a bunch of one cluster)."""

TASKS_PER_THREAD = 10
"""ROOT's TTreeProcessorMT::GetTasksPerWorkerHint (6.40)."""

_NS_A_S = 1_000_000_000


def modelled_reading(
    options: ReadingOptions,
    data: ModelledData,
    columns: Sequence[str] | None,
    event_ns: int,
    *,
    fraction: float = 1.0,
    packets: bool = False,
    after_run: Callable[[Asked], list[Step]] | None = None,
) -> ModelledJob:
    """Return a job that reads `columns` (None: all) of one file, with `event_ns` of CPU per event.

    `packets`: it gets packets of clusters of any file. `after_run` returns further steps after each
    run of events.
    """
    if packets and options.threads > 1:
        raise HeadraceError("jobs that are fed by packets have one thread: threads = 1")
    layout = data.layout
    cost = costs.READING[options.reader, data.format]
    access = "mapped" if options.reader == "uproot" and options.access == "mmap" else "buffered"
    page_by_page = options.reader == "uproot" and data.format == "rntuple"
    ahead = CLUSTERS_AHEAD if options.reader != "uproot" and data.format == "rntuple" else 0
    read = data.columns(columns, options.reader)
    runs = asked(
        layout,
        options.reader,
        read,
        step_events=options.step_events,
        fraction=fraction,
        cut=data.own is not None,
        by_cluster=packets or options.threads > 1,
        besides=data.besides(read, options.reader),
    )
    steps = _opening(options, layout, cost.open_ns + cost.listed_ns * len(layout.pieces), access)
    worked: list[list[Step]] = []
    for run in runs:
        work = _work_ns(options, data, run) + event_ns * run.events
        each = work // (len(run.ranges) + 1) if page_by_page else 0
        step = _run_step(run, work, each, access)
        if ahead:
            step["ahead"] = ahead
        elif (vector := _together(options, run, columns)) > 1 and not page_by_page:
            step["vector"] = vector
        worked.append([step, *(after_run(run) if after_run is not None else [])])
    steps += _shared(options.threads, worked, steps, is_ntuple=data.format == "rntuple")
    steps.append({"do": "close", "file": FILE})
    return ModelledJob(
        steps=steps,
        files=[_input_file(data)],
        memory_bytes=JOB_MEMORY_BYTES,
        events=sum(run.events for run in runs),
        packets=_packets(layout, runs),
        run={"cpu_variation": costs.PIECES_VARY},
        description={"layout": data.description},
    )


def _work_ns(options: ReadingOptions, data: ModelledData, run: Asked) -> int:
    """Return the CPU time of reading a run of events."""
    cost = costs.READING[options.reader, data.format]
    byte_ns = cost.byte_ns + (costs.DECOMPRESSION_NS[data.codec] if data.compressed else 0.0)
    return round(
        costs.STEP_NS[options.reader]
        + cost.piece_ns * run.pieces
        + byte_ns * run.uncompressed_bytes
    )


def _shared(
    threads: int, worked: Sequence[list[Step]], opening: Sequence[Step], *, is_ntuple: bool
) -> list[Step]:
    """Return the steps of all runs of events, in turn or shared by threads as RDataFrame does it.

    A TTree is cut into at most ten tasks per thread, which take them in order; each thread opens
    the file for itself (TTreeProcessorMT). An RNTuple is cut into one range of clusters per thread,
    which share its metadata (RNTupleDS::PrepareNextRanges). The first parts have a cluster more.
    """
    if threads == 1:
        return [step for each in worked for step in each]
    parts = min(threads if is_ntuple else TASKS_PER_THREAD * threads, len(worked))
    least, more = divmod(len(worked), parts)
    edges = [least * number + min(number, more) for number in range(parts + 1)]
    together: Parallel = {
        "do": "parallel",
        "threads": threads,
        "begin": list(opening[:1] if is_ntuple else opening),
        "parts": [
            [step for each in worked[begin:end] for step in each] for begin, end in pairwise(edges)
        ],
    }
    return [together]


def _together(options: ReadingOptions, run: Asked, columns: Sequence[str] | None) -> int:
    """Return how many ranges of a run of a TTree are one request where the protocol has vectored
    reads: all of ROOT's cache, and uproot's baskets of a column or, of many columns, of all."""
    alone = options.reader == "uproot" and columns is not None and len(columns) <= FEW_COLUMNS
    return -(-len(run.ranges) // len(columns)) if alone and columns else len(run.ranges)


def _opening(
    options: ReadingOptions, layout: FileLayout, work_ns: int, access: Access
) -> list[Step]:
    """Return the steps that open a file and read its metadata."""
    read: AccessList = {
        "do": "sequence",
        "file": FILE,
        "ranges_bytes": list(opening(layout, options.reader)),
        "cpu_after_ns": work_ns,
        "access": access,
    }
    if options.reader == "uproot":
        read["new_file"] = True  # the last file stays open
    return [{"do": "open", "file": FILE}, read]


def _input_file(data: ModelledData) -> FileSet:
    return {
        "name": FILE,
        "on": "target",
        "bytes": data.layout.file_bytes,
        "count": data.files,
        "share": "each",
    }


def _run_step(run: Asked, work_ns: int, page_ns: int, access: Access) -> AccessList:
    """Return the step that reads a run of events: `work_ns` of CPU, of it `page_ns` after every
    range."""
    step: AccessList = {
        "do": "sequence",
        "file": FILE,
        "ranges_bytes": list(run.ranges),
        "cpu_after_ns": work_ns - page_ns * len(run.ranges),
        "access": access,
        "events": run.events,
        "uncompressed_bytes": run.uncompressed_bytes,
        "first_event": run.first_event,
    }
    if page_ns:
        step["cpu_ns"] = [page_ns] * len(run.ranges)
    return step


def first_look(data: ModelledData, options: ReadingOptions, column: str) -> AccessList:
    """Return the step of a job that opens its file with uproot and reads one event of a column."""
    layout = data.layout
    first = asked(layout, "uproot", [column], step_events=1)[0].ranges
    ranges = (*opening(layout, "uproot"), *(first if data.format == "rntuple" else first[:1]))
    cost = costs.READING["uproot", data.format]
    work_ns = cost.open_ns + cost.listed_ns * len(layout.pieces)
    return {"do": "sequence", "file": FILE, "ranges_bytes": list(ranges), "cpu_after_ns": work_ns}


def _packets(layout: FileLayout, runs: Sequence[Asked]) -> Packets:
    """Return packets of whole runs, about 1 s each; the master is as fast as Headrace's."""
    largest = max(run.events for run in runs)
    return {
        "file": FILE,
        "events_per_file": layout.events,
        "first_events": largest,
        "target_ns": _NS_A_S,
        "min_events": largest,
        "max_events": max(largest, 50 * largest),
        "master_ns": 100_000,
        "round_trip_ns": 200_000,
    }
