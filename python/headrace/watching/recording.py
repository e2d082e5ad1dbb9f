"""Records of a watch, as a study's: each window of time is a trial, its jobs are the trial's jobs.

`headrace report` and `headrace compare` read the folder. Windows are repeats of one cell. The plan
grows with every window, so that a folder is complete whenever the watch ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from headrace.errors import CannotRecordError
from headrace.plan.trial import Plan, Trial
from headrace.records.plan_file import write_plan
from headrace.records.store import WATCHED, ResultsHeader, ResultStore, recording
from headrace.records.trial_record import (
    JsonObject,
    StudyReference,
    TargetReference,
    TrialRecord,
    Validity,
    WorkloadReference,
)
from headrace.system.facts import facts
from headrace.watching.ledger import JobLedger
from headrace.watching.ledger import name as name_of_wait
from headrace.watching.used import JobSample, Used
from headrace.watching.watcher import NodeSample

TARGET, WORKLOAD = "node", "watched"
_STUDY = """{begin}: each trial is {window_s:g} s of jobs that ran anyway.
headrace = 1
title = "{title}"

[target.node]
kind = "path"
path = "/"

[workload.watched]
kind = "command"
command = ["true"]

[report]
# A job counts in each window, so a rate over jobs says nothing.
metric = "efficiency"
"""


@contextmanager
def _not_resumed(root: Path) -> Generator[None]:
    """As `recording`, with a hint that is of a watch: what it did not see cannot be run later."""
    try:
        with recording(root):
            yield
    except CannotRecordError as error:
        raise CannotRecordError(
            error.message,
            hint="free some space, then watch again with another folder for --record",
        ) from None


class Recorder:
    """Adds looks up to windows, and writes a record of each. A context manager."""

    def __init__(self, folder: Path, window_s: float) -> None:
        """Create the results folder. Raises RefusedError when it holds something else."""
        self._window_s = window_s
        self._title = f"Jobs watched on {os.uname().nodename}"
        self._study = _STUDY.format(begin=WATCHED, window_s=window_s, title=self._title)
        self._hash = hashlib.sha256(f"headrace watch {window_s:g}".encode()).hexdigest()
        self._environment = facts()
        self._trials: list[Trial] = []
        self._used: dict[str, tuple[JobSample, Used, float]] = {}
        self._began_s = 0.0
        self._last_s = 0.0
        self._began_utc = ""
        header = ResultsHeader(
            study_hash=self._hash,
            title=self._title,
            engine="measure",
            base="/",
            created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
            headrace_version=version("headrace"),
        )
        with _not_resumed(folder):
            self._store = ResultStore.create(
                folder, self._study, header, self._plan(), self._environment
            )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        """Write the window that has begun, and close the folder."""
        try:
            self._write()
        finally:
            self._store.close()

    def add(self, sample: NodeSample) -> None:
        """Take a look; write the window when it is over. Raises CannotRecordError."""
        if not self._began_s:
            self._began_s = sample.time_s - sample.interval_s
            wall = time.time() - time.monotonic() + self._began_s
            self._began_utc = datetime.fromtimestamp(wall, UTC).isoformat(timespec="seconds")
        self._last_s = sample.time_s
        for job in sample.jobs:
            _, used, began_s = self._used.get(
                job.key, (job, Used(), sample.time_s - job.last.ledger.wall_s)
            )
            used.add(job.last)
            self._used[job.key] = (job, used, began_s)
        if sample.time_s - self._began_s >= self._window_s - 0.05 * sample.interval_s:
            self._write()

    def _plan(self) -> Plan:
        return Plan(trials=tuple(self._trials), study_hash=self._hash, seed=0)

    def _write(self) -> None:
        rows = [
            _row(number, *each, begin_s=self._began_s)
            for number, each in enumerate(self._used.values())
            if each[1].spent.wall_ns
        ]
        if rows:
            number = len(self._trials)
            trial = Trial(number, TARGET, WORKLOAD, {}, repeat=number, seed=0, whole_plot=number)
            self._trials.append(trial)
            root = self._store.root
            with _not_resumed(root):
                write_plan(self._plan(), root / "plan.partial")
                (root / "plan.partial").replace(root / "plan.parquet")
                with self._store.record(trial.id) as partial:
                    partial.jobs([{**row, "trial": trial.id} for row in rows])
                    partial.commit(self._record(trial, rows))
        self._used, self._began_s = {}, 0.0

    def _record(self, trial: Trial, rows: list[dict[str, object]]) -> TrialRecord:
        length_s = self._last_s - self._began_s
        return TrialRecord(
            id=trial.id,
            index=trial.index,
            cell=trial.cell,
            repeat=trial.repeat,
            seed=0,
            whole_plot=trial.whole_plot,
            study=StudyReference(title=self._title, hash=self._hash),
            target=TargetReference(name=TARGET, kind="path", options={"path": "/"}),
            workload=WorkloadReference(name=WORKLOAD, kind="command"),
            levels={},
            run={"slots": len(rows)},
            engine="measure",
            environment=self._environment,
            provenance="measured",
            status="done",
            validity=Validity(valid=True),
            started_utc=self._began_utc,
            duration_s=length_s,
            stonewall_s=length_s,
            last_done_s=length_s,
            results=_results_of([used.ledger for _, used, _ in self._used.values()]),
        )


def _row(
    number: int, job: JobSample, used: Used, began_s: float, *, begin_s: float
) -> dict[str, object]:
    """Return the fields of jobs.parquet. Waits for memory are part of `other_s`."""
    ledger, moved = used.ledger, used.moved
    start_s = max(0.0, began_s - begin_s)
    return {
        "job": number,
        "slot": number,
        "exit": "done",
        "start_s": start_s,
        "end_s": start_s + ledger.wall_s,
        "wall_s": ledger.wall_s,
        "user_s": used.user_s,
        "system_s": used.system_s,
        "on_cpu_s": ledger.on_cpu_s,
        "wait_cpu_s": ledger.wait_cpu_s,
        "wait_block_s": ledger.wait_block_s,
        "wait_network_s": ledger.wait_network_s,
        "other_s": ledger.other_s + ledger.wait_memory_s,
        "ledger_source": "watch",
        "bytes_asked": moved.read,
        "bytes_served": moved.served,
        "bytes_device": moved.storage_read,
        "bytes_written": moved.written,
        "read_calls": moved.read_calls,
        "results": json.dumps(_results(job, ledger)),
    }


def _results(job: JobSample, ledger: JobLedger) -> JsonObject:
    return {
        "name": job.name,
        "wait_memory_s": ledger.wait_memory_s,
        "idle_s": ledger.idle_s,
        "waits_s": _waits([ledger]),
        "sources": job.sources,
    }


def _results_of(ledgers: list[JobLedger]) -> JsonObject:
    """Return the results of a window. Its limit follows from `watched`: the wall time of all jobs,
    and what is known of their `other_s`."""
    other_s: dict[str, float] = {"memory": sum(ledger.wait_memory_s for ledger in ledgers)}
    for ledger in ledgers:
        for word, spent_s in ledger.idle_s.items():
            other_s[word] = other_s.get(word, 0.0) + spent_s
    return {
        "waits_s": _waits(ledgers),
        "watched": {"wall_s": sum(ledger.wall_s for ledger in ledgers), "other_s": other_s},
    }


def _waits(ledgers: list[JobLedger]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for ledger in ledgers:
        for wait, seconds in ledger.waits_s.items():
            found[name_of_wait(wait)] = found.get(name_of_wait(wait), 0.0) + seconds
    return found
