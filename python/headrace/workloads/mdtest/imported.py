"""Reads what the real mdtest and IOR print, and the folders of Headrace's own results, into one shape, to be laid side by side.

mdtest: the table `SUMMARY rate`, of version 1 to 4 (src/mdtest.c of https://github.com/hpc/ior): the columns per iteration are
taken where there are also those per rank. IOR: the table `Summary of all tests` of its text, or its JSON (src/ior-output.c there).
"""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.workloads.mdtest.phases import TITLES, rate_name

_MIB = 1 << 20
_PHASE_OF = {title.lower(): phase for phase, title in TITLES.items()}
_ROW = re.compile(r"^\s*(?P<title>[A-Z][a-z]+ [a-z]+)\s*:?\s+(?P<numbers>[-+.\d einfa]+)$")
_LAUNCHED = re.compile(
    r"mdtest-(?P<version>\S+) was launched with (?P<tasks>\d+) total task\(s\) on (?P<nodes>\d+) node"
)
_ITEMS = re.compile(r"^\s*\d+ tasks, (?P<items>\d+) (?:files|directories|files/directories)", re.MULTILINE)
_NUMBERS_OF_OLD_TABLE = 4
_NUMBERS_PER_RANK_AND_ITERATION = 7


@dataclass(frozen=True)
class Rate:
    """One line of a table, over its iterations: operations (or bytes) a second."""

    mean: float
    max: float
    min: float
    stddev: float


@dataclass(frozen=True)
class Imported:
    """One result: where from, of how many clients, and its rates by phase (`write`, `read` for IOR)."""

    program: str
    clients: int | None
    nodes: int | None
    rates: dict[str, Rate]
    unit: str = "ops/s"
    """`ops/s` or `bytes/s`."""
    about: dict[str, Any] = field(default_factory=dict[str, Any])


def read_results(path: Path) -> list[Imported]:
    """The results in a file of mdtest or IOR, or in a folder of Headrace's. Raises HeadraceError when it is none of these."""
    if path.is_dir():
        return _read_folder(path)
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        raise HeadraceError(f"{path}: {error.strerror}") from error
    try:
        if text.lstrip().startswith("{"):
            return read_ior_json(text)
        if "SUMMARY rate" in text or "SUMMARY:" in text:
            return [read_mdtest(text)]
        if "Summary of all tests" in text:
            return read_ior(text)
    except HeadraceError as error:
        raise HeadraceError(f"{path}: {error.message}") from error
    raise HeadraceError(
        f"{path}: neither the output of mdtest nor of IOR",
        hint="mdtest ends with a table SUMMARY rate, IOR with Summary of all tests (or -O summaryFormat=JSON)",
    )


def read_mdtest(text: str) -> Imported:
    """mdtest's output. Raises HeadraceError when its table is not there or not whole."""
    start = re.search(r"^SUMMARY( rate)?[^\n]*$", text, re.MULTILINE)
    if start is None:
        raise HeadraceError("mdtest's table SUMMARY rate is missing: the run did not end")
    if "time" in start.group(0).lower() and "rate" not in start.group(0).lower():
        raise HeadraceError("mdtest printed times (-Z) instead of rates")
    rates: dict[str, Rate] = {}
    for line in text[start.end() :].splitlines():
        if line.startswith("--"):
            break
        row = _ROW.match(line)
        phase = _PHASE_OF.get(row["title"].lower()) if row is not None else None
        if row is None or phase is None:
            continue
        numbers = [float(word) for word in row["numbers"].split()]
        if len(numbers) == _NUMBERS_OF_OLD_TABLE:
            high, low, mean, deviation = numbers
        elif len(numbers) == _NUMBERS_PER_RANK_AND_ITERATION:
            high, low, mean, deviation = numbers[3:]
        elif len(numbers) == 2 * _NUMBERS_OF_OLD_TABLE:
            # 3.3 before February 2021: four a rank, then three an iteration and a deviation.
            high, low, mean, deviation = numbers[4:]
        else:
            raise HeadraceError(f"a line of mdtest's table has {len(numbers)} numbers: {line.strip()!r}")
        rates[phase] = Rate(mean, high, low, deviation)
    if not rates:
        raise HeadraceError("mdtest's table holds no phase")
    launched, items = _LAUNCHED.search(text), _ITEMS.search(text)
    return Imported(
        f"mdtest {launched['version']}" if launched else "mdtest",
        int(launched["tasks"]) if launched else None,
        int(launched["nodes"]) if launched else None,
        rates,
        about={"items": int(items["items"])} if items else {},
    )


def read_ior(text: str) -> list[Imported]:
    """IOR's text output: one result a test. Raises HeadraceError when its last table is not there."""
    lines = iter(text[text.index("Summary of all tests") :].splitlines()[1:])
    names = next((line.split() for line in lines if line.startswith("Operation")), [])
    try:
        high, low, mean = (names.index(f"{name}(MiB)") for name in ("Max", "Min", "Mean"))
        test, tasks, per_node = (names.index(name) for name in ("Test#", "#Tasks", "tPN"))
    except ValueError:
        raise HeadraceError("IOR's table Summary of all tests has other columns than are known") from None
    found: dict[str, Imported] = {}
    for line in lines:
        words = line.split()
        if len(words) < len(names) or words[0] not in ("write", "read"):
            if found:
                break
            continue
        clients, each = int(words[tasks]), int(words[per_node])
        made = found.setdefault(
            words[test], Imported("IOR", clients, -(-clients // max(each, 1)), {}, "bytes/s")
        )
        values = [float(words[at]) * _MIB for at in (mean, high, low, mean + 1)]
        made.rates[words[0]] = Rate(values[0], values[1], values[2], values[3])
    if not found:
        raise HeadraceError("IOR's table Summary of all tests is empty")
    return list(found.values())


def read_ior_json(text: str) -> list[Imported]:
    """IOR's JSON (`-O summaryFormat=JSON`): one result a test. Raises HeadraceError when it is not that."""
    try:
        content = json.loads(text)
        found: dict[int, Imported] = {}
        for line in content["summary"]:
            clients, each = int(line["numTasks"]), int(line["tasksPerNode"])
            made = found.setdefault(
                int(line["TestID"]),
                Imported("IOR", clients, -(-clients // max(each, 1)), {}, "bytes/s"),
            )
            mean, high, low, deviation = (
                float(line[f"bw{name}MIB"]) * _MIB for name in ("Mean", "Max", "Min", "Std")
            )
            made.rates[str(line["operation"])] = Rate(mean, high, low, deviation)
    except (ValueError, KeyError, TypeError) as error:
        raise HeadraceError(f"no JSON of IOR: {error}") from error
    if not found:
        raise HeadraceError("IOR's JSON holds no result")
    return list(found.values())


def _read_folder(folder: Path) -> list[Imported]:
    """Headrace's own: a result a cell (target, levels), iterations being its repeats."""
    cells: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {}
    for file in sorted(folder.glob("trials/*/trial.json")):
        try:
            trial = json.loads(file.read_text())
        except (OSError, ValueError):
            continue
        results = trial.get("results") or {}
        if trial.get("workload", {}).get("kind") != "metadata" or "phases" not in results:
            continue
        key = json.dumps(trial.get("levels", {}), sort_keys=True, default=str)
        cells.setdefault(key, (trial, []))[1].append(results)
    if not cells:
        raise HeadraceError(f"{folder}: no trial of a metadata workload in it")
    return [_cell(trial, results) for trial, results in cells.values()]


def _cell(trial: dict[str, Any], results: list[dict[str, Any]]) -> Imported:
    rates: dict[str, Rate] = {}
    for phase in TITLES:
        seen = [each["phases"][phase]["rate_ops_per_s"] for each in results if phase in each["phases"]]
        seen = [float(rate) for rate in seen if rate]
        if seen:
            rates[phase] = Rate(statistics.fmean(seen), max(seen), min(seen), statistics.pstdev(seen))
    levels = {name: level for name, level in trial.get("levels", {}).items() if level is not None}
    return Imported(
        " ".join(
            ["headrace", str(levels.get("target", ""))]
            + [f"{name}={level}" for name, level in levels.items() if name not in ("target", "workload")]
        ),
        int(results[0]["clients"]),
        int((trial.get("run") or {}).get("nodes") or 1),
        rates,
        about={"levels": levels, "metric": [rate_name(phase) for phase in rates]},
    )
