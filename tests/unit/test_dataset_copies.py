"""Copies of a data set on a target.

Inodes of their own, verified before every trial, copied again when damaged.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.datasets import DatasetSpec, find_damage, materialise
from headrace.datasets.copies import DamagedSourceError, copy_file
from headrace.engine.measure.placing import Placing
from headrace.errors import InterruptedRunError

SPEC = DatasetSpec.model_validate({"events": 300, "files": 3})


class Run:
    """A cache, a target beside it on the same file system, and what was said."""

    def __init__(self, folder: Path) -> None:
        self.said: list[str] = []
        self.stop = threading.Event()
        self.target = folder / "target"
        self.cache = folder / "cache"
        self.placing = Placing(self.cache, self.said.append, self.stop)

    def placed(self, **options: Any) -> list[Path]:
        self.said.clear()
        return self.placing.placed(SPEC, self.target, **options)[0]

    @property
    def cached(self) -> list[Path]:
        return materialise(SPEC, self.cache / "datasets")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_damage_on_the_target_leaves_the_cache_whole_and_is_put_right(run: Run) -> None:
    files = run.placed()
    good = [file.read_bytes() for file in files]
    assert not {file.stat().st_ino for file in files} & {file.stat().st_ino for file in run.cached}
    with files[1].open("r+b") as file:
        file.seek(1000)
        file.write(b"damage")
    assert [file.read_bytes() for file in run.cached] == good
    assert find_damage(run.cached[0].parent, checksums=True) == []
    assert run.placed() == files
    assert [file.read_bytes() for file in files] == good
    assert any("damaged on the target" in text and files[1].name in text for text in run.said)


def test_damage_in_the_cache_is_made_again_before_it_is_copied(run: Run) -> None:
    run.placed(share=(0, 3))
    good = [file.read_bytes() for file in run.cached]
    broken = run.cached[1]
    broken.write_bytes(good[1][:5000] + b"damage" + good[1][5006:])
    [file] = run.placed(share=(1, 3))
    assert file.read_bytes() == good[1] == broken.read_bytes()


def test_damage_that_no_time_shows_is_found_by_checksum(run: Run) -> None:
    """A drive that loses what it holds changes no inode."""
    [file] = run.placed(share=(0, 3))
    good = file.read_bytes()
    status = file.stat()
    file.write_bytes(good[:5000] + b"damage" + good[5006:])
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    from headrace.datasets.integrity import note_right

    note_right(file.parent, [file.name])
    assert run.placed(share=(0, 3)) == [file] and file.read_bytes() != good
    assert run.placed(share=(0, 3), thorough=True) == [file] and file.read_bytes() == good


def test_what_is_whole_is_neither_copied_nor_wanted_in_the_cache(run: Run) -> None:
    before = [file.stat().st_ino for file in run.placed()]
    for file in run.cached:
        file.unlink()
    files = run.placed(thorough=True)
    assert [file.stat().st_ino for file in files] == before
    assert not [text for text in run.said if "making" in text or "copying" in text]


def test_a_manifest_on_the_target_that_is_damaged_is_put_right(run: Run) -> None:
    files = run.placed()
    manifest = files[0].parent / "manifest.json"
    good = manifest.read_bytes()
    for bad in (
        b"",
        good[:-40],
        good.replace(b'"generator": ', b'"generator": 9'),
        good.replace(b'"xxh3": "', b'"xxh3": "f'),
    ):
        assert bad != good
        manifest.write_bytes(bad)
        assert run.placed(thorough=True) == files
        assert manifest.read_bytes() == good
        assert find_damage(manifest.parent, checksums=True) == []


def test_a_stop_while_files_are_copied_leaves_none_half(run: Run) -> None:
    made = run.cached
    run.stop.set()
    with pytest.raises(InterruptedRunError):
        run.placed()
    assert not list(run.target.rglob("*.partial*")) and not list(run.target.rglob("events-*"))
    assert find_damage(made[0].parent, checksums=True) == []


def test_a_copy_of_a_file_with_other_contents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"some bytes")
    with pytest.raises(DamagedSourceError):
        copy_file(tmp_path / "source", tmp_path / "copy", xxh3="0" * 32)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_what_a_killed_copy_left_goes_with_the_next(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"some bytes")
    (tmp_path / ".copy.partial-99999999").write_bytes(b"some")
    copy_file(tmp_path / "source", tmp_path / "copy", xxh3=None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "source"]
