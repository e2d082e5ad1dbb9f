"""Two runs on one machine at once.

Kept apart where they would collide, and left alone where they do not.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from headrace.system.accounting import delays_misplaced
from workspace import Started, Workspace

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


def study(workspace: Workspace, name: str, target: str) -> Path:
    """A study whose jobs wait until it is let go."""
    return workspace.study(
        STUDY.format(target=target, go=workspace.place / f"go-{name}"), f"{name}.toml"
    )


def let_go(workspace: Workspace, name: str) -> None:
    (workspace.place / f"go-{name}").touch()


@pytest.fixture
def workspace(workspace: Workspace) -> Iterator[Workspace]:
    """Nothing waits any longer when a test has failed."""
    yield workspace
    for file in workspace.place.glob("*.toml"):
        let_go(workspace, file.stem)


def started(workspace: Workspace, file: Path, results: str) -> Started:
    """A run that has its first job at work."""
    process = workspace.start("run", file, "--results", results, "--cache-dir", workspace.cache)
    deadline = time.monotonic() + 60
    while not list(workspace.place.glob(f"{results}/.making-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def ended(workspace: Workspace, name: str, process: Started) -> None:
    let_go(workspace, name)
    out, err = process.communicate(timeout=120)
    assert process.returncode in DONE and "Traceback" not in err, out + err


def here(folder: str) -> str:
    return f'kind = "path"\npath = "{folder}"\ncreate = true'


def test_a_target_in_use_is_refused_with_the_process_that_uses_it(workspace: Workspace) -> None:
    first = started(workspace, study(workspace, "first", here("storage")), "first")
    (workspace.place / "link").symlink_to(workspace.place / "storage")
    again = workspace.measure(study(workspace, "second", here("link")), "second")
    assert again.returncode == 4, again.stderr
    assert f"the folder of target disk ({workspace.place}/storage) is in use" in again.stderr
    assert f"process {first.pid}" in again.stderr
    assert not (workspace.place / "second").exists()
    ended(workspace, "first", first)
    assert [trial["status"] for trial in workspace.trials("first")] == ["done", "done"]
    let_go(workspace, "second")
    assert workspace.measure(workspace.place / "second.toml", "second").returncode in DONE


def test_an_image_in_use_is_refused(workspace: Workspace) -> None:
    """Needs root, for the loop device."""
    target = 'kind = "block"\nimage = "disk.img"\nsize = "60 MB"'
    first = started(workspace, study(workspace, "study", target), "first")
    again = workspace.measure(workspace.place / "study.toml", "second")
    assert again.returncode == 4, again.stderr
    assert f"the medium of target disk ({workspace.place}/disk.img) is in use" in again.stderr
    assert f"process {first.pid}" in again.stderr
    ended(workspace, "study", first)


def test_a_results_folder_in_use_is_refused(workspace: Workspace) -> None:
    first = started(workspace, study(workspace, "first", here("one")), "results")
    for arguments in (
        ("run", study(workspace, "second", here("two")), "--results", "results"),
        ("resume", workspace.place / "results"),
    ):
        again = workspace.run(*arguments)
        assert again.returncode == 4, again.stderr
        assert f"the results folder ({workspace.place}/results) is in use" in again.stderr
        assert f"process {first.pid}" in again.stderr
    ended(workspace, "first", first)
    assert len(workspace.trials()) == 2


def test_two_runs_on_different_folders_both_work(workspace: Workspace) -> None:
    """As root each has its waits for block I/O counted to the end, whichever ends first."""
    short = started(workspace, study(workspace, "short", here("one")), "short")
    long = started(workspace, study(workspace, "long", here("two")), "long")
    ended(workspace, "short", short)
    ended(workspace, "long", long)
    for results in ("short", "long"):
        assert [trial["status"] for trial in workspace.trials(results)] == ["done", "done"]
        jobs = f"'{workspace.place}/{results}/trials/*/jobs.parquet'"
        sources = duckdb.sql(f"SELECT DISTINCT ledger_source FROM {jobs}").fetchall()
        found = {source.partition("+")[0] for (source,) in sources}
        # Short jobs may end before a sample.
        assert found <= ({"samples", "taskstats"} if delays_misplaced() else {"taskstats"})
