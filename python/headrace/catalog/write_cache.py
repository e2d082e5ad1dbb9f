"""The state of a disk's write cache, as the text that names a drive can state it.

`seagate-exos-x24-24tb write-cache=off`: wherever a drive is named.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.errors import FileProblem, StudyError
from headrace.units import parse_bytes

if TYPE_CHECKING:
    from headrace.catalog.load import CatalogEntry

_STATED = re.compile(r"(.*\S)\s+write-cache=(\S*)")


def stated_cache(name: str) -> tuple[str, str | None]:
    """Split `NAME write-cache=STATE` into name and state; None: nothing is stated."""
    found = _STATED.fullmatch(name)
    return (found[1], found[2]) if found else (name, None)


def with_write_cache(entry: CatalogEntry, state: str | None) -> CatalogEntry:
    """Return a disk with its write cache `on`, `off` or of a size; None: as in its table.

    Raises StudyError if it has no such cache, or if that is not a state.
    """
    if state is None:
        return entry
    if entry.table["kind"] != "hdd":
        raise _problem(entry, "kind", "only a disk has a write cache that can be off")
    values = copy.deepcopy(entry.document.values)
    buffer = values.setdefault("buffer", {})
    if state == "off":
        buffer["write_cache_bytes"] = 0
    elif state != "on":
        buffer["write_cache_bytes"] = _size_bytes(entry, state)
    elif buffer.get("write_cache_bytes") == 0:
        raise _problem(entry, "buffer.write_cache_bytes", "the table says that it is off")
    return replace(entry, document=replace(entry.document, values=values), table=values)


def _size_bytes(entry: CatalogEntry, state: str) -> int:
    try:
        return parse_bytes(state)
    except ValueError:
        allowed = "on, off, or a size such as 16MiB"
        place = (entry.file, 0, "write-cache", f'"{state}"')
        raise StudyError([FileProblem(*place, "is not a state of it", allowed)]) from None


def _problem(entry: CatalogEntry, field: str, problem: str) -> StudyError:
    return StudyError([FileProblem(entry.file, 0, field, "", problem)])
