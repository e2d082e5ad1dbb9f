"""Skim with ROOT: RDataFrame filters events and writes the survivors with Snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.datasets.writing.compression import USUAL_LEVELS
from headrace.datasets.writing.events_file import TREE_NAME
from headrace.readers.options import ReadingOptions
from headrace.readers.root_reader import RootTotals, counted, root
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
    totals = RootTotals()
    files: list[Path] = []
    for number, span in enumerate(spans_of(job)):
        path = job.scratch / f"skim-{job.slot}-{number}.root"
        with counted(span.file, data.format == "rntuple", totals):
            # RDataFrame silently reads a recovered file, or one that bypasses its server.
            module.headrace.opened(span.file).Close()
            frame = module.RDataFrame(TREE_NAME, span.file)
            total = int(frame.Count().GetValue())
            columns = [str(column) for column in frame.GetColumnNames() if "." not in str(column)]
            columns = [column for column in columns if not column.startswith("R_rdf_sizeof")]
            fed = module.headrace.Columns(module.std.vector["std::string"](columns))
            work = module.headrace.Nothing()
            module.headrace.fed_columns, module.headrace.fed_work = fed, work
            module.headrace.fed_offset_bytes = 4 if data.format == "ttree" else 8
            asked = total - span.first_event if span.events is None else span.events
            chosen = frame.Range(
                span.first_event, span.first_event + max(1, round(asked * fraction))
            )
            read = chosen.Filter(f"headrace::feed({', '.join(columns)})")
            kept = read.Filter(f"{_LEPTONS} >= {min_leptons}")
            survivors, events = kept.Count(), read.Count()
            kept.Snapshot(TREE_NAME, str(path), columns, _snapshot_options(module, options))
            totals.found += int(survivors.GetValue())
            totals.add(span.file, int(events.GetValue()))
            totals.bytes_uncompressed += int(fed.bytes)
        files.append(path)
    totals.finish(options, job, whole=fraction == 1.0)
    return totals, files


def _snapshot_options(module: Any, options: ReadingOptions) -> Any:
    data = options.generated
    chosen = module.RDF.RSnapshotOptions()
    algorithms = module.RCompressionSetting.EAlgorithm
    chosen.fCompressionAlgorithm = {
        "zlib": algorithms.kZLIB,
        "lz4": algorithms.kLZ4,
        "zstd": algorithms.kZSTD,
        "lzma": algorithms.kLZMA,
    }[data.codec]
    chosen.fCompressionLevel = USUAL_LEVELS[data.codec] if data.level is None else data.level
    formats = module.RDF.ESnapshotOutputFormat
    chosen.fOutputFormat = formats.kTTree if data.format == "ttree" else formats.kRNTuple
    return chosen
