"""The studies shipped with Headrace: inside the installed package, `studies/` in a clone."""

from __future__ import annotations

from pathlib import Path

_INSTALLED = Path(__file__).parents[1] / "studies"
_CLONE = Path(__file__).parents[3] / "studies"

STUDIES = _INSTALLED if _INSTALLED.is_dir() else _CLONE
"""Folder of the study files; it may be missing."""


def packaged_studies() -> dict[str, Path]:
    """Return every study that `headrace init NAME` copies, by name. Each is a single file."""
    return {file.stem: file for file in sorted(STUDIES.glob("*.toml"))}
