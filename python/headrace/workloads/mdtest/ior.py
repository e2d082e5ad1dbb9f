"""Read IOR's output: text of versions 2 to 4, or its JSON and CSV (`-O summaryFormat=…`).

The first of these that exists is used (src/ior-output.c of https://github.com/hpc/ior): the table
`Summary of all tests`, the rows of single iterations under `Results`, and the lines `Max Write` and
`Max Read`. A file may hold the output of several runs, and other lines around them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from headrace.workloads.mdtest.ior_json import is_json, read_json
from headrace.workloads.mdtest.ior_units import unit_bytes, unit_of_heading
from headrace.workloads.mdtest.rates import (
    ACCESSES,
    MIB,
    Imported,
    OutputError,
    Rate,
    count,
    of_transfers,
)

_VERSION = re.compile(r"^\s*IOR-(?P<version>[^\s:]+):")
_TASKS = re.compile(r"^\s*(?:tasks|Participating tasks)\s*:\s*(?P<tasks>\d+)")
_NODES = re.compile(r"^\s*nodes\s*:\s*(?P<nodes>\d+)")
_PER_NODE = re.compile(r"^\s*clients per node\s*:\s*(?P<each>\d+)")
_CLIENTS = re.compile(r"^\s*clients\s*=\s*(?P<tasks>\d+) \((?P<each>\d+) per node\)")
_NUMBER = r"\d+(?:\.\d+)?|-?nan|-?inf"
_RATE = rf"(?P<rate>{_NUMBER})"
"""A rate is `nan` or `inf` when the time of its phase was 0 or no number."""
_ROW = re.compile(
    rf"^\s*(?P<access>write|read)\s+{_RATE}"
    r"(?:\s+(?:[-\d.e+]+|NA|-?nan|-?inf))*(?:\s+X?XCEL)?\s*$"
)
_SUMS_2 = re.compile(
    rf"^(?P<access>write|read)\s+(?P<high>{_NUMBER})\s+(?P<low>{_NUMBER})\s+(?P<mean>{_NUMBER})"
    rf"\s+(?P<deviation>{_NUMBER})\s"
)
"""A row under the heading `Operation  Max (MiB)  Min (MiB)  Mean (MiB)   Std Dev` of version 2."""
_REPETITIONS = re.compile(r"^\s*repetitions\s*[:=]\s*(?P<number>\d+)")
_MAX = re.compile(rf"^\s*Max (?P<access>Write|Read):\s+{_RATE} (?P<unit>MiB|MB)/sec")
_CSV = re.compile(r"^access,bw\(MiB/s\),")

_Lines = list[tuple[int, str]]
"""Lines of a text with their numbers (1-based)."""


def is_ior(text: str) -> bool:
    """Return whether a text is IOR's, complete or not."""
    if is_json(text):
        return True
    marks = (_VERSION, _MAX, _CSV)
    return any(
        line.startswith("Summary of all tests") or any(mark.match(line) for mark in marks)
        for line in text.splitlines()
    )


def read_ior(text: str) -> list[Imported]:
    """Return one result per test of every run. Raises OutputError when the output has no rate."""
    if is_json(text):
        return read_json(text)
    if any(_CSV.match(line) for line in text.splitlines()):
        return _read_csv(text)
    found: list[Imported] = []
    whole = True
    for lines in _runs(text):
        results = _results(lines, cut_line=0 if text.endswith("\n") else lines[-1][0])
        # The end of a run that begins as IOR's do: `Run finished` of version 2, `Finished`.
        ended = any("inished " in line or "inished:" in line for _, line in lines)
        whole = whole and bool(results) and (ended or not _begun(lines))
        found += results
    if not found:
        raise OutputError("IOR's output holds no rate: the run did not end")
    for each in found:
        each.whole = each.whole and whole
    return found


def _runs(text: str) -> list[_Lines]:
    """Return the lines of each run: a run begins with the line that names the version."""
    runs: list[_Lines] = [[]]
    for number, line in enumerate(text.splitlines(), start=1):
        if _VERSION.match(line):
            runs.append([])
        runs[-1].append((number, line))
    # What precedes the first run is the job script's, unless the first line is lost.
    return runs[1:] if len(runs) > 1 and not (_summary(runs[0]) or _iterations(runs[0])) else runs


def _results(lines: _Lines, cut_line: int) -> list[Imported]:
    """Return the results of a run. `cut_line`: the line at which the text ends; 0 for none."""
    try:
        return _summary(lines) or _iterations(lines)
    except OutputError as error:
        if not cut_line or error.line != cut_line:
            raise
        return _iterations(lines[:-1])  # the summary's row is not whole


def _version(lines: _Lines) -> str | None:
    named = next((found for _, line in lines if (found := _VERSION.match(line))), None)
    return None if named is None else named["version"]


def _program(lines: _Lines) -> str:
    version = _version(lines)
    return "IOR" if version is None else f"IOR {version}"


def _begun(lines: _Lines) -> bool:
    return any(_VERSION.match(line) for _, line in lines)


# -- the table of all tests ------------------------------------------------------------------


def _summary(lines: _Lines) -> list[Imported]:
    """Return the results of the tables `Summary of all tests`; none when they are missing or
    empty."""
    names: list[str] = []
    found: list[dict[str, Imported]] = []
    for number, line in lines:
        words = line.split()
        if "Summary of all tests" in line:
            names = []
            found.append({})
        elif found and words[:1] == ["Operation"]:
            names = words
        elif words[:1] == ["access"]:
            names = []  # the rows of another run
        elif names and words and words[0] in ACCESSES:
            _take_summary_row(found[-1], names, words, number, _program(lines))
    return [made for table in found for made in table.values()]


def _take_summary_row(
    found: dict[str, Imported], names: list[str], words: list[str], line: int, program: str
) -> None:
    """Add one row to the results. Columns are found by name: newer versions have more of them."""
    try:
        mean, high, low = (
            float(words[names.index(f"{name}(MiB)")]) for name in ("Mean", "Max", "Min")
        )
        deviation = float(words[names.index("Mean(MiB)") + 1])
        test, tasks, each = (words[names.index(name)] for name in ("Test#", "#Tasks", "tPN"))
        made = found.setdefault(test, of_transfers(program, int(tasks), int(each)))
    except (ValueError, IndexError):
        raise OutputError(
            "a row of IOR's table is broken",
            line=line,
            given=" ".join(words)[:60],
            allowed=f"the columns {' '.join(names)}",
        ) from None
    made.rates[words[0]] = Rate(mean * MIB, high * MIB, low * MIB, deviation * MIB)


# -- rows of single iterations, and the highest of them --------------------------------------


@dataclass
class _Test:
    """A test, by what its output has: the means of all iterations, or each, or the highest."""

    made: Imported
    version: str | None
    unit: int = MIB
    """Bytes of the unit of the rows that follow."""
    per_node: int | None = None
    repetitions: int | None = None
    means: dict[str, Rate] = field(default_factory=dict[str, Rate])
    rows: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    highest: dict[str, float] = field(default_factory=dict[str, float])

    def about(self, line: str, number: int) -> bool:
        """Take a line of the options; return whether it is one."""
        made = self.made
        if unit := unit_of_heading(line):
            self.unit = unit_bytes(unit, self.version, number)
        elif found := _CLIENTS.match(line):
            made.clients = count(found["tasks"], line=number, what="clients")
            self.per_node = count(found["each"], line=number, what="clients per node")
        elif found := _TASKS.match(line):
            made.clients = count(found["tasks"], line=number, what="tasks")
        elif found := _NODES.match(line):
            made.nodes = count(found["nodes"], line=number, what="nodes")
        elif found := _PER_NODE.match(line):
            self.per_node = count(found["each"], line=number, what="clients per node")
        elif found := _REPETITIONS.match(line):
            self.repetitions = count(found["number"], line=number, what="repetitions")
        else:
            return False
        if made.nodes is None and made.clients is not None and self.per_node:
            made.nodes = -(-made.clients // self.per_node)
        return True

    def rate(self, line: str, number: int, *, sums: bool) -> None:
        """Take a line with a rate. `sums`: under the heading of version 2's means."""
        if sums:
            if found := _SUMS_2.match(line):
                mean, high, low, deviation = (
                    float(found[name]) * self.unit for name in ("mean", "high", "low", "deviation")
                )
                self.means[found["access"]] = Rate(mean, high, low, deviation)
        elif found := _ROW.match(line):
            if found.end("rate") == len(line):  # the output ends here, perhaps within the rate
                self.made.whole = False
            else:
                self.rows.setdefault(found["access"], []).append(float(found["rate"]) * self.unit)
        elif found := _MAX.match(line):
            unit = unit_bytes(found["unit"], self.version, number)
            self.highest.setdefault(found["access"].lower(), float(found["rate"]) * unit)

    def result(self) -> Imported:
        """Return the rates. The highest of several repetitions stands for the mean, and is named
        so, only when nothing else is there."""
        for access in ACCESSES:
            if access in self.means:
                self.made.rates[access] = self.means[access]
            elif access in self.rows:
                self.made.rates[access] = Rate.of(self.rows[access])
            elif access in self.highest:
                self.made.rates[access] = Rate.of([self.highest[access]])
                if self.repetitions != 1:
                    self.made.highest.append(access)
        return self.made


def _iterations(lines: _Lines) -> list[Imported]:
    """Return the results of the tables under `Results`, one per test."""
    tests: list[_Test] = []
    sums = False
    for number, line in lines:
        # Version 2 prints summary rows with the same beginning, under another heading.
        sums = line.startswith("Operation") or (sums and bool(line.strip()))
        if re.match(r"^\s*(?:Options|Summary):\s*$", line) or not tests:
            tests.append(_Test(of_transfers(_program(lines), None, None), _version(lines)))
        if not tests[-1].about(line, number):
            tests[-1].rate(line, number, sums=sums)
    results = [test.result() for test in tests]
    return [made for made in results if made.rates]


def _read_csv(text: str) -> list[Imported]:
    """Return the results of CSV tables: a header, and a row per access and iteration.

    A header begins a run. An iteration that a run has already, or another number of tasks, begins
    its next test: the table does not name tests.
    """
    names: list[str] = []
    begins = True
    tests: list[dict[tuple[str, str], float]] = []
    clients: list[int | None] = []
    lines = text.splitlines()
    cut = False
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if number == len(lines) and not text.endswith("\n") and len(cells) < len(names):
            cut = True  # the output ends here, perhaps within the rate
        elif _CSV.match(line):
            names, begins = cells, True
        elif names and cells[0] in ACCESSES:
            row = dict(zip(names, cells, strict=False))
            try:
                rate = float(row["bw(MiB/s)"]) * MIB
                tasks = int(row["numTasks"]) if "numTasks" in row else None
            except (KeyError, ValueError):
                problem = "a row of IOR's CSV is broken"
                raise OutputError(
                    problem, line=number, given=line[:60], allowed=", ".join(names)
                ) from None
            key = (cells[0], row.get("iter", f"line {number}"))
            if begins or key in tests[-1] or tasks != clients[-1]:
                tests.append({})
                clients.append(tasks)
            begins = False
            tests[-1][key] = rate
    if not tests:
        raise OutputError("IOR's CSV holds no row of a write or read")
    found = [_of_rows(test, tasks) for test, tasks in zip(tests, clients, strict=True)]
    found[-1].whole = not cut
    return found


def _of_rows(test: dict[tuple[str, str], float], tasks: int | None) -> Imported:
    made = of_transfers("IOR", tasks, None)
    for access in ACCESSES:
        if values := [rate for (of, _), rate in test.items() if of == access]:
            made.rates[access] = Rate.of(values)
    return made
