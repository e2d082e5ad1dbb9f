"""Problems of a study that appear only in planning, with the line of its file."""

from __future__ import annotations

from headrace.document import FieldPath, dotted, read_document
from headrace.errors import Fault, HeadraceError
from headrace.study.model import Study


def fault(study: Study, path: FieldPath, given: str, problem: str, allowed: str) -> Fault:
    """Return a problem at a field of the study.

    The study file is read again only for the line number; the line is 0 if the file cannot be read.
    """
    try:
        line = read_document(study.file).line(path)
    except HeadraceError:
        line = 0
    return Fault(study.file, line, dotted(path), given, problem, allowed)
