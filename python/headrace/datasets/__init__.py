"""Data sets of collision events: generated from a seed, cached, and shared between trials."""

from __future__ import annotations

from headrace.datasets.data import Data
from headrace.datasets.estimates import data_bytes, data_files, estimated_bytes, estimated_seconds
from headrace.datasets.integrity import Manifest, find_damage, read_manifest
from headrace.datasets.own_files import OwnFiles
from headrace.datasets.spec import DatasetSpec
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
