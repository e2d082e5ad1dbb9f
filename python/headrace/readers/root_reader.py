"""Read events with ROOT: RDataFrame, or a classic event loop that ROOT's interpreter compiles.

Optional: needs the `root` package. The event loop is in kernel.hpp, that over an RNTuple in
ntuples.hpp; RDataFrame over the user's own files is in frames.hpp. For a TTree, the bytes requested
come from TFile's own counters. An RNTuple does not read through TFile, so they come from the
kernel's counters of this process; these include every other read of the process (the interpreter's
files, when it compiles something first). ROOT does not report how long reads took, nor which bytes
it read twice.
"""

from __future__ import annotations

import importlib
import os
import re
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.datasets.writing.events_file import TREE_NAME
from headrace.errors import HeadraceError
from headrace.readers.counted_source import is_url
from headrace.readers.options import ReadingOptions
from headrace.readers.root_lanes import Lanes, implicit_threads
from headrace.readers.spans import Span, spans_of
from headrace.readers.verification import verify

if TYPE_CHECKING:
    from headrace.jobs import Histogram, JobInput, JobOutput, ReadFields

_PLAIN = re.compile(r"[A-Za-z0-9_/.,+= -]+")
"""Paths of which ROOT interprets no character."""

_NOT_OPENED = ("cannot be opened as a ROOT file", "truncated: ")
"""What the kernel says of a file that ROOT cannot open, or only in part."""

_OF_CLASSES = re.compile(
    r"ReadClassBuffer|dictionary|StreamerInfo|CheckByteCount|custom streamer|EmulatedCollection",
    re.IGNORECASE,
)
"""What ROOT says of objects of classes for which it has no code, only their description."""

_DESCRIPTOR = re.compile(r"/proc/self/fd/\d+")


@cache
def root() -> Any:
    """Return the module ROOT, single-threaded, with the kernel compiled and errors kept."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the wheel warns that it is an alpha version
        module: Any = importlib.import_module("ROOT")
    module.gROOT.SetBatch(True)
    # Otherwise ROOT silently opens a file of a server on the same machine as a local file.
    module.gEnv.SetValue("TFile.ForceRemote", 1)
    _compile(module, "kernel.hpp")
    module.headrace.keep_errors()
    return module


@cache
def root_ntuples() -> Any:
    """Return the module ROOT, with the event loop over an RNTuple compiled, too."""
    module = root()
    _compile(module, "ntuples.hpp")
    return module


@cache
def root_frames() -> Any:
    """Return the module ROOT, with RDataFrame over the user's own files compiled, too."""
    module = root()
    _compile(module, "frames.hpp")
    return module


def _compile(module: Any, header: str) -> None:
    file = Path(__file__).with_name(header)
    # -O2 for the loop: by default, the interpreter compiles without optimisation.
    if not module.gInterpreter.Declare(f'#pragma cling optimize(2)\n#include "{file}"\n'):
        raise HeadraceError(f"{file}: ROOT cannot compile it")


@dataclass
class RootTotals:
    """Totals of what one job read."""

    bytes_uncompressed: int = 0
    bytes_asked: int = 0
    read_calls: int = 0
    bytes_unique: int = 0
    found: int = 0
    """Events that the work counted: four-lepton events of the search."""
    events_by_file: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, file: str, events: int) -> None:
        """Add the events read from a file."""
        self.events_by_file[file] = self.events_by_file.get(file, 0) + events

    def finish(self, options: ReadingOptions, job: JobInput, *, whole: bool = True) -> None:
        """Limit `bytes_unique` to the files' sizes, and verify the files when requested."""
        sizes = sum(Path(file).stat().st_size for file in self.events_by_file if not is_url(file))
        self.bytes_unique = min(self.bytes_asked, sizes) if sizes else self.bytes_asked
        if options.verify:
            key = None if options.own is None else options.own.key
            verify(self.events_by_file, whole=whole and job.packets is None, key=key)

    def output(self) -> ReadFields:
        """Return the reading fields of JobOutput."""
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
    so_far: Callable[[RootTotals, dict[str, Histogram]], JobOutput] | None = None,
) -> tuple[RootTotals, dict[str, Histogram]]:
    """Run the search, or a scan of the one column, over everything that a job reads.

    Returns totals and the histograms named in `axes`, as numbers; `so_far` makes the output of a
    job that is fed by packets from them. Raises HeadraceError for a file that cannot be read
    completely.
    """
    is_ntuple = options.generated.format == "rntuple"
    module = root_ntuples() if is_ntuple and options.reader == "event-loop" else root()
    totals = RootTotals()
    lanes: Lanes | None = None

    def done() -> tuple[RootTotals, dict[str, Histogram]]:
        if lanes is None:
            return totals, {}
        totals.bytes_uncompressed, totals.found = lanes.bytes_uncompressed, lanes.found
        return totals, lanes.histograms()

    def work_of(file: str) -> Callable[[Any], Any]:
        if search:
            return module.headrace.Search
        letter = _letter(file, columns[0])
        return lambda fed: module.headrace.Scan(fed, letter)

    part = None if so_far is None else lambda: so_far(*done())
    with implicit_threads(module, options.threads):
        for span in spans_of(job, part):
            if lanes is None:
                lanes = Lanes(module, options.threads, columns, work_of(span.file), axes)
            with counted(span.file, is_ntuple, totals) as path:
                totals.add(span.file, _read(module, options, span, path, lanes, columns))
    totals.finish(options, job)
    return done()


@contextmanager
def plain_name(path: str) -> Generator[str]:
    """Yield a name by which ROOT opens exactly this file, or uses exactly this folder.

    ROOT interprets some characters: `#` and `?` as parts of a URL, `|` as a list of files, `*` and
    `[` as patterns, `$` and `~` as variables. For a path with such characters, the name is that of
    a descriptor of this process, which the kernel resolves. A descriptor with O_PATH reads nothing.
    """
    if is_url(path) or _PLAIN.fullmatch(path):
        yield path
        return
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise HeadraceError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@contextmanager
def explained(file: str) -> Generator[str]:
    """Yield the name of a file for ROOT. Failures become a HeadraceError with the file's own name.

    This includes errors that ROOT only prints.
    """
    module = root()
    with plain_name(file) as path:
        module.headrace.forget_error()
        try:
            yield path
        except HeadraceError:
            raise
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            # What ROOT printed before is often the reason why the exception was thrown.
            before = str(module.headrace.first_error()).splitlines()[:1]
            thrown = _cause(lines)
            further = [text[:300] for text in before if text[:100] not in thrown]
            cause = "; ROOT says ".join([thrown, *further])
            raise _refused(file, _DESCRIPTOR.sub(lambda _: file, cause)) from error
        said = str(module.headrace.first_error())
        if said:
            said = _DESCRIPTOR.sub(lambda _: file, said.splitlines()[0])
            raise _refused(file, said[:300])


def _refused(file: str, said: str) -> HeadraceError:
    """Return the problem of a file that ROOT cannot read, by what ROOT says."""
    if said.startswith(_NOT_OPENED):
        return HeadraceError(f"{file}: damaged, or no ROOT file with events: {said}")
    if _OF_CLASSES.search(said):
        return HeadraceError(
            f"{file}: ROOT cannot read it without the code of its classes: {said}",
            hint='reader = "uproot" needs no code of classes',
        )
    return HeadraceError(
        f"{file}: ROOT cannot read it: {said}", hint="other readers tell whether it is damaged"
    )


@contextmanager
def counted(file: str, is_ntuple: bool, totals: RootTotals) -> Generator[str]:
    """Add the bytes requested within this context to `totals`. Otherwise like `explained`."""
    before = _asked(is_ntuple)
    with explained(file) as path:
        yield path
    after = _asked(is_ntuple)
    totals.bytes_asked += after[0] - before[0]
    totals.read_calls += after[1] - before[1]


def _read(
    module: Any,
    options: ReadingOptions,
    span: Span,
    path: str,
    lanes: Lanes,
    columns: Sequence[str],
) -> int:
    is_ntuple = options.generated.format == "rntuple"
    count = -1 if span.events is None else span.events
    if options.reader == "event-loop":
        loop = module.headrace.loop_ntuple if is_ntuple else module.headrace.loop_tree
        fed, work = lanes.first
        return int(loop(path, TREE_NAME, fed, span.first_event, count, work))
    # RDataFrame silently reads a recovered file, or one that bypasses its server.
    module.headrace.opened(path).Close()
    frame = module.RDataFrame(TREE_NAME, path)
    total = int(frame.Count().GetValue()) if span.events is not None else None
    if total is not None and span.first_event + count > total:
        raise HeadraceError(f"{span.file}: has only {total} events")
    module.headrace.fed_lanes = lanes.kernel
    module.headrace.fed_offset_bytes = 8 if is_ntuple else 4
    chosen = (
        frame if span.events is None else frame.Range(span.first_event, span.first_event + count)
    )
    return int(chosen.Filter(feeding(columns)).Count().GetValue())


def feeding(columns: Sequence[str]) -> str:
    """Return the step of RDataFrame that feeds columns to the kernel, as text."""
    return f"headrace::feed({', '.join(('rdfslot_', *columns))})"


def load_threads() -> None:
    """Load ROOT's library of implicit multithreading, which starts no thread by that."""
    root().gSystem.Load("libImt")


def _asked(is_ntuple: bool) -> tuple[int, int]:
    """Return the (bytes, calls) that this process has requested from files so far."""
    if not is_ntuple:
        return int(root().TFile.GetFileBytesRead()), int(root().TFile.GetFileReadCalls())
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"]), int(fields["syscr"])


def _letter(file: str, column: str) -> str:
    """Return the kernel's letter for the type of a column's values."""
    letters = {
        "float32": "f",
        "float64": "d",
        "int32": "i",
        "uint32": "u",
        "uint64": "L",
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
    """Return the message of a C++ exception, without the signature of the throwing function."""
    text = " ".join(lines)
    thrown = r"(?:RException|[a-z]+_error|out_of_range|invalid_argument|bad_alloc)"
    said = re.search(rf"{thrown}: (.+?)(?= At: | You can use | \(unchecked|$)", text)
    return (said.group(1) if said else text)[:200] or "unknown"
