"""Join the rows of tables that mail programs and terminals wrapped to several lines.

The lines that are joined to another one are left empty, so that line numbers stay.
"""

from __future__ import annotations

import re

_NUMBERS_ALONE = re.compile(r"^\s*(?:(?:[-+]?\d+(?:\.\d+)?|-?nan|-?inf)\s*)+$")
_TITLE = re.compile(r"^\s*(?:Directory|File|Tree) [a-z]+\s*:?(?:\s+(?:[-+.\d]|-?nan|-?inf).*)?$")
_IOR_ROWS = ("write", "read", "remove")


def unwrap_mdtest(text: str) -> str:
    """Return mdtest's output with whole rows: no line of mdtest's tables has numbers alone."""
    lines = text.split("\n")
    row: int | None = None
    for at, line in enumerate(lines):
        if _TITLE.match(line):
            row = at
        elif row is not None and _NUMBERS_ALONE.match(line):
            lines[row], lines[at] = f"{lines[row].rstrip()} {line.strip()}", ""
        else:
            row = None
    return "\n".join(lines)


def unwrap_ior(text: str) -> str:
    """Return IOR's output with a whole heading and whole rows of `Summary of all tests`."""
    lines = text.split("\n")
    columns, row = 0, None
    for at, line in enumerate(lines):
        words = line.split()
        if line.lstrip().startswith("Summary of all tests"):
            columns, row = 0, at + 1
        elif not words:
            columns, row = 0, None
        elif row is None or at <= row:
            continue
        elif words[0] in _IOR_ROWS:
            columns, row = columns or len(lines[row].split()), at
        elif not columns or len(lines[row].split()) < columns:
            lines[row], lines[at] = f"{lines[row].rstrip()} {' '.join(words)}", ""
        else:
            columns, row = 0, None
    return "\n".join(lines)
