"""Base layer: parse a TOML file (a study, a catalog entry) into values and the line of each field.

Messages name the lines, which are found when the first is wanted.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from string import Template
from typing import Any, cast

from headrace.errors import FileProblem, StudyError
from headrace.user import user_name

FieldPath = tuple[str | int, ...]

MOST_BYTES = 4 << 20
"""The largest file that is read, far above the size of any study or catalog entry."""
MOST_NESTED = 32
"""Maximum nesting depth of tables and arrays."""
_INT64 = 2**63


@dataclass(frozen=True)
class Document:
    """A parsed TOML file."""

    file: Path
    values: dict[str, Any]
    raw: bytes = field(default=b"", repr=False)
    """The text of the file."""
    within: FieldPath = ()
    """The table of the file that `values` are; empty for the whole file."""

    @cached_property
    def lines(self) -> dict[FieldPath, int]:
        """1-based line of every table, field and array item of `values`."""
        from headrace.toml_lines import lines_of  # a parser, which good files do not need

        depth = len(self.within)
        return {
            path[depth:]: line
            for path, line in lines_of(self.raw).items()
            if path[:depth] == self.within
        }

    def line(self, path: FieldPath) -> int:
        """Return the line of a field or its nearest parent in the file; 0 when there is none."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return 0

    def problem(
        self, path: FieldPath, problem: str, *, given: object = None, allowed: str = ""
    ) -> FileProblem:
        """Return a problem of this file at a field. `given` is None when there is no value."""
        return FileProblem(self.file, self.line(path), dotted(path), shown(given), problem, allowed)


def as_key(name: str) -> str:
    """Return a name as a TOML file has it as a key: `"a.b"` in quotes, `disk` without."""
    bare = re.fullmatch("[A-Za-z0-9_-]+", name)
    return name if bare else json.dumps(name, ensure_ascii=False)


def dotted(path: FieldPath) -> str:
    """Return a path as text: `("fault", 0, "at")` -> `fault[0].at`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return _printable(text)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def shown(value: object) -> str:
    """Return a value as shown to the user: in TOML's notation, shortened; nothing for None."""
    if value is None:
        return ""
    text = _in_toml(value)
    text = _printable(text[:81])
    return text if len(text) <= 80 else text[:77] + "..."


def _in_toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 10**80:
        return "a whole number of more than 80 digits"  # Python refuses to print longer ones
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(map(_in_toml, cast('list[object]', value)))}]"
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        inside = ", ".join(f"{name} = {_in_toml(each)}" for name, each in pairs)
        return f"{{ {inside} }}" if inside else "{}"
    return str(value)


def read_document(file: Path) -> Document:
    """Read a TOML file. Raises StudyError when it cannot be read or is not TOML."""
    try:
        return parse_document(read_bytes(file), file)
    except FileNotFoundError:
        raise _unreadable(file, "no such file") from None
    except IsADirectoryError:
        raise _unreadable(file, "is a directory, not a file") from None
    except OSError as error:
        raise _unreadable(file, f"cannot be read: {error.strerror}") from None


def read_bytes(file: Path) -> bytes:
    """Return the contents of a file that should hold TOML.

    Raises OSError, and StudyError when it is longer than `MOST_BYTES`: a device or an endless pipe
    must not fill the memory.
    """
    with file.open("rb") as opened:
        raw = opened.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise _unreadable(
            file, f"is longer than {MOST_BYTES >> 20} MiB: it is not a study or entry"
        )
    return raw


def anchored_path(base: Path, text: str) -> Path:
    """Return the path that a text in a file means; a relative one is relative to `base`.

    `~` and `~user` are home directories, `$NAME` and `${NAME}` environment variables, `$$` is a
    dollar sign. Raises ValueError when a variable is not set, `~user` names a user without a home
    directory, or links form a loop.
    """
    try:
        # The name of the effective user: after `runuser`, $USER is another user's.
        filled = Template(text).substitute({**os.environ, "USER": user_name()})
        return (base / Path(filled).expanduser()).resolve()
    except KeyError as error:
        name = str(error.args[0])
        raise ValueError(f"the environment variable {name} is not set") from None
    except RuntimeError as error:
        raise ValueError(str(error)[:1].lower() + str(error)[1:]) from None
    except ValueError:
        raise ValueError(
            "a $ begins the name of an environment variable; write $$ for a dollar sign"
        ) from None


def _unreadable(file: Path, problem: str) -> StudyError:
    return StudyError([FileProblem(file, 0, "", "", problem)])


def parse_document(raw: bytes, file: Path) -> Document:
    """Parse TOML text; `file` is only for messages.

    Raises StudyError when it is not TOML, or holds values that no field of Headrace accepts (see
    `_refused`), so that later code need not check for them.
    """
    raw = raw.removeprefix(codecs.BOM_UTF8)  # editors on Windows write it
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise StudyError([FileProblem(file, line, "", "", "is not UTF-8 text")]) from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, line = _syntax_fault(str(error), text)
        raise StudyError(
            [FileProblem(file, line, "", _line_of(text, line), f"is not valid TOML: {problem}")]
        ) from None
    except (RecursionError, ValueError) as error:
        # Python's own limits: about a thousand levels of nesting, 4300 digits per number.
        document = Document(file, {}, raw)
        if isinstance(error, RecursionError):
            raise StudyError([_too_deep(document, max(document.lines, key=len))]) from None
        long = re.search(r"[0-9_]{4300,}", text)
        line = text.count("\n", 0, long.start()) + 1 if long else 0
        raise StudyError(
            [FileProblem(file, line, "", "", "a number has too many digits")]
        ) from None
    places = list(_containers(values))
    document = Document(file, values, raw)
    deep = next((path for path, _ in places if len(path) > MOST_NESTED), None)
    if deep is not None:
        raise StudyError([_too_deep(document, deep)])
    problems = [
        document.problem((*path, key), problem, given=value, allowed=allowed)
        for path, items in places
        for key, value in items
        if (found := _refused(key, value)) is not None
        for problem, allowed in [found]
    ]
    if problems:
        raise StudyError(problems)
    return document


def _too_deep(document: Document, path: FieldPath) -> FileProblem:
    allowed = f"at most {MOST_NESTED} tables and arrays in each other"
    line, field = document.line(path), dotted(path[:3])
    return FileProblem(document.file, line, field, "", "nested too deeply", allowed)


def _containers(
    values: dict[str, Any],
) -> Iterator[tuple[FieldPath, list[tuple[str | int, object]]]]:
    """Yield every table and array with its items, iteratively; skip those nested too deeply."""
    waiting: list[tuple[FieldPath, object]] = [((), values)]
    while waiting:
        path, value = waiting.pop()
        pairs = cast("dict[str, object]", value).items() if isinstance(value, dict) else None
        items: list[tuple[str | int, object]] = list(
            enumerate(cast("list[object]", value)) if pairs is None else pairs
        )
        yield path, items
        if len(path) <= MOST_NESTED:
            waiting += [
                ((*path, key), inner) for key, inner in items if isinstance(inner, (dict, list))
            ]


def _refused(key: str | int, value: object) -> tuple[str, str] | None:
    """Return (problem, allowed) for a value that no field accepts; None when it is valid."""
    if isinstance(value, str) and "\0" in value:
        return "holds the character NUL, which no name or path can have", ""
    if isinstance(key, str) and "\0" in key:
        return "its name holds the character NUL", ""
    if isinstance(key, str) and not key:
        return "its name is empty", ""
    if isinstance(key, str) and not key.isprintable():
        return "its name holds a character that cannot be printed", ""
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number", ""
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        return "the number is too large", "whole numbers below 2^63"
    if not isinstance(value, (str, bool, int, float, dict, list)):
        return "dates and times are not used here", 'text in quotes, such as "30 s"'
    return None


def _syntax_fault(message: str, text: str) -> tuple[str, int]:
    """Split tomllib's `problem (at line 3, column 7)` into problem and line."""
    problem, _, place = message.partition(" (at ")
    # tomllib names a table as a tuple: `Cannot declare ('workload', 'a') twice`.
    if found := re.search(r"\(('.*')\)", problem):
        name = ".".join(re.findall(r"'([^']*)'", found[1]))
        problem = f"{problem[: found.start()]}[{name}]{problem[found.end() :]}"
    if place.startswith("line "):
        return problem, int(place.removeprefix("line ").split(",")[0])
    return problem, text.count("\n") + 1


def _line_of(text: str, line: int) -> str:
    lines = text.splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""
