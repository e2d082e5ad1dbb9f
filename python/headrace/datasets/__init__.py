"""Data sets of collision events: what a workload asks for, generated once, seeded, cached and shared between trials."""

from __future__ import annotations

from headrace.datasets.estimates import estimated_bytes, estimated_seconds
from headrace.datasets.integrity import Manifest, faults, read_manifest
from headrace.datasets.spec import DatasetSpec
from headrace.datasets.store import materialise

__all__ = [
    "DatasetSpec",
    "Manifest",
    "estimated_bytes",
    "estimated_seconds",
    "faults",
    "materialise",
    "read_manifest",
]
