"""The user's own files with ROOT: in a classic event loop or with RDataFrame.

For a TTree, the event loop reads every branch, including those of classes for which ROOT has no
code, from the class descriptions in the file. For an RNTuple, and with RDataFrame, columns of
numbers and lists of numbers are read; the others are left out, and the job's results name them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.datasets.branch_columns import unique_names
from headrace.datasets.number_types import numbers_of
from headrace.datasets.spec import Codec
from headrace.datasets.tree_choice import choose_tree
from headrace.datasets.trees import codec_of
from headrace.errors import HeadraceError
from headrace.readers.options import ReadingOptions
from headrace.readers.own_columns import OwnNotes, facts_of, matching
from headrace.readers.root_lanes import Lanes, implicit_threads
from headrace.readers.root_reader import (
    RootTotals,
    counted,
    plain_name,
    root,
    root_frames,
    root_ntuples,
)
from headrace.readers.root_steps import compile_for_file, compile_steps
from headrace.readers.spans import Span, spans_of
from headrace.readers.tables import plain_column

if TYPE_CHECKING:
    from headrace.jobs import Histogram, JobInput, JobOutput


@dataclass(frozen=True)
class Tree:
    """The tree that a job reads in a file."""

    name: str
    is_ntuple: bool

    @property
    def offset_bytes(self) -> int:
        """Bytes of one offset of a list, in the tree's format."""
        return 8 if self.is_ntuple else 4


class OwnTrees:
    """A context manager: the trees of one job's files. Each file is searched once.

    RDataFrame shares its loops among the threads of the options within it: a frame must be made
    when ROOT has its threads.
    """

    def __init__(self, options: ReadingOptions, totals: RootTotals) -> None:
        assert options.own is not None, "generated data is read"
        self._wanted = options.own.tree
        self.threads = options.threads
        """Threads that share a loop of RDataFrame."""
        self._shared = ExitStack()
        self._totals = totals
        self._found: dict[str, Tree] = {}
        self._frame: tuple[str, Any] | None = None
        self._stack = ExitStack()

    def __enter__(self) -> OwnTrees:
        self._shared.enter_context(implicit_threads(root(), self.threads))
        return self

    def __exit__(self, *raised: object) -> None:
        self._close()
        self._shared.close()

    def of(self, file: str) -> Tree:
        """Return the tree of a file. Raises HeadraceError when there is none."""
        if file not in self._found:
            module = root()
            # ROOT reads the keys of a file through TFile, also those of an RNTuple.
            with counted(file, False, self._totals) as path:
                kinds = {str(name): str(kind) for name, kind in module.headrace.trees_of(path)}

                def events(names: Sequence[str]) -> list[int]:
                    strings = module.std.vector["std::string"](list(names))
                    return [int(count) for count in module.headrace.events_of(path, strings)]

                tree = choose_tree(kinds, self._wanted, file, events)
            self._found[file] = Tree(tree, kinds[tree].endswith("RNTuple"))
        return self._found[file]

    def frame(self, file: str) -> Any:
        """Return the kernel's OwnFrame of a file; it stays open until the next file."""
        tree = self.of(file)
        if self._frame is None or self._frame[0] != file:
            self._close()
            # ROOT opens the file of an RNTuple again at each loop.
            path = self._stack.enter_context(plain_name(file))
            with counted(file, tree.is_ntuple, self._totals):
                opened = root_frames().headrace.OwnFrame(path, tree.name, tree.is_ntuple)
            self._frame = file, opened
        return self._frame[1]

    def _close(self) -> None:
        self._frame = None
        self._stack.close()


@dataclass(frozen=True)
class Frame:
    """What RDataFrame reads of one span of events."""

    own: Any
    """The file, in the kernel's form."""
    names: list[str]
    """The columns, by the names that RDataFrame has for them."""
    types: Any
    """Their types, in the kernel's form."""
    copies: Any
    """Their names in a copy, in the kernel's form."""
    stop: int
    """The first event after the span; -1: to the end of the file."""
    codec: Codec
    level: int


def frame_of(
    span: Span,
    trees: OwnTrees,
    wanted: Sequence[str] | None,
    notes: OwnNotes,
    variable: str | None = None,
    *,
    copied: bool = False,
) -> Frame:
    """Return what RDataFrame reads of a span: the columns that are numbers or lists of numbers.

    The variable is the first column. What reads their types, and writes them when `copied`, is
    compiled. Raises HeadraceError for missing columns and events.
    """
    found = trees.frame(span.file)
    types = _types_of(span.file, trees, wanted, notes, variable)
    compile_steps(types.values(), copied=copied)
    stop = -1 if span.events is None else span.first_event + span.events
    if stop > int(found.events):
        raise HeadraceError(f"{span.file}: has only {int(found.events)} events")
    module = root()
    strings = module.std.vector["std::string"]
    every = _names_of(span.file, trees)
    names = [str(found.names[every.index(column)]) for column in types]
    if trees.threads > 1 and (lacking := [name for name in names if found.offsetless.count(name)]):
        raise HeadraceError(
            f"{span.file}: column {lacking[0]} has no stored offsets (ROOT's kGenerateOffsetMap): "
            "several threads of RDataFrame take its numbers from wrong events",
            hint="threads = 1, or another reader",
        )
    codec, level = codec_of(int(found.compression))
    return Frame(
        found,
        names,
        strings(list(types.values())),
        strings(_copies(names, list(types), found)),
        stop,
        codec,
        level,
    )


def _names_of(file: str, trees: OwnTrees) -> list[str]:
    """Return the names of all columns of a file, in its order."""
    paths = [str(path) for path in trees.frame(file).paths]
    return paths if trees.of(file).is_ntuple else list(unique_names(paths).values())


def _types_of(
    file: str,
    trees: OwnTrees,
    wanted: Sequence[str] | None,
    notes: OwnNotes,
    variable: str | None,
) -> dict[str, str]:
    """Return C++'s types of the wanted columns that hold numbers, the variable first.

    Raises HeadraceError for missing columns.
    """
    found = (str(kind) for kind in trees.frame(file).types)
    types = dict(zip(_names_of(file, trees), found, strict=True))
    columns = _numbers(types, wanted, file, notes, variable)
    return {column: str(numbers_of(types[column])) for column in columns}


def compile_for_own(
    options: ReadingOptions,
    wanted: Sequence[str] | None,
    variable: str | None = None,
    *,
    copied: bool = False,
) -> None:
    """Compile what reads (and copies) the columns of the user's files, by the first of them.

    On a node that does not have it, compile this for all types.
    """

    def types() -> list[str]:
        assert options.own is not None, "generated data is read"
        with OwnTrees(options.model_copy(update={"threads": 1}), RootTotals()) as trees:
            first = str(facts_of(options.own).file)
            return [*_types_of(first, trees, wanted, OwnNotes(), variable).values()]

    compile_for_file(types, copied=copied)


def _copies(names: Sequence[str], columns: Sequence[str], own: Any) -> list[str]:
    """Return a name for the copy of each column: that of uproot's skim, and valid in C++.

    It is not the name of another column, which a later step could then not reach.
    """
    known = {str(name) for name in own.known}
    taken: set[str] = set()
    found: list[str] = []
    for name, column in zip(names, columns, strict=True):
        plain = plain_column(column, taken | (known - {name}))
        taken.add(plain)
        found.append(plain)
    return found


def scan_own_files(
    options: ReadingOptions,
    job: JobInput,
    variable: str | None,
    wanted: Sequence[str],
    axis: tuple[int, float, float],
    so_far: Callable[[RootTotals, Histogram, OwnNotes], JobOutput] | None = None,
) -> tuple[RootTotals, Histogram, OwnNotes]:
    """Read the wanted columns (names or patterns) of everything that a job reads.

    The variable is the first of them; None: no histogram is filled, which RDataFrame refuses.

    Return totals, the variable's histogram as numbers, and notes; `so_far` makes the output of a
    job that is fed by packets from them. Raises HeadraceError for a file that cannot be read
    completely.
    """
    # A file may turn out to hold an RNTuple: no job should have to compile for it then.
    module = root_ntuples() if options.reader == "event-loop" else root()
    totals, notes = RootTotals(), OwnNotes()
    bins, low, high = axis
    histogram = module.headrace.Histogram(bins, low, high)

    def done() -> tuple[RootTotals, Histogram, OwnNotes]:
        counts = [int(count) for count in histogram.counts]
        return totals, {"low": low, "high": high, "counts": counts}, notes

    part = None if so_far is None else lambda: so_far(*done())
    with OwnTrees(options, totals) as trees:
        for span in spans_of(job, part):
            tree = trees.of(span.file)
            if options.reader == "rdataframe":
                read = _by_frame(span, trees, wanted, histogram, notes, totals, options.threads)
            else:
                with counted(span.file, tree.is_ntuple, totals) as path:
                    if tree.is_ntuple:
                        read = _by_fields(span, path, tree.name, wanted, histogram, notes, totals)
                    else:
                        read = _by_branches(
                            span, path, tree.name, variable, wanted, histogram, totals
                        )
            totals.add(span.file, read)
    totals.finish(options, job)
    return done()


def _by_frame(
    span: Span,
    trees: OwnTrees,
    wanted: Sequence[str],
    histogram: Any,
    notes: OwnNotes,
    totals: RootTotals,
    threads: int,
) -> int:
    """Run RDataFrame over a TTree or an RNTuple."""
    module = root()
    tree = trees.of(span.file)
    if not int(trees.frame(span.file).events):
        return 0  # ROOT writes no basket then, and there are no columns
    frame = frame_of(span, trees, wanted, notes, wanted[0])
    axes = {"histogram": (len(histogram.counts) - 2, histogram.low, histogram.high)}
    lanes = Lanes(module, threads, frame.names, lambda fed: module.headrace.Scan(fed, "\0"), axes)
    with counted(span.file, tree.is_ntuple, totals):
        read = module.headrace.loop_frame(
            frame.own,
            lanes.kernel,
            frame.types,
            span.first_event,
            frame.stop,
            tree.offset_bytes,
        )
    for index, count in enumerate(lanes.histograms()["histogram"]["counts"]):
        histogram.counts[index] += count
    totals.bytes_uncompressed += lanes.bytes_uncompressed
    return int(read)


def _by_branches(
    span: Span,
    path: str,
    tree: str,
    variable: str | None,
    wanted: Sequence[str],
    histogram: Any,
    totals: RootTotals,
) -> int:
    """Run a classic event loop over a TTree."""
    own = root().headrace.OwnTree(path, tree)
    if not int(own.tree.GetEntries()):
        return 0  # there are no baskets, and so no columns
    names = list(unique_names([str(path) for path in own.paths]).values())
    chosen = matching(names, wanted, span.file)
    own.choose([names.index(name) for name in chosen])
    count = -1 if span.events is None else span.events
    filled = -1 if variable is None else names.index(_first(variable, names))
    read = int(own.loop(filled, span.first_event, count, histogram))
    totals.bytes_uncompressed += int(own.bytes)
    return read


def _first(wanted: str, names: Sequence[str]) -> str:
    return matching(names, [wanted], "")[0]


def _by_fields(
    span: Span,
    path: str,
    ntuple: str,
    wanted: Sequence[str],
    histogram: Any,
    notes: OwnNotes,
    totals: RootTotals,
) -> int:
    """Run an event loop over the views of an RNTuple, for fields of numbers."""
    module = root()
    fields = module.headrace.ntuple_fields(path, ntuple)
    types = {str(name): str(kind) for name, kind in fields}
    columns = _numbers(types, wanted, span.file, notes, wanted[0])
    fed = module.headrace.Columns(module.std.vector["std::string"](columns))
    work = module.headrace.Scan(fed, "\0")
    work.histograms.emplace("histogram", histogram)
    count = -1 if span.events is None else span.events
    read = int(module.headrace.loop_ntuple(path, ntuple, fed, span.first_event, count, work))
    _add(histogram, work.histograms.at("histogram"))
    totals.bytes_uncompressed += int(fed.bytes)
    return read


def _add(histogram: Any, other: Any) -> None:
    """Take over the counts of the work's histogram, which began as a copy of this one."""
    for index in range(len(histogram.counts)):
        histogram.counts[index] = other.counts[index]


def _numbers(
    types: dict[str, str],
    wanted: Sequence[str] | None,
    file: str,
    notes: OwnNotes,
    variable: str | None,
) -> list[str]:
    """Return the wanted columns that hold numbers, the variable first; note the others."""
    chosen = matching(list(types), wanted, file)
    columns = [name for name in chosen if numbers_of(types[name])]
    notes.left_out.update(dict.fromkeys(name for name in chosen if name not in columns))
    if variable is None:
        return columns
    first = _first(variable, list(types))
    if first not in columns:
        kind = f": {types[first]}" if types[first] else ""
        raise HeadraceError(f"{file}: column {first} holds no numbers that this reader reads{kind}")
    return [first, *(name for name in columns if name != first)]
