"""Step 3 of the pipeline: engines turn trials into records.

This module defines the interface of every engine.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from headrace import workloads as workload_package
from headrace.datasets.own_files import OwnFile
from headrace.errors import Problem, UsageError
from headrace.registry import Plugins, parts

if TYPE_CHECKING:
    from headrace.engine.live import TrialLive
    from headrace.engine.simulate.simulator import Simulator
    from headrace.plan.trial import Plan, Trial
    from headrace.records.store import ResultStore
    from headrace.records.trial_record import Identity
    from headrace.study.model import Study
    from headrace.study.resolve import Resolved
    from headrace.system.claims import Place
    from headrace.workloads import Workload


class Observer(Protocol):
    """Displays the progress of a run (progress bars of the command line).

    The engine calls it from its own thread.
    """

    def started(self, trials_total: int, trials_done: int) -> None:
        """The run starts; some trials may have records already."""

    def phase(self, text: str) -> None:
        """A new phase starts. `text` is for people: `making data set`, `formatting ext4`."""

    def note(self, text: str) -> None:
        """Something that people should know of a run that goes on. Also called before
        `started`."""

    def trial_started(self, trial: Trial, jobs: int) -> None:
        """A trial's jobs are about to be released. `jobs` is 0 when their number is unknown."""

    def jobs(self, done: int, running: int, events_per_s: float) -> None:
        """Called from time to time while jobs run."""

    def load(self, foreign_cpus: float, cpus: int) -> None:
        """Called before `jobs` while jobs run.

        `foreign_cpus` is a lower bound on how many of the CPUs available to jobs other programs
        use.
        """

    def wants_live(self, nodes: int) -> bool:
        """Return whether `live` is called for a trial on this many nodes: it costs a look at every
        running job.
        """
        ...

    def live(self, trial: TrialLive) -> None:
        """Called at the release of the jobs, about once a second while they run, and after them."""

    def simulated(self, virtual_s: float) -> None:
        """Called from time to time in virtual time.

        `virtual_s` is the virtual time simulated by this run, summed over all trials.
        """

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        """A record was written. `status` is done, invalid, failed, unsupported or skipped."""


def default_cache() -> Path:
    """Return the folder of generated data sets. Raises UsageError if the user has no home
    directory.
    """
    try:
        return Path.home() / ".cache" / "headrace"
    except RuntimeError:
        raise UsageError(
            "this user has no home directory", hint="name a folder by --cache-dir"
        ) from None


@dataclass
class Run:
    """Inputs of one run of an engine: what to run, where to write, how to stop."""

    study: Study
    plan: Plan
    store: ResultStore
    observer: Observer
    forced_devices: frozenset[str] = frozenset()
    cache_dir: Path = field(default_factory=default_cache)
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it to stop after everything is restored; the trial in progress is discarded."""
    simulator: Simulator | None = None
    """What simulates; None: the cores of this machine."""
    own_files: dict[str, list[OwnFile]] = field(default_factory=dict[str, list[OwnFile]])
    """The user's own files as they were when this run first used them, by data set key."""


class Engine(ABC):
    """Turns trials into records. A subclass is one file or folder with `kind` and these methods."""

    kind: ClassVar[str]

    @abstractmethod
    def check(self, study: Study, plan: Plan, forced_devices: frozenset[str]) -> list[Problem]:
        """Return what this machine lacks for the study, before anything starts.

        Reads the machine's state and changes nothing.
        """

    def check_space(
        self, study: Study, plan: Plan, cache_dir: Path, results: Path | None
    ) -> list[Problem]:
        """Return shortages of disk space on this machine; none for an engine that writes only
        records.
        """
        return []

    def claims(self, study: Study, plan: Plan) -> list[Place]:
        """Return the resources of this machine that no two runs may use at once; none for virtual
        time.
        """
        return []

    @abstractmethod
    def run(self, run: Run) -> None:
        """Write every missing record of the plan.

        Raises InterruptedRunError when stopped, HeadraceError when the study cannot continue. A
        trial that fails yields a record instead.
        """


def kinds() -> Plugins[Engine]:
    """Return every registered engine by kind."""
    return parts("headrace.engine", Engine)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]


def workload_of(name: str, resolved: Resolved) -> Workload:
    """Return the workload of a trial, with its options."""
    return workload_package.kinds()[resolved.workload_kind](name, resolved.workload_options)


def identity(study: Study, trial: Trial, resolved: Resolved) -> Identity:
    """Return the fields of a trial's record that every engine fills in the same way."""
    from headrace.records.trial_record import (
        Identity,
        StudyReference,
        TargetReference,
        WorkloadReference,
    )

    workload = workload_package.kinds()[resolved.workload_kind]
    return Identity(
        id=trial.id,
        index=trial.index,
        cell=trial.cell,
        repeat=trial.repeat,
        seed=trial.seed,
        whole_plot=trial.whole_plot,
        study=StudyReference(title=study.title, hash=study.hash),
        target=TargetReference(
            name=trial.target,
            kind=resolved.target_kind,
            options=resolved.target_options.model_dump(mode="json"),
        ),
        workload=WorkloadReference(
            name=trial.workload,
            kind=resolved.workload_kind,
            options=resolved.workload_options.model_dump(mode="json"),
            loads_storage=workload.loads_storage,
            part_of_job=workload(trial.workload, resolved.workload_options).part_of_job(),
        ),
        levels=trial.levels,
        run=resolved.run.model_dump(mode="json"),
    )
