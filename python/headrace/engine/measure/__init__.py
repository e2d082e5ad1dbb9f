"""The engine `measure`: real jobs on real storage, in real time.

Goes through the plan by whole plots: the target comes to be, its trials run one after the other (`trials.py`), it goes away.
Whatever fails becomes a record with a cause; only a machine that cannot record stops the study.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import replace
from typing import Any

from headrace import faults as fault_room
from headrace import probes as probe_room
from headrace import targets as target_room
from headrace import workloads as workload_room
from headrace.engine import Engine, Run, base_record
from headrace.engine.measure import sources
from headrace.engine.measure.nodes import built
from headrace.engine.measure.nursery import Nursery
from headrace.engine.measure.stage import Stage
from headrace.engine.measure.trials import run_trial
from headrace.engine.repeating import Repeating
from headrace.errors import HeadraceError, InterruptedRunError, Problem, UnsupportedLevelError
from headrace.plan.trial import Plan, Trial
from headrace.study.model import Study
from headrace.study.resolve import Resolved, resolve
from headrace.system import cluster as clusters
from headrace.system.facts import enable_delay_accounting, facts
from headrace.system.journal import Journal
from headrace.system.owned import work_directory
from headrace.system.silent_mounts import let_go_when_stopped
from headrace.targets import TargetContext
from headrace.targets.own_drives import on_nodes


class Measure(Engine):
    """Real jobs on real storage."""

    kind = "measure"

    def check(self, study: Study, plan: Plan, forced_devices: frozenset[str]) -> list[Problem]:
        """Asks every target, workload and fault of the plan what it lacks here."""
        problems: list[Problem] = []
        seen_targets: set[str] = set()
        seen_workloads: set[str] = set()
        for trial in plan.trials:
            resolved = resolve(study, trial.target, trial.workload, trial.levels)
            nodes = resolved.run.nodes
            if (key := f"{trial.target} {nodes} {resolved.target_options!r}") not in seen_targets:
                seen_targets.add(key)
                problems += _target(trial.target, resolved, nodes).check(forced_devices)
            if (key := f"{trial.workload} {resolved.workload_options!r}") not in seen_workloads:
                seen_workloads.add(key)
                workload = workload_room.kinds()[resolved.workload_kind](
                    trial.workload, resolved.workload_options
                )
                problems += workload.check()
                if resolved.run.feed not in type(workload).feeds:
                    allowed = ", ".join(sorted(type(workload).feeds))
                    what = f'feed = "{resolved.run.feed}"'
                    problems.append(
                        Problem(
                            what,
                            f"workload {trial.workload}",
                            f"this kind of workload can be fed by: {allowed}",
                        )
                    )
            if resolved.run.on != "local":
                problems.append(
                    Problem(
                        f'on = "{resolved.run.on}"', "[run]", 'jobs run on this machine only: on = "local"'
                    )
                )
            if resolved.run.trace:
                problems += probe_room.kinds()["trace"]().check()
            if resolved.run.nodes > 1 and (missing := clusters.why_not()) is not None:
                problems.append(Problem(missing[0], f"nodes = {resolved.run.nodes}", missing[1]))
            kind = target_room.kinds()[resolved.target_kind]
            if kind.url_prefix and (why_not := _why_not_by_url(trial.workload, resolved, kind.url_prefix)):
                what = f"target {trial.target} is reached by URL, and {why_not}"
                remedy = (
                    "exclude the two together ([[exclude]]), or mount the storage and name it by kind = path"
                )
                problems.append(Problem(what, f"workload {trial.workload}", remedy))
            for options in resolved.faults:
                problems += fault_room.kinds()[options.what](options).check_on(
                    trial.target, resolved.target_options
                )
        problems += sources.problems_of(study, plan.trials, forced_devices)
        for options in study.faults:
            problems += fault_room.kinds()[options.what](options).check()
        return list(dict.fromkeys(problems))

    def run(self, run: Run) -> None:
        """Makes every missing record of the plan."""
        left = [trial for trial in run.plan.trials if not run.store.has(trial.id)]
        run.observer.started(len(run.plan.trials), len(run.plan.trials) - len(left))
        if not left:
            return
        environment = facts()
        repeating = Repeating(run.study, run.plan, run.store.root)
        slots_max = max(
            options.slots * options.nodes
            for trial in run.plan.trials
            for options in (resolve(run.study, trial.target, trial.workload, trial.levels).run,)
        )
        with Journal.open(run.study.title) as journal:
            work, _ = work_directory(journal)  # the first entry, so that it goes last
            enable_delay_accounting(journal)
            nursery = Nursery()
            try:
                with let_go_when_stopped(journal, run.stop):
                    for _, group in itertools.groupby(left, key=lambda trial: trial.whole_plot):
                        trials = [trial for trial in group if _wanted(run, repeating, trial)]
                        if trials:
                            context = TargetContext(work, journal, run.forced_devices)
                            _whole_plot(run, trials, context, nursery, environment, slots_max, repeating)
            finally:
                nursery.close()


def _target(name: str, resolved: Resolved, nodes: int) -> target_room.Target:
    return on_nodes(target_room.kinds()[resolved.target_kind](name, resolved.target_options), nodes)


def _why_not_by_url(name: str, resolved: Resolved, url_prefix: str) -> str | None:
    kind = workload_room.kinds()[resolved.workload_kind]
    if not kind.reads_urls:
        return f"a workload of kind {resolved.workload_kind} cannot read URLs"
    return kind(name, resolved.workload_options).why_not_by_url(url_prefix)


def _wanted(run: Run, repeating: Repeating, trial: Trial) -> bool:
    """Whether a repeat beyond the least is still needed; nothing is recorded for one that is not."""
    if repeating.needs(trial):
        return True
    run.observer.trial_finished(trial, "skipped", [], "interval narrow enough")
    return False


def _whole_plot(
    run: Run,
    trials: list[Trial],
    context: TargetContext,
    nursery: Nursery,
    environment: dict[str, Any],
    slots_max: int,
    repeating: Repeating,
) -> None:
    """One coming-to-be of a target and its trials."""
    first = resolve(run.study, trials[0].target, trials[0].workload, trials[0].levels)
    count = max(resolve(run.study, trial.target, trial.workload, trial.levels).run.nodes for trial in trials)
    target = _target(trials[0].target, first, count)
    why_not = target.unsupported()
    if why_not is not None:
        for trial in trials:
            _without_jobs(run, trial, "unsupported", why_not, environment, repeating)
        return

    def none_ran(error: HeadraceError) -> None:
        status = "unsupported" if isinstance(error, UnsupportedLevelError) else "failed"
        where = f"target {trials[0].target}: "
        cause = error.message if error.message.startswith(where) else f"{where}{error.message}"
        if error.hint is not None and status == "failed":
            cause = f"{cause} ({error.hint})"
        for trial in trials:
            _without_jobs(run, trial, status, cause, environment, repeating)

    with contextlib.ExitStack() as stack:
        run.observer.phase(f"preparing {trials[0].target}")
        try:
            source_targets = sources.sources_of(run.study, trials)
            nodes = stack.enter_context(built(context.journal, target, first, count, source_targets.values()))
            context = replace(context, cluster=nodes.cluster, client_nodes=nodes.names)
            made = sources.prepared(source_targets, context)
            stack.callback(sources.released, made, context)
            location = target.prepare(context)
        except InterruptedRunError:
            raise
        except HeadraceError as error:
            target.release(context)
            none_ran(error)
            return
        try:
            stage = Stage(
                run, target, context, location, nursery, environment, slots_max, context.work_dir, nodes
            )
            stage.sources = made
            spoilt = False
            for trial in trials:
                if run.stop.is_set():
                    raise InterruptedRunError("stopped")
                if spoilt:
                    run.observer.phase(f"preparing {trial.target} anew")
                    target.release(context)
                    stage.location = target.prepare(context)
                    stage.put.clear()
                _one(stage, trial, repeating)
                spoilt = _spoilt(run, trial)
        finally:
            run.observer.phase(f"releasing {trials[0].target}")
            target.release(context)


def _spoilt(run: Run, trial: Trial) -> bool:
    """Whether the trial's faults may have left the target no good for another trial."""
    faults = resolve(run.study, trial.target, trial.workload, trial.levels).faults
    return any(fault_room.kinds()[each.what].spoils for each in faults)


def _one(stage: Stage, trial: Trial, repeating: Repeating) -> None:
    """One trial to one record, whatever comes."""
    run = stage.run
    resolved = resolve(run.study, trial.target, trial.workload, trial.levels)
    failure: tuple[str, str] | None = None
    with run.store.record(trial.id) as record:
        try:
            values = run_trial(stage, trial, resolved, record)
            record.commit(values)
        except InterruptedRunError:
            raise
        except UnsupportedLevelError as error:
            failure = "unsupported", error.message
        except HeadraceError as error:
            failure = "failed", error.message
        else:
            reasons = [found["text"] for found in values["validity"]["reasons"]]
            status = values["status"] if values["status"] != "done" or not reasons else "invalid"
            run.observer.trial_finished(
                trial, status, [values["cause"]] if values["cause"] else reasons, _summary(values)
            )
            repeating.recorded(trial, values, record.sums)
    if failure is not None:
        _without_jobs(run, trial, *failure, stage.environment, repeating)


def _without_jobs(
    run: Run, trial: Trial, status: str, cause: str, environment: dict[str, Any], repeating: Repeating
) -> None:
    """The record of a trial whose jobs never ran."""
    resolved = resolve(run.study, trial.target, trial.workload, trial.levels)
    with run.store.record(trial.id) as record:
        record.jobs([])
        values: dict[str, Any] = {
            **base_record(run, trial, "measure", environment),
            "provenance": "measured",
            "status": status,
            "cause": cause,
            "target": {"name": trial.target, "kind": resolved.target_kind},
            "workload": {"name": trial.workload, "kind": resolved.workload_kind},
            "run": resolved.run.model_dump(mode="json"),
            "validity": {"valid": False, "reasons": []},
        }
        record.commit(values)
    run.observer.trial_finished(trial, status, [cause], "")
    repeating.recorded(trial, values, record.sums)


def _summary(values: dict[str, Any]) -> str:
    """One short line for the progress display."""
    seconds = values["last_done_s"]
    return f"{seconds:.1f} s"
