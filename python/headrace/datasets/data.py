"""Possible values of a workload's `data = { … }`: a generated data set or the user's own files."""

from __future__ import annotations

from typing import Annotated, cast

from pydantic import Discriminator, Tag

from headrace.datasets.own_files import OwnFiles
from headrace.datasets.spec import DatasetSpec

_OWN, _GENERATED = "own", "generated"


def _which(value: object) -> str:
    if isinstance(value, OwnFiles):
        return _OWN
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        if isinstance(table.get("files"), (str, list, tuple)) or {"tree", "in_place"} & set(table):
            return _OWN
    return _GENERATED


Data = Annotated[
    Annotated[DatasetSpec, Tag(_GENERATED)] | Annotated[OwnFiles, Tag(_OWN)], Discriminator(_which)
]
"""The type of the field."""
