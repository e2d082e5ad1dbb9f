"""The Parquet report: the long table of `tidy.py`, for DuckDB, pandas, Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet

_parquet: Any = pyarrow.parquet


def write_parquet(table: Any, file: Path) -> None:
    """Write the table."""
    _parquet.write_table(table, str(file), compression="zstd")
