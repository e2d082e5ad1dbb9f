"""Headrace: a laboratory for the storage of analysis clusters. The library's face; see `headrace.library`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.library import LoadedStudy, load_study, records, resume

__all__ = ["LoadedStudy", "load_study", "records", "resume"]


def __getattr__(name: str) -> Any:
    # Loaded when first asked for: job processes and `headrace --help` need none of it.
    if name in __all__:
        from headrace import library

        return getattr(library, name)
    raise AttributeError(f"module 'headrace' has no attribute {name!r}")
