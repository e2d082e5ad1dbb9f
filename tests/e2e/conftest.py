"""What the end-to-end tests share.

A place to run studies in, a small study, one cache of data sets for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from workspace import Workspace, small_study


@pytest.fixture(scope="session")
def data_cache(shared_folder: Path) -> Path:
    return shared_folder / "datasets"


@pytest.fixture
def workspace(tmp_path: Path, data_cache: Path) -> Iterator[Workspace]:
    journals = tmp_path / "journals"
    yield Workspace(tmp_path, data_cache, {"HEADRACE_JOURNAL_DIR": str(journals), "COLUMNS": "200"})
    left = list(journals.glob("*")) if journals.exists() else []
    assert not left, f"a test left an undo journal: {left}"


@pytest.fixture
def tiny() -> str:
    return small_study()
