"""Data sets of collision events: what a workload asks for, generated once, seeded, cached and shared between trials."""

from __future__ import annotations

from headrace.datasets.spec import DatasetSpec

__all__ = ["DatasetSpec"]
