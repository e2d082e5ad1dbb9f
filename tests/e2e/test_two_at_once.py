"""Two runs on one machine at once.

Kept apart where they would collide, and left alone where they do not.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from house import House

DONE = (0, 5)

STUDY = """
headrace = 1
title = "two at once"
[target.disk]
{target}
[workload.waits]
kind = "command"
command = ["sh", "-c", "until [ -e {go} ]; do sleep 0.05; done"]
[plan]
repeats = {{ min = 2 }}
[run]
shortest = 0
foreign_load = "warning"
"""


def study(house: House, name: str, target: str) -> Path:
    """A study whose jobs wait until it is let go."""
    return house.study(STUDY.format(target=target, go=house.place / f"go-{name}"), f"{name}.toml")


def let_go(house: House, name: str) -> None:
    (house.place / f"go-{name}").touch()


@pytest.fixture
def house(house: House) -> Iterator[House]:
    """Nothing waits any longer when a test has failed."""
    yield house
    for file in house.place.glob("*.toml"):
        let_go(house, file.stem)


def started(house: House, file: Path, results: str) -> subprocess.Popen[str]:
    """A run that has its first job at work."""
    process = house.start("run", file, "--results", results, "--cache-dir", house.cache)
    deadline = time.monotonic() + 60
    while not list(house.place.glob(f"{results}/.making-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def ended(house: House, name: str, process: subprocess.Popen[str]) -> None:
    let_go(house, name)
    out, err = process.communicate(timeout=120)
    assert process.returncode in DONE and "Traceback" not in err, out + err


def here(folder: str) -> str:
    return f'kind = "path"\npath = "{folder}"\ncreate = true'


def test_a_target_in_use_is_refused_with_the_process_that_uses_it(house: House) -> None:
    first = started(house, study(house, "first", here("storage")), "first")
    (house.place / "link").symlink_to(house.place / "storage")
    again = house.measure(study(house, "second", here("link")), "second")
    assert again.returncode == 4, again.stderr
    assert f"the folder of target disk ({house.place}/storage) is in use" in again.stderr
    assert f"process {first.pid}" in again.stderr
    assert not (house.place / "second").exists()
    ended(house, "first", first)
    assert [trial["status"] for trial in house.trials("first")] == ["done", "done"]
    let_go(house, "second")
    assert house.measure(house.place / "second.toml", "second").returncode in DONE


def test_an_image_in_use_is_refused(house: House) -> None:
    """Needs root, for the loop device."""
    target = 'kind = "block"\nimage = "disk.img"\nsize = "60 MB"'
    first = started(house, study(house, "study", target), "first")
    again = house.measure(house.place / "study.toml", "second")
    assert again.returncode == 4, again.stderr
    assert f"the medium of target disk ({house.place}/disk.img) is in use" in again.stderr
    assert f"process {first.pid}" in again.stderr
    ended(house, "study", first)


def test_a_results_folder_in_use_is_refused(house: House) -> None:
    first = started(house, study(house, "first", here("one")), "results")
    for arguments in (
        ("run", study(house, "second", here("two")), "--results", "results"),
        ("resume", house.place / "results"),
    ):
        again = house.run(*arguments)
        assert again.returncode == 4, again.stderr
        assert f"the results folder ({house.place}/results) is in use" in again.stderr
        assert f"process {first.pid}" in again.stderr
    ended(house, "first", first)
    assert len(house.trials()) == 2


def test_two_runs_on_different_folders_both_work(house: House) -> None:
    """As root each has its waits for block I/O counted to the end, whichever ends first."""
    short = started(house, study(house, "short", here("one")), "short")
    long = started(house, study(house, "long", here("two")), "long")
    ended(house, "short", short)
    ended(house, "long", long)
    for results in ("short", "long"):
        assert [trial["status"] for trial in house.trials(results)] == ["done", "done"]
        jobs = f"'{house.place}/{results}/trials/*/jobs.parquet'"
        sources = duckdb.sql(f"SELECT DISTINCT ledger_source FROM {jobs}").fetchall()
        # Linux 6.12 and later now and then count a wait wrongly: that row says "+read-calls".
        assert {source.partition("+")[0] for (source,) in sources} == {"taskstats"}
