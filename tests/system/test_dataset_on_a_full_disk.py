"""A data set that does not fit on a real file system.

One clear message, and nothing left behind.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.datasets import DatasetSpec, materialise
from headrace.errors import HeadraceError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "headrace-test", str(place)], check=True
    )
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("events", [4000, 12_000])
def test_no_space_is_one_clear_message_and_leaves_nothing(events: int, small_disk: Path) -> None:
    """In this process (few events) and in processes of its own."""
    with pytest.raises(HeadraceError, match="no space left for a data set of about"):
        materialise(DatasetSpec.model_validate({"events": events, "files": 2}), small_disk)
    assert list(small_disk.iterdir()) == []
