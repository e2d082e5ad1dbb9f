"""Step 1 of the pipeline: turn a study file into a Study."""

from __future__ import annotations

from headrace.study.load import load_study, load_study_text
from headrace.study.model import Study

__all__ = ["Study", "load_study", "load_study_text"]
