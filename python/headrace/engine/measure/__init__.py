"""The engine `measure`: real jobs on real storage, in real time.

The plan runs by whole plots (`whole_plot.py`): a target is set up, its trials run one after another
(`trials.py`), and the target is torn down. Any failure becomes a record with a cause
(`trial_record.py`); only a stop by the user and a machine that cannot write records end the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

from headrace import faults as fault_package
from headrace import probes as probe_package
from headrace import targets as target_package
from headrace import workloads as workload_package
from headrace.engine import Engine, Run
from headrace.engine.measure import sources
from headrace.engine.measure.node_checks import node_problems
from headrace.engine.measure.nodes import (
    KnownLacks,
    is_elsewhere,
    launcher_problems,
    nodes_wanted,
)
from headrace.engine.measure.service_probes import service_problems
from headrace.engine.measure.space import space_problems
from headrace.engine.measure.target_servers import server_problems
from headrace.engine.measure.trial_meters import (
    meter_problems,
    read_on_nodes,
    read_on_servers,
)
from headrace.engine.measure.whole_plot import Session, make_target, run_whole_plot
from headrace.engine.repeating import Repeating
from headrace.errors import Problem
from headrace.launchers import Launchers
from headrace.plan.trial import Plan
from headrace.study.model import NamedPlugin, RunOptions, Study
from headrace.study.resolve import Resolved, resolve
from headrace.system.claims import Place
from headrace.system.facts import enable_delay_accounting, facts
from headrace.system.journal import Journal
from headrace.system.machine_use import usable_cpus
from headrace.system.owned import work_directory
from headrace.system.silent_mounts import let_go_when_stopped
from headrace.targets import Target, TargetContext
from headrace.targets.path import PathOptions
from headrace.workloads import Workload


class Measure(Engine):
    """Runs real jobs on real storage."""

    kind = "measure"

    def check(self, study: Study, plan: Plan, forced_devices: frozenset[str]) -> list[Problem]:
        """Return what the targets, workloads and faults of the plan lack on this machine."""
        problems: list[Problem] = []
        seen_targets: set[str] = set()
        seen_workloads: set[str] = set()
        made: dict[str, Target] = {}
        of_launchers: KnownLacks = {}
        for trial in plan.trials:
            resolved = resolve(study, trial.target, trial.workload, trial.levels)
            nodes = resolved.run.nodes
            if (key := f"{trial.target} {nodes} {resolved.target_options!r}") not in seen_targets:
                seen_targets.add(key)
                problems += make_target(trial.target, resolved, nodes).check(forced_devices)
            if (key := f"{trial.workload} {resolved.workload_options!r}") not in seen_workloads:
                seen_workloads.add(key)
                workload = workload_package.kinds()[resolved.workload_kind](
                    trial.workload, resolved.workload_options
                )
                if not (workload.users_program and is_elsewhere(resolved.run)):
                    problems += workload.check()  # else the nodes are asked
            problems += _problems_of_run(trial.workload, resolved)
            problems += _problems_of_cache(trial.target, resolved)
            source_targets = sources.sources_of(study, [trial]).values()
            target = made[trial.id] = make_target(trial.target, resolved, nodes)
            wanted = nodes_wanted(target, resolved, nodes, [*source_targets])
            problems += launcher_problems(resolved.run, wanted, of_launchers)
            if resolved.run.trace:
                problems += probe_package.kinds()["trace"]().check()
            kind = target_package.kinds()[resolved.target_kind]
            if kind.url_prefix and (
                why_not := _why_not_by_url(trial.workload, resolved, kind.url_prefix)
            ):
                what = f"target {trial.target} is reached by URL, and {why_not}"
                remedy = (
                    "exclude the two together ([[exclude]]), "
                    "or mount the storage and name it by kind = path"
                )
                problems.append(Problem(what, f"workload {trial.workload}", remedy))
            for options in resolved.faults:
                problems += fault_package.kinds()[options.what](options).check_on(
                    trial.target, resolved.target_options
                )
        problems += sources.problems_of(study, plan.trials, forced_devices)
        for options in study.faults:
            problems += fault_package.kinds()[options.what](options).check()
        problems += meter_problems(_read_here(study, plan))
        problems += service_problems(study)
        problems += _problems_elsewhere(study, plan, made, forced_devices, of_launchers)
        return list(dict.fromkeys(problems))

    def check_space(
        self, study: Study, plan: Plan, cache_dir: Path, results: Path | None
    ) -> list[Problem]:
        """Compare the space that the plan needs with the free space."""
        return space_problems(study, plan, cache_dir, results)

    def claims(self, study: Study, plan: Plan) -> list[Place]:
        """Return the folders, image files and devices of all targets and sources of the plan."""
        found: dict[str, Target] = {**sources.sources_of(study, plan.trials)}
        places = [place for target in found.values() for place in target.claims()]
        for trial in plan.trials:
            resolved = resolve(study, trial.target, trial.workload, trial.levels)
            places += make_target(trial.target, resolved, resolved.run.nodes).claims()
        return list(dict.fromkeys(places))

    def run(self, run: Run) -> None:
        """Write every missing record of the plan."""
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
            work, _ = work_directory(journal)  # first journal entry, so that it is removed last
            enable_delay_accounting(journal)
            with Launchers(run.stop.is_set) as launchers:
                session = Session(
                    run,
                    TargetContext(work, journal, run.forced_devices, stop=run.stop.is_set),
                    launchers,
                    environment,
                    slots_max,
                    repeating,
                )
                with let_go_when_stopped(journal, run.stop):
                    for _, group in itertools.groupby(left, key=lambda trial: trial.whole_plot):
                        trials = [trial for trial in group if session.wanted(trial)]
                        if trials:
                            run_whole_plot(session, trials)


def _problems_elsewhere(
    study: Study,
    plan: Plan,
    made: Mapping[str, Target],
    forced_devices: frozenset[str],
    known: KnownLacks,
) -> list[Problem]:
    """Return what other machines lack: servers under test and nodes."""
    cells = (
        (trial.target, resolve(study, trial.target, trial.workload, trial.levels))
        for trial in plan.trials
    )
    found = server_problems(cells, read_on_servers(study.meters))
    return found + node_problems(study, plan, made.items(), forced_devices, known)


def _read_here(study: Study, plan: Plan) -> list[NamedPlugin]:
    """Return the meters that this machine reads in any trial."""
    runs = (resolve(study, trial.target, trial.workload, trial.levels).run for trial in plan.trials)
    there = read_on_nodes(study.meters) if all(map(is_elsewhere, runs)) else {}
    if any(getattr(part.options, "server_agents", None) for part in study.targets.values()):
        there |= read_on_servers(study.meters)
    return [part for name, part in study.meters.items() if name not in there]


def _problems_of_run(name: str, resolved: Resolved) -> list[Problem]:
    """Return the fields of `[run]` with which jobs of a kind of workload cannot run."""
    kind, run = workload_package.kinds()[resolved.workload_kind], resolved.run
    problems: list[Problem] = []
    if run.feed not in kind.feeds:
        remedy = f"this kind of workload can be fed by: {', '.join(sorted(kind.feeds))}"
        problems.append(Problem(f'feed = "{run.feed}"', f"workload {name}", remedy))
    if kind.leads and run.load != "batch":
        remedy = 'its jobs work together, once per trial: load = "batch"'
        problems.append(Problem(f'load = "{run.load}"', f"workload {name}", remedy))
    if kind.thread_a_cpu:
        problems += _problems_of_threads(name, kind(name, resolved.workload_options), run)
    return problems


def _problems_of_cache(name: str, resolved: Resolved) -> list[Problem]:
    """Return a problem for files that cannot be read with a cold cache, since they are in it."""
    options = resolved.target_options
    if resolved.run.cache != "cold" or is_elsewhere(resolved.run):
        return []
    if not isinstance(options, PathOptions) or (kind := options.memory_filesystem()) is None:
        return []
    return [
        Problem(
            f"files in {options.directory} are in memory only ({kind}), never cold",
            f"target {name}",
            'cache = "as-is" in [run], or a directory on a drive',
            fatal=False,
            without="trials that read files there are invalid",
            level=("cache", "cold"),
        )
    ]


def _problems_of_threads(name: str, workload: Workload, run: RunOptions) -> list[Problem]:
    """Return why jobs cannot have this number of threads."""
    problems: list[Problem] = []
    threads, cpus = workload.threads or 1, len(usable_cpus())
    what, needed_by = f"threads = {threads}", f"workload {name}"
    if threads > 1 and run.feed == "packets":
        remedy = 'RDataFrame\'s Range has one thread: feed = "files", or threads = 1'
        problems.append(Problem(f'{what} with feed = "packets"', needed_by, remedy))
    if threads > cpus and not is_elsewhere(run):
        remedy = (
            f"ROOT has at most a thread for each of the {cpus} CPUs that Headrace may use here: "
            f"threads of at most {cpus}, or headrace simulate"
        )
        problems.append(Problem(what, needed_by, remedy))
    return problems


def _why_not_by_url(name: str, resolved: Resolved, url_prefix: str) -> str | None:
    kind = workload_package.kinds()[resolved.workload_kind]
    if not kind.reads_urls:
        return f"a workload of kind {resolved.workload_kind} cannot read URLs"
    return kind(name, resolved.workload_options).why_not_by_url(url_prefix)
