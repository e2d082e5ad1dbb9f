"""Learn a site from the records of a calibration: fit it, predict every cell, compare, judge."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from headrace.analysis.interference import disturbances
from headrace.analysis.metrics import valid_trials
from headrace.analysis.read import Records
from headrace.calibration.cells import CalibrationPlan
from headrace.calibration.choices import choices
from headrace.calibration.fitting import MeasuredCell, SiteFit, fit
from headrace.calibration.observed import ObservedCell, mean, observed
from headrace.calibration.parameters import (
    ModelledCell,
    as_calibration,
    has_known_drive,
    learnables,
)
from headrace.calibration.site_file import SiteFacts
from headrace.calibration.spread import cpu_spreads, jobs_side_by_side
from headrace.calibration.verdict import PredictedCell, SiteVerdict, judge, nearest
from headrace.engine.simulate.calibrated import calibrated
from headrace.engine.simulate.checking import not_modelled
from headrace.engine.simulate.scenario import scenario_of
from headrace.engine.simulate.simulator import Cores, ScenarioRefusal
from headrace.engine.simulate.trials import PreparedTrial
from headrace.errors import HeadraceError, InterruptedRunError, StudyError
from headrace.plan.trial import Trial
from headrace.scenario import Scenario
from headrace.site import Site, SiteCalibration
from headrace.study.model import Study
from headrace.study.resolve import resolve
from headrace.system.machine_facts import reads_ahead_in_large_folios
from headrace.units import format_share

Say = Callable[[str], None]
REPEATS = 4
"""Simulations of a cell whose jobs differ by chance, in the fit."""
PREDICTED_REPEATS = 16
"""The same for a prediction. Where the head of a disk happens to be changes the time of a cell of
four jobs by 15 % from one simulation to the next, and so does the mean of four by 8 %."""


@dataclass(frozen=True)
class LearntSite:
    """A site learnt from measured cells, with its predictions."""

    fit: SiteFit
    facts: SiteFacts
    cells: tuple[PredictedCell, ...]
    verdict: SiteVerdict
    not_measured: tuple[Trial, ...]
    """Cells to measure that have no valid trial."""


def check_modelled(study: Study, trials: Iterable[Trial]) -> None:
    """Raise StudyError, with file, line and field, for cells that cannot be simulated."""
    words = "it cannot be simulated, so nothing can be learnt: "
    if problems := not_modelled(study, trials, words):
        raise StudyError(problems)


class SimulatedCells:
    """Simulates cells of a study with learnt values."""

    def __init__(self, study: Study, facts: SiteFacts, cancelled: Callable[[], bool]) -> None:
        self._study = with_facts(study, facts)
        self._spread = dict(facts.cpu_spread)
        self._cancelled = cancelled
        self._made: dict[str, tuple[PreparedTrial, Scenario]] = {}

    def scenario(self, trial: Trial) -> Scenario:
        """Return the scenario of a cell before anything is learnt."""
        return self._prepared(trial)[1]

    def modelled(self, trial: Trial) -> ModelledCell:
        """Return a cell to learn from."""
        prepared, made = self._prepared(trial)
        known = has_known_drive(prepared.resolved.target_options)
        words = choices(self._study, trial)
        return ModelledCell(trial.target, trial.workload, made, known, words)

    def _prepared(self, trial: Trial) -> tuple[PreparedTrial, Scenario]:
        if trial.cell not in self._made:
            # Another seed than that of the trials, which may be simulated themselves.
            mine = dataclasses.replace(trial, seed=trial.seed ^ 0x5EED)
            resolved = resolve(self._study, trial.target, trial.workload, trial.levels)
            made = scenario_of(resolved, trial.target, trial.workload, mine.seed)
            self._made[trial.cell] = PreparedTrial(self._study, mine, resolved), made
        return self._made[trial.cell]

    def simulate(
        self, learnt: SiteCalibration, trials: Sequence[Trial], repeats: int = REPEATS
    ) -> list[ObservedCell | None]:
        """Return what each cell gives, the mean of `repeats` where its jobs differ.

        Raises InterruptedRunError when cancelled.
        """
        if self._spread:
            learnt = learnt.model_copy(update={"cpu_spread": self._spread})
        runs: list[tuple[int, PreparedTrial, str]] = []
        for index, trial in enumerate(trials):
            prepared, scenario = self._prepared(trial)
            made = calibrated(
                scenario,
                learnt,
                trial.target,
                trial.workload,
                prepared.resolved.workload_options,
            )
            differ = any(made["run"].get(name) for name in ("cpu_spread", "cpu_variation"))
            rest = json.dumps({name: value for name, value in made.items() if name != "seed"})
            for repeat in range(repeats if differ else 1):
                seeded = f'{{"seed": {made["seed"] + repeat}, {rest.removeprefix("{")}'
                runs.append((index, prepared, seeded))
        seen: dict[int, ObservedCell] = {}

        def finished(number: int, outcome: str | None, refusal: ScenarioRefusal | None) -> bool:
            prepared = runs[number][1]
            if (sums := prepared.sums(outcome)) is not None:
                cell = observed({**sums, "load": prepared.resolved.run.load, "engine": "simulate"})
                if cell is not None:
                    seen[number] = cell
            return not self._cancelled()

        Cores().run([text for _, _, text in runs], finished, self._cancelled)
        if self._cancelled():
            raise InterruptedRunError("stopped")
        # In their order, not in that of their ends: equal records give equal digits.
        found: list[list[ObservedCell]] = [[] for _ in trials]
        for number, (index, _, _) in enumerate(runs):
            if number in seen:
                found[index].append(seen[number])
        return [mean(each) if each else None for each in found]


def with_facts(study: Study, facts: SiteFacts) -> Study:
    """Return a study whose site has these facts."""
    if facts == SiteFacts():
        return study
    site = study.site or Site.model_validate({})
    made = site.node.model_copy(update=facts.node)
    written = {
        **site.model_dump(exclude_unset=True),
        "node": made.model_dump(exclude_unset=True),
        "one_machine": facts.one_machine or site.one_machine,
    }
    return replace(study, site=Site.model_validate(written))


def site_facts(study: Study, records: Records) -> SiteFacts:
    """Return the facts of the machine that was measured, where the study states none."""
    stated = study.site.node if study.site is not None else None
    if stated is not None and (stated.cores is not None or stated.machine is not None):
        return SiteFacts()
    rows = valid_trials(records).to_dict("records")
    # Simulated nodes, and other machines, have cores of their own; nodes here share the machine's.
    measured = records.header.engine == "measure"
    shared = measured and _is_here(study)
    cores = [int(row["cpu_cores"]) // (1 if shared else row["nodes"]) for row in rows]
    if not cores:
        return SiteFacts()
    one_machine = shared and _serves_itself(study)
    node: dict[str, int | str] = {"cores": min(cores)}
    # Of other machines the environment says nothing.
    kernels = [str(each.get("kernel", "")) for each in records.environments]
    if one_machine and all(map(reads_ahead_in_large_folios, kernels)):
        node["read_ahead_rules"] = "large_folios"
    return SiteFacts(node, one_machine=one_machine)


def cores_of_nodes(study: Study) -> int | None:
    """Return the cores of a node before it is measured, if the study or this machine tells."""
    stated = study.site.node if study.site is not None else None
    if stated is not None and (stated.cores is not None or stated.machine is not None):
        return stated.cores
    return len(os.sched_getaffinity(0)) if _is_here(study) else None


def _is_here(study: Study) -> bool:
    """Return whether the nodes of a measured study were this machine."""
    on = [*study.factors.get("on", study.factors.get("run.on", [study.run_options.on]))]
    return {*on} <= {None, "local", "namespaces"}


def _serves_itself(study: Study) -> bool:
    """Return whether the servers of a measured study were those that it started."""
    return not any(getattr(each.options, "address", None) for each in study.targets.values())


def learn(
    study: Study,
    plan: CalibrationPlan,
    records: Records,
    limit: float,
    say: Say,
    cancelled: Callable[[], bool],
) -> LearntSite:
    """Fit a site to the cells of a plan that are to be learnt from, predict, and judge.

    Raises HeadraceError when no cell can be learnt from.
    """
    trials = _trials(records)
    measured = {cell: mean(each) for cell, each in trials.items()}
    facts = site_facts(study, records)
    simulated = SimulatedCells(_as_catalogued(plan.study), facts, cancelled)
    learnt_from = [t for t in plan.every if t.cell in plan.learn and t.cell in measured]
    if not learnt_from:
        raise HeadraceError(
            f"{records.root} has no valid trial to learn from",
            hint=f"`headrace report {records.root}` says why; then, on an idle machine, "
            f"`headrace resume {records.root} --retry-invalid`, and the same command with "
            f"--results {records.root}",
        )
    modelled = [simulated.modelled(trial) for trial in learnt_from]
    own = facts.one_machine or (study.site is not None and study.site.one_machine)
    cells = [
        MeasuredCell(each.target, each.workload, each.choices, _compared(measured[trial.cell], own))
        for each, trial in zip(modelled, learnt_from, strict=True)
    ]
    slots = {trial.cell: _jobs(simulated.scenario(trial)) for trial in plan.every}
    free = learnables(modelled, len({slots[trial.cell] for trial in learnt_from}) > 1)
    spread = cpu_spreads(jobs_side_by_side(records, {trial.cell for trial in learnt_from}))
    facts = replace(facts, cpu_spread=spread)
    simulated = SimulatedCells(_as_catalogued(plan.study), facts, cancelled)
    say(f"fitting {len(free)} parameters to {len(cells)} cells")

    def simulate(values: dict[str, float], numbers: Sequence[int]) -> list[ObservedCell | None]:
        return simulated.simulate(as_calibration(values), [learnt_from[n] for n in numbers])

    found = fit(cells, free, simulate)
    say(f"predicting {len(plan.every)} cells")
    made = simulated.simulate(as_calibration(found.values), plan.every, PREDICTED_REPEATS)
    predicted = [
        _predicted(trial, each, plan, measured, learnt_from, slots)
        for trial, each in zip(plan.every, made, strict=True)
        if each is not None
    ]
    missing = tuple(
        trial
        for trial in plan.every
        if trial.cell in plan.learn | plan.check and trial.cell not in measured
    )
    ordered = _ordered(study, predicted)
    verdict = judge(ordered, limit)
    verdict = replace(verdict, sentences=(*verdict.sentences, *_disturbed(records)))
    return LearntSite(found, facts, ordered, verdict, missing)


def _compared(cell: ObservedCell, one_machine: bool) -> ObservedCell:
    """Return a cell without the CPU time of servers where they have cores of their own."""
    return cell if one_machine else replace(cell, served=None)


def _disturbed(records: Records) -> list[str]:
    """Return a sentence on trials that count and that other programs may have slowed down."""
    found = [each for each in disturbances(records) if each.warned]
    if not found:
        return []
    count = sum(len(each.warned) for each in found)
    most = max(each.lost_share_counted for each in found)
    return [
        f"other programs may have cost {count} of {len(records)} trials up to "
        f"{format_share(most)} of their "
        "time: measure again on a quiet machine"
    ]


def _ordered(study: Study, cells: Iterable[PredictedCell]) -> tuple[PredictedCell, ...]:
    """Return cells by what they are for, then in the order of the study."""
    parts = [*study.factors["target"], *study.factors["workload"]]
    roles = ("learnt", "checked", "predicted")

    def place(cell: PredictedCell) -> tuple[int, int, int, str, int]:
        trial = cell.trial
        target, workload = parts.index(trial.target), parts.index(trial.workload)
        return roles.index(cell.role), target, workload, str(trial.levels.get("cache")), cell.slots

    return tuple(sorted(cells, key=place))


def _as_catalogued(study: Study) -> Study:
    """Return a study without values that were learnt before."""
    if study.site is None:
        return study
    site = study.site.model_copy(update={"calibration": None})
    return replace(study, site=site)


def _trials(records: Records) -> dict[str, list[ObservedCell]]:
    """Return the valid trials of each cell."""
    trials: dict[str, list[ObservedCell]] = {}
    for row in valid_trials(records).to_dict("records"):
        found = observed({str(name): value for name, value in row.items()})
        if found is not None:
            trials.setdefault(str(row["cell"]), []).append(found)
    return trials


def _jobs(scenario: Scenario) -> int:
    return scenario["run"]["slots_per_node"] * sum(node["count"] for node in scenario["nodes"])


def _predicted(
    trial: Trial,
    made: ObservedCell,
    plan: CalibrationPlan,
    measured: dict[str, ObservedCell],
    learnt_from: Sequence[Trial],
    slots: dict[str, int],
) -> PredictedCell:
    real = measured.get(trial.cell)
    role = "checked" if real is not None else "predicted"
    if trial.cell in plan.learn and real is not None:
        role = "learnt"
    work = (real or made).work
    like = nearest(trial, learnt_from, slots)
    null_s = None
    if like is not None and like.cell != trial.cell:
        one = measured[like.cell]
        null_s = one.seconds * one.work, one.seconds * work
    return PredictedCell(
        trial,
        slots[trial.cell],
        role,
        made.seconds * work,
        None if real is None else real.seconds * work,
        null_s,
    )
