"""Ground: reads entries of the catalog, by name or from a file of the user's own, and says what is wrong with them, by line.

An entry is one TOML file. Its table `[source]` says for each field where the value comes from: a data sheet, a paper, or
`assumption: …` with the reason. A key of `[source]` stands for its field and everything within it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headrace import _core
from headrace.catalog.tables import TABLES
from headrace.document import Document, FieldPath, parse_document
from headrace.errors import Fault, StudyError
from headrace.registry import nearest

ROOT = Path(__file__).parent
SHELVES = ("drives", "nodes", "links", "servers", "filesystems", "profiles", "prices")
"""Folders of the catalog."""

_WITHOUT_SOURCE = frozenset({"name", "kind", "about", "source"})


@dataclass(frozen=True)
class Entry:
    """One entry of the catalog, checked."""

    shelf: str
    name: str
    file: Path
    document: Document
    table: Any
    """A drive: its table as written (the core checked it). Else: the typed table of `headrace.catalog.tables`."""

    @property
    def written(self) -> dict[str, Any]:
        """The table as it stands in the file."""
        return self.document.values

    @property
    def source(self) -> dict[str, str]:
        """Field -> where its value comes from."""
        return dict(self.document.values.get("source", {}))


@cache
def names(shelf: str) -> tuple[str, ...]:
    """Names of all entries on a shelf, sorted."""
    return tuple(sorted(path.stem for path in (ROOT / shelf).glob("*.toml")))


def entry(shelf: str, name: str, *, base: Path | None = None) -> Entry:
    """The entry of that name, or of the file of that name when it ends in `.toml` (relative to `base`).

    Raises StudyError: no such entry (with the nearest name), or what is wrong with the file, by line and field.
    """
    if name.endswith(".toml"):
        path = Path(name).expanduser()
        path = path if path.is_absolute() or base is None else base / path
        return _load(shelf, path)
    if name not in names(shelf):
        near = nearest(name, list(names(shelf)))
        problem = f"there is no {_one(shelf)} of this name" + (f'; did you mean "{near}"?' if near else "")
        raise StudyError([Fault(ROOT / shelf, 0, shelf, f'"{name}"', problem, ", ".join(names(shelf)))])
    return _load(shelf, ROOT / shelf / f"{name}.toml")


def _one(shelf: str) -> str:
    return shelf.removesuffix("s")


@cache
def _load(shelf: str, path: Path) -> Entry:
    try:
        raw = _TRIED[path].encode() if path in _TRIED else path.read_bytes()
    except OSError as error:
        raise StudyError(
            [Fault(path, 0, "file", "", f"the {_one(shelf)} cannot be read: {error.strerror}")]
        ) from None
    document = parse_document(raw, path)
    name = document.values.get("name")
    if not isinstance(name, str):
        raise StudyError([document.fault(("name",), "the name of the entry is missing")])
    if path.parent == ROOT / shelf and name != path.stem:
        raise StudyError(
            [document.fault(("name",), "differs from the file's name", given=name, allowed=path.stem)]
        )
    table = _drive(document) if shelf == "drives" else _typed(shelf, document)
    return Entry(shelf, name, path, document, table)


_TRIED: dict[Path, str] = {}


def attempt(texts: dict[Path, str]) -> None:
    """Lets entries read as these texts instead of their files, until called again: fitting tries values without writing them."""
    _TRIED.clear()
    _TRIED.update(texts)
    _load.cache_clear()


def _drive(document: Document) -> dict[str, Any]:
    try:
        _core.drive_check(json.dumps(document.values))
    except _core.ModelError as error:
        field, given, allowed = error.args
        if not str(field).startswith("("):
            path: FieldPath = tuple(str(field).split("."))
            raise StudyError([document.fault(path, "cannot be true", given=given, allowed=allowed)]) from None
        # The table's shape is wrong: the message names the field alone, so its place is looked up.
        named = re.search(r"field `([^`]+)`", str(given))
        value = re.search(r"invalid (?:type|value): .*?[`\"]([^`\"]+)[`\"]", str(given))
        places = [
            place
            for place in document.lines
            if (named and place[-1] == named.group(1))
            or (value and str(_at(document.values, place)) == value.group(1))
        ]
        problem = str(given).partition(", expected")[0]
        raise StudyError(
            [
                document.fault(
                    places[0] if places else ("kind",), problem, allowed=allowed or _expected(str(given))
                )
            ]
        ) from None
    return document.values


def _at(values: Any, place: FieldPath) -> Any:
    """What stands at a place of a document."""
    for part in place:
        values = values[part]
    return values


def _expected(text: str) -> str:
    """What a message of the model says that may stand there."""
    return text.partition("expected ")[2].removeprefix("one of ").replace("`", "")


def _typed(shelf: str, document: Document) -> Any:
    model = TABLES[shelf]
    try:
        return model.model_validate(document.values)
    except ValidationError as error:
        faults: list[Fault] = []
        for item in error.errors(include_url=False):
            path = tuple(item["loc"])
            near = (
                nearest(str(path[-1]), list(model.model_fields))
                if item["type"] == "extra_forbidden"
                else None
            )
            problem = "unknown field" if item["type"] == "extra_forbidden" else str(item["msg"])
            problem += f'; did you mean "{near}"?' if near else ""
            given = "" if isinstance(item["input"], dict) else item["input"]
            faults.append(document.fault(path, problem, given=given))
        raise StudyError(faults) from None


def unsourced(found: Entry) -> list[str]:
    """Dotted paths of values that neither a source nor a reason is given for; empty for an honest entry."""
    source = found.source

    def covered(path: tuple[str, ...]) -> bool:
        return any(".".join(path[:end]) in source for end in range(1, len(path) + 1))

    missing: list[str] = []

    def walk(path: tuple[str, ...], value: Any) -> None:
        if covered(path):
            return
        if isinstance(value, dict):
            for key, inner in value.items():
                walk((*path, str(key)), inner)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for inner in value:
                walk(path, inner)
        else:
            missing.append(".".join(path))

    for key, value in found.written.items():
        if key not in _WITHOUT_SOURCE:
            walk((key,), value)
    return missing
