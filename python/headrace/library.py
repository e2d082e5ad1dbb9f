"""Headrace as a Python library: the same steps that the command line takes, with types.

study = headrace.load_study("study.toml")
study.plan()                      # the trials in order
results = study.run("results/disk")
headrace.records(results)         # a DuckDB relation, a row a job
"""

from __future__ import annotations

import datetime
import signal
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import headrace.engine
import headrace.study.load
from headrace.engine import Engine, Observer, Run
from headrace.errors import HeadraceError, MissingError, Problem, RefusedError
from headrace.plan.order import make_plan
from headrace.plan.table import plan_from_table, plan_to_table
from headrace.plan.trial import Plan, Trial
from headrace.records.store import ResultsHeader, ResultStore, read_header
from headrace.study.model import Study

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.analysis.findings import Comparison, Findings
    from headrace.analysis.model_error import ModelErrors


class Silent:
    """An observer that shows nothing."""

    def started(self, trials_total: int, trials_done: int) -> None:
        """Shows nothing."""

    def phase(self, text: str) -> None:
        """Shows nothing."""

    def trial_started(self, trial: Trial, jobs: int) -> None:
        """Shows nothing."""

    def jobs(self, done: int, running: int, events_per_s: float) -> None:
        """Shows nothing."""

    def simulated(self, virtual_s: float) -> None:
        """Shows nothing."""

    def trial_finished(self, trial: Trial, status: str, reasons: list[str], summary: str) -> None:
        """Shows nothing."""


@dataclass(frozen=True)
class LoadedStudy:
    """A study that can be planned, checked and run."""

    study: Study
    text: str
    """The study file as it was read; kept with the results."""
    base: Path
    """What relative paths in it are relative to."""
    forced_devices: frozenset[str] = field(default_factory=frozenset[str])

    def plan(self) -> Plan:
        """The complete, ordered, seeded list of trials. Raises StudyError when the excludes leave nothing."""
        return make_plan(self.study)

    def check(self, engine: str = "measure") -> list[Problem]:
        """What this machine lacks for the study; changes nothing."""
        return _engine(engine).check(self.study, self.plan(), self.forced_devices)

    def run(
        self,
        results: str | Path | None = None,
        *,
        engine: str = "measure",
        observer: Observer | None = None,
        cache_dir: Path | None = None,
        stop: threading.Event | None = None,
    ) -> Path:
        """Runs every trial and returns the results folder (a new one under `results/` when None).

        Raises MissingError before anything starts when the machine lacks something, RefusedError when the folder holds something
        else, InterruptedRunError when stopped.
        """
        plan = self.plan()
        refuse_problems(_engine(engine).check(self.study, plan, self.forced_devices))
        root = Path(results) if results is not None else default_results(self.study.file)
        header = ResultsHeader(
            study_hash=self.study.hash,
            title=self.study.title,
            engine=engine,
            base=str(self.base),
            created_utc=_now().isoformat(timespec="seconds"),
            headrace_version=version(),
        )
        store = ResultStore.create(root, self.text, header, plan_to_table(plan), environment())
        _drive(self, plan, store, observer, cache_dir, stop)
        return root


def load_study(file: str | Path, *, forced_devices: Sequence[str] = ()) -> LoadedStudy:
    """Reads and checks a study file. Raises StudyError with every fault at once."""
    path = Path(file)
    base = path.resolve().parent
    study = headrace.study.load.load_study(path, base=base)
    return LoadedStudy(study, path.read_text(), base, frozenset(forced_devices))


def resume(
    results: str | Path,
    *,
    forced_devices: Sequence[str] = (),
    observer: Observer | None = None,
    cache_dir: Path | None = None,
    stop: threading.Event | None = None,
) -> Path:
    """Goes on with a results folder: runs the trials of its plan that have no record yet.

    Raises RefusedError when the folder is none, was written by another version, or its study has been changed.
    """
    root = Path(results)
    header = read_header(root)
    text = (root / "study.toml").read_text()
    base = Path(header.base)
    study = headrace.study.load.load_study_text(text, file=root / "study.toml", base=base)
    if study.hash != header.study_hash:
        raise RefusedError(
            f"{root / 'study.toml'} is not the study that these results were begun with",
            hint="put the study back as it was, or run the changed study into a new folder",
        )
    plan = plan_from_table(_read_plan(root), header.study_hash, study.plan_options.seed)
    loaded = LoadedStudy(study, text, base, frozenset(forced_devices))
    refuse_problems(_engine(header.engine).check(study, plan, loaded.forced_devices))
    _drive(loaded, plan, ResultStore.open(root), observer, cache_dir, stop)
    return root


def _read_plan(root: Path) -> Any:
    import pyarrow.parquet as pq

    try:
        return pq.read_table(root / "plan.parquet")
    except (OSError, ValueError) as error:
        raise RefusedError(f"{root / 'plan.parquet'} cannot be read: {error}") from None


def _drive(
    loaded: LoadedStudy,
    plan: Plan,
    store: ResultStore,
    observer: Observer | None,
    cache_dir: Path | None,
    stop: threading.Event | None,
) -> None:
    run = Run(loaded.study, plan, store, observer or Silent(), loaded.forced_devices)
    if cache_dir is not None:
        run.cache_dir = cache_dir
    if stop is not None:
        run.stop = stop
    try:
        _engine(store.header.engine).run(run)
    finally:
        store.close()


def refuse_problems(problems: Sequence[Problem]) -> None:
    """Raises MissingError naming everything that is missing, when anything is."""
    fatal = [problem for problem in problems if problem.fatal]
    if fatal:
        lines = [f"{problem.what} (for {problem.needed_by}): {problem.remedy}" for problem in fatal]
        raise MissingError(
            "this machine lacks what the study needs:\n  " + "\n  ".join(lines),
            hint="headrace doctor STUDY says more",
        )


def records(results: str | Path) -> Any:
    """Every job of a results folder with its trial's levels, as a DuckDB relation (`.df()` gives a data frame)."""
    from headrace.records.read import read

    return read(Path(results)).relation()


def version() -> str:
    """Version of this Headrace."""
    from importlib.metadata import version as installed

    return installed("headrace")


def environment() -> dict[str, Any]:
    """The machine and the versions, as kept with results."""
    from headrace.system.facts import facts

    return {**facts(), "headrace_version": version()}


def default_results(study_file: Path) -> Path:
    """A new folder under `results/`, named for the study and the time."""
    return Path("results") / f"{study_file.stem}-{_now():%Y%m%d-%H%M%S}"


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _engine(kind: str) -> Engine:
    kinds = headrace.engine.kinds()
    if kind not in kinds:
        raise HeadraceError(f"there is no engine {kind!r}; there are: {', '.join(kinds)}")
    return kinds[kind]()


@contextmanager
def stopping_on_signals(stop: threading.Event) -> Generator[None]:
    """While in it, Ctrl-C and SIGTERM set `stop` instead of killing: the run puts everything back first."""

    def handle(*_: object) -> None:
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def report(
    results: str | Path,
    formats: Sequence[str] = ("html",),
    console: Console | None = None,
    *,
    series: Sequence[str] = (),
) -> tuple[Findings, list[Path]]:
    """Findings of a results folder, and the report files written beside its records; printed too when a console is given.

    `series` are trials whose device series the page shows beside those that it picks itself. Needs no engine and no root. Raises RefusedError when the folder is none.
    """
    from headrace.analysis.find import find
    from headrace.records.read import read
    from headrace.report.terminal import print_report
    from headrace.report.write import write_report

    root = Path(results)
    findings = find(read(root))
    files = write_report(root, findings, formats, series)
    if console is not None:
        print_report(findings, console)
    return findings, files


def compare(
    a: str | Path,
    b: str | Path,
    console: Console | None = None,
    *,
    html: Path | None = None,
    force: bool = False,
) -> Comparison:
    """Two result sets set side by side, cell by cell. Raises RefusedError when they cannot be compared."""
    from headrace.analysis.compare import compare as compare_records
    from headrace.records.read import read
    from headrace.report.comparison import print_comparison, write_comparison

    comparison = compare_records(read(Path(a)), read(Path(b)), force=force)
    if console is not None:
        print_comparison(comparison, console)
    if html is not None:
        write_comparison(comparison, html, Path(a), Path(b))
    return comparison


def model_errors(a: str | Path, b: str | Path, console: Console | None = None) -> ModelErrors:
    """How far a simulation is from what was measured of the same study. Raises RefusedError when they are not such a pair."""
    from headrace.analysis.model_error import model_errors as compare_times
    from headrace.records.read import read
    from headrace.report.model_error import print_model_errors

    found = compare_times(read(Path(a)), read(Path(b)))
    if console is not None:
        print_model_errors(found, console)
    return found
