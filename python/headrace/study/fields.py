"""Step 1b of the pipeline: which field a factor varies, and how to put a level into it.

A factor is named after a field: of the run (`slots`), of any target or workload that has it
(`filesystem`, `codec`; nested fields too: `drive` finds `export.drive`), of the site (`link.rate`),
or of a single part (`target.nas.scheduler`).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from headrace.catalog.write_cache import stated_cache
from headrace.document import anchored_path
from headrace.site import link_text
from headrace.validation import NamePath, field_paths


@cache
def find_field(model: type[BaseModel], name: str) -> tuple[NamePath, ...]:
    """Return the paths of a field with this name (or dotted path) at the shallowest depth.

    There is one path unless the name is ambiguous.
    """
    wanted = tuple(name.split("."))
    hits = [path for path in field_paths(model) if path[-len(wanted) :] == wanted]
    shallowest = min((len(path) for path in hits), default=0)
    return tuple(path for path in hits if len(path) == shallowest)


def with_level(written: dict[str, Any], path: NamePath, level: Any) -> dict[str, Any]:
    """Return a copy of a table as written, with one field replaced."""
    table = copy.deepcopy(written)
    inner = table
    for name in path[:-1]:
        if not isinstance(inner.get(name), dict):
            inner[name] = {}
        inner = inner[name]
    inner[path[-1]] = level
    return table


_SHELF_OF_FIELD = {
    "drive": "drives",
    "controller": "controllers",
    "machine": "nodes",
    "switch": "switches",
    "software": "servers",
    "source_software": "servers",
    "profile": "profiles",
}


def entry_names(written: dict[str, Any], path: NamePath = ()) -> list[tuple[NamePath, str, str]]:
    """Return every place in a table that names a catalog entry: place, shelf and name.

    These are fields such as `drive` and `machine`, and the values of a table `drives`.
    """
    found: list[tuple[NamePath, str, str]] = []
    for key, value in written.items():
        shelf = "drives" if path and path[-1] == "drives" else _SHELF_OF_FIELD.get(key)
        if isinstance(value, dict):
            found += entry_names(cast("dict[str, Any]", value), (*path, key))
        elif key == "link" and isinstance(value, str):
            if (name := _link_name(value)) is not None:
                found.append(((*path, key), "links", name))
        elif isinstance(value, str) and shelf is not None and (value or shelf != "profiles"):
            found.append(((*path, key), shelf, value))
    return found


def _link_name(text: str) -> str | None:
    """Return the entry that a link written as text names; None if it states a rate, or is wrong as
    its field says."""
    try:
        _ports, name, rate = link_text(text)
    except ValueError:
        return None
    return name if rate is None else None


def anchored_fields(
    model: type[BaseModel], written: dict[str, Any], base: Path
) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """Return a table with absolute paths in the fields that name files, and the fields that fail.

    Absolute paths make a study independent of the working directory. A field that fails is given as
    name, value and problem.
    """
    found, wrong = dict(written), list[tuple[str, str, str]]()
    for name in getattr(model, "path_fields", ()):
        value = written.get(name)
        # A profile without a suffix is a catalog entry.
        if isinstance(value, str) and value and (name != "profile" or value.endswith(".toml")):
            try:
                found[name] = str(anchored_path(base, value))
            except ValueError as error:
                wrong.append((name, value, str(error)))
    anchored = getattr(model, "anchored", None)
    if anchored is not None:
        try:
            found = anchored(found, base)
        except ValueError as error:
            name = "data" if "data" in found else "job"
            wrong.append((name, "", str(error)))
    return found, wrong


def anchor_drives(written: dict[str, Any], base: Path) -> dict[str, Any]:
    """Return a copy in which drives and controllers given as files (`….toml`) have absolute paths.

    Raises ValueError as `anchored_path` does.
    """
    for place, shelf, name in entry_names(written):
        file, cache_state = stated_cache(name)
        if shelf in ("drives", "controllers") and file.endswith(".toml"):
            path = str(anchored_path(base, file))
            stated = path if cache_state is None else f"{path} write-cache={cache_state}"
            written = with_level(written, place, stated)
    return written


@dataclass(frozen=True)
class Address:
    """A field that a factor varies.

    `section` is `target`, `workload`, `run`, `site` or `fault`.
    """

    section: str
    part: str | None
    """The target or workload it applies to; None for every one that has the field."""
    field: str
    """Name or dotted path within the section."""
