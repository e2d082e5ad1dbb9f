"""Read IOR's output: text of versions 2 to 4, or its JSON and CSV (`-O summaryFormat=…`).

The first of these that exists is used (src/ior-output.c of https://github.com/hpc/ior): the table
`Summary of all tests`, the rows of single iterations under `Results`, and the lines `Max Write` and
`Max Read`. A file may hold the output of several runs, and other lines around them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from headrace.json_text import json_objects
from headrace.workloads.mdtest.rates import BYTES, Imported, OutputError, Rate, count

_MIB = 1 << 20
_ACCESSES = ("write", "read")
_VERSION = re.compile(r"^\s*IOR-(?P<version>[^\s:]+):")
_TASKS = re.compile(r"^\s*(?:tasks|Participating tasks)\s*:\s*(?P<tasks>\d+)")
_NODES = re.compile(r"^\s*nodes\s*:\s*(?P<nodes>\d+)")
_PER_NODE = re.compile(r"^\s*clients per node\s*:\s*(?P<each>\d+)")
_CLIENTS = re.compile(r"^\s*clients\s*=\s*(?P<tasks>\d+) \((?P<each>\d+) per node\)")
_RATE = r"(?P<rate>\d+(?:\.\d+)?|-?nan|-?inf)"
"""A rate is `nan` or `inf` when the time of its phase was 0 or no number."""
_ROW = re.compile(
    rf"^\s*(?P<access>write|read)\s+{_RATE}"
    r"(?:\s+(?:[-\d.e+]+|NA|-?nan|-?inf))*(?:\s+X?XCEL)?\s*$"
)
_MAX = re.compile(rf"^\s*Max (?P<access>Write|Read):\s+{_RATE} MiB/sec")
_CSV = re.compile(r"^access,bw\(MiB/s\),")
_JSON = re.compile(r"^\{", re.MULTILINE)
_JSON_RATE = re.compile(r'"bw(?:Mean)?MI?B"', re.IGNORECASE)

_Lines = list[tuple[int, str]]
"""Lines of a text with their numbers (1-based)."""


def is_ior(text: str) -> bool:
    """Return whether a text is IOR's, complete or not."""
    if _is_json(text):
        return True
    marks = (_VERSION, _MAX, _CSV)
    return any(
        line.startswith("Summary of all tests") or any(mark.match(line) for mark in marks)
        for line in text.splitlines()
    )


def read_ior(text: str) -> list[Imported]:
    """Return one result per test of every run. Raises OutputError when the output has no rate."""
    if _is_json(text):
        return _read_json(text)
    if any(_CSV.match(line) for line in text.splitlines()):
        return _read_csv(text)
    found: list[Imported] = []
    whole = True
    for lines in _runs(text):
        results = _summary(lines) or _iterations(lines)
        # The end of a run that begins as IOR's do: `Run finished` of version 2, `Finished`.
        ended = any("inished " in line or "inished:" in line for _, line in lines)
        whole = whole and bool(results) and (ended or not _begun(lines))
        found += results
    if not found:
        raise OutputError("IOR's output holds no rate: the run did not end")
    for each in found:
        each.whole = each.whole and whole
    return found


def _is_json(text: str) -> bool:
    """Return whether a text is IOR's JSON: it may follow messages of the MPI library."""
    if text.lstrip().startswith("{"):
        return True
    return _JSON_RATE.search(text) is not None and _JSON.search(text) is not None


def _runs(text: str) -> list[_Lines]:
    """Return the lines of each run: a run begins with the line that names the version."""
    runs: list[_Lines] = [[]]
    for number, line in enumerate(text.splitlines(), start=1):
        if _VERSION.match(line):
            runs.append([])
        runs[-1].append((number, line))
    # What precedes the first run is the job script's, unless the first line is lost.
    return runs[1:] if len(runs) > 1 and not (_summary(runs[0]) or _iterations(runs[0])) else runs


def _program(lines: _Lines) -> str:
    named = next((found for _, line in lines if (found := _VERSION.match(line))), None)
    return "IOR" if named is None else f"IOR {named['version']}"


def _begun(lines: _Lines) -> bool:
    return any(_VERSION.match(line) for _, line in lines)


def _made(
    program: str, clients: int | None, per_node: int | None, nodes: int | None = None
) -> Imported:
    if nodes is None and clients is not None and per_node:
        nodes = -(-clients // per_node)
    return Imported(program, clients, nodes, unit=BYTES)


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
        elif names and words and words[0] in _ACCESSES:
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
        made = found.setdefault(test, _made(program, int(tasks), int(each)))
    except (ValueError, IndexError):
        raise OutputError(
            "a row of IOR's table is broken",
            line=line,
            given=" ".join(words)[:60],
            allowed=f"the columns {' '.join(names)}",
        ) from None
    made.rates[words[0]] = Rate(mean * _MIB, high * _MIB, low * _MIB, deviation * _MIB)


# -- rows of single iterations, and the highest of them --------------------------------------


def _iterations(lines: _Lines) -> list[Imported]:
    """Return the results of the tables under `Results`, one per test."""
    results: list[tuple[Imported, dict[str, list[float]]]] = []
    current: tuple[Imported, dict[str, list[float]]] | None = None
    per_node: int | None = None
    sums = False
    for number, line in lines:
        # Version 2 prints summary rows with the same beginning, under another heading.
        sums = line.startswith("Operation") or (sums and bool(line.strip()))
        if re.match(r"^\s*(?:Options|Summary):\s*$", line) or current is None:
            current, per_node = (_made(_program(lines), None, None), {}), None
            results.append(current)
        made, rates = current
        if found := _CLIENTS.match(line):
            made.clients = count(found["tasks"], line=number, what="clients")
            per_node = count(found["each"], line=number, what="clients per node")
        elif found := _TASKS.match(line):
            made.clients = count(found["tasks"], line=number, what="tasks")
        elif found := _NODES.match(line):
            made.nodes = count(found["nodes"], line=number, what="nodes")
        elif found := _PER_NODE.match(line):
            per_node = count(found["each"], line=number, what="clients per node")
        elif (found := _ROW.match(line)) and not sums:
            if found.end("rate") == len(line):  # the output ends here, perhaps within the rate
                made.whole = False
                continue
            rates.setdefault(found["access"], []).append(float(found["rate"]) * _MIB)
        elif found := _MAX.match(line):
            # Used only when there are no rows: it is their maximum.
            rates.setdefault(found["access"].lower(), [float(found["rate"]) * _MIB])
        if made.nodes is None and made.clients is not None and per_node:
            made.nodes = -(-made.clients // per_node)
    for made, rates in results:
        made.rates.update({access: Rate.of(values) for access, values in rates.items()})
    return [made for made, _ in results if made.rates]


def _read_csv(text: str) -> list[Imported]:
    """Return the results of CSV tables: a header, and a row per access and iteration.

    A header begins a run. An iteration that a run has already, or another number of tasks, begins
    its next test: the table does not name tests.
    """
    names: list[str] = []
    begins = True
    tests: list[dict[tuple[str, str], float]] = []
    clients: list[int | None] = []
    for number, line in enumerate(text.splitlines(), start=1):
        cells = [cell.strip() for cell in line.split(",")]
        if _CSV.match(line):
            names, begins = cells, True
        elif names and cells[0] in _ACCESSES:
            row = dict(zip(names, cells, strict=False))
            try:
                rate = float(row["bw(MiB/s)"]) * _MIB
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
    return [_of_rows(test, tasks) for test, tasks in zip(tests, clients, strict=True)]


def _of_rows(test: dict[tuple[str, str], float], tasks: int | None) -> Imported:
    made = _made("IOR", tasks, None)
    for access in _ACCESSES:
        if values := [rate for (of, _), rate in test.items() if of == access]:
            made.rates[access] = Rate.of(values)
    return made


# -- JSON ------------------------------------------------------------------------------------


def _read_json(text: str) -> list[Imported]:
    documents, whole = _documents(text)
    found: list[Imported] = []
    for content in documents:
        found += _of_document(content)
    if not found:
        raise OutputError(
            "IOR's JSON holds no result", allowed='"summary" or "tests" with "Results"'
        )
    for each in found:
        each.whole = each.whole and whole
    return found


def _documents(text: str) -> tuple[list[dict[str, Any]], bool]:
    """Return the results in an output, and whether every run has its end."""
    documents, broken = json_objects(text)
    if not documents:
        error = broken[0].error if broken else "there is none"
        line = getattr(error, "lineno", 0)
        raise OutputError(f"is not JSON of IOR: {error}", line=line)
    return cast("list[dict[str, Any]]", documents), not any(each.alone for each in broken)


def _of_document(content: dict[str, Any]) -> list[Imported]:
    try:
        program = f"IOR {content['Version']}" if "Version" in content else "IOR"
        return _json_summary(content, program) or _json_iterations(content, program)
    except KeyError as error:
        raise OutputError(f'is not JSON of IOR: "{error.args[0]}" is missing') from None
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise OutputError("is not JSON of IOR: a field has a value of the wrong type") from None


def _json_summary(content: dict[str, Any], program: str) -> list[Imported]:
    found: dict[int, Imported] = {}
    for line in content.get("summary", []):
        made = found.setdefault(
            int(line["TestID"]), _made(program, int(line["numTasks"]), int(line["tasksPerNode"]))
        )
        mean, high, low, deviation = (
            float(line[f"bw{name}MIB"]) * _MIB for name in ("Mean", "Max", "Min", "Std")
        )
        made.rates[str(line["operation"])] = Rate(mean, high, low, deviation)
    return list(found.values())


def _json_iterations(content: dict[str, Any], program: str) -> list[Imported]:
    results: list[Imported] = []
    for test in content.get("tests", []):
        options: dict[str, Any] = test.get("Options", {})
        clients, each, nodes = (
            options.get(name) for name in ("tasks", "clients per node", "nodes")
        )
        made = _made(
            program,
            None if clients is None else int(clients),
            None if each is None else int(each),
            None if nodes is None else int(nodes),
        )
        rates: dict[str, list[float]] = {}
        for row in _rows(test.get("Results", [])):
            if row.get("access") in _ACCESSES and "bwMiB" in row:
                rates.setdefault(str(row["access"]), []).append(float(row["bwMiB"]) * _MIB)
        made.rates.update({access: Rate.of(values) for access, values in rates.items()})
        if made.rates:
            results.append(made)
    return results


def _rows(value: object) -> Iterator[dict[str, Any]]:
    """Yield the tables in nested arrays: each repetition is an array."""
    if isinstance(value, dict):
        yield cast("dict[str, Any]", value)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _rows(inner)
