"""Copies of a data set on a file system that can share blocks.

No room is taken, and writing to a copy changes it alone.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.datasets import DatasetSpec, find_damage
from headrace.engine.measure.placing import Placing

pytestmark = pytest.mark.usefixtures("needs_root")

SPEC = DatasetSpec.model_validate({"events": 20_000, "files": 1})


@pytest.fixture
def sharing_disk(tmp_path: Path) -> Iterator[Path]:
    image, place = tmp_path / "disk.img", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(400 << 20)
    place.mkdir()
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def used_bytes(place: Path) -> int:
    subprocess.run(["sync", "-f", str(place)], check=True)
    said = subprocess.run(
        ["df", "-B1", "--output=used", str(place)], check=True, capture_output=True
    )
    return int(said.stdout.split()[-1])


def test_a_copy_shares_blocks_until_it_is_written_to(sharing_disk: Path) -> None:
    placing = Placing(sharing_disk / "cache", lambda text: None, threading.Event())
    [made], _ = placing.made(SPEC)
    before = used_bytes(sharing_disk)
    [copy], _ = placing.placed(SPEC, sharing_disk / "target")
    assert used_bytes(sharing_disk) - before < made.stat().st_size // 4
    assert copy.stat().st_ino != made.stat().st_ino and copy.read_bytes() == made.read_bytes()
    with copy.open("r+b") as file:
        file.seek(5000)
        file.write(bytes(100))
    assert find_damage(made.parent, checksums=True) == []
    assert placing.placed(SPEC, sharing_disk / "target")[0] == [copy]
    assert copy.read_bytes() == made.read_bytes()
