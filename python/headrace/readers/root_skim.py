"""Skim with ROOT: RDataFrame filters events and writes the survivors with Snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.datasets.spec import Codec, Format
from headrace.datasets.writing.compression import USUAL_LEVELS
from headrace.datasets.writing.events_file import TREE_NAME
from headrace.readers.options import ReadingOptions
from headrace.readers.own_columns import OwnNotes
from headrace.readers.root_lanes import Lanes, implicit_threads
from headrace.readers.root_own import OwnTrees, frame_of
from headrace.readers.root_reader import RootTotals, counted, feeding, plain_name, root
from headrace.readers.spans import spans_of

if TYPE_CHECKING:
    from headrace.jobs import JobInput

# The cuts of good_leptons in headrace.workloads.higgs.selection.
_GOOD = (
    "{0}_looseId && {0}_pt > {1} && abs({0}_eta) < {2} && {0}_pfRelIso{3}_all < 0.35f && "
    "abs({0}_dxy) < 0.5f && abs({0}_dz) < 1.0f"
)
_LEPTONS = (
    f"Sum({_GOOD.format('Electron', 7, '2.5f', '03')}) + "
    f"Sum({_GOOD.format('Muon', 5, '2.4f', '04')})"
)


def skim_with_root(
    options: ReadingOptions, job: JobInput, fraction: float, min_leptons: int
) -> tuple[RootTotals, list[Path]]:
    """Read the first `fraction` of each span and write one file per span.

    Return totals (`found`: survivors) and the files.
    """
    module = root()
    data = options.generated
    settings = snapshot_options(data.format, data.codec, data.level)
    totals = RootTotals()
    files: list[Path] = []
    with implicit_threads(module, options.threads):
        for number, span in enumerate(spans_of(job)):
            path = job.scratch / f"skim-{job.slot}-{number}.root"
            with (
                counted(span.file, data.format == "rntuple", totals) as source,
                plain_name(str(job.scratch)) as scratch,
            ):
                # RDataFrame silently reads a recovered file, or one that bypasses its server.
                module.headrace.opened(source).Close()
                frame = module.RDataFrame(TREE_NAME, source)
                total = int(frame.Count().GetValue())
                columns = [
                    str(column) for column in frame.GetColumnNames() if "." not in str(column)
                ]
                columns = [column for column in columns if not column.startswith("R_rdf_sizeof")]
                lanes = nothing_done(options, columns)
                module.headrace.fed_lanes = lanes.kernel
                module.headrace.fed_offset_bytes = 4 if data.format == "ttree" else 8
                asked = total - span.first_event if span.events is None else span.events
                stop = span.first_event + max(1, round(asked * fraction))
                # RDataFrame's Range has one thread; several threads read whole files.
                chosen = frame if options.threads > 1 else frame.Range(span.first_event, stop)
                read = chosen.Filter(feeding(columns))
                kept = read.Filter(f"{_LEPTONS} >= {min_leptons}")
                survivors, events = kept.Count(), read.Count()
                kept.Snapshot(TREE_NAME, f"{scratch}/{path.name}", columns, settings)
                totals.found += int(survivors.GetValue())
                totals.add(span.file, int(events.GetValue()))
                totals.bytes_uncompressed += lanes.bytes_uncompressed
            files.append(path)
    totals.finish(options, job, whole=fraction == 1.0)
    return totals, files


def skim_own_with_root(
    options: ReadingOptions,
    job: JobInput,
    columns: Sequence[str] | None,
    fraction: float,
    keep: float,
) -> tuple[RootTotals, list[Path], OwnNotes]:
    """Read the first `fraction` of each span and write one file per span, with evenly drawn events.

    The columns (None: all) are those of numbers and lists of numbers. A file is written in the
    format and compression of its source. Return totals (`found`: survivors), the files and notes.
    """
    module = root()
    totals, notes = RootTotals(), OwnNotes()
    files: list[Path] = []
    with (
        OwnTrees(options, totals) as trees,
        plain_name(str(job.scratch)) as scratch,
    ):
        for number, span in enumerate(spans_of(job)):
            copy = f"skim-{job.slot}-{number}.root"
            tree = trees.of(span.file)
            if not int(trees.frame(span.file).events):
                totals.add(span.file, 0)
                continue
            frame = frame_of(span, trees, columns, notes, copied=True)
            first = span.first_event
            events = (int(frame.own.events) if frame.stop < 0 else frame.stop) - first
            stop = -1 if options.threads > 1 else first + max(1, round(events * fraction))
            lanes = nothing_done(options, frame.names)
            format_: Format = "rntuple" if tree.is_ntuple else "ttree"
            settings = snapshot_options(format_, frame.codec, frame.level)
            with counted(span.file, tree.is_ntuple, totals):
                read, kept = module.headrace.skim_frame(
                    frame.own,
                    lanes.kernel,
                    frame.types,
                    frame.copies,
                    first,
                    stop,
                    tree.offset_bytes,
                    keep,
                    TREE_NAME,
                    f"{scratch}/{copy}",
                    settings,
                )
            totals.add(span.file, int(read))
            totals.found += int(kept)
            totals.bytes_uncompressed += lanes.bytes_uncompressed
            files.append(job.scratch / copy)
    totals.finish(options, job, whole=fraction == 1.0)
    return totals, files, notes


def nothing_done(options: ReadingOptions, columns: Sequence[str]) -> Lanes:
    """Return the lanes of a job that only counts the events and bytes that it reads."""
    module = root()
    return Lanes(module, options.threads, columns, lambda _: module.headrace.Nothing(), {})


def snapshot_options(format_: Format, codec: Codec, level: int | None) -> Any:
    """Return ROOT's settings for a file that is written in this format and compression."""
    module = root()
    chosen = module.RDF.RSnapshotOptions()
    algorithms = module.RCompressionSetting.EAlgorithm
    chosen.fCompressionAlgorithm = {
        "zlib": algorithms.kZLIB,
        "lz4": algorithms.kLZ4,
        "zstd": algorithms.kZSTD,
        "lzma": algorithms.kLZMA,
    }[codec]
    chosen.fCompressionLevel = USUAL_LEVELS[codec] if level is None else level
    formats = module.RDF.ESnapshotOutputFormat
    chosen.fOutputFormat = formats.kTTree if format_ == "ttree" else formats.kRNTuple
    return chosen
