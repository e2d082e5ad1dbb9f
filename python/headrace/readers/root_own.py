"""The user's own files in a classic event loop of ROOT.

For a TTree, it reads every branch, including those of classes for which ROOT has no code, from the
class descriptions in the file. For an RNTuple, it reads fields of numbers and lists of numbers; the
others are left out, and the job's results name them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.datasets.trees import unique_names
from headrace.errors import HeadraceError
from headrace.readers.options import ReadingOptions
from headrace.readers.own_columns import OwnNotes, matching
from headrace.readers.root_reader import RootTotals, counted, root, tree_of
from headrace.readers.spans import Span, spans_of

if TYPE_CHECKING:
    from headrace.jobs import JobInput

_NUMBER = (
    r"(?:Bool_t|bool|(?:signed |unsigned )?char|U?Char_t|U?Short_t|(?:unsigned "
    r")?short|U?Int_t|(?:unsigned )?int"
    r"|U?Long_t|U?Long64_t|(?:unsigned )?long(?: "
    r"long)?|(?:std::)?u?int(?:8|16|32|64)_t|Float_t|float|Double_t|double)"
)
_NUMBERS = re.compile(rf"(?:{_NUMBER}|ROOT::VecOps::RVec<{_NUMBER}>|(?:std::)?vector<{_NUMBER}>)")
"""Column types, as RDataFrame and RNTuple name them, that hold a number or a list of numbers."""


def scan_own_files(
    options: ReadingOptions,
    job: JobInput,
    variable: str,
    further: Sequence[str],
    axis: tuple[int, float, float],
) -> tuple[RootTotals, dict[str, Any], OwnNotes]:
    """Read the variable and further columns (names or patterns) of everything that a job reads.

    Return totals, the variable's histogram as numbers, and notes. Raises HeadraceError for a file
    that cannot be read completely.
    """
    module = root()
    totals, notes = RootTotals(), OwnNotes()
    bins, low, high = axis
    histogram = module.headrace.Histogram(bins, low, high)
    wanted = [variable, *further]
    for span in spans_of(job):
        tree, is_ntuple = tree_of(options, span.file)
        with counted(span.file, is_ntuple, totals):
            if is_ntuple:
                read = _by_fields(span, tree, wanted, histogram, notes, totals)
            else:
                read = _by_branches(span, tree, wanted, histogram, totals)
            totals.add(span.file, read)
    totals.finish(options, job)
    counts = [int(count) for count in histogram.counts]
    return totals, {"low": low, "high": high, "counts": counts}, notes


def _by_branches(
    span: Span, tree: str, wanted: Sequence[str], histogram: Any, totals: RootTotals
) -> int:
    """Run a classic event loop over a TTree."""
    own = root().headrace.OwnTree(span.file, tree)
    names = list(unique_names([str(path) for path in own.paths]).values())
    chosen = matching(names, wanted, span.file)
    own.choose([names.index(name) for name in chosen])
    count = -1 if span.events is None else span.events
    variable = names.index(_first(wanted[0], names))
    read = int(own.loop(variable, span.first_event, count, histogram))
    totals.bytes_uncompressed += int(own.bytes)
    return read


def _first(wanted: str, names: Sequence[str]) -> str:
    return matching(names, [wanted], "")[0]


def _by_fields(
    span: Span,
    ntuple: str,
    wanted: Sequence[str],
    histogram: Any,
    notes: OwnNotes,
    totals: RootTotals,
) -> int:
    """Run an event loop over the views of an RNTuple, for fields of numbers."""
    module = root()
    fields = module.headrace.ntuple_fields(span.file, ntuple)
    types = {str(name): str(kind) for name, kind in fields}
    columns = _numbers(types, wanted, span.file, notes)
    fed = module.headrace.Columns(module.std.vector["std::string"](columns))
    work = module.headrace.Scan(fed, "\0")
    work.histograms.emplace("histogram", histogram)
    count = -1 if span.events is None else span.events
    read = int(module.headrace.loop_ntuple(span.file, ntuple, fed, span.first_event, count, work))
    _add(histogram, work.histograms.at("histogram"))
    totals.bytes_uncompressed += int(fed.bytes)
    return read


def _add(histogram: Any, other: Any) -> None:
    """Take over the counts of the work's histogram, which began as a copy of this one."""
    for index in range(len(histogram.counts)):
        histogram.counts[index] = other.counts[index]


def _numbers(types: dict[str, str], wanted: Sequence[str], file: str, notes: OwnNotes) -> list[str]:
    """Return the wanted columns that hold numbers, the first one first; note the others."""
    chosen = matching(list(types), wanted, file)
    columns = [name for name in chosen if _NUMBERS.fullmatch(types[name])]
    notes.left_out.update(dict.fromkeys(name for name in chosen if name not in columns))
    first = _first(wanted[0], list(types))
    if first not in columns:
        raise HeadraceError(
            f"{file}: column {first} holds no numbers that ROOT knows: {types[first]}"
        )
    return [first, *(name for name in columns if name != first)]
