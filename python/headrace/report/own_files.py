"""Which files that are there already Headrace wrote: those alone may be replaced."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import RefusedError

_HEAD_BYTES = 4096
"""Bytes of a page that hold its title."""
_PDF_END = b"\n%Headrace\n"
"""Last line of a PDF of Headrace (`decision_page.py`)."""
_PAGE = re.compile(rb'<meta name="generator" content="Headrace">|<title>[^<]*Headrace')
_FIRST = {"report.csv": b'"about","workload"', "report.tex": b"% Tables need booktabs, figures"}
"""First bytes of the files of `csv.py` and `latex.py`."""
NAMES = {
    "html": "report.html",
    "csv": "report.csv",
    "latex": "report.tex",
    "parquet": "report.parquet",
}
"""The file of each format."""


def is_own_page(file: Path) -> bool:
    """Return whether a file is a page or a PDF that Headrace wrote."""
    try:
        with file.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
            if head.startswith(b"%PDF-"):
                stream.seek(-len(_PDF_END), os.SEEK_END)
                return stream.read() == _PDF_END
    except OSError:
        return False
    return _PAGE.search(head) is not None


def check_reports(folder: Path, formats: Sequence[str]) -> None:
    """Raise RefusedError if a report would replace a file that Headrace did not write."""
    for file in (folder / NAMES[name] for name in formats):
        if file.is_file() and not _is_own_report(file):
            raise RefusedError(
                f"{file} already exists, and is no report of Headrace",
                hint="name another folder with --output",
            )


def _is_own_report(file: Path) -> bool:
    if file.suffix == ".html":
        return is_own_page(file)
    if file.suffix == ".parquet":
        return _is_own_parquet(file)
    first = _FIRST[file.name]
    try:
        with file.open("rb") as stream:
            return stream.read(len(first)) == first
    except OSError:
        return False


def _is_own_parquet(file: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(file).names[:2] == ["about", "workload"]
    except (OSError, pa.ArrowException):
        return False
