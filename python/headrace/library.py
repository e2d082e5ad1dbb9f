"""The Python library: the steps of the command line as typed functions.

study = headrace.load_study("study.toml")
study.plan()                               # the trials in order
results = study.run("results/disk")        # or study.simulate(…): the same in virtual time
findings, files = headrace.report(results)
headrace.records(results)                  # a DuckDB relation, one row per job
"""

from __future__ import annotations

import datetime
import itertools
import re
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import headrace.engine
import headrace.study.load
from headrace.engine import Engine, Observer, Run, default_cache
from headrace.engine.live import TrialLive
from headrace.engine.timing import TimedObserver
from headrace.errors import (
    HeadraceError,
    MissingError,
    Problem,
    RefusedError,
    StudyError,
    UsageError,
)
from headrace.metrics import is_of_money, names_for
from headrace.plan.order import make_plan
from headrace.plan.trial import Plan, Trial
from headrace.records.place import check_new_file, check_place
from headrace.records.store import ResultsHeader, ResultStore, read_header
from headrace.refusals import meant
from headrace.study.model import Study
from headrace.system.claims import Place, claimed
from headrace.units import parse_share

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.analysis.findings import Comparison, Findings
    from headrace.analysis.gate import Gate
    from headrace.analysis.model_error import ModelErrors
    from headrace.calibration.running import LearntSite
    from headrace.decision.answer import DecisionAnswer
    from headrace.engine.simulate.simulator import Simulator
    from headrace.whatif.screening import ScreenedStudy


class Silent:
    """An observer that displays nothing."""

    def started(self, trials_total: int, trials_done: int) -> None:
        """Do nothing."""

    def phase(self, text: str) -> None:
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
        inputs = _Inputs(observer, cache_dir, stop, on)
        with claimed(_places(self.study, plan, engine, root)), inputs.simulator(engine):
            self._run(plan, root, engine, inputs)
        return root

    def _run(self, plan: Plan, root: Path, engine: str, inputs: _Inputs) -> None:
        cache_dir = inputs.cache_dir
        refuse_problems(problems_of(self, plan, engine, root, cache_dir))
        header = ResultsHeader(
            study_hash=self.study.hash,
            title=self.study.title,
            engine=engine,
            base=str(self.base),
            created_utc=_now().isoformat(timespec="seconds"),
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
class _Inputs:
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
    return _loaded(study).run(results)


def simulate(study: str | Path | LoadedStudy, results: str | Path | None = None) -> Path:
    """Run a study in virtual time and return its results folder (a new one when None).

    `study` is a study file or a loaded study. Raises what `LoadedStudy.run` raises, and StudyError
    for an invalid file.
    """
    return _loaded(study).simulate(results)


def _loaded(study: str | Path | LoadedStudy) -> LoadedStudy:
    return study if isinstance(study, LoadedStudy) else load_study(study)


def load_study(
    file: str | Path, *, forced_devices: Sequence[str] = (), site: str | Path | None = None
) -> LoadedStudy:
    """Read and check a study file. Raises StudyError with every problem at once.

    `site`: a file whose `[site]` is put over that of the study (`headrace calibrate` writes one).
    """
    path = Path(file)
    base = path.resolve().parent
    study, text = headrace.study.load.load_study(path, base=base), path.read_text()
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
    known = names_for(prices.values())
    if wanted is None or wanted in known:
        return
    problem = meant("unknown metric", wanted, known)
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

    With `retry_invalid`, trials with an invalid record run again too, and the old records move to
    `retried/`. `on`: what simulates, as for `LoadedStudy.run`. Raises UsageError when the folder
    holds no results, RefusedError when it was written
    by another version or its study has changed.
    """
    root = Path(results)
    if cache_dir is not None:
        check_place(cache_dir, "--cache-dir")
    header = read_header(root)
    text = (root / "study.toml").read_text()
    base = Path(header.base)
    study = headrace.study.load.load_study_text(text, file=root / "study.toml", base=base)
    if study.hash != header.study_hash:
        raise RefusedError(
            f"{root / 'study.toml'} is not the study that these results were begun with",
            hint="put the study back as it was, or run the changed study into a new folder",
        )
    plan = _read_plan(root)
    loaded = LoadedStudy(study, text, base, _media(forced_devices))
    inputs = _Inputs(observer, cache_dir, stop, on)
    with claimed(_places(study, plan, header.engine, root)), inputs.simulator(header.engine):
        refuse_problems(problems_of(loaded, plan, header.engine, root, cache_dir))
        store = ResultStore.open(root)
        if retry_invalid:
            _set_invalid_aside(store)
        _drive(loaded, plan, store, inputs)
    return root


def _places(study: Study, plan: Plan, engine: str, root: Path) -> list[Place]:
    """Return the resources of a run that no other run may use at the same time."""
    return [Place(root, "the results folder"), *_engine(engine).claims(study, plan)]


def _set_invalid_aside(store: ResultStore) -> None:
    from headrace.analysis.read import read

    try:
        for trial in read(store.root).to_retry:
            store.set_aside(trial)
    except BaseException:
        store.close()
        raise


def _read_plan(root: Path) -> Plan:
    from headrace.records.plan_file import read_plan

    try:
        return read_plan(root / "plan.parquet")
    except HeadraceError as error:
        raise RefusedError(error.message) from None


def _drive(loaded: LoadedStudy, plan: Plan, store: ResultStore, inputs: _Inputs) -> None:
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
    """Raise MissingError that lists every fatal problem, if there is one."""
    fatal = [problem for problem in problems if problem.fatal]
    if fatal:
        lines = [f"{problem.what} (for {problem.needed_by}): {problem.remedy}" for problem in fatal]
        raise MissingError(
            "this machine lacks what the study needs:\n  " + "\n  ".join(lines),
            hint="headrace doctor STUDY says more",
        )


def records(results: str | Path) -> Any:
    """Return every job of a results folder with the levels of its trial, as a DuckDB relation.

    `.df()` converts the relation to a data frame.
    """
    from headrace.analysis.read import read

    return read(Path(results)).relation()


def version() -> str:
    """Return the version of Headrace."""
    from importlib.metadata import version as installed

    return installed("headrace")


def environment() -> dict[str, object]:
    """Return the description of the machine and the versions that is stored with results."""
    from headrace.system.facts import facts

    return {**facts(), "headrace_version": version()}


def default_results(study_file: Path) -> Path:
    """Return the path of a new folder under `results/`, named after the study and the time."""
    stem = re.sub(r"[^\w.+=,@-]+", "-", study_file.stem)
    wanted = Path("results") / f"{stem}-{_now():%Y%m%d-%H%M%S}"
    # Two runs of one study may start within the same second.
    further = (wanted.with_name(f"{wanted.name}-{number}") for number in itertools.count(2))
    return next(place for place in itertools.chain([wanted], further) if not place.exists())


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _engine(kind: str) -> Engine:
    kinds = headrace.engine.kinds()
    if kind not in kinds:
        raise HeadraceError(f"there is no engine {kind!r}; there are: {', '.join(kinds)}")
    return kinds[kind]()


def report(
    results: str | Path,
    formats: Sequence[str] = ("html",),
    console: Console | None = None,
    *,
    series: Sequence[str] = (),
    output: str | Path | None = None,
) -> tuple[Findings, list[Path]]:
    """Return the findings of a results folder and the report files.

    Prints the report first if a console is given. The files are written next to the records, or
    into the folder `output` (created if needed), so that results may be read-only. `series` lists
    trials whose device series the HTML page shows in addition to those that it selects itself.
    Needs neither an engine nor root. Raises UsageError when the folder holds no results,
    RefusedError for an unknown version, HeadraceError when a file cannot be written.
    """
    from headrace.analysis.find import find
    from headrace.analysis.read import read
    from headrace.report.terminal import print_report
    from headrace.report.write import check_request, write_report

    root = Path(results)
    if output is not None:
        check_place(Path(output), "--output")
    check_request(root, formats, series)
    findings = find(read(root))
    folder = None if output is None else Path(output)
    return findings, _write_then_print(
        lambda: write_report(root, findings, formats, series, folder),
        lambda: None if console is None else print_report(findings, console),
    )


def report_text(results: str | Path) -> str:
    """Return the answer of a results folder as plain text for a ticket; writes nothing."""
    from headrace.analysis.find import find
    from headrace.analysis.read import read
    from headrace.report.ticket import ticket_text

    return ticket_text(find(read(Path(results))))


Written = TypeVar("Written")


def _write_then_print(write: Callable[[], Written], show: Callable[[], object]) -> Written:
    """Write files, print, and return what was written.

    In this order, because a reader that closes its pipe (`| head`) ends the command while it
    prints. What cannot be written is printed all the same, before the error.
    """
    try:
        written = write()
    except HeadraceError:
        show()
        raise
    show()
    return written


def compare(
    a: str | Path,
    b: str | Path,
    console: Console | None = None,
    *,
    html: Path | None = None,
    force: bool = False,
) -> Comparison:
    """Compare two result sets cell by cell. Raises RefusedError when they are not comparable."""
    from headrace.analysis.compare import compare as compare_records
    from headrace.analysis.read import read
    from headrace.report.comparison import print_comparison, write_comparison

    comparison = compare_records(read(Path(a)), read(Path(b)), force=force)
    _write_then_print(
        lambda: None if html is None else write_comparison(comparison, html, Path(a), Path(b)),
        lambda: None if console is None else print_comparison(comparison, console),
    )
    return comparison


def gate(
    results: str | Path,
    against: str | Path,
    console: Console | None = None,
    *,
    metric: str | None = None,
    tolerance: float | str = 0.05,
    force: bool = False,
) -> Gate:
    """Judge results against a baseline: which cells got worse, better, or neither.

    `metric`: that of the baseline's study when None. `tolerance`: a relative change that does not
    matter, 0.05 or "5 %". Raises NotJudgedError when no cell can be compared, RefusedError when one
    is measured and the other simulated and `force` is not given, UsageError for an unknown metric.
    """
    from headrace.analysis.gate import gate as judge
    from headrace.analysis.read import read
    from headrace.report.gate import print_gate

    try:
        share = parse_share(tolerance)
    except ValueError as error:
        raise UsageError(f"--tolerance {tolerance}: {error}") from None
    found = judge(
        read(Path(against)), read(Path(results)), metric=metric, tolerance=share, force=force
    )
    if console is not None:
        print_gate(found, console)
    return found


def decide(
    results: Sequence[str | Path],
    *,
    want: str = "events/s",
    within: str = "",
    show: str = "",
    offers: str | Path | None = None,
    mix: Mapping[str, float] | None = None,
    nodes: int | None = None,
    model_error: float | None = None,
    html: Path | None = None,
    pdf: Path | None = None,
    console: Console | None = None,
) -> tuple[DecisionAnswer, list[Path]]:
    """Recommend a configuration from result sets; return the answer and the files written.

    `show`: further quantities for the tables. `offers`: a file of prices (docs/decide.md); those
    of the study, and the catalog's, when None. `nodes`: scale every configuration to this many
    nodes, by simulation. Raises StudyError for bad wishes or offers, UsageError when a folder holds
    no results, RefusedError when no trial can be used.
    """
    from headrace.analysis.read import read
    from headrace.decision.answer import answer as make_answer
    from headrace.decision.answer import objectives_of
    from headrace.decision.offers import priced_offers
    from headrace.decision.sensitivity import DecisionInputs
    from headrace.decision.wishes import metric_quantity, parse_wishes
    from headrace.report.decision import print_answer
    from headrace.report.decision_page import check_pdf, write_page
    from headrace.whatif.scaling import scaled, scaled_configurations

    for file, option in ((html, "--html"), (pdf, "--pdf")):
        if file is not None:
            check_place(file.parent, option)
    if pdf is not None:
        check_pdf()
    sets = [read(Path(each)) for each in results]
    if nodes is not None:
        sets = [scaled(each, nodes) for each in sets]
    priced = priced_offers(None if offers is None else Path(offers), sets)
    known = {name for each in sets for values in each.trials["metrics"] for name in values}
    wishes = parse_wishes(want, within, priced.currency, known, show)
    objectives = objectives_of(wishes.want, metric_quantity("efficiency"))
    inputs = DecisionInputs(
        sets, priced, wishes, mix, model_error, objectives,
        at_nodes=lambda which, count: scaled_configurations(sets, which, count),
    )  # fmt: skip
    made = make_answer(inputs)
    return made, _write_then_print(
        lambda: write_page(made, html, pdf),
        lambda: None if console is None else print_answer(made, console),
    )


def screen(
    study: str | Path | LoadedStudy,
    out: str | Path | None = None,
    *,
    want: str = "",
    within: str = "",
    offers: str | Path | None = None,
    mix: Mapping[str, float] | None = None,
    measured: Sequence[str | Path] = (),
    model_error: float | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    stop: threading.Event | None = None,
    on: str = "",
) -> ScreenedStudy:
    """Simulate the full matrix of a study, and write a study of what could be the best of it.

    `out`: the new file; beside the study, named `…-screened.toml`, when None. `want`: the metric of
    the study's report when empty. `measured`: results of the same study, from which the model's
    error is taken. `on`: what simulates, as for `LoadedStudy.run`. Raises StudyError for bad wishes
    or offers, RefusedError when nothing keeps the limits or the file is there already, UsageError
    when nothing can be simulated.
    """
    from headrace.analysis.read import read
    from headrace.decision.offers import catalog_offers, load_offers, with_catalog
    from headrace.engine.simulate.where import simulator_on
    from headrace.engine.timing import read_timings
    from headrace.report.whole_file import write_whole
    from headrace.whatif.matrix import full_matrix, simulated_matrix
    from headrace.whatif.screening import ScreenInputs, check_wishes, screened

    loaded = _loaded(study)
    source = loaded.study.file
    file = Path(out) if out is not None else source.with_name(f"{source.stem}-screened.toml")
    check_new_file(file, "--out")
    given = loaded.study.offers if offers is None else load_offers(Path(offers))
    priced = catalog_offers() if given is None else with_catalog(given)
    results = tuple(read(Path(each)) for each in measured)
    inputs = ScreenInputs(want, within, priced, mix, model_error, results)
    check_wishes(loaded.study, inputs)
    full = full_matrix(loaded.study)
    cancelled = (lambda: False) if stop is None else stop.is_set
    with simulator_on(on) as simulator:
        matrix = simulated_matrix(
            full, make_plan(full), simulator=simulator, progress=progress, cancelled=cancelled
        )
    timings = read_timings(default_cache())
    made = screened(loaded.study, loaded.text, matrix, file, inputs, timings)
    write_whole(file, lambda part: part.write_text(made.text, "utf-8"))
    return made


def calibrate(
    study: str | Path | LoadedStudy,
    results: str | Path | None = None,
    *,
    out: str | Path | None = None,
    check: int | None = None,
    limit: float | None = None,
    rehearse: str | Path | None = None,
    observer: Observer | None = None,
    cache_dir: Path | None = None,
    stop: threading.Event | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[LearntSite, Path]:
    """Measure a few cells of a study, fit the site to them, and predict and check the others.

    Return the learnt site and the file that it was written to: `out`, or `site.toml` in the results
    folder. `results`: the folder of the records, continued if it has some of them. `check`: how
    many cells check the predictions. `limit`: the largest error that counts as good. `rehearse`: a
    site file; the measurements are simulated with it. Raises StudyError for what has no model,
    RefusedError when the folder holds the results of something else, and what `LoadedStudy.run`
    raises.
    """
    from headrace.analysis.read import read
    from headrace.calibration.cells import calibration_plan
    from headrace.calibration.running import check_modelled, learn
    from headrace.calibration.site_file import check_out, site_text, with_site
    from headrace.calibration.verdict import LIMIT
    from headrace.report.whole_file import write_whole

    loaded = _loaded(study)
    root = Path(results) if results is not None else default_results(loaded.study.file)
    file = Path(out) if out is not None else root / "site.toml"
    if out is not None:
        check_out(file)
    check_modelled(loaded.study, loaded.plan().trials)
    plan = calibration_plan(loaded.study, loaded.text, check)
    say(
        f"{len(plan.learn)} cells to learn from and {len(plan.check)} to check, "
        f"{len(make_plan(plan.study).trials)} trials"
    )
    measured, text = plan.study, plan.text
    if rehearse is not None:
        measured, text = with_site(plan.study, plan.text, Path(rehearse))
    whole = LoadedStudy(measured, text, loaded.base, loaded.forced_devices)
    engine = "measure" if rehearse is None else "simulate"
    _run_or_go_on(whole, root, engine, _Inputs(observer, cache_dir, stop, ""))
    cancelled = (lambda: False) if stop is None else stop.is_set
    found = learn(loaded.study, plan, read(root), LIMIT if limit is None else limit, say, cancelled)
    words = [f"From {len(plan.learn)} cells of {loaded.study.file.name}.", *found.verdict.sentences]
    made = site_text(found.fit, found.node, words)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, lambda part: part.write_text(made, "utf-8"))
    return found, file


def _run_or_go_on(loaded: LoadedStudy, root: Path, engine: str, inputs: _Inputs) -> None:
    """Run a study into a folder, or run what the folder lacks of it."""
    if (root / "results.json").exists():
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


def model_errors(a: str | Path, b: str | Path, console: Console | None = None) -> ModelErrors:
    """Compare a simulation with the measurement of the same study.

    Raises RefusedError when the two are not such a pair.
    """
    from headrace.analysis.model_error import model_errors as compare_times
    from headrace.analysis.read import read
    from headrace.report.model_error import print_model_errors

    found = compare_times(read(Path(a)), read(Path(b)))
    if console is not None:
        print_model_errors(found, console)
    return found
