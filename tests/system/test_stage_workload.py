"""`stage` with real files.

Copies that are whole, a cache that keeps within its space, failures that leave nothing behind.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

import headrace
from headrace.errors import HeadraceError, StudyError
from headrace.user import user_name
from headrace.workloads.staging.cache import NodeCache, Taken
from headrace.workloads.staging.copying import copy

STUDY = """
headrace = 1
[target.scratch]
kind = "path"
path = "scratch"
create = true
[target.se]
kind = "path"
path = "se"
create = true
[workload.scan]
kind = "stage"
source = "SOURCE"
files_a_job = 3
verify = true
EXTRA
job = { kind = "scan", data = { events = 4000, files = 4 } }
[factors]
slots = [3]
[run]
cache = "as-is"
shortest = 0
[plan]
repeats = { min = 1 }
"""


def run(tmp_path: Path, extra: str) -> dict[str, object]:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("SOURCE", "se").replace("EXTRA", extra))
    results = headrace.load_study(study).run(tmp_path / "results")
    (file,) = results.glob("trials/*/trial.json")
    trial = json.loads(file.read_text())
    assert trial["status"] == "done", trial["cause"]
    assert trial["target"]["name"] == "scratch", "the source is not under test"
    return trial["results"]


def bins(results: dict[str, object]) -> object:
    return results["histogram"]


def test_staged_remote_and_cached_jobs_find_the_same(tmp_path: Path) -> None:
    staged = run(tmp_path / _made(tmp_path, "staged"), "")
    remote = run(tmp_path / _made(tmp_path, "remote"), 'input = "remote"')
    cached = run(tmp_path / _made(tmp_path, "cached"), 'pcache = "1 GB"\ncached = false')
    assert bins(staged) == bins(remote) == bins(cached)
    of_staged, of_cached = staged["stage"], cached["stage"]
    assert isinstance(of_staged, dict) and isinstance(of_cached, dict)
    assert of_staged["files"] == of_cached["files"] == 9
    assert of_staged["hit_rate"] is None
    # Four files for nine reads: each is copied once.
    assert of_cached["hits"] == 5
    assert of_cached["bytes_copied"] < of_staged["bytes_copied"]
    assert remote["stage"] == {
        **of_staged,
        **dict.fromkeys(("bytes_copied", "copy_s", "wait_s"), 0),
        "input": "remote",
        "copy_rate_bytes_per_s": None,
    }


def _made(tmp_path: Path, name: str) -> str:
    (tmp_path / name).mkdir()
    return name


def test_a_cache_of_its_own_filesystem_is_gone_afterwards(tmp_path: Path) -> None:
    place = Path("/dev/shm") / f"headrace-test-{os.getpid()}"
    place.mkdir()
    try:
        results = run(tmp_path, f'pcache = "1 GB"\ncache_directory = "{place}"')
        stage = results["stage"]
        assert isinstance(stage, dict) and stage["hits"] == 5
        assert list(place.iterdir()) == []
    finally:
        place.rmdir()


def test_what_killed_jobs_left_in_a_cache_is_no_hit(tmp_path: Path) -> None:
    place = Path("/dev/shm") / f"headrace-test-{os.getpid()}"
    place.mkdir()
    try:
        run(tmp_path, "")  # the input is on its source
        shutil.rmtree(tmp_path / "results")
        left = NodeCache(place / f".headrace-pcache-{user_name()}" / "pcache", 1 << 30)
        for source in sorted((tmp_path / "se").rglob("*.root")):
            name = str(source)
            lease = left.take(
                name,
                source.stat().st_size,
                tmp_path / source.name,
                lambda to, name=name: copy(name, to, verify=False),
            ).lease
            if lease is not None:
                os.close(lease)
        results = run(tmp_path, f'pcache = "1 GB"\ncache_directory = "{place}"')
        stage = results["stage"]
        assert isinstance(stage, dict) and stage["hits"] == 5
        assert list(place.iterdir()) == []
    finally:
        shutil.rmtree(place)


def test_a_source_that_is_nowhere_is_named(tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(STUDY.replace("SOURCE", "so").replace("EXTRA", ""))
    with pytest.raises(StudyError) as error:
        headrace.load_study(study)
    (fault,) = error.value.problems
    assert fault.problem == "no such target, nor server of the site"
    assert fault.field == "workload.scan.source"
    assert "scratch, se" in fault.allowed


def test_a_copy_is_whole_or_not_there(tmp_path: Path) -> None:
    source, place = tmp_path / "in.root", tmp_path / "out" / "in.root"
    place.parent.mkdir()
    source.write_bytes(os.urandom(300_000))
    assert copy(str(source), place, verify=True, cached=False)[0] == 300_000
    assert place.read_bytes() == source.read_bytes()
    place.unlink()
    with pytest.raises(HeadraceError, match=r"gone\.root could not be staged"):
        copy(str(tmp_path / "gone.root"), place, verify=False)
    assert list(place.parent.iterdir()) == []


def write(place: Path, size: int) -> tuple[int, float]:
    place.write_bytes(bytes(size))
    return size, 0.0


def bytes_held(cache: NodeCache) -> int:
    """Bytes of its files, of reserved room and of unfinished copies."""
    return sum(file.stat().st_size for file in cache.directory.iterdir())


def test_what_was_longest_unused_goes_first(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 300)
    copied: list[str] = []

    def take(name: str) -> Taken:
        def fetch(place: Path) -> tuple[int, float]:
            copied.append(name)
            return write(place, 100)

        place = tmp_path / f"{len(copied)}-{name}-{len(list(tmp_path.iterdir()))}"
        taken = cache.take(name, 100, place, fetch)
        assert place.stat().st_size == 100
        return taken

    for name in ("a", "b", "c", "a"):
        take(name)
    assert take("d").evicted == 1  # b: a was used again
    assert take("a").hit
    assert not take("b").hit
    assert copied == ["a", "b", "c", "d", "b"]
    assert bytes_held(cache) <= 300


def test_a_file_beyond_the_cache_goes_past_it(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 10)
    taken = cache.take("large", 11, tmp_path / "large", lambda place: write(place, 11))
    assert not taken.hit
    assert bytes_held(cache) == 0


def test_a_file_that_is_read_by_symbolic_link_is_not_evicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_filesystem(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", other_filesystem)
    cache = NodeCache(tmp_path / "cache", 100)
    taken = cache.take("a", 100, tmp_path / "a", lambda place: write(place, 100))
    assert (tmp_path / "a").is_symlink()
    assert taken.lease is not None
    with pytest.raises(HeadraceError, match="no room in the cache"):
        cache.take("b", 100, tmp_path / "b", lambda place: write(place, 100))
    os.close(taken.lease)
    assert cache.take("b", 100, tmp_path / "b", lambda place: write(place, 100)).evicted == 1


def test_slots_that_want_the_same_file_copy_it_once(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 1000)
    copies: list[Path] = []
    taken: list[Taken] = []

    def fetch(place: Path) -> tuple[int, float]:
        copies.append(place)
        return write(place, 50)

    def slot(number: int) -> None:
        taken.append(cache.take("same", 50, tmp_path / f"slot-{number}", fetch))

    threads = [threading.Thread(target=slot, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(copies) == 1
    assert sum(each.hit for each in taken) == 7


def test_a_fetch_that_fails_gives_its_room_back(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path / "cache", 100)

    def fails(place: Path) -> tuple[int, float]:
        raise HeadraceError("no")

    with pytest.raises(HeadraceError, match="no"):
        cache.take("a", 100, tmp_path / "a", fails)
    assert bytes_held(cache) == 0
    assert not cache.take("a", 100, tmp_path / "a", lambda place: write(place, 100)).hit
