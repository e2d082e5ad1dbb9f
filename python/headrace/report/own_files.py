"""Which files that are there already Headrace wrote: those alone may be replaced."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from headrace.errors import RefusedError
from headrace.whole_file import leads_nowhere

_HEAD_BYTES = 4096
"""Bytes of a page that hold its title."""
_PDF_END = b"\n%Headrace\n"
"""Last line of a PDF of Headrace (`decision_page.py`)."""
_PAGE = re.compile(rb'<meta name="generator" content="Headrace">|<title>[^<]*Headrace')
_FIRST = {"report.csv": b'"about","workload"', "report.tex": b"% Tables need booktabs, figures"}
"""First bytes of the files of `csv.py` and `latex.py`."""
FIGURES = "report-figures"
"""Folder of the figures of `latex.py`, beside its document."""
FIGURE_KINDS = ("pdf", "svg", "png")
MAKER = "Headrace"
"""What a figure names as the program that made it."""
_FIGURE = re.compile(rf"[a-z]+-[0-9]+\.(?:{'|'.join(FIGURE_KINDS)})")
_MADE_BY = re.compile(
    rb"/Creator \(%(maker)b\)|Software\x00%(maker)b|<dc:title>%(maker)b</dc:title>"
    % {b"maker": MAKER.encode()}
)
"""`MAKER` in the three kinds of figures."""
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
        if not file.is_file():  # a pipe would be waited for, and a terminal
            return False
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
    hint = "name another folder with --output"
    for file in (folder / NAMES[name] for name in formats):
        if (problem := leads_nowhere(file)) is not None:
            raise RefusedError(f"{file} {problem}", hint=hint)
        if file.is_file() and not _is_own_report(file):
            raise RefusedError(f"{file} already exists, and is no report of Headrace", hint=hint)
    if "latex" in formats and (there := _foreign_figure(folder)) is not None:
        raise RefusedError(f"{there} already exists, and is no figure of Headrace", hint=hint)


def _foreign_figure(folder: Path) -> Path | None:
    """Return what a LaTeX report may not replace in the folder of its figures, or the folder."""
    figures = folder / FIGURES
    if not figures.is_dir():
        return figures if figures.is_symlink() or figures.exists() else None
    document = folder / NAMES["latex"]
    included = document.read_bytes() if document.is_file() and _is_own_report(document) else b""
    names = sorted(each.name for each in figures.iterdir() if _FIGURE.fullmatch(each.name))
    for file in (figures / name for name in names):
        # Figures of Headrace 0.1 do not name it, but its document includes them.
        of_document = f"{{{FIGURES}/{file.stem}.pdf}}".encode() in included
        if not (file.is_file() and (of_document or _is_own_figure(file))):
            return file
    return None


def _is_own_figure(file: Path) -> bool:
    try:
        return _MADE_BY.search(file.read_bytes()) is not None
    except OSError:
        return False


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
