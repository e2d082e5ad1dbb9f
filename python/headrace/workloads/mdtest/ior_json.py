"""Read IOR's JSON (`-O summaryFormat=JSON`): `summary`, else the `Results` of `tests`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from headrace.json_text import json_objects
from headrace.workloads.mdtest.rates import ACCESSES, MIB, Imported, OutputError, Rate, of_transfers

_JSON = re.compile(r"^\{", re.MULTILINE)
_JSON_RATE = re.compile(r'"bw(?:Mean)?MI?B"', re.IGNORECASE)


def is_json(text: str) -> bool:
    """Return whether a text is IOR's JSON: it may follow messages of the MPI library."""
    if text.lstrip().startswith("{"):
        return True
    return _JSON_RATE.search(text) is not None and _JSON.search(text) is not None


def read_json(text: str) -> list[Imported]:
    """Return one result per test. Raises OutputError when there is none."""
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
            int(line["TestID"]),
            of_transfers(program, int(line["numTasks"]), int(line["tasksPerNode"])),
        )
        mean, high, low, deviation = (
            float(line[f"bw{name}MIB"]) * MIB for name in ("Mean", "Max", "Min", "Std")
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
        made = of_transfers(
            program,
            None if clients is None else int(clients),
            None if each is None else int(each),
            None if nodes is None else int(nodes),
        )
        rates: dict[str, list[float]] = {}
        for row in _rows(test.get("Results", [])):
            if row.get("access") in ACCESSES and "bwMiB" in row:
                rates.setdefault(str(row["access"]), []).append(float(row["bwMiB"]) * MIB)
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
