import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import CannotRecordError, RefusedError, UsageError
from headrace.plan import Plan
from headrace.records.store import ResultsHeader, ResultStore, read_header, recording
from synthetic_records import failed_trial

HEADER = ResultsHeader("abc", "a study", "measure", "/", "2026-01-01T00:00:00+00:00", "0.1.0")
TESTS = Path(__file__).parents[1]
PLAN = Plan(trials=(), study_hash="abc", seed=1)


def make(root: Path) -> ResultStore:
    return ResultStore.create(root, "headrace = 1\n", HEADER, PLAN, {})


def test_a_record_is_there_only_after_its_commit(tmp_path: Path) -> None:
    store = make(tmp_path / "r")
    with pytest.raises(RuntimeError), store.record("0000-a-r0") as record:
        record.jobs([{"trial": "0000-a-r0", "job": 0}])
        raise RuntimeError
    assert not store.has("0000-a-r0")
    with store.record("0000-a-r0") as record:
        record.jobs([{"trial": "0000-a-r0", "job": 0}])
        record.series("cpu", [{"time_s": 0.0, "user": 0.5}])
        record.commit(failed_trial("0000-a-r0"))
    assert store.has("0000-a-r0")
    assert json.loads((tmp_path / "r/trials/0000-a-r0/trial.json").read_text())["id"] == "0000-a-r0"
    assert not list((tmp_path / "r").glob(".making-*"))


def test_two_writers_are_refused(tmp_path: Path) -> None:
    store = make(tmp_path / "r")
    with pytest.raises(RefusedError, match=f"in use by another headrace, process {os.getpid()}"):
        ResultStore.open(tmp_path / "r")
    store.close()
    ResultStore.open(tmp_path / "r").close()


def test_what_is_not_ours_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r/mine").write_text("x")
    with pytest.raises(RefusedError, match="not empty"):
        make(tmp_path / "r")
    make(tmp_path / "s").close()
    with pytest.raises(RefusedError, match="holds results already"):
        make(tmp_path / "s")


def test_a_full_disk_before_the_first_record_is_no_run_to_resume(tmp_path: Path) -> None:
    root = tmp_path / "r"
    (root / "trials").mkdir(parents=True)
    (root / "study.toml").symlink_to("/dev/full")
    with pytest.raises(CannotRecordError, match="no trial was begun") as failed:
        make(root)
    assert failed.value.hint == "free some space, then: run the study again"


def test_a_limit_of_file_sizes_is_named_with_its_remedy(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with (
            pytest.raises(CannotRecordError, match="File too large") as caught,
            recording(tmp_path),
        ):
            (tmp_path / "file").write_bytes(bytes(1000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value.hint).startswith("raise the limit for the size of files (ulimit -f)")


def test_a_results_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "r").close()
    values = json.loads((tmp_path / "r/results.json").read_text())
    (tmp_path / "r/results.json").write_text(json.dumps({**values, "schema": 99}))
    with pytest.raises(RefusedError, match="record schema 99"):
        read_header(tmp_path / "r")
    with pytest.raises(UsageError, match="not a results folder"):
        read_header(tmp_path)


KILLED_WRITERS = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from headrace.plan import Plan
from headrace.records.store import ResultStore
from synthetic_records import failed_trial

def write(ready):
    store = ResultStore.open(Path(sys.argv[1]))
    for number in range(100000):
        name = f"{number:06d}-x-r0"
        if store.has(name):
            continue
        with store.record(name) as record:
            record.jobs([{"trial": name, "job": job} for job in range(3)])
            record.commit(failed_trial(name))
        os.write(ready, b".")

for delay_s in map(float, sys.argv[3:]):
    reader, ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            write(ready)
        finally:
            os._exit(1)
    os.close(ready)
    assert os.read(reader, 1) == b".", "the writer ended by itself"
    time.sleep(delay_s)
    os.kill(pid, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1]), "the writer ended by itself"
    os.close(reader)
"""


@pytest.mark.slow
def test_killed_at_any_moment_every_record_is_whole(tmp_path: Path) -> None:
    root = tmp_path / "r"
    make(root).close()
    # A record takes a few ms: the longest delay has tens of them.
    delays_s = [0.002 * 1.4**step for step in range(13)]
    # One process forks the writers: what they import, it imports once.
    subprocess.run(
        [sys.executable, "-c", KILLED_WRITERS, root, TESTS, *map(str, delays_s)],
        check=True,
        timeout=300,
    )
    import pyarrow.parquet as pq

    found = sorted((root / "trials").iterdir())
    assert found
    for directory in found:
        assert json.loads((directory / "trial.json").read_text())["id"] == directory.name
        assert pq.read_table(directory / "jobs.parquet").num_rows == 3
    ResultStore.open(root).close()
    assert not list(root.glob(".making-*"))
