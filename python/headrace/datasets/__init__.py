"""Data sets of collision events: generated from a seed, cached, and shared between trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.datasets.data import Data
from headrace.datasets.estimates import data_bytes, data_files, estimated_bytes, estimated_seconds
from headrace.datasets.own_files import OwnFiles
from headrace.datasets.spec import DatasetSpec

if TYPE_CHECKING:
    from headrace.datasets.integrity import Manifest, find_damage, read_manifest
    from headrace.datasets.store import materialise

__all__ = [
    "Data",
    "DatasetSpec",
    "Manifest",
    "OwnFiles",
    "data_bytes",
    "data_files",
    "estimated_bytes",
    "estimated_seconds",
    "find_damage",
    "materialise",
    "read_manifest",
]


def __getattr__(name: str) -> Any:
    # Imported on first use: a study that is only checked has its data set described, not made.
    if name in ("Manifest", "find_damage", "read_manifest"):
        from headrace.datasets import integrity

        return getattr(integrity, name)
    if name == "materialise":
        from headrace.datasets.store import materialise

        return materialise
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
