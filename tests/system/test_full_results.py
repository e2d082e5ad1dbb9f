"""Results folders and targets on a file system that is full, or read-only, and then is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

STUDY = """
headrace = 1
title = "full"
target.disk = { kind = "path", path = "small/target", create = true }
site.node.drives = { disk = "samsung-870-evo-1tb" }
workload.w = { kind = "scan", data = { shape = "bench", events = 2000, files = 1 } }
plan.repeats = { min = 1 }
"""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 20 MB."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "headrace-test", place], check=True)
    try:
        (tmp_path / "study.toml").write_text(STUDY)
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", place], check=True)


def headrace(folder: Path, *words: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "headrace", *words], cwd=folder, capture_output=True, text=True
    )
    return ended.returncode, " ".join((ended.stdout + ended.stderr).split())


def test_a_folder_whose_lock_has_no_space_is_resumed_when_there_is(small: Path) -> None:
    here = small.parent
    remount(small, "nr_inodes=7")  # the root, the folder, trials and four files
    code, said = headrace(here, "simulate", "study.toml", "--results", "small/r")
    assert code == 6, said
    assert "no space left while records were written to small/r" in said
    assert "free some space, then: headrace resume small/r" in said
    remount(small, "nr_inodes=1000")
    code, said = headrace(here, "resume", "small/r")
    assert (code, len(list((small / "r/trials").iterdir()))) == (0, 1), said
    remount(small, "ro")
    code, said = headrace(here, "resume", "small/r")
    assert code == 2 and "mount its file system writable" in said, said


def test_a_target_without_an_inode_is_refused_before_anything_starts(small: Path) -> None:
    here = small.parent
    remount(small, "nr_inodes=1")
    code, said = headrace(here, "run", "study.toml", "--results", "r")
    assert code == 3 and "has no inode left for a file" in said, said
    assert not (here / "r").exists()
    remount(small, "nr_inodes=1000")
    _, said = headrace(here, "run", "study.toml", "--results", "r")
    assert len(list((here / "r/trials").iterdir())) == 1, said
    assert "No space left" not in said


def test_trials_of_a_full_target_run_when_there_is_space(small: Path) -> None:
    """With three inodes the target's folder can be made, its scratch folder cannot."""
    here = small.parent
    remount(small, "nr_inodes=3")
    code, said = headrace(here, "run", "study.toml", "--results", "r")
    assert code == 5 and "No space left on device (free some space or inodes" in said, said
    assert "to run the 1 failed trial again: headrace resume r --retry-invalid" in said
    remount(small, "nr_inodes=1000")
    _, said = headrace(here, "resume", "r", "--retry-invalid")
    assert len(list((here / "r/retried").iterdir())) == 1, said
    assert "No space left" not in said
