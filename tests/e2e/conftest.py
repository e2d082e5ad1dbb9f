"""What the end-to-end tests share.

A place to run studies in, a small study, one cache of data sets for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from house import House


@pytest.fixture(scope="session")
def data_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("datasets")


@pytest.fixture
def house(tmp_path: Path, data_cache: Path) -> Iterator[House]:
    journals = tmp_path / "journals"
    yield House(tmp_path, data_cache, {"HEADRACE_JOURNAL_DIR": str(journals), "COLUMNS": "200"})
    left = list(journals.glob("*")) if journals.exists() else []
    assert not left, f"a test left an undo journal: {left}"


TINY = """
headrace = 1
title = "tiny"
[target.here]
kind = "path"
path = "storage"
create = true
[workload.scan]
kind = "scan"
data = { events = 8_000, files = 2 }
[factors]
slots = [1, 2]
[plan]
repeats = { min = 3 }
[run]
shortest = 0
foreign_load = "warning"  # a shared machine is never quiet
"""


@pytest.fixture
def tiny() -> str:
    return TINY
