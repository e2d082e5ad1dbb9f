"""What has no room is said before a study starts, with the numbers.

Needs root, for small file systems.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import MissingError
from headrace.library import load_study

STUDY = """
headrace = 1
title = "much"
[target.disk]
{target}
[workload.scan]
kind = "scan"
data = {{ shape = "bench", events = {events}, files = 4 }}
[plan]
repeats = {{ min = 1 }}
"""
PATH = 'kind = "path"\npath = "small/target"\ncreate = true'
IMAGE = 'kind = "block"\nimage = "disk.img"\nsize = "400 MB"\nfilesystem = "ext4"'


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 40 MB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "headrace-test", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def refusal(folder: Path, target: str, events: int, cache: Path) -> str:
    """What a run is refused with; empty when it is not."""
    (folder / "study.toml").write_text(STUDY.format(target=target, events=events))
    loaded = load_study(folder / "study.toml")
    fatal = [
        each for each in loaded.check(cache_dir=cache, results=folder / "results") if each.fatal
    ]
    if not fatal:
        return ""
    with pytest.raises(MissingError) as caught:
        loaded.run(folder / "results", cache_dir=cache)
    assert not (folder / "results").exists(), "nothing was started"
    assert caught.value.exit_code == 3
    return caught.value.message


def test_a_study_of_petabytes_is_refused_with_the_numbers(tmp_path: Path) -> None:
    said = refusal(tmp_path, 'kind = "path"\npath = "."', 10**14, tmp_path / "cache")
    assert "87.4 PB are needed" in said, "the data set, in the cache and on the target"
    assert (
        "43.7 PB for data sets in the cache" in said and "43.7 PB for files on target disk" in said
    )
    assert "free" in said and "fewer events" in said


def test_each_file_system_is_counted_by_itself(tmp_path: Path, small: Path) -> None:
    # 21.9 MB once is room enough, twice on one file system is not.
    assert refusal(tmp_path, PATH, 50_000, tmp_path / "cache") == ""
    said = refusal(tmp_path, PATH, 120_000, tmp_path / "cache")
    assert f"the file system of {small} has 41.9 MB free, about 52.4 MB are needed" in said
    assert "52.4 MB for files on target disk" in said and "data sets in the cache" not in said
    said = refusal(tmp_path, PATH, 60_000, small / "cache")
    assert (
        "26.2 MB for data sets in the cache" in said and "26.2 MB for files on target disk" in said
    )


def test_data_sets_that_are_there_are_not_counted_again(tmp_path: Path, small: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY.format(target=PATH, events=50_000))
    loaded = load_study(tmp_path / "study.toml")
    loaded.run(tmp_path / "first", cache_dir=tmp_path / "cache")
    assert not [each for each in loaded.check(cache_dir=tmp_path / "cache") if "free" in each.what]


def test_a_file_system_that_is_made_too_small(tmp_path: Path) -> None:
    said = refusal(tmp_path, IMAGE, 1_500_000, tmp_path / "cache")
    assert "its file system takes" in said and "about 656 MB are needed (for target disk)" in said
    assert refusal(tmp_path, IMAGE, 500_000, tmp_path / "cache") == ""
