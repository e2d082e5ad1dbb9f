"""Base layer: what the core refuses in a drive's file, in words of the file.

The core reads a drive as JSON. For a value out of its bounds it names the field; for a wrong
structure (an unknown field, text for a number) its parser's message names at most the field's own
name. The field is then found by trying.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from headrace import _core
from headrace.document import Document, FieldPath, shown
from headrace.errors import FileProblem
from headrace.refusals import meant

DRIVES = ("hdd", "ssd")
_TYPES = {
    "u64": "a whole number, at least 0",
    "u32": "a whole number from 0 to 4294967295",
    "f64": "a number",
    "a string": "text",
    "a boolean": "true or false",
    "a sequence": "an array",
    "a map": "a table",
}
"""The core's types, in words of a file."""


def refused(document: Document, values: dict[str, Any]) -> FileProblem | None:
    """Return what the core refuses in a drive's table; None for a possible drive."""
    refusal = _refusal(values)
    if refusal is None:
        return None
    field, given, allowed = refusal
    if not re.match(r"(missing|unknown|invalid) (field|variant|type|value|length)", given):
        place: FieldPath = tuple(field.split("."))
        return _impossible(document, values, place, given, allowed)
    missing = re.match(r"missing field `([^`]+)`", given)
    if missing is not None:
        return _missing(document, values, missing[1])
    return _wrong_structure(document, values, given)


def _refusal(values: dict[str, Any]) -> tuple[str, str, str] | None:
    """Return field, given value and allowed values of the core's refusal; None without one."""
    try:
        _core.drive_check(json.dumps(values))
    except _core.ModelError as error:
        field, given, allowed = map(str, error.args)
        return field, given, allowed
    return None


def _impossible(
    document: Document, values: dict[str, Any], place: FieldPath, given: str, allowed: str
) -> FileProblem:
    """Return the problem of a value out of its bounds, with the value as the file has it."""
    written = _at(values, place)
    if isinstance(written, (int, float, str)):
        given = shown(written)
    problem = document.problem(place, "cannot be true", allowed=allowed)
    return FileProblem(problem.file, problem.line, problem.field, given, problem.problem, allowed)


def _missing(document: Document, values: dict[str, Any], name: str) -> FileProblem:
    allowed = ", ".join(DRIVES) if name == "kind" else ""
    table = () if name == "kind" else _table_of(values, name)
    return document.problem((*table, name), "is missing", allowed=allowed)


def _table_of(values: dict[str, Any], name: str) -> FieldPath:
    """Return the table that lacks a field: the one in which it is missed no more once it is
    there."""
    for place in _places(values, dict):
        if name in _at(values, place):
            continue
        tried = copy.deepcopy(values)
        _at(tried, place)[name] = 1
        refusal = _refusal(tried)
        told = "" if refusal is None else refusal[1]
        if not re.match(rf"(missing|unknown) field `{name}`", told):
            return place
    return ()


def _wrong_structure(document: Document, values: dict[str, Any], message: str) -> FileProblem:
    """Return the problem of a table that the core's parser refuses with a message."""
    place = _place_of(values, message)
    text = re.sub(r" at line \d+ column \d+$", "", message)
    problem, _, expected = text.partition(", expected ")
    word = re.match(r"unknown (field|variant) `([^`]*)`", problem)
    if word is None:
        must = "a table" if expected.startswith("struct ") else _TYPES.get(expected, expected)
        given = _at(values, place) if place else None
        return document.problem(place, f"must be {must}", given=given)
    known = re.findall(r"`([^`]*)`", expected)
    if word[1] == "field":
        named = place if place and place[-1] == word[2] else (*place, word[2])
        told = meant("unknown field", word[2], known)
        return document.problem(named, told, given=word[2], allowed=", ".join(known))
    told = meant("not one of the allowed values", word[2], known)
    return document.problem(place, told, given=word[2], allowed=", ".join(known))


def _place_of(values: dict[str, Any], message: str) -> FieldPath:
    """Return the deepest place that fits a message of the core's parser and without which the
    message is another; the whole file when there is none."""
    found: list[FieldPath] = []
    fitting = [
        place for place in _places(values, object) if place and _fits(values, place, message)
    ]
    for place in fitting:
        tried = copy.deepcopy(values)
        del _at(tried, place[:-1])[place[-1]]
        refusal = _refusal(tried)
        if (
            refusal is None
            or refusal[1].partition(" at line")[0] != message.partition(" at line")[0]
        ):
            found.append(place)
    return max(found or fitting, key=len, default=())


def _fits(values: dict[str, Any], place: FieldPath, message: str) -> bool:
    """Return whether a message of the core's parser may be about a place."""
    word = re.match(r"unknown (field|variant) `([^`]*)`", message)
    value = _at(values, place)
    if word is not None:
        return word[2] == (str(place[-1]) if word[1] == "field" else value)
    if message.startswith("invalid length"):
        return isinstance(value, list)
    told = re.match(r"invalid \w+: (\w+)[^`\"]*[`\"]?(.*?)[`\"]?, expected", message)
    if told is None:
        return True
    if isinstance(value, bool):
        return told[1] == "boolean" and told[2] == str(value).lower()
    if isinstance(value, (int, float)):
        return told[1] in ("integer", "floating") and _number(told[2]) == value
    kinds = {str: "string", list: "sequence", dict: "map"}
    return kinds.get(type(value)) == told[1] and told[2] in ("", value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _places(values: Any, kind: type, path: FieldPath = ()) -> list[FieldPath]:
    """Return the places of all values of a type, tables before what is in them."""
    found = [path] if isinstance(values, kind) else []
    if isinstance(values, dict):
        for name, inner in values.items():
            found += _places(inner, kind, (*path, name))
    elif isinstance(values, list):
        for index, inner in enumerate(values):
            found += _places(inner, kind, (*path, index))
    return found


def _at(values: Any, place: FieldPath) -> Any:
    """Return the value at a path; None where there is none."""
    for part in place:
        try:
            values = values[part]
        except (KeyError, IndexError, TypeError):
            return None
    return values
