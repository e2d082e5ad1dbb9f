"""The CSV report: the long table of `tidy.py` as text (UTF-8, RFC 4180); null is an empty field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.csv

_csv: Any = pyarrow.csv


def write_csv(table: Any, file: Path) -> None:
    """Write the table."""
    _csv.write_csv(table, str(file))
