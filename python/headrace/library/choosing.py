"""From results or simulations to a choice: recommend, screen, calibrate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.engine import Observer, default_cache
from headrace.errors import UsageError
from headrace.library.results import write_then_print
from headrace.library.running import (
    LoadedStudy,
    RunInputs,
    as_loaded,
    default_results,
    run_or_go_on,
)
from headrace.plan.order import make_plan
from headrace.records.place import check_new_file, check_no_dangling, check_place
from headrace.whole_file import is_stream

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.calibration.running import LearntSite
    from headrace.decision.answer import DecisionAnswer
    from headrace.whatif.screening import ScreenedStudy
    from headrace.whatif.sweep import SweptStudy


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
    from headrace.analysis.faults import without_faults
    from headrace.analysis.read import read
    from headrace.decision.answer import answer as make_answer
    from headrace.decision.answer import objectives_of
    from headrace.decision.cells import configured
    from headrace.decision.offers import priced_offers
    from headrace.decision.sensitivity import DecisionInputs
    from headrace.decision.wishes import metric_quantity, parse_wishes
    from headrace.report.decision import print_answer
    from headrace.report.decision_page import check_pdf, write_page
    from headrace.whatif.scaling import scaled, scaled_configurations

    for file, option in ((html, "--html"), (pdf, "--pdf")):
        # A device such as /dev/null is in a folder that keeps no files.
        if file is not None and not is_stream(file) and (file.is_file() or not file.exists()):
            check_place(file.parent, option)
            check_no_dangling(file, option)
    if pdf is not None:
        check_pdf()
    # A folder that is named twice is no further evidence.
    sets = [read(each) for each in {Path(each).resolve(): Path(each) for each in results}.values()]
    # Before they are scaled: a simulation of more nodes does not know what was measured.
    sets = configured([without_faults(each) for each in sets])
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
    return made, write_then_print(
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
    from headrace.whatif.matrix import full_matrix, simulated_matrix
    from headrace.whatif.screening import ScreenInputs, check_wishes, screened
    from headrace.whole_file import write_whole

    loaded = as_loaded(study)
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


def sweep(studies: Iterable[str], *, base: str | Path = ".", on: str = "") -> Iterator[SweptStudy]:
    """Simulate many studies, given as texts, and yield the metrics of each as soon as it is done.

    The fewest repeats of each cell are simulated, and nothing is written. `base`: what relative
    paths in the texts refer to. `on`: what simulates, as for `LoadedStudy.run`. A study that is not
    valid or has no model has a `problem` and no trials.
    """
    from headrace.engine.simulate.where import simulator_on
    from headrace.whatif.sweep import sweep as swept

    with simulator_on(on) as simulator:
        yield from swept(studies, Path(base).resolve(), simulator)


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
    from headrace.calibration.running import check_modelled, cores_of_nodes, learn
    from headrace.calibration.site_file import site_text, with_site
    from headrace.calibration.verdict import LIMIT
    from headrace.whole_file import write_whole

    loaded = as_loaded(study)
    root = Path(results) if results is not None else default_results(loaded.study.file)
    file = _site_file(root, out, rehearse)
    check_modelled(loaded.study, loaded.plan().trials)
    known = loaded.study
    if rehearse is not None:
        known, _ = with_site(known, loaded.text, Path(rehearse))
    plan = calibration_plan(loaded.study, loaded.text, check, cores_of_nodes(known))
    say(
        f"{len(plan.learn)} cells to learn from and {len(plan.check)} to check, "
        f"{len(make_plan(plan.study).trials)} trials"
    )
    measured, text = plan.study, plan.text
    if rehearse is not None:
        measured, text = with_site(plan.study, plan.text, Path(rehearse))
    whole = LoadedStudy(measured, text, loaded.base, loaded.forced_devices)
    engine = "measure" if rehearse is None else "simulate"
    run_or_go_on(whole, root, engine, RunInputs(observer, cache_dir, stop, ""))
    cancelled = (lambda: False) if stop is None else stop.is_set
    found = learn(loaded.study, plan, read(root), LIMIT if limit is None else limit, say, cancelled)
    words = [f"From {len(plan.learn)} cells of {loaded.study.file.name}.", *found.verdict.sentences]
    made = site_text(found.fit, found.facts, words)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, lambda part: part.write_text(made, "utf-8"))
    return found, file


def _site_file(root: Path, out: str | Path | None, rehearse: str | Path | None) -> Path:
    """Return the file of a learnt site. Raises UsageError or RefusedError before the work, if it
    or the records in `root` would replace something else."""
    from headrace.calibration.site_file import check_out
    from headrace.records.store import check_new_results

    file = Path(out) if out is not None else root / "site.toml"
    check_place(root, "--results")
    if not (root / "results.json").exists():
        check_new_results(root)
    check_out(file)
    if rehearse is not None and file.exists() and file.samefile(rehearse):
        raise UsageError(
            f"{file} is the site that --rehearse reads", hint="name another file with --out"
        )
    return file
