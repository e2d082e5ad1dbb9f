"""Base layer: reads catalog entries and reports their problems by line.

Entries are found by name or read from a user's file. An entry is one TOML file. Its table
`[source]` gives for each field the source of its value: a data sheet, a paper, or `assumption: …`
with the reason. A key of `[source]` covers its field and everything within it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from headrace.catalog.drive_problems import refused
from headrace.catalog.write_cache import stated_cache, with_write_cache
from headrace.document import Document, anchored_path, parse_document, read_bytes
from headrace.errors import FileProblem, StudyError
from headrace.file_kinds import check_kind
from headrace.registry import nearest
from headrace.validation import Problems

ROOT = Path(__file__).parent
SHELVES = (
    "drives",
    "controllers",
    "nodes",
    "links",
    "switches",
    "servers",
    "filesystems",
    "profiles",
    "prices",
)
"""Folders of the catalog."""

_WITHOUT_SOURCE = frozenset({"name", "kind", "about", "source"})


@dataclass(frozen=True)
class CatalogEntry:
    """One validated entry of the catalog."""

    shelf: str
    name: str
    file: Path
    document: Document
    table: Any
    """A drive: its table as written; the core checked a user's drive, tests those of the catalog.
    Otherwise: the typed table of `headrace.catalog.tables`."""

    @property
    def written(self) -> dict[str, Any]:
        """The table as written in the file."""
        return self.document.values

    @property
    def source(self) -> dict[str, str]:
        """Field -> source of its value."""
        return dict(self.document.values.get("source", {}))


@cache
def names(shelf: str) -> tuple[str, ...]:
    """Return the names of all entries on a shelf, sorted."""
    return tuple(sorted(path.stem for path in (ROOT / shelf).glob("*.toml")))


def entry(shelf: str, name: str, *, base: Path | None = None) -> CatalogEntry:
    """Return the entry of that name, or the entry in the file of that name if it ends in `.toml`
    (relative to `base`). `NAME write-cache=off` is a disk with its write cache off.

    Raises StudyError if there is no such entry (with the nearest name), or with the file's problems
    by line and field.
    """
    name, cache_state = stated_cache(name) if shelf == "drives" else (name, None)
    if cache_state is not None:
        found = with_write_cache(entry(shelf, name, base=base), cache_state)
        _drive(found.document)
        return found
    if name.endswith(".toml"):
        try:
            path = _as_it_is(name) if base is None else None
            path = path or anchored_path(base or Path.cwd(), name)
            return _load(shelf, path, _state(path))
        except ValueError as error:
            raise StudyError([FileProblem(Path(name), 0, "", "", str(error))]) from None
    if name not in names(shelf):
        near = nearest(name, list(names(shelf)))
        problem = f"there is no {_one(shelf)} of this name" + (
            f'; did you mean "{near}"?' if near else ""
        )
        raise StudyError(
            [FileProblem(ROOT / shelf, 0, shelf, f'"{name}"', problem, ", ".join(names(shelf)))]
        )
    return _load(shelf, ROOT / shelf / f"{name}.toml")


def _as_it_is(name: str) -> Path | None:
    """Return the file of exactly this name; None if there is none.

    Paths of studies come here with their variables replaced, those of a command line were replaced
    by the shell: what has a dollar sign now has it in its name.
    """
    path = Path(name)
    return path.resolve() if "$" in name and path.is_file() else None


def _one(shelf: str) -> str:
    return "switch" if shelf == "switches" else shelf.removesuffix("s")


def _state(path: Path) -> tuple[int, ...]:
    """Return a value that changes if a user's file is rewritten; empty if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


@lru_cache(maxsize=1024)
def _load(shelf: str, path: Path, state: tuple[int, ...] = ()) -> CatalogEntry:
    try:
        raw = _TRIED[path].encode() if path in _TRIED else read_bytes(path)
    except OSError as error:
        raise StudyError(
            [FileProblem(path, 0, "", "", f"the {_one(shelf)} cannot be read: {error.strerror}")]
        ) from None
    document = parse_document(raw, path)
    check_kind(document, _one(shelf))
    document = _named(document)
    name = document.values["name"]
    if path.parent == ROOT / shelf and name != path.stem:
        raise StudyError(
            [
                document.problem(
                    ("name",), "differs from the file's name", given=name, allowed=path.stem
                )
            ]
        )
    if shelf != "drives":
        table = _typed(shelf, document)
    elif not state and path not in _TRIED:
        # By its name. A check makes the drive's model, which takes 15 to 30 ms for an SSD: tests
        # check the drives of the catalog.
        table = document.values
    else:
        table = _drive(document)
    return CatalogEntry(shelf, name, path, document, table)


def _named(document: Document) -> Document:
    """Return an entry whose name is that of its file when it states none."""
    name = document.values.get("name", document.file.stem)
    if not isinstance(name, str):
        raise StudyError([document.problem(("name",), "must be text", given=name)])
    if not name.strip():
        raise StudyError([document.problem(("name",), "must not be empty", given=name)])
    return replace(document, values={**document.values, "name": name})


_TRIED: dict[Path, str] = {}


def attempt(texts: dict[Path, str]) -> None:
    """Replace the texts of entries' files until the next call: fitting tries values without writing
    them."""
    _TRIED.clear()
    _TRIED.update(texts)
    _load.cache_clear()


def _drive(document: Document) -> dict[str, Any]:
    found = refused(document, document.values)
    if found is not None:
        raise StudyError([found])
    return document.values


def _typed(shelf: str, document: Document) -> Any:
    from headrace.catalog.tables import TABLES  # 40 models; drives need none of them

    problems = Problems(document)
    table = problems.validated((), document.values, TABLES[shelf])
    if problems.found:
        raise StudyError(problems.found)
    return table


def unsourced(found: CatalogEntry) -> list[str]:
    """Return the dotted paths of values without a source or reason; empty for a complete entry."""
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
