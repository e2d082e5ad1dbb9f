"""The catalog: facts as TOML.

A shelf is a folder, an entry one file with one table. Every value has a source or a reason.
"""

from __future__ import annotations

from headrace.catalog.load import SHELVES, CatalogEntry, entry, names, unsourced

__all__ = ["SHELVES", "CatalogEntry", "entry", "names", "unsourced"]
