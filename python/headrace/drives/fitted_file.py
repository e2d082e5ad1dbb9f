"""Writes a fitted drive: the drive's own file with the fitted values and their sources.

The source of each fitted value names the fio results that it was fitted to.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit import TOMLDocument

from headrace._core import ModelError, drive_check
from headrace.catalog import CatalogEntry
from headrace.drives.evidence import names_of
from headrace.drives.fitting import Fit
from headrace.drives.observed_traces import is_trace
from headrace.scenario import Table
from headrace.whole_file import write_whole

DIGITS, ALL_DIGITS = 6, 17
"""Digits of fitted values: few, and all where rounding would make a value that cannot be true
beside the others, such as a seek longer than the skew that hides it."""


def write_fitted(entry: CatalogEntry, fit: Fit, results: Sequence[Path], path: Path) -> None:
    """Write the fitted drive; the file's comments and order stay. Raises HeadraceError if it cannot
    be written."""
    document = _document(entry, fit, results, path.stem, DIGITS)
    try:
        drive_check(json.dumps(document.unwrap()))
    except ModelError:
        document = _document(entry, fit, results, path.stem, ALL_DIGITS)
    text = tomlkit.dumps(document)
    write_whole(path, lambda part: part.write_text(text, "utf-8"))


def _document(
    entry: CatalogEntry, fit: Fit, results: Sequence[Path], name: str, digits: int
) -> TOMLDocument:
    document: Any = tomlkit.parse(entry.document.raw.decode())
    named = list(zip(results, names_of(results), strict=True))
    traces = [name for result, name in named if is_trace(result)]
    of_fio = [name for _, name in named if name not in traces]
    what = " and ".join(
        f"{kind} {', '.join(names)}"
        for kind, names in (("fio results", of_fio), ("traces", traces))
        if names
    )
    document["name"] = name
    source = document.setdefault("source", tomlkit.table())
    for parameter in fit.parameters:
        if not parameter.determined:
            continue
        *tables, last = parameter.name.split(".")
        table, fitted = document, fit.table
        for each in tables:
            table = table.setdefault(each, tomlkit.inline_table())
            fitted = cast("Table", fitted[each])
        value = float(f"{parameter.value:.{digits}g}")
        table[last] = int(value) if isinstance(table.get(last, fitted[last]), int) else value
        source[parameter.name] = f"fitted to {what} (standard error {parameter.error:.2g})"
    stated = fit.table.get("buffer")
    if isinstance(stated, dict) and "write_cache_bytes" in stated:
        buffer = document.setdefault("buffer", tomlkit.inline_table())
        if buffer.get("write_cache_bytes") != stated["write_cache_bytes"]:
            buffer["write_cache_bytes"] = stated["write_cache_bytes"]
            source["buffer.write_cache_bytes"] = "stated with the fit: the write cache was off"
    return document
