"""Reads events with ROOT: RDataFrame, or a classic event loop that ROOT's interpreter compiles (higgs/kernel.hpp).

Optional: needs the `root` package. What was asked of the storage comes from TFile's own counters for a TTree; an RNTuple
does not read through TFile, and there the kernel's counters of this process are taken, which see whatever else the
process reads too (the interpreter's files, when something is compiled first). ROOT does not say how long reads took,
nor which bytes it read twice.
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace.workloads.higgs
from headrace.datasets.writing.events_file import TREE_NAME
from headrace.errors import HeadraceError
from headrace.readers.counted_source import is_url
from headrace.readers.options import ReadingOptions
from headrace.readers.spans import Span, spans_of
from headrace.readers.verification import verify

if TYPE_CHECKING:
    from headrace.workloads import JobInput


@cache
def root() -> Any:
    """The module ROOT with the kernel compiled, in one thread, its errors kept instead of printed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel says that it is an alpha
        module: Any = importlib.import_module("ROOT")
    module.gROOT.SetBatch(True)
    # ROOT would open a file of a server on the same machine as a local one, without a word.
    module.gEnv.SetValue("TFile.ForceRemote", 1)
    kernel = Path(headrace.workloads.higgs.__file__).with_name("kernel.hpp")
    # -O2 for the loop: the interpreter compiles without optimising otherwise.
    if not module.gInterpreter.Declare(f'#pragma cling optimize(2)\n#include "{kernel}"\n'):
        raise HeadraceError(f"{kernel}: ROOT cannot compile it")
    module.headrace.keep_errors()
    return module


@dataclass
class RootTotals:
    """What one job read."""

    bytes_uncompressed: int = 0
    bytes_asked: int = 0
    read_calls: int = 0
    bytes_unique: int = 0
    found: int = 0
    """Events that the work counted: four-lepton events of the search."""
    events_by_file: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, file: str, events: int) -> None:
        """Events of a file were read."""
        self.events_by_file[file] = self.events_by_file.get(file, 0) + events

    def finish(self, options: ReadingOptions, job: JobInput, *, whole: bool = True) -> None:
        """Bounds the bytes asked once by the files' sizes, and verifies the files when that is asked for."""
        sizes = sum(Path(file).stat().st_size for file in self.events_by_file if not is_url(file))
        self.bytes_unique = min(self.bytes_asked, sizes) if sizes else self.bytes_asked
        if options.verify:
            verify(self.events_by_file, whole=whole and job.packets is None)

    def output(self) -> dict[str, Any]:
        """The fields of a JobOutput that reading gives."""
        return {
            "events": sum(self.events_by_file.values()),
            "bytes_uncompressed": self.bytes_uncompressed,
            "bytes_asked": self.bytes_asked,
            "bytes_unique": self.bytes_unique,
            "read_calls": self.read_calls,
        }


def run_with_root(
    options: ReadingOptions,
    job: JobInput,
    columns: Sequence[str],
    axes: Mapping[str, tuple[int, float, float]],
    *,
    search: bool,
) -> tuple[RootTotals, dict[str, dict[str, Any]]]:
    """Runs the search, or a scan of the one column, over all that a job is to read.

    Returns totals and the histograms named in `axes`, as numbers. Raises HeadraceError for a file that cannot be read
    whole.
    """
    module = root()
    fed = module.headrace.Columns(module.std.vector["std::string"](list(columns)))
    works: list[Any] = [module.headrace.Search(fed)] if search else []
    totals = RootTotals()
    for span in spans_of(job):
        if not works:
            works.append(module.headrace.Scan(fed, _letter(span.file, columns[0])))
        if not totals.events_by_file:
            for name, (bins, low, high) in axes.items():
                works[0].add(name, bins, low, high)
        with counted(options, span.file, totals):
            totals.add(span.file, _read(module, options, span, fed, works[0], columns))
    totals.bytes_uncompressed = int(fed.bytes)
    totals.found = int(works[0].found) if works else 0
    totals.finish(options, job)
    histograms = {
        name: {
            "low": low,
            "high": high,
            "counts": [int(count) for count in works[0].histograms.at(name).counts],
        }
        for name, (_, low, high) in axes.items()
        if works
    }
    return totals, histograms


@contextmanager
def counted(options: ReadingOptions, file: str, totals: RootTotals) -> Generator[None]:
    """Adds what is asked of the storage meanwhile to `totals`; turns what goes wrong into a HeadraceError."""
    module = root()
    before = _asked(options)
    module.headrace.forget_error()
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise HeadraceError(f"{file}: damaged, or no ROOT file with events: {_cause(lines)}") from error
    said = str(module.headrace.first_error())
    if said:
        raise HeadraceError(f"{file}: damaged: ROOT says {said.splitlines()[0][:200]}")
    after = _asked(options)
    totals.bytes_asked += after[0] - before[0]
    totals.read_calls += after[1] - before[1]


def _read(
    module: Any, options: ReadingOptions, span: Span, fed: Any, work: Any, columns: Sequence[str]
) -> int:
    count = -1 if span.events is None else span.events
    if options.reader == "event-loop":
        loop = module.headrace.loop_tree if options.data.format == "ttree" else module.headrace.loop_ntuple
        return int(loop(span.file, TREE_NAME, fed, span.first_event, count, work))
    # RDataFrame would read a recovered file, or one past its server, without a word.
    module.headrace.opened(span.file).Close()
    frame = module.RDataFrame(TREE_NAME, span.file)
    total = int(frame.Count().GetValue()) if span.events is not None else None
    if total is not None and span.first_event + count > total:
        raise HeadraceError(f"{span.file}: has only {total} events")
    module.headrace.fed_columns = fed
    module.headrace.fed_work = work
    module.headrace.fed_offset_bytes = 4 if options.data.format == "ttree" else 8
    chosen = frame if span.events is None else frame.Range(span.first_event, span.first_event + count)
    return int(chosen.Filter(f"headrace::feed({', '.join(columns)})").Count().GetValue())


def _asked(options: ReadingOptions) -> tuple[int, int]:
    """(bytes, calls) that this process has asked of files so far."""
    if options.data.format == "ttree":
        return int(root().TFile.GetFileBytesRead()), int(root().TFile.GetFileReadCalls())
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"]), int(fields["syscr"])


def _letter(file: str, column: str) -> str:
    """The kernel's letter for the type of a column's values."""
    letters = {
        "float32": "f",
        "float64": "d",
        "int32": "i",
        "uint32": "u",
        "uint64": "l",
        "uint8": "b",
        "int8": "c",
        "bool": "?",
    }
    import uproot

    from headrace.readers.uproot_reader import readable

    with readable(file):
        opened: Any = uproot.open({file: TREE_NAME})
        if column not in opened.keys(recursive=False):
            raise HeadraceError(f"{file}: no column {column} in {TREE_NAME}")
        kind: Any = opened[column].array(entry_stop=1).type.content
        while hasattr(kind, "content"):
            kind = kind.content
        return letters[str(kind.primitive)]


def _cause(lines: list[str]) -> str:
    """What an exception out of C++ says happened, without the signature of the function that threw it."""
    text = " ".join(lines)
    said = re.search(r"(?:RException|runtime_error): (.+?)(?= At: | \(unchecked|$)", text)
    return (said.group(1) if said else text)[:200] or "unknown"
