"""Studies: load, check, run, simulate and resume them."""

from __future__ import annotations

import datetime
import itertools
import os
import re
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import headrace.engine
import headrace.study.load
from headrace.engine import Engine, Observer, Run, default_cache
from headrace.errors import (
    HeadraceError,
    InterruptedRunError,
    MissingError,
    Problem,
    RefusedError,
    StudyError,
    UsageError,
)
from headrace.plan.order import make_plan
from headrace.plan.trial import Plan, Trial
from headrace.records.place import check_place
from headrace.refusals import meant
from headrace.study.model import Study
from headrace.system.claims import Place, claimed

if TYPE_CHECKING:
    from headrace.engine.live import TrialLive
    from headrace.engine.simulate.simulator import Simulator
    from headrace.engine.timing import TimedObserver
    from headrace.records.store import ResultStore


class Silent:
    """An observer that displays nothing."""

    def started(self, trials_total: int, trials_done: int) -> None:
        """Do nothing."""

    def phase(self, text: str) -> None:
        """Do nothing."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def trial_started(self, trial: Trial, jobs: int) -> None:
        """Do nothing."""

    def jobs(self, done: int, running: int, events_per_s: float) -> None:
        """Do nothing."""

    def load(self, foreign_cpus: float, cpus: int) -> None:
        """Do nothing."""

    def wants_live(self, nodes: int) -> bool:
        """Return False."""
        return False

    def live(self, trial: TrialLive) -> None:
        """Do nothing."""

    def simulated(self, virtual_s: float) -> None:
        """Do nothing."""

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class LoadedStudy:
    """A validated study that can be planned, checked and run."""

    study: Study
    text: str
    """The text of the study file; a copy is kept with the results."""
    base: Path
    """Directory that relative paths in the study refer to."""
    forced_devices: frozenset[str] = field(default_factory=frozenset[str])

    def plan(self) -> Plan:
        """Return the complete, ordered, seeded list of trials.

        Raises StudyError when `[[exclude]]` leaves no cells.
        """
        return make_plan(self.study)

    def check(
        self,
        engine: str = "measure",
        *,
        results: Path | None = None,
        cache_dir: Path | None = None,
    ) -> list[Problem]:
        """Return what this machine lacks for the study, disk space included. Changes nothing."""
        return problems_of(self, self.plan(), engine, results, cache_dir)

    def run(
        self,
        results: str | Path | None = None,
        *,
        engine: str = "measure",
        observer: Observer | None = None,
        cache_dir: Path | None = None,
        stop: threading.Event | None = None,
        on: str = "",
    ) -> Path:
        """Run every trial and return the results folder (a new one under `results/` when None).

        `on`: what simulates, `dask://HOST:PORT` or this machine when empty. Raises before anything
        starts: UsageError when no records can be written to the folder;
        RefusedError when the folder holds something else, or another run uses it or a target;
        MissingError when the machine lacks something, disk space included. Raises
        InterruptedRunError when stopped.
        """
        root = Path(results) if results is not None else default_results(self.study.file)
        check_place(root, "--results")
        if cache_dir is not None:
            check_place(cache_dir, "--cache-dir")
        plan = self.plan()
        inputs = RunInputs(observer, cache_dir, stop, on)
        with claimed(_places(self.study, plan, engine, root)), inputs.simulator(engine):
            self._run(plan, root, engine, inputs)
        return root

    def _run(self, plan: Plan, root: Path, engine: str, inputs: RunInputs) -> None:
        from headrace.records.store import ResultsHeader, ResultStore

        cache_dir = inputs.cache_dir
        _refuse(problems_of(self, plan, engine, root, cache_dir), inputs)
        header = ResultsHeader(
            study_hash=self.study.hash,
            title=self.study.title,
            engine=engine,
            base=str(self.base),
            created_utc=_utc_now().isoformat(timespec="seconds"),
            headrace_version=version(),
        )
        store = ResultStore.create(root, self.text, header, plan, environment())
        _drive(self, plan, store, inputs)

    def simulate(
        self,
        results: str | Path | None = None,
        *,
        observer: Observer | None = None,
        stop: threading.Event | None = None,
        on: str = "",
    ) -> Path:
        """Run the study in virtual time: `run` with the engine `simulate`."""
        return self.run(results, engine="simulate", observer=observer, stop=stop, on=on)


@dataclass
class RunInputs:
    """What a run needs besides its study, plan and folder."""

    observer: Observer | None
    cache_dir: Path | None
    stop: threading.Event | None
    on: str
    opened: Simulator | None = None

    @contextmanager
    def simulator(self, engine: str) -> Generator[None]:
        """Open what simulates. Raises UsageError for an engine that simulates nothing."""
        if self.on and engine != "simulate":
            raise UsageError("--on names what simulates; jobs of this study are measured")
        if engine != "simulate":
            yield
            return
        from headrace.engine.simulate.where import simulator_on

        with simulator_on(self.on) as self.opened:
            yield


def run(study: str | Path | LoadedStudy, results: str | Path | None = None) -> Path:
    """Run a study on real storage and return its results folder (a new one when None).

    `study` is a study file or a loaded study. Raises what `LoadedStudy.run` raises, and StudyError
    for an invalid file.
    """
    return as_loaded(study).run(results)


def simulate(study: str | Path | LoadedStudy, results: str | Path | None = None) -> Path:
    """Run a study in virtual time and return its results folder (a new one when None).

    `study` is a study file or a loaded study. Raises what `LoadedStudy.run` raises, and StudyError
    for an invalid file.
    """
    return as_loaded(study).simulate(results)


def as_loaded(study: str | Path | LoadedStudy) -> LoadedStudy:
    """Return a study that is given as a file or loaded. Raises StudyError for an invalid file."""
    return study if isinstance(study, LoadedStudy) else load_study(study)


def load_study(
    file: str | Path, *, forced_devices: Sequence[str] = (), site: str | Path | None = None
) -> LoadedStudy:
    """Read and check a study file. Raises StudyError with every problem at once.

    `site`: a file whose `[site]` is put over that of the study (`headrace calibrate` writes one).
    """
    path = Path(file)
    base = path.resolve().parent
    study = headrace.study.load.load_study(path, base=base)
    # The text that was checked: a pipe is empty by now, and a file may have changed.
    text = path.read_text("utf-8") if study.document is None else study.document.raw.decode()
    if site is not None:
        from headrace.calibration.site_file import with_site

        study, text = with_site(study, text, Path(site))
    _check_metric(study)
    return LoadedStudy(study, text, base, _media(forced_devices))


def _check_metric(study: Study) -> None:
    """Raise StudyError for a `[report] metric` that does not exist.

    The package `study` cannot ask the registry of metrics, which imports it.
    """
    wanted, prices = study.report_options.metric, study.report_options.price
    if wanted is None:
        return
    # Metrics and records take long to import: other studies need not wait.
    from headrace.metrics import is_of_money, names_for
    from headrace.metrics.printed import names_of_printed

    known = names_for(prices.values())
    if wanted in known:
        return
    printed = names_of_printed(wanted, known)
    problem = (
        f"unknown metric; its name is {' or '.join(printed)}"
        if printed
        else meant("unknown metric", wanted, known)
    )
    if is_of_money(wanted) and not prices:
        problem = "a metric of money needs the price of each target: [report] price"
    field = ("report", "metric")
    raise StudyError([study.fault(field, wanted, problem, ", ".join(known))])


def _media(forced_devices: Sequence[str]) -> frozenset[str]:
    """Return the names as a set.

    Raises UsageError for a name that is neither a block device nor an image file.
    """
    for name in forced_devices:
        medium = Path(name)
        if not (medium.is_block_device() or medium.is_file()):
            raise UsageError(
                f"{name}: neither a block device nor an image file", hint="lsblk lists devices"
            )
    return frozenset(forced_devices)


def resume(
    results: str | Path,
    *,
    retry_invalid: bool = False,
    forced_devices: Sequence[str] = (),
    observer: Observer | None = None,
    cache_dir: Path | None = None,
    stop: threading.Event | None = None,
    on: str = "",
) -> Path:
    """Run the trials of a results folder's plan that have no record yet; return the folder.

    Trials with a damaged record run again too, and with `retry_invalid` those with an invalid one;
    the old records move to `retried/`. A plan that cannot be read is made again from the study.
    `on`: what simulates, as for `LoadedStudy.run`. Raises UsageError when the folder holds no
    results, RefusedError when it was written by another version or its study has changed,
    StudyError when its study cannot be read.
    """
    from headrace.records.store import WATCHED, ResultStore, read_header

    root = Path(results)
    if cache_dir is not None:
        check_place(cache_dir, "--cache-dir")
    header = read_header(root)
    document = headrace.study.load.stored_document(root)
    text = document.raw.decode()
    if text.startswith(WATCHED):
        raise RefusedError(
            f"{root} has the records of a watch: there is nothing to resume",
            hint="headrace watch --record FOLDER watches again, into another folder",
        )
    base = Path(header.base)
    study = headrace.study.load.study_of(document, base)
    if study.hash != header.study_hash:
        raise RefusedError(
            f"{root / 'study.toml'} is not the study that these results were begun with",
            hint="put the study back as it was, or run the changed study into a new folder",
        )
    plan, lost = _read_plan(root, study)
    loaded = LoadedStudy(study, text, base, _media(forced_devices))
    inputs = RunInputs(observer, cache_dir, stop, on)
    with claimed(_places(study, plan, header.engine, root)), inputs.simulator(header.engine):
        _refuse(problems_of(loaded, plan, header.engine, root, cache_dir), inputs)
        store = ResultStore.open(root)
        try:
            if lost:
                store.restore_plan(plan)
            _set_aside(store, inputs.observer or Silent(), invalid=retry_invalid)
        except BaseException:
            store.close()
            raise
        _drive(loaded, plan, store, inputs)
    return root


def _refuse(problems: Sequence[Problem], inputs: RunInputs) -> None:
    """`refuse_problems`, unless the user has stopped the check: InterruptedRunError."""
    if inputs.stop is not None and inputs.stop.is_set():
        raise InterruptedRunError("stopped")
    refuse_problems(problems)


def _places(study: Study, plan: Plan, engine: str, root: Path) -> list[Place]:
    """Return the resources of a run that no other run may use at the same time."""
    return [Place(root, "the results folder"), *_engine(engine).claims(study, plan)]


def _set_aside(store: ResultStore, observer: Observer, *, invalid: bool) -> None:
    """Set damaged records aside, and with `invalid` those of trials that cannot be trusted."""
    from headrace.analysis.read import read

    records = read(store.root)
    for trial in records.damaged:
        place = store.set_aside(trial)
        observer.note(f"the record of {trial} is damaged: it is in {place}, the trial runs again")
    for trial in records.to_retry if invalid else ():
        store.set_aside(trial)


def _read_plan(root: Path, study: Study) -> tuple[Plan, bool]:
    """Return the plan of a results folder, and whether it was lost and made again."""
    from headrace.records.plan_file import read_plan

    try:
        return read_plan(root / "plan.parquet"), False
    except HeadraceError as error:
        plan = make_plan(study)
        recorded = {path.name for path in (root / "trials").glob("*")}
        if recorded <= {trial.id for trial in plan.trials}:
            return plan, True
        raise RefusedError(
            error.message,
            hint="the study gives another plan now: run it into a new folder with --results",
        ) from None


def _drive(loaded: LoadedStudy, plan: Plan, store: ResultStore, inputs: RunInputs) -> None:
    observer = inputs.observer or Silent()
    run = Run(loaded.study, plan, store, observer, loaded.forced_devices)
    run.simulator = inputs.opened
    if inputs.cache_dir is not None:
        run.cache_dir = inputs.cache_dir
    if inputs.stop is not None:
        run.stop = inputs.stop
    timed: TimedObserver | None = None
    if store.header.engine == "measure":
        from headrace.engine.estimate import expect
        from headrace.engine.timing import TimedObserver

        done = {trial.index for trial in plan.trials if store.has(trial.id)}
        timed = TimedObserver(run.observer, expect(loaded.study, plan), run.cache_dir, done)
        run.observer = timed
    try:
        _engine(store.header.engine).run(run)
    finally:
        store.close()
        if timed is not None:
            timed.keep()


def problems_of(
    loaded: LoadedStudy,
    plan: Plan,
    engine: str,
    results: Path | None,
    cache_dir: Path | None,
) -> list[Problem]:
    """Return what this machine lacks for a plan, disk space included. Changes nothing."""
    made = _engine(engine)
    problems = made.check(loaded.study, plan, loaded.forced_devices)
    return problems + made.check_space(loaded.study, plan, cache_dir or default_cache(), results)


def refuse_problems(problems: Sequence[Problem]) -> None:
    """Raise MissingError that lists every fatal problem, if there is one; StudyError if problems
    are the study's and not the machine's."""
    fatal = [problem for problem in problems if problem.fatal]
    if own := [problem.of_study for problem in fatal if problem.of_study is not None]:
        raise StudyError(own)
    if fatal:
        lines = [f"{problem.what} (for {problem.needed_by}): {problem.remedy}" for problem in fatal]
        raise MissingError(
            "this machine lacks what the study needs:\n  " + "\n  ".join(lines),
            hint="headrace doctor STUDY says more",
        )


def version() -> str:
    """Return the version of Headrace."""
    from importlib.metadata import version as installed

    return installed("headrace")


def environment() -> dict[str, object]:
    """Return the description of the machine and the versions that is stored with results."""
    from headrace.system.facts import facts

    return {**facts(), "headrace_version": version()}


_LONGEST_STEM = 200
"""Bytes of the name of a study file that go into the name of its results folder."""


def default_results(study_file: Path) -> Path:
    """Return the path of a new folder under `results/`, named after the study and the time."""
    stem = re.sub(r"[^\w.+=,@-]+", "-", study_file.stem)
    # The time, a number and the longer names of partial files have room beside this many bytes.
    stem = os.fsencode(stem)[:_LONGEST_STEM].decode(errors="ignore")
    wanted = Path("results") / f"{stem}-{_utc_now():%Y%m%d-%H%M%S}"
    # Two runs of one study may start within the same second.
    further = (wanted.with_name(f"{wanted.name}-{number}") for number in itertools.count(2))
    return next(place for place in itertools.chain([wanted], further) if not place.exists())


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _engine(kind: str) -> Engine:
    kinds = headrace.engine.kinds()
    if kind not in kinds:
        raise HeadraceError(f"there is no engine {kind!r}; there are: {', '.join(kinds)}")
    return kinds[kind]()


def run_or_go_on(loaded: LoadedStudy, root: Path, engine: str, inputs: RunInputs) -> None:
    """Run a study into a folder, or run what the folder lacks of it."""
    if (root / "results.json").exists():
        from headrace.records.store import read_header

        header = read_header(root)
        if (header.study_hash, header.engine) != (loaded.study.hash, engine):
            raise RefusedError(
                f"{root} holds the results of something else: of another study, --check or "
                "--rehearse",
                hint="give the same, or name another folder with --results",
            )
        resume(
            root, forced_devices=sorted(loaded.forced_devices), observer=inputs.observer,
            cache_dir=inputs.cache_dir, stop=inputs.stop,
        )  # fmt: skip
        return
    loaded.run(
        root, engine=engine, observer=inputs.observer, cache_dir=inputs.cache_dir, stop=inputs.stop
    )
