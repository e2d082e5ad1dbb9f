"""One whole plot: set up a target, run its trials one after another, tear the target down.

Every trial yields a record.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace import faults as fault_package
from headrace import targets as target_package
from headrace.engine import Run
from headrace.engine.measure import sources
from headrace.engine.measure.nodes import check_shared, is_elsewhere, launcher_of, nodes_wanted
from headrace.engine.measure.outcome import ENDS_THE_RUN, Failure, Outcome, Step, failure_of
from headrace.engine.measure.prepared_target import PreparedTarget
from headrace.engine.measure.target_servers import servers_of
from headrace.engine.measure.teardown import TearDown, try_again
from headrace.engine.measure.trial_record import write_failure, write_outcome
from headrace.engine.measure.trials import run_trial
from headrace.engine.repeating import Repeating
from headrace.errors import InterruptedRunError
from headrace.launchers import Launchers
from headrace.plan.trial import Trial
from headrace.records.trial_record import TrialRecord
from headrace.study.model import RunOptions
from headrace.study.resolve import Resolved, resolve
from headrace.targets import Target, TargetContext
from headrace.targets.local_drives import on_nodes


@dataclass(frozen=True)
class Session:
    """State shared by all whole plots of one run."""

    run: Run
    context: TargetContext
    launchers: Launchers
    environment: dict[str, object]
    slots_max: int
    """Largest number of slots of any trial of the plan, summed over nodes."""
    repeating: Repeating
    unfinished: list[Step] = field(default_factory=list[Step])
    """Tear-down steps of earlier trials and targets that failed; retried before the next trial."""

    def wanted(self, trial: Trial) -> bool:
        """Return whether a repeat is still needed. Nothing is recorded for one that is not."""
        enough = self.repeating.enough_because(trial)
        if enough is not None:
            self.run.observer.trial_finished(trial, "skipped", [], enough)
        return enough is None

    def recorded(self, trial: Trial, record: TrialRecord) -> None:
        """Report a new record to the observer and to the decision on repeats."""
        seconds = record.last_done_s
        said = "" if seconds is None else f"{seconds:.1f} s"
        self.run.observer.trial_finished(trial, record.verdict, record.why, said)
        self.repeating.recorded(trial, record)


def make_target(name: str, resolved: Resolved, nodes: int) -> Target:
    """Return the target of a trial with this number of nodes; nothing is set up."""
    return on_nodes(
        target_package.kinds()[resolved.target_kind](name, resolved.target_options),
        nodes,
        elsewhere=is_elsewhere(resolved.run),
    )


def run_whole_plot(session: Session, trials: Sequence[Trial]) -> None:
    """Set up the target of `trials`, record every one of them, tear the target down.

    If a queue does not give the most nodes that any of them needs, those that need fewer follow
    with a set-up of their own. Raises InterruptedRunError when stopped, and CannotRecordError; the
    target is torn down in these cases too.
    """
    errors: list[str] = []
    later: list[Trial] = []
    resolved = {
        trial.id: resolve(session.run.study, trial.target, trial.workload, trial.levels)
        for trial in trials
    }
    try:
        with TearDown(errors, session.unfinished) as teardown:
            plot = _WholePlot(session, trials, resolved, teardown)
            failure = plot.finish_teardown() or plot.set_up()
            if failure is not None and failure.too_few_nodes:
                most = max(each.run.nodes for each in resolved.values())
                later = [trial for trial in trials if resolved[trial.id].run.nodes < most]
            for trial in trials:
                if session.run.stop.is_set():
                    raise InterruptedRunError("stopped")
                if trial in later:
                    continue
                if failure is not None:
                    plot.record_failure(trial, failure)
                elif session.wanted(trial):  # earlier trials may have used up the budget
                    plot.record(trial)
    finally:
        # The journal keeps the steps that failed and retries them at the end of the run.
        for error in errors:
            session.run.observer.phase(error)
    if later:
        run_whole_plot(session, later)


class _WholePlot:
    def __init__(
        self,
        session: Session,
        trials: Sequence[Trial],
        resolved: dict[str, Resolved],
        teardown: TearDown,
    ) -> None:
        self._session = session
        self._trials = trials
        self._resolved = resolved
        self._teardown = teardown
        self._prepared: PreparedTarget | None = None
        self._spoilt = False
        """Whether the target must be set up again before the next trial."""

    # -- the target --

    def set_up(self) -> Failure | None:
        """Set up the target and the nodes it needs. Return the failure, if any."""
        name = self._trials[0].target
        try:
            return self._set_up(name)
        except ENDS_THE_RUN:
            raise
        except Exception as error:
            if self._session.run.stop.is_set():
                raise InterruptedRunError("stopped") from error
            return failure_of(error, f"target {name}: ")

    def _set_up(self, name: str) -> Failure | None:
        session, say = self._session, self._session.run.observer.phase
        first = self._resolved[self._trials[0].id]
        count = max(each.run.nodes for each in self._resolved.values())
        target = make_target(name, first, count)
        if (why_not := target.unsupported()) is not None:
            return Failure("unsupported", why_not)
        say(f"preparing {name}")
        source_targets = sources.sources_of(session.run.study, self._trials)
        wanted = replace(
            nodes_wanted(target, first, count, [*source_targets.values()]),
            patience_s=first.run.node_patience,
        )
        launcher = session.launchers[launcher_of(first.run, wanted)]
        self._note_launcher(first.run.on or launcher.kind)
        nodes = self._teardown.entered(
            "taking nodes and links down", launcher.nodes(session.context.journal, wanted)
        )
        context = replace(
            session.context,
            cluster=nodes.cluster,
            client_nodes=nodes.names,
            agents=nodes.agents,
            storages=tuple(agent.storage for agent in nodes.agents),
        )
        servers = self._teardown.entered(
            "ending the agents of servers",
            servers_of(name, first.target_options, context.journal, session.launchers),
        )
        self._teardown.later("restoring the settings of servers", servers.restore)
        servers.manage(context)
        made = sources.prepared(source_targets, context)
        for source in made.values():
            release = source.target.release
            self._teardown.later(
                f"releasing {source.target.name}", lambda release=release: release(context)
            )
        self._teardown.later(f"releasing {name}", lambda: target.release(context))
        self._teardown.later("", lambda: say(f"releasing {name}"))
        self._prepared = PreparedTarget(
            session.run,
            target,
            context,
            target.prepare(context),
            launcher,
            session.environment,
            session.slots_max,
            context.work_dir,
            nodes,
            servers,
            sources=made,
        )
        check_shared(self._prepared.location, nodes)
        return None

    def _note_launcher(self, on: str) -> None:
        """Put the launcher into the options of every trial: its record states it."""
        for name, resolved in self._resolved.items():
            run = resolved.run.model_copy(update={"on": on})
            self._resolved[name] = replace(resolved, run=run)

    def _regain(self, prepared: PreparedTarget, run: RunOptions) -> Failure | None:
        """Connect again to nodes that a trial needs and that were lost. Return the failure, if any.

        What the target had there is gone: it is set up anew.
        """
        agents = prepared.nodes.first(run.nodes).agents
        lost = [agent.name for agent in agents if agent.is_lost]
        if not lost:
            return None
        self._spoilt = True
        prepared.run.observer.phase(f"connecting again to {', '.join(lost)}")
        try:
            prepared.launcher.regain(agents, run.node_patience)
        except ENDS_THE_RUN:
            raise
        except Exception as error:
            return failure_of(error)
        return None

    def _make_anew(self, prepared: PreparedTarget) -> Failure | None:
        """Set up the target again. Return the failure, if any; the next trial then retries."""
        name = prepared.target.name
        prepared.run.observer.phase(f"preparing {name} anew")
        self._teardown.attempt(
            f"releasing {name}", lambda: prepared.target.release(prepared.context)
        )
        try:
            if (failure := self.finish_teardown()) is not None:
                return failure
            prepared.location = prepared.target.prepare(prepared.context)
            check_shared(prepared.location, prepared.nodes)
        except ENDS_THE_RUN:
            raise
        except Exception as error:
            return failure_of(error, f"target {name}: ")
        prepared.put.clear()
        prepared.verified.clear()
        self._spoilt = False
        return None

    def finish_teardown(self) -> Failure | None:
        """Retry failed tear-down steps. Return the failure of trials that they make impossible."""
        failed = [text for step, text in try_again(self._session.unfinished) if step.vital]
        return (
            Failure("failed", f"left by an earlier trial: {'; '.join(failed)}") if failed else None
        )

    # -- the trials --

    def record(self, trial: Trial) -> None:
        """Run one trial and record it, whatever its outcome."""
        prepared, resolved = self._prepared, self._resolved[trial.id]
        if prepared is None:
            raise RuntimeError("a whole plot whose target was not set up")
        with self._session.run.store.record(trial.id) as record:
            failure = self._regain(prepared, resolved.run)
            self._spoilt = self._spoilt or bool(prepared.location.ended)
            if failure is None and self._spoilt:
                failure = self._make_anew(prepared)
            if failure is None:
                outcome = run_trial(prepared, trial, resolved, record.keep)
            else:
                outcome = Outcome(datetime.datetime.now(datetime.UTC), failure=failure)
            made = write_outcome(record, prepared, trial, resolved, outcome)
        self._session.unfinished.extend(outcome.unfinished)
        self._spoilt = self._spoilt or _spoils(resolved, outcome)
        self._session.recorded(trial, made)

    def record_failure(self, trial: Trial, failure: Failure) -> None:
        """Record a trial whose target could not be set up."""
        run = self._session.run
        with run.store.record(trial.id) as record:
            made = write_failure(
                record, run, self._session.environment, trial, self._resolved[trial.id], failure
            )
        self._session.recorded(trial, made)


def _spoils(resolved: Resolved, outcome: Outcome) -> bool:
    """Return whether the target may be unusable for another trial.

    Causes are a fault, or a failure other than that of a job.
    """
    if any(fault_package.kinds()[each.what].spoils for each in resolved.faults):
        return True
    if outcome.failure is not None and outcome.failure.status == "failed":
        return True
    gone = any("error" in report for report in outcome.emulators)
    return (
        gone or bool(outcome.teardown_errors) or any(fault.not_lifted for fault in outcome.injected)
    )
