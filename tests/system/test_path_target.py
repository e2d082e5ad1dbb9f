"""Target `path`: any directory, with root or without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import headrace
from headrace.errors import HeadraceError
from headrace.system import block_queue
from headrace.system.mounts import mount
from headrace.system.owned import OURS
from headrace.targets import TargetContext
from headrace.targets.block import BlockOptions, BlockTarget
from headrace.targets.path import PathOptions, PathTarget


def target(path: Path, **options: object) -> PathTarget:
    return PathTarget("scratch", PathOptions.model_validate({"path": str(path), **options}))


def test_a_directory_is_described_and_left_alone(context: TargetContext, tmp_path: Path) -> None:
    place = tmp_path / "scratch"
    place.mkdir()
    scratch = target(place)
    assert scratch.check(frozenset()) == []
    assert (scratch.free_bytes() or 0) > 0
    location = scratch.prepare(context)
    assert location.directory == place
    assert location.description["filesystem"]
    assert not location.network
    assert scratch.read_settings().keys() == scratch.settings
    scratch.release(context)
    scratch.release(context)
    assert list(place.iterdir()) == []


def test_create_makes_it_and_takes_it_away_when_empty(
    context: TargetContext, tmp_path: Path
) -> None:
    place = tmp_path / "a" / "b"
    (problem,) = target(place).check(frozenset())
    assert problem.what == f"the directory {place} is missing"
    assert "create = true" in problem.remedy
    scratch = target(place, create=True)
    assert scratch.check(frozenset()) == []
    scratch.prepare(context)
    assert place.is_dir()
    scratch.release(context)
    assert not (tmp_path / "a").exists()
    scratch.prepare(context)
    (place / "results").touch()
    scratch.release(context)
    assert (place / "results").exists()


def test_a_file_is_no_directory(context: TargetContext, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (problem,) = target(tmp_path / "file").check(frozenset())
    assert problem.what.endswith("is not a directory")
    (problem,) = target(tmp_path / "file" / "below", create=True).check(frozenset())
    assert problem.fatal
    with pytest.raises(HeadraceError):
        target(tmp_path / "file" / "below", create=True).prepare(context)


@pytest.mark.usefixtures("needs_root")
def test_read_only_and_full(context: TargetContext, tmp_path: Path) -> None:
    place = tmp_path / "mounted"
    place.mkdir()
    entry = mount(context.journal, "headrace-test", place, "tmpfs", ["ro"])
    (problem,) = target(place).check(frozenset())
    assert problem.what == f"{place} is mounted read-only"
    with pytest.raises(HeadraceError, match="read-only"):
        target(place).prepare(context)
    context.journal.undo(entry)

    entry = mount(context.journal, "headrace-test", place, "tmpfs", ["size=64k"])
    (place / "data").write_bytes(bytes(64 << 10))
    (problem,) = target(place).check(frozenset())
    assert problem.what == f"{place} is full"
    assert target(place).free_bytes() == 0
    context.journal.undo(entry)

    entry = mount(context.journal, "headrace-test", place, "tmpfs", ["nr_inodes=2"])
    assert target(place).check(frozenset()) == []
    (place / "data").write_bytes(b"")
    (problem,) = target(place).check(frozenset())
    assert problem.what == f"{place} has no inode left for a file"
    context.journal.undo(entry)


def test_a_url_is_no_directory() -> None:
    """It was taken for a directory of that name: `mkdir -p http:/server` was the remedy."""
    with pytest.raises(ValueError, match="a URL, not a directory"):
        PathOptions.model_validate({"path": "http://127.0.0.1:8080/data"})


STUDY_IN_MEMORY = """headrace = 1
title = "memory"
[target.ram]
kind = "path"
path = "{place}"
[workload.scan]
kind = "scan"
reader = "uproot"
data = {{ shape = "bench", events = 2000, files = 1 }}
[plan]
repeats = {{ min = 1 }}
[run]
cache = "{cache}"
shortest = "0 s"
foreign_load = "warning"
"""


@pytest.mark.usefixtures("needs_root")
def test_files_in_memory_are_named_where_a_cold_cache_is_wanted(
    context: TargetContext, tmp_path: Path
) -> None:
    place, file = tmp_path / "mounted", tmp_path / "study.toml"
    place.mkdir()
    entry = mount(context.journal, "headrace-test", place, "tmpfs")
    try:
        file.write_text(STUDY_IN_MEMORY.format(place=place, cache="as-is"))
        assert not [each for each in headrace.load_study(file).check() if "in memory" in each.what]
        file.write_text(STUDY_IN_MEMORY.format(place=place, cache="cold"))
        study = headrace.load_study(file)
        (problem,) = (each for each in study.check() if each.needed_by == "target ram")
        assert "in memory only (tmpfs)" in problem.what
        assert not problem.fatal
        study.run(tmp_path / "results", cache_dir=tmp_path / "cache")
        (written,) = (tmp_path / "results/trials").glob("*/trial.json")
        (reason,) = json.loads(written.read_text())["validity"]["reasons"]
        assert reason["code"] == "cache-not-cold"
        assert 'in memory only (tmpfs): cache = "as-is"' in reason["text"]
    finally:
        context.journal.undo(entry)


@pytest.mark.usefixtures("needs_root")
def test_settings_of_a_file_system_without_a_device(context: TargetContext, tmp_path: Path) -> None:
    place = tmp_path / "mounted"
    place.mkdir()
    entry = mount(context.journal, "headrace-test", place, "tmpfs")
    scratch = target(place, scheduler="bfq", queue_depth=8, read_ahead="64 KiB")
    scratch.prepare(context)
    settings = scratch.apply(scratch.options, context)
    assert [setting.applied for setting in settings] == [False, False, False]
    assert all("tmpfs" in setting.reason for setting in settings)
    scratch.release(context)
    context.journal.undo(entry)


@pytest.mark.usefixtures("needs_root")
def test_settings_on_a_mount_of_somebody_else(context: TargetContext, tmp_path: Path) -> None:
    disk = BlockTarget(
        "disk", BlockOptions.model_validate({"image": str(tmp_path / "disk.img"), "size": "64 MiB"})
    )
    location = disk.prepare(context)
    assert location.directory is not None
    scratch = target(
        location.directory / "deep" / "below", create=True, scheduler="bfq", read_ahead="1 MiB"
    )
    assert scratch.prepare(context).device_names == location.device_names
    before = scratch.read_settings()
    assert all(setting.applied for setting in scratch.apply(scratch.options, context))
    assert scratch.read_settings() == {**before, "scheduler": "bfq", "read_ahead": 1 << 20}
    scratch.release(context)
    assert block_queue.read_scheduler(location.device_names[0]) == before["scheduler"]
    disk.release(context)


AS_NOBODY = """
import os, sys
from pathlib import Path
from tempfile import TemporaryDirectory
import headrace
from headrace.errors import HeadraceError
from headrace.system.journal import Journal
from headrace.system.owned import work_directory
from headrace.system import page_cache, undo_actions
from headrace.targets import TargetContext
from headrace.targets.path import PathOptions, PathTarget
folder = Path(sys.argv[1])
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with Journal.open("without root", folder / "journal") as journal:
    work, _ = work_directory(journal, folder)
    context = TargetContext(work, journal)
    options = {"create": True, "scheduler": "bfq", "queue_depth": 8, "read_ahead": 4096}
    scratch = PathTarget("scratch", PathOptions(path=str(folder / "new"), **options))
    print([(p.fatal, p.level) for p in scratch.check(frozenset())])
    location = scratch.prepare(context)
    (location.directory / "data").write_bytes(bytes(1 << 20))
    print([(s.name, s.applied, s.reason) for s in scratch.apply(scratch.options, context)])
    print(page_cache.can_drop_all(), page_cache.drop_files([location.directory / "data"]))
    (location.directory / "data").unlink()
    scratch.release(context)
    print(PathTarget("x", PathOptions(path=str(folder / "forbidden"))).check(frozenset())[0].what)
    below = PathOptions(path=str(folder / "closed" / "below"), create=True)
    print(PathTarget("x", below).check(frozenset())[0].what)
print(sorted(path.name for path in folder.iterdir()))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user reaches; pytest's own are the user's alone, and shared by tests."""
    with TemporaryDirectory(prefix="headrace test ", dir="/var/tmp") as place:
        Path(place).chmod(0o755)
        yield Path(place)


@pytest.mark.usefixtures("needs_root")
def test_without_root(open_folder: Path) -> None:
    folder = open_folder / "of nobody"
    folder.mkdir()
    (folder / "forbidden").mkdir(mode=0o555)
    (folder / "closed").mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    said = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(folder)], capture_output=True, text=True
    )
    assert said.returncode == 0, said.stderr
    problems, settings, cache, forbidden, closed, left = said.stdout.splitlines()
    assert problems.count("False, (") == 3
    assert settings.count("False") == 3
    assert "needs root" in settings
    assert cache == "False 0"
    assert forbidden == f"no permission to write to {folder / 'forbidden'}"
    assert "ermission" in closed
    assert left == "['closed', 'forbidden', 'journal']"


def test_striping_where_there_is_none(context: TargetContext, tmp_path: Path) -> None:
    place = tmp_path / "scratch"
    place.mkdir()
    before = context.journal.open_entries
    with pytest.raises(HeadraceError, match="on Lustre and BeeGFS"):
        target(place, stripe_count=2).prepare(context)
    assert list(place.iterdir()) == []
    assert context.journal.open_entries == before


def test_a_link_in_place_of_our_folder_leads_to_no_harm(tmp_path: Path) -> None:
    """In a folder that several users may write to, another can have put it there."""
    shared, others = tmp_path / "shared", tmp_path / "others"
    shared.mkdir()
    (others / "scratch").mkdir(parents=True)
    (others / "scratch" / "precious").write_text("x")
    (shared / OURS).symlink_to(others)
    study = tmp_path / "study.toml"
    study.write_text(
        'headrace = 1\n[target.shared]\nkind = "path"\npath = "shared"\n'
        '[workload.mine]\nkind = "command"\ncommand = ["true"]\n'
        "[plan]\nrepeats = { min = 1 }\n"
    )
    results = headrace.load_study(study).run(tmp_path / "results")
    (file,) = results.glob("trials/*/trial.json")
    assert "is a link" in json.loads(file.read_text())["cause"]
    assert [path.name for path in others.rglob("*")] == ["scratch", "precious"]
