"""Ground: a TOML file (a study, a catalog entry) -> its values, and the line of every field, so that a fault can name it.

Values come from the standard library's parser, lines from the TOML grammar of tree-sitter.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import tree_sitter
import tree_sitter_toml

from headrace.errors import Fault, HeadraceError, StudyError

FieldPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A parsed TOML file."""

    file: Path
    values: dict[str, Any]
    lines: dict[FieldPath, int] = field(repr=False)
    """1-based line of every table, field and array item."""

    def line(self, path: FieldPath) -> int:
        """The line of a field, or of the nearest thing around it that stands in the file."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return 0

    def fault(self, path: FieldPath, problem: str, *, given: object = "", allowed: str = "") -> Fault:
        """A fault of this file at a field."""
        return Fault(self.file, self.line(path), dotted(path), shown(given), problem, allowed)


def dotted(path: FieldPath) -> str:
    """`("fault", 0, "at")` -> `fault[0].at`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text


def shown(value: object) -> str:
    """A value as it is shown to the user, in TOML's notation, shortened."""
    if value == "" or value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def read_document(file: Path) -> Document:
    """Reads a TOML file. Raises HeadraceError when it cannot be read, StudyError when it is no TOML."""
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        raise _unreadable(
            file, "there is no such file", hint="headrace init writes a first study file"
        ) from None
    except IsADirectoryError:
        raise _unreadable(file, "it is a directory, not a study file") from None
    except OSError as error:
        raise _unreadable(file, f"cannot be read: {error.strerror}") from None
    return parse_document(raw, file)


def _unreadable(file: Path, problem: str, hint: str | None = None) -> HeadraceError:
    error = StudyError([Fault(file, 0, "file", "", problem)])
    error.hint = hint
    return error


def parse_document(raw: bytes, file: Path) -> Document:
    """Parses TOML text; `file` is only for messages. Raises StudyError."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise StudyError([Fault(file, line, "file", "", "is not UTF-8 text")]) from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, line = _syntax_fault(str(error), text)
        raise StudyError(
            [Fault(file, line, "file", _line_of(text, line), f"is no TOML: {problem}")]
        ) from None
    tree = tree_sitter.Parser(_grammar()).parse(raw)
    lines: dict[FieldPath, int] = {}
    _collect(tree.root_node, lines)
    return Document(file, values, lines)


def _syntax_fault(message: str, text: str) -> tuple[str, int]:
    """Splits tomllib's `problem (at line 3, column 7)`."""
    problem, _, place = message.partition(" (at ")
    if place.startswith("line "):
        return problem, int(place.removeprefix("line ").split(",")[0])
    return problem, text.count("\n") + 1


def _line_of(text: str, line: int) -> str:
    lines = text.splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


@cache
def _grammar() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_toml.language())


def _keys(node: tree_sitter.Node) -> FieldPath:
    """The parts of a bare, quoted or dotted key."""
    if node.type == "dotted_key":
        return tuple(part for child in node.named_children for part in _keys(child))
    text = (node.text or b"").decode()
    if node.type == "quoted_key":
        return (next(iter(tomllib.loads(f"{text} = 0"))),)
    return (text,)


def _collect(root: tree_sitter.Node, lines: dict[FieldPath, int]) -> None:
    """Walks the grammar's tree: tables, arrays of tables, pairs, inline tables, arrays."""
    counts: dict[FieldPath, int] = {}
    current: dict[FieldPath, FieldPath] = {}  # array of tables -> path of its element being filled

    def absolute(keys: FieldPath) -> FieldPath:
        for end in range(len(keys), 0, -1):
            if keys[:end] in current:
                return current[keys[:end]] + keys[end:]
        return keys

    def mark(path: FieldPath, node: tree_sitter.Node) -> None:
        for end in range(1, len(path) + 1):
            lines.setdefault(path[:end], node.start_point[0] + 1)

    def value(path: FieldPath, node: tree_sitter.Node) -> None:
        if node.type == "inline_table":
            for child in node.named_children:
                if child.type == "pair":
                    pair(path, child)
        elif node.type == "array":
            items = [child for child in node.named_children if child.type != "comment"]
            for index, item in enumerate(items):
                mark((*path, index), item)
                value((*path, index), item)

    def pair(prefix: FieldPath, node: tree_sitter.Node) -> None:
        path = prefix + _keys(node.named_children[0])
        mark(path, node)
        value(path, node.named_children[-1])

    for node in root.named_children:
        if node.type == "pair":
            pair((), node)
        elif node.type in ("table", "table_array_element"):
            keys = _keys(node.named_children[0])
            if node.type == "table_array_element":
                parent = absolute(keys[:-1]) + keys[-1:] if len(keys) > 1 else keys
                index = counts.get(parent, 0)
                counts[parent] = index + 1
                prefix: FieldPath = (*parent, index)
                current[keys] = prefix
            else:
                prefix = absolute(keys)
            mark(prefix, node)
            for child in node.named_children[1:]:
                if child.type == "pair":
                    pair(prefix, child)
