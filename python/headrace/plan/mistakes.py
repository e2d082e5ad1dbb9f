"""Faults of a study that show only when it is planned, placed in the line of its file."""

from __future__ import annotations

from headrace.document import FieldPath, dotted, read_document
from headrace.errors import Fault, HeadraceError
from headrace.study.model import Study


def fault(study: Study, path: FieldPath, given: str, problem: str, allowed: str) -> Fault:
    """A fault at a field of the study. Its file is read again for the line alone; without the file there is no line."""
    try:
        line = read_document(study.file).line(path)
    except HeadraceError:
        line = 0
    return Fault(study.file, line, dotted(path), given, problem, allowed)
