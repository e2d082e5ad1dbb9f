"""The CSV report: the long table of `tidy.py` as text (UTF-8, RFC 4180), null as nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.csv

_csv: Any = pyarrow.csv


def write_csv(table: Any, file: Path) -> None:
    """Writes the table."""
    _csv.write_csv(table, str(file))
