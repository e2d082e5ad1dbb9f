"""Screen a study: simulate its full matrix, and write the study of what could be the best of it.

`matrix.py` simulates, `decision.screening` decides what stays, `smaller_study.py` writes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.analysis.read import Records
from headrace.decision.candidates import basis_of
from headrace.decision.cells import configuration_of, configured
from headrace.decision.choose import choose
from headrace.decision.offers import Offers
from headrace.decision.screening import KEPT_PROBABILITY, ScreenedTrials, Screening, screen
from headrace.decision.wishes import Wishes, metric_quantity, parse_wishes
from headrace.engine.estimate import estimate
from headrace.errors import RefusedError
from headrace.metrics import names_for
from headrace.metrics.headline import headline
from headrace.plan.expected import Timings
from headrace.plan.order import make_plan
from headrace.plan.trial import Plan, Trial
from headrace.study.level_words import level_words
from headrace.study.load import load_study_text
from headrace.study.model import Study
from headrace.whatif.matrix import SimulatedMatrix
from headrace.whatif.smaller_study import smaller_study


@dataclass(frozen=True)
class ScreenInputs:
    """What a screening is for."""

    want: str
    """As `--want` gives it; the metric of the study's report when empty."""
    within: str
    offers: Offers
    shares: Mapping[str, float] | None = None
    model_error: float | None = None
    measured: Sequence[Records] = ()
    """Results of the same study, for the model's error."""


@dataclass(frozen=True)
class ScreenedStudy:
    """The configurations of a study that could be the best, by simulation, and a study of them."""

    screening: Screening
    trials: ScreenedTrials
    offers: Offers
    text: str
    """The smaller study file."""
    file: Path
    """Where it belongs."""


def screened(
    study: Study, text: str, matrix: SimulatedMatrix, out: Path, inputs: ScreenInputs,
    timings: Timings | None = None,
) -> ScreenedStudy:  # fmt: skip
    """Return what stays of a study whose full matrix is simulated.

    `text`: of the study file. `out`: where the smaller one will be written. `timings`: of earlier
    runs, for the expected time.
    """
    # The cells that stay are found again by the names that configurations have beside `measured`.
    records, *measured = configured([matrix.records, *inputs.measured])
    matrix, inputs = replace(matrix, records=records), replace(inputs, measured=tuple(measured))
    wishes = _wishes(study, matrix.records, inputs)
    found = _screening(study, matrix, wishes, inputs)
    kept = _kept_cells(matrix, found)
    dropped = _dropped(matrix.plan, kept)
    smaller = smaller_study(study, text, out, kept, _comment(study, found, dropped))
    made = load_study_text(smaller, file=out, base=out.resolve().parent)
    before, after = make_plan(study), make_plan(made)
    trials = ScreenedTrials(
        len(before.trials),
        len(after.trials),
        estimate(study, before, timings).seconds,
        estimate(made, after, timings).seconds,
        dropped,
    )
    return ScreenedStudy(found, trials, inputs.offers, smaller, out)


def check_wishes(study: Study, inputs: ScreenInputs) -> None:
    """Raise StudyError for wishes that no simulation could answer, before one is begun."""
    known = names_for(study.report_options.price.values())
    parse_wishes(inputs.want or "events/s", inputs.within, inputs.offers.currency, known)


def _wishes(study: Study, records: Records, inputs: ScreenInputs) -> Wishes:
    values = list(records.trials["metrics"])
    known = {name for each in values for name in each}
    wanted = inputs.want
    if not wanted:
        having = {name for each in values for name, value in each.items() if value}
        wanted = headline(study.report_options.metric, having) or "events/s"
    return parse_wishes(wanted, inputs.within, inputs.offers.currency, known)


def _screening(
    study: Study, matrix: SimulatedMatrix, wishes: Wishes, inputs: ScreenInputs
) -> Screening:
    basis = basis_of(
        [matrix.records, *inputs.measured],
        inputs.offers,
        inputs.shares,
        inputs.model_error,
        metrics=[each.name for each in wishes.quantities],
    )
    if not basis.candidates:
        why = "; ".join(f"{key}: {reason}" for key, reason in basis.incomplete.items())
        raise RefusedError(
            f"no configuration has a simulation of every workload: {why}",
            hint='--mix "NAME=100" screens for one workload',
        )
    efficiency = metric_quantity("efficiency")
    unknown = dict(basis.incomplete)
    for trial in matrix.plan.trials:
        if trial.cell in matrix.not_simulated:
            unknown[_named(study, trial)] = matrix.not_simulated[trial.cell]
    return screen(choose(basis, wishes, (efficiency,)), unknown)


def _named(study: Study, trial: Trial) -> str:
    """Return a cell in words."""
    kinds = study.targets[trial.target].kind, study.workloads[trial.workload].kind
    words = [
        level_words(name, level, *kinds)
        for name, level in trial.levels.items()
        if name not in ("target", "workload") and level is not None
    ]
    return ", ".join([trial.target, trial.workload, *words])


def _kept_cells(matrix: SimulatedMatrix, found: Screening) -> set[str]:
    """Return the cells that stay: all but those of configurations that are left out."""
    out = {each.candidate.configuration for each in found.left_out}
    every = {trial.cell for trial in matrix.plan.trials}
    rows = matrix.records.trials.to_dict("records")
    return every - {str(row["cell"]) for row in rows if configuration_of(row) in out}


def _dropped(plan: Plan, kept: Collection[str]) -> dict[str, tuple[object, ...]]:
    """Return the levels of each factor that no cell has any more."""
    levels: dict[str, dict[str, object]] = {}
    left: dict[str, set[str]] = {}
    for trial in plan.trials:
        for name, level in trial.levels.items():
            if level is not None:
                levels.setdefault(name, {})[repr(level)] = level
                if trial.cell in kept:
                    left.setdefault(name, set()).add(repr(level))
    found = {
        name: tuple(level for text, level in each.items() if text not in left.get(name, ()))
        for name, each in levels.items()
    }
    return {name: each for name, each in found.items() if each}


def _comment(study: Study, found: Screening, dropped: Mapping[str, Sequence[object]]) -> str:
    """Return the first lines of the smaller study: where it comes from, and what is left out."""
    wishes, basis = found.choice.wishes, found.choice.basis
    within = f" within {', '.join(each.text for each in wishes.limits)}" if wishes.limits else ""
    error = "" if basis.model_error is None else (
        f"; simulated rates are taken to be off by {basis.model_error * 100:.3g} %"
    )  # fmt: skip
    lines = [
        f"What is left of {study.file.name} by `headrace screen`: "
        f"{len(found.kept)} of {len(found.choice.judged)} configurations, which hold the best "
        f"{wishes.want.title}{within} with a probability of {KEPT_PROBABILITY * 100:g} %{error}."
    ]
    lines += [
        f"No longer tried: {name} = {', '.join(str(level) for level in levels)}"
        for name, levels in dropped.items()
    ]
    return "\n".join(lines)
