"""`headrace simulate --on dask://…`: a sweep on the workers of a Dask cluster, byte for byte."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dask_cluster import dask_cluster, dask_workers
from headrace.errors import HeadraceError, InterruptedRunError
from headrace.library import Silent, load_study, resume, screen
from headrace.plan.trial import Trial
from headrace.reproduce.cells import run_cells
from workspace import Workspace

STUDY = """
headrace = 1
title = "A sweep"
[target.disk]
kind = "block"
drive = "wd-wd3200bekt"
[workload.tau]
kind = "replay"
profile = "cms-tau-analysis-sample"
[factors]
slots = [1, 2, 3, 4]
[plan]
repeats = { min = 8 }
"""


def digests(results: Path) -> dict[str, str]:
    """Every file of the records; only the header and the inventory have times of writing."""
    return {
        str(path.relative_to(results)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(results.rglob("*"))
        if path.is_file()
        and (path.is_relative_to(results / "trials") or path.suffix in (".parquet", ".toml"))
    }


@pytest.fixture(scope="module")
def two_workers() -> Iterator[str]:
    with dask_cluster(2) as address:
        yield f"dask://{address}"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    file = tmp_path / "a sweep.toml"
    file.write_text(STUDY)
    return file


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("local")
    (place / "study.toml").write_text(STUDY)
    return digests(load_study(place / "study.toml").simulate(place / "results"))


class Seen(Silent):
    """Notes what is shown."""

    def __init__(self, stop_after: int = 0, stop: threading.Event | None = None) -> None:
        self.order: list[int] = []
        self.virtual_s: list[float] = [0.0]
        self._stop_after = stop_after
        self._stop = stop

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        self.order.append(trial.index)
        if self._stop is not None and len(self.order) == self._stop_after:
            self._stop.set()

    def simulated(self, virtual_s: float) -> None:
        self.virtual_s.append(virtual_s)


def test_equal_bytes_in_order_on_any_number_of_workers(
    study: Path, tmp_path: Path, local: dict[str, str], two_workers: str
) -> None:
    seen = Seen()
    load_study(study).simulate(tmp_path / "two", observer=seen, on=two_workers)
    assert len(seen.order) == 32 and digests(tmp_path / "two") == local
    planned = [trial.index for trial in load_study(study).plan().trials]
    assert seen.order == planned, "records are written in the order of the plan"
    assert max(seen.virtual_s) > 0, "the virtual time is shown"
    with dask_cluster(1) as one:
        load_study(study).simulate(tmp_path / "one", on=f"dask://{one}")
    assert digests(tmp_path / "one") == local


def test_a_stop_loses_no_record_and_resume_goes_on(
    study: Path, tmp_path: Path, local: dict[str, str], two_workers: str
) -> None:
    stop = threading.Event()
    with pytest.raises(InterruptedRunError):
        load_study(study).simulate(
            tmp_path / "r", observer=Seen(3, stop), stop=stop, on=two_workers
        )
    assert 3 <= len(list((tmp_path / "r" / "trials").iterdir())) < 32
    resume(tmp_path / "r", on=two_workers)
    assert digests(tmp_path / "r") == local


def test_trials_of_a_lost_worker_run_elsewhere(
    study: Path, tmp_path: Path, local: dict[str, str]
) -> None:
    with dask_workers(2) as (address, workers):

        class Killing(Seen):
            def trial_finished(
                self, trial: Trial, status: str, reasons: list[str], summary: str
            ) -> None:
                super().trial_finished(trial, status, reasons, summary)
                if len(self.order) == 2:
                    os.kill(workers[1].pid, signal.SIGKILL)

        load_study(study).simulate(tmp_path / "r", observer=Killing(), on=f"dask://{address}")
    assert digests(tmp_path / "r") == local


def test_a_lost_scheduler_is_said_and_the_records_stay(
    study: Path, tmp_path: Path, local: dict[str, str]
) -> None:
    with dask_workers(1) as (address, workers):

        class Losing(Seen):
            def trial_finished(
                self, trial: Trial, status: str, reasons: list[str], summary: str
            ) -> None:
                super().trial_finished(trial, status, reasons, summary)
                if len(self.order) == 2:
                    for worker in workers:
                        os.kill(worker.pid, signal.SIGKILL)
                    _kill_scheduler(address)

        with pytest.raises(HeadraceError, match="does not go on"):
            load_study(study).simulate(tmp_path / "r", observer=Losing(), on=f"dask://{address}")
    resume(tmp_path / "r")
    assert digests(tmp_path / "r") == local


def _kill_scheduler(address: str) -> None:
    port = address.rpartition(":")[2].encode()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"distributed.cli.dask_scheduler" in words and port in words:
            os.kill(int(entry.name), signal.SIGKILL)


def test_screen_and_reproduction_on_workers_equal_those_here(
    study: Path, tmp_path: Path, two_workers: str
) -> None:
    from headrace.engine.simulate.where import simulator_on

    here = screen(study, tmp_path / "here.toml", want="asked_bytes_per_s")
    there = screen(study, tmp_path / "there.toml", want="asked_bytes_per_s", on=two_workers)
    assert here.text == there.text
    with simulator_on(two_workers) as simulator:
        found = [cell.records for cell in run_cells([study], simulator=simulator)]
    assert found == [cell.records for cell in run_cells([study])]


def test_what_is_missing_is_said_before_anything_is_written(
    workspace: Workspace, two_workers: str
) -> None:
    file = workspace.study(STUDY)
    for on, code, said in (
        ("dask://127.0.0.1:9", 6, "no Dask scheduler answers at 127.0.0.1:9"),
        ("dask://192.0.2.1:8786", 3, "not configured for TLS"),
        ("slurm", 2, "on a Dask cluster"),
    ):
        ended = workspace.run("simulate", file, "--results", "results", "--on", on)
        text = " ".join((ended.stdout + ended.stderr).split())
        assert ended.returncode == code and said in text, (ended.returncode, text)
        assert "Traceback" not in text and not (workspace.place / "results").exists()
    ended = workspace.run("simulate", file, "--results", "results", "--on", two_workers)
    assert ended.returncode == 0, ended.stderr
