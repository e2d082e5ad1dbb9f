"""Placeholders like {file} in the arguments and variables of a user's program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast, overload

from headrace.registry import nearest

STUDY = "study"
"""The folder of the study file: filled in before validation, by `anchored`."""
_BRACED_WORD = re.compile(r"\{([a-z]+)\}")


def anchored(written: dict[str, object], base: Path) -> dict[str, object]:
    """Return options with {study} filled in, and `./run.sh` as an absolute path."""
    command, environment = written.get("command"), written.get("environment")
    if isinstance(command, list) and command:
        words = [with_study(word, base) for word in cast("list[object]", command)]
        if isinstance(words[0], str) and "/" in words[0] and not _BRACED_WORD.search(words[0]):
            words[0] = str(base / words[0])
        written = {**written, "command": words}
    if isinstance(environment, dict):
        pairs = cast("dict[str, object]", environment).items()
        filled = {name: with_study(value, base) for name, value in pairs}
        written = {**written, "environment": filled}
    return written


def check_placeholders(arguments: Iterable[str], known: tuple[str, ...]) -> None:
    """Raise ValueError for a slip in a placeholder.

    Braces may belong to the program itself: only words close to a placeholder are refused.
    """
    for argument in arguments:
        for word in _BRACED_WORD.findall(argument):
            near = nearest(word, list(known))
            if word not in known and near is not None:
                raise ValueError(f"unknown placeholder {{{word}}}; did you mean {{{near}}}?")


def placeholders_in(text: str, known: Iterable[str]) -> list[str]:
    """Return the placeholders in a text."""
    return [word for word in _BRACED_WORD.findall(text) if word in known]


def fill(text: str, values: Mapping[str, str]) -> str:
    """Fill in the placeholders of one argument.

    Placeholders within inserted values are not expanded.
    """
    return _BRACED_WORD.sub(lambda found: values.get(found.group(1), found.group(0)), text)


@overload
def with_study(value: str, base: Path) -> str: ...
@overload
def with_study(value: object, base: Path) -> object: ...
def with_study(value: object, base: Path) -> object:
    """Return a value with {study} filled in if it is a text."""
    return value.replace(f"{{{STUDY}}}", str(base)) if isinstance(value, str) else value
