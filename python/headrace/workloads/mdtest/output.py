"""Read mdtest's text output, versions 1 to 4 (src/mdtest.c of https://github.com/hpc/ior).

The rates are in the table headed `SUMMARY rate` (`SUMMARY:` in version 1.8). With `-P`, a table
`SUMMARY time` with the same rows follows, in seconds or milliseconds per operation; with `-Z`, it
is the only table. A run has a pair of tables for each number of tasks (`-f`, `-l`, `-s`), and one
file may hold several outputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.workloads.mdtest.phases import TITLES
from headrace.workloads.mdtest.rates import MOST_ITEMS, Imported, OutputError, Rate, count

_PHASE_OF = {title.lower(): phase for phase, title in TITLES.items()}
_HEADING = re.compile(r"^\s*SUMMARY(?: +(?P<what>rate|time))?\s*(?:\([^)]*\))?\s*:")
_ROW = re.compile(
    r"^\s*(?P<title>(?:Directory|File|Tree) [a-z]+)\s*:?\s+(?P<numbers>[-+.\d].*|-?nan.*|-?inf.*)$"
)
_LAUNCHED = re.compile(
    r"mdtest-(?P<version>\S+) was launched with (?P<tasks>\d+) total task\(s\) on (?P<nodes>\d+) "
    r"node"
)
_ITEMS = re.compile(r"^\s*(?P<tasks>\d+) tasks, (?P<items>\d+) (?:files|directories)")
_TIMES_ONLY = re.compile(r"^Command line used:.*\s[\"']?-[A-Za-z]*Z")
_FINISHED = re.compile(r"^\s*-{1,3} finished\b")
"""Two dashes, which editors join to one."""
_MAX, _MIN, _MEAN, _STDDEV = range(4)
_BEFORE_ITERATIONS = {4: 0, 7: 3, 8: 4}
"""Numbers per row -> numbers before max, min, mean and deviation over iterations.

Version 3.3 put max, min and mean over ranks first, and until February 2021 their deviation too.
"""


@dataclass(frozen=True)
class _Launch:
    """The line that begins a run."""

    version: str
    tasks: int
    nodes: int


@dataclass(frozen=True)
class _Items:
    """The line above a table: the tasks that ran, and their files or directories."""

    tasks: int
    items: int


@dataclass
class _Table:
    """A table of rates, and the times printed beside it."""

    launched: _Launch | None
    items: _Items | None
    rates: dict[str, Rate] = field(default_factory=dict[str, Rate])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    finished: bool = False
    cut: bool = False
    """The output ends within a row."""

    def result(self) -> Imported:
        """Return the result without phases that were not run: mdtest prints 0 for these."""
        ran = {
            phase: rate
            for phase, rate in self.rates.items()
            if rate.is_known and (rate.max > 0 or self.seconds.get(phase, 0) > 0)
        }
        clients = self.items.tasks if self.items else self.launched.tasks if self.launched else None
        return Imported(
            f"mdtest {self.launched.version}" if self.launched else "mdtest",
            clients,
            self._nodes(clients),
            ran,
            unknown=[phase for phase, rate in self.rates.items() if not rate.is_known],
            about={"items": self.items.items} if self.items else {},
            whole=(self.finished or self.launched is None) and not self.cut,
        )

    def _nodes(self, clients: int | None) -> int | None:
        """Return the number of nodes, which is known only when all tasks of the launch run."""
        if self.launched is None or clients != self.launched.tasks:
            return None
        return self.launched.nodes


def is_mdtest(text: str) -> bool:
    """Return whether a text is mdtest's, complete or not."""
    return any(_LAUNCHED.search(line) or _HEADING.match(line) for line in text.splitlines())


def read_mdtest(text: str) -> list[Imported]:
    """Return a result per table of rates. Raises OutputError for no table or a broken row."""
    tables: list[_Table] = []
    launched: _Launch | None = None
    items: _Items | None = None
    times_only, seen_times = False, False
    within: str | None = None
    rest, cut = _split_cut_row(text)
    for number, line in enumerate(rest.splitlines(), start=1):
        if found := _LAUNCHED.search(line):
            tasks = count(found["tasks"], line=number, what="tasks")
            launched = _Launch(
                found["version"], tasks, count(found["nodes"], line=number, what="nodes")
            )
            items, within, times_only = None, None, False
        elif found := _ITEMS.match(line):
            tasks = count(found["tasks"], line=number, what="tasks")
            items = _Items(tasks, count(found["items"], line=number, what="items", most=MOST_ITEMS))
            within = None
        elif _TIMES_ONLY.match(line):
            times_only = True
        elif found := _HEADING.match(line):
            within = found["what"] or ("time" if times_only else "rate")
            seen_times = seen_times or within == "time"
            if within == "rate":
                tables.append(_Table(launched, items))
        elif _FINISHED.match(line):
            within = None
            for table in tables:
                table.finished = table.finished or table.launched is launched
        elif within is not None and tables:
            for phase, rate in _row(line, number):
                if within == "rate":
                    tables[-1].rates[phase] = rate
                else:
                    tables[-1].seconds[phase] = rate.max
    if not tables:
        raise _without_rates(seen_times)
    tables[-1].cut = cut
    results = [table.result() for table in tables if table.rates]
    if not any(result.rates for result in results):
        raise OutputError("no phase of this run of mdtest has a rate: every one is 0 or no number")
    return [result for result in results if result.rates or result.unknown]


def _split_cut_row(text: str) -> tuple[str, bool]:
    """Return a text without its end, and whether that is a row that is cut.

    A row that lacks its last numbers, or digits of them, can look like a row of a version with
    fewer columns. mdtest prints three decimals.
    """
    rest, _, last = text.rpartition("\n")
    row = _ROW.match(last)
    if row is None or row["title"].lower() not in _PHASE_OF:
        return text, False
    others = [found for line in rest.splitlines() if (found := _ROW.match(line))]
    fewest = 7 if "per Rank:" in rest else 4
    wanted = len(others[-1]["numbers"].split()) if others else fewest
    words = row["numbers"].split()
    whole = len(words) >= wanted and re.fullmatch(r".*\.\d{3}|-?nan|-?inf", words[-1])
    return (text, False) if whole else (rest, True)


def _row(line: str, number: int) -> Iterator[tuple[str, Rate]]:
    """Yield phase and numbers of a row; nothing for other lines (such as the MPI library's)."""
    row = _ROW.match(line)
    phase = None if row is None else _PHASE_OF.get(row["title"].lower())
    if row is None or phase is None:
        return
    words = row["numbers"].split()
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    before = _BEFORE_ITERATIONS.get(len(numbers))
    if before is None:
        raise OutputError(
            "a row of mdtest's table is broken",
            line=number,
            given=line.strip(),
            allowed="4, 7 or 8 numbers",
        )
    yield phase, Rate(*(numbers[before + at] for at in (_MEAN, _MAX, _MIN, _STDDEV)))


def _without_rates(seen_times: bool) -> OutputError:
    if seen_times:
        return OutputError(
            "mdtest printed times (-Z), not rates",
            allowed="a table SUMMARY rate: run it without -Z, or with -P for both",
        )
    return OutputError("mdtest's table SUMMARY rate is missing: the run did not end")
