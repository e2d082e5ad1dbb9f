"""Step 3 of the way: engines turn trials into records, one file or folder each. This file is the contract that all keep."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from headrace import workloads as workload_room
from headrace.errors import Problem
from headrace.plan.trial import Plan, Trial
from headrace.records.store import ResultStore
from headrace.registry import parts
from headrace.study.model import Study
from headrace.study.resolve import Resolved


class Observer(Protocol):
    """Whoever shows how a run goes on (the command line's progress bars). Called from the engine's thread."""

    def started(self, trials_total: int, trials_done: int) -> None:
        """The run begins; some trials may be there already."""

    def phase(self, text: str) -> None:
        """What is being done now, for people: `making data set`, `formatting ext4`."""

    def trial_started(self, trial: Trial, jobs: int) -> None:
        """A trial's jobs are about to be released; `jobs` is 0 when their number is not known before."""

    def jobs(self, done: int, running: int, events_per_s: float) -> None:
        """Now and then while jobs run."""

    def simulated(self, virtual_s: float) -> None:
        """Now and then in virtual time: how much of it this run has simulated, all trials together."""

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        """A record is there. `status`: done, invalid, failed, unsupported, skipped."""


@dataclass
class Run:
    """One run of an engine: what to do, where to, and how to stop it."""

    study: Study
    plan: Plan
    store: ResultStore
    observer: Observer
    forced_devices: frozenset[str] = frozenset()
    cache_dir: Path = field(default_factory=lambda: Path.home() / ".cache" / "headrace")
    stop: threading.Event = field(default_factory=threading.Event)
    """Set to stop after putting everything back; the trial under way is forgotten."""


class Engine(ABC):
    """One way to turn trials into records. A subclass is one file or folder: `kind` and these methods."""

    kind: ClassVar[str]

    @abstractmethod
    def check(self, study: Study, plan: Plan, forced_devices: frozenset[str]) -> list[Problem]:
        """What this machine lacks for the study, before anything starts. Pure but for reading the machine."""

    @abstractmethod
    def run(self, run: Run) -> None:
        """Makes every record of the plan that is not there. Raises InterruptedRunError when stopped, HeadraceError when the
        study cannot go on; a failing trial is a record instead."""


def kinds() -> dict[str, type[Engine]]:
    """Every registered engine by kind."""
    return parts("headrace.engine", Engine)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]


def base_record(run: Run, trial: Trial, engine: str, environment: dict[str, Any]) -> dict[str, Any]:
    """The fields of trial.json that every engine fills alike."""
    return {
        "schema": 1,
        "id": trial.id,
        "index": trial.index,
        "cell": trial.cell,
        "repeat": trial.repeat,
        "seed": trial.seed,
        "whole_plot": trial.whole_plot,
        "study": {"title": run.study.title, "hash": run.study.hash},
        "engine": engine,
        "levels": trial.levels,
        "environment": environment,
    }


def parts_of(trial: Trial, resolved: Resolved) -> dict[str, dict[str, Any]]:
    """The fields `target` and `workload` of trial.json."""
    return {
        "target": {
            "name": trial.target,
            "kind": resolved.target_kind,
            "options": resolved.target_options.model_dump(mode="json"),
        },
        "workload": {
            "name": trial.workload,
            "kind": resolved.workload_kind,
            "options": resolved.workload_options.model_dump(mode="json"),
            "loads_storage": workload_room.kinds()[resolved.workload_kind].loads_storage,
        },
    }
