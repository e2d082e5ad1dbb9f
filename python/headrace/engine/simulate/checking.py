"""Engine `simulate`: which cells of a study cannot run, as problems of fields of its file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace import _core
from headrace import targets as target_package
from headrace.document import FieldPath
from headrace.engine.simulate.trials import PreparedTrial
from headrace.errors import FileProblem, HeadraceError, NoSpaceError, StudyError
from headrace.plan.trial import Trial
from headrace.study.model import Study

_OPTIONS = {
    "targets": ("servers",),
    "tuning.parity_targets": ("erasure", "disperse"),
    "tuning.stripe_targets": ("erasure", "disperse", "stripe_count"),
    "tuning.replicas": ("replicas",),
}
"""Field of a service in a scenario -> the options of a target that it comes from."""


def not_modelled(study: Study, trials: Iterable[Trial], words: str) -> list[FileProblem]:
    """Return what keeps cells from being simulated. `words` begin the problem of a part without a
    model. Raises StudyError for entries of the catalog and levels that are wrong."""
    problems: dict[str, FileProblem] = {}
    for trial in cells(trials):
        try:
            scenario = PreparedTrial.of(study, trial).scenario(series=False)
        except (StudyError, NoSpaceError):
            raise
        except HeadraceError as error:
            problems[error.message] = problem_of(study, trial, error, words)
        else:
            if refused := refusal_of(study, trial, scenario):
                problems[str(refused)] = refused
    return list(problems.values())


def check_simulated_only(study: Study, trials: Iterable[Trial]) -> None:
    """Raise StudyError for cells on storage that exists in virtual time alone and cannot run."""
    kinds = target_package.kinds()
    only = {name for name, each in study.targets.items() if kinds[each.kind].virtual_only}
    problems = not_modelled(study, (each for each in trials if each.target in only), "")
    if problems:
        raise StudyError(problems)


def cells(trials: Iterable[Trial]) -> list[Trial]:
    """Return one trial of each cell, in order."""
    found: dict[str, Trial] = {}
    for trial in trials:
        found.setdefault(trial.cell, trial)
    return list(found.values())


def problem_of(study: Study, trial: Trial, error: HeadraceError, words: str) -> FileProblem:
    """Return why a cell cannot be simulated, as a problem of the study file."""
    section, name = "target", trial.target
    if error.message.startswith(f"workload {trial.workload}"):
        section, name = "workload", trial.workload
    elif not error.message.startswith(f"target {name}"):
        section, name = "run", ""
    path: FieldPath = (section, name, "kind") if name else (section,)
    for number, fault in enumerate(study.faults):
        if error.message.startswith(f"fault {fault.label}: "):
            path = ("fault", number, "what")
    return study.fault(path, "", f"{words}{error.message}", error.hint or "")


def refusal_of(study: Study, trial: Trial, scenario: str) -> FileProblem | None:
    """Return why the core refuses the scenario of a cell, as a problem of the study file.

    None for jobs that do not fit into a node's memory: their trials fail, and others run.
    """
    refusal = _core.scenario_refusal(scenario)
    if refusal is None or re.fullmatch(r"profiles\[\d+\]\.memory_bytes", refusal[0]):
        return None
    field, given, allowed = refusal
    given, allowed = (_in_study_terms(text) for text in (given, allowed))
    section, _, inner = re.sub(r"\[\d+\]", "", field).partition(".")
    what = f"it cannot be simulated: {field.rpartition('.')[2]}"
    place = _place(study, trial, section, inner)
    servers = re.fullmatch(r"at most one a target \((\d+)\)", allowed)
    if inner == "tuning.replicas" and servers is not None:
        stated = place[-1] == "replicas"
        place = place if stated else (*place, "replicas")
        usual = "" if stated else " by default"
        what = (
            f"it cannot be simulated: each file has {given} copies{usual}, "
            f"each on a server of its own, and the number of servers is {servers[1]}"
        )
        most = int(servers[1])
        allowed = f"replicas {f'of 1 to {most}' if most > 1 else '= 1'}, or more servers"
    return study.fault(place, given, what, allowed)


def _in_study_terms(text: str) -> str:
    """Return the core's words without its types and without the place in a scenario."""
    text = re.sub(r" at line \d+ column \d+$", "", text)
    text = re.sub(r"^invalid (?:type|value): ", "", text)
    return {"u64": "a whole number, 0 or more", "f64": "a number"}.get(text, text)


def _place(study: Study, trial: Trial, section: str, inner: str) -> FieldPath:
    """Return the field of the study that a field of the scenario comes from."""
    target: FieldPath = ("target", trial.target)
    if section == "services":
        options = study.targets[trial.target].written
        first, _, field = inner.partition(".")
        if first == "tuning" and field in options.get("tuning", {}):
            return (*target, "tuning", field)
        for option in _OPTIONS.get(inner, ()):
            if option in options:
                return (*target, option)
        return target
    if section == "profiles":
        return ("workload", trial.workload)
    return {"nodes": ("site", "node"), "run": ("run",), "faults": ("fault",)}.get(section, target)
