"""Step 1b of the way: which field a factor varies, and how a level gets into it.

A factor is named by a field: of the run (`slots`), of any target or workload that has it (`filesystem`, `codec`; nested ones too:
`drive` finds `export.drive`), of the site (`link.rate`), or of one part alone (`target.nas.scheduler`).
"""

from __future__ import annotations

import copy
import typing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

NamePath = tuple[str, ...]


def nested_models(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation admits: itself, members of a union, never those in lists or mappings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    origin = typing.get_origin(annotation)
    if origin in (list, dict, tuple, set, frozenset):
        return []
    return [model for argument in typing.get_args(annotation) for model in nested_models(argument)]


@cache
def field_paths(model: type[BaseModel]) -> tuple[NamePath, ...]:
    """Every field of a model and of the models in it, shallow ones first."""
    level: list[tuple[NamePath, type[BaseModel]]] = [((), model)]
    paths: list[NamePath] = []
    while level:
        deeper: list[tuple[NamePath, type[BaseModel]]] = []
        for prefix, current in level:
            for name, info in current.model_fields.items():
                path = (*prefix, name)
                if path not in paths:
                    paths.append(path)
                if len(path) < 5:
                    deeper.extend((path, inner) for inner in nested_models(info.annotation))
        level = deeper
    return tuple(paths)


@cache
def find_field(model: type[BaseModel], name: str) -> tuple[NamePath, ...]:
    """Where a field of that name (dotted: that path) lies: the shallowest places, one unless it is ambiguous."""
    wanted = tuple(name.split("."))
    hits = [path for path in field_paths(model) if path[-len(wanted) :] == wanted]
    shallowest = min((len(path) for path in hits), default=0)
    return tuple(path for path in hits if len(path) == shallowest)


def with_level(written: dict[str, Any], path: NamePath, level: Any) -> dict[str, Any]:
    """A copy of a table as written with one field replaced."""
    table = copy.deepcopy(written)
    inner = table
    for name in path[:-1]:
        if not isinstance(inner.get(name), dict):
            inner[name] = {}
        inner = inner[name]
    inner[path[-1]] = level
    return table


def drive_names(written: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[NamePath, str]]:
    """Every place of a table that names a drive of the catalog: fields `drive`, and the values of a table `drives`."""
    found: list[tuple[NamePath, str]] = []
    for key, value in written.items():
        if isinstance(value, dict):
            found += drive_names(cast("dict[str, Any]", value), (*path, key))
        elif isinstance(value, str) and (key == "drive" or (path and path[-1] == "drives")):
            found.append(((*path, key), value))
    return found


def anchor_drives(written: dict[str, Any], base: Path) -> dict[str, Any]:
    """A copy in which drives that are files (`….toml`) are named by whole paths; relative ones are relative to `base`."""
    for place, name in drive_names(written):
        if name.endswith(".toml"):
            written = with_level(written, place, str((base / Path(name).expanduser()).resolve()))
    return written


@dataclass(frozen=True)
class Address:
    """What a factor varies. `room` is `target`, `workload`, `run`, `site`, or `part` (which part stands in the cell)."""

    room: str
    part: str | None
    """Only this target or workload; None: every one that has the field."""
    field: str
    """Name or dotted path within the room."""
