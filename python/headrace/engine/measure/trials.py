"""One measured trial on a prepared target: set up step by step, run, torn down in reverse order."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.datasets import Data, OwnFiles
from headrace.datasets.own_check import files_with_events
from headrace.datasets.trees import first_cluster_events
from headrace.engine import workload_of
from headrace.engine.live import NodeLive, TrialLive
from headrace.engine.measure.cache_watch import CacheWatch
from headrace.engine.measure.clock_drift import ClockDrift
from headrace.engine.measure.drive_energy import attached_energy_j, energy_of
from headrace.engine.measure.emulator_reports import emulator_reports
from headrace.engine.measure.fault_injector import FaultInjector
from headrace.engine.measure.inputs import DatasetLayout, Inputs, moved, prepare_files
from headrace.engine.measure.interference import InterferenceWatch
from headrace.engine.measure.job_pool import JobPool, PoolTask
from headrace.engine.measure.metering import energy_of_site, site_of
from headrace.engine.measure.node_names import NodeNames
from headrace.engine.measure.node_probes import NodeProbes
from headrace.engine.measure.node_watch import NodeWatch
from headrace.engine.measure.outcome import ENDS_THE_RUN, Outcome, failure_of
from headrace.engine.measure.packet_files import FilePlace, QueryFile
from headrace.engine.measure.packets import Packetiser
from headrace.engine.measure.prepared_target import PreparedTarget
from headrace.engine.measure.service_probes import ServiceProbes
from headrace.engine.measure.target_servers import ServerWatch
from headrace.engine.measure.teardown import TearDown
from headrace.engine.measure.trial_meters import Metering
from headrace.engine.packet_sizes import Sizes, first_events
from headrace.errors import HeadraceError, InterruptedRunError, UnsupportedLevelError
from headrace.launchers import Agent, LauncherLostError
from headrace.plan.trial import Trial
from headrace.probes import Watch
from headrace.probes.sampler import SampleRows
from headrace.records.energy import Energy
from headrace.study.model import RunOptions
from headrace.study.resolve import Resolved
from headrace.system.journal import JournalEntry
from headrace.system.machine_use import MachineUse, combined_use
from headrace.system.owned import OURS, make_tree, refuse_link
from headrace.workloads import Workload

_READ_AT_ONCE = 16
"""Files that are read between two looks at whether the run is to stop."""
_CACHE_PHASES = {"cold": "dropping caches", "warm": "warming the cache"}


def run_trial(prepared: PreparedTarget, trial: Trial, resolved: Resolved, keep: Path) -> Outcome:
    """Run the jobs of one trial and return its outcome, also for a failure.

    Files in the directory `keep` are kept with the record. Everything that was set up is torn down;
    failed steps are in `Outcome.teardown_errors`. Raises InterruptedRunError when the run is
    stopped.
    """
    outcome = Outcome(datetime.datetime.now(datetime.UTC))
    begin = time.monotonic()
    try:
        with TearDown(outcome.teardown_errors, outcome.unfinished) as teardown:
            workload = workload_of(trial.workload, resolved)
            _TrialRun(prepared, trial, resolved, workload, keep, outcome, teardown).run()
    except ENDS_THE_RUN:
        raise
    except Exception as error:
        if prepared.run.stop.is_set():  # an error while stopping
            raise InterruptedRunError("stopped") from error
        outcome.failure = failure_of(error)
    outcome.duration_s = time.monotonic() - begin
    return outcome


@dataclass
class _TrialRun:
    """The steps of one trial. Each registers its tear-down before or as soon as it is needed."""

    prepared: PreparedTarget
    trial: Trial
    resolved: Resolved
    workload: Workload
    keep: Path
    outcome: Outcome
    teardown: TearDown
    _watch: InterferenceWatch | None = None
    _metering: Metering | None = None
    _cache_watch: CacheWatch | None = None

    def run(self) -> None:
        """Run every step in order. Raises the error of a step."""
        if self.resolved.faults and self.prepared.location.elsewhere:
            raise UnsupportedLevelError("faults of storage on other machines are not available")
        scratch_root = self._make_scratch()
        meeting = self._make_meeting()
        layout = prepare_files(
            self.prepared, self.resolved, self.workload, self.trial, self._directory
        )
        self._apply_settings()
        self._limit_memory()
        self._prepare_cache(layout)
        task = self._task(layout, scratch_root, meeting)
        self._run_jobs(task)
        if self.outcome.pool is not None and self.outcome.pool.storage_lost:
            return  # it has no settings any more
        with contextlib.suppress(LauncherLostError):  # of a lost node: its jobs say so
            self.outcome.settings_after = {
                **self.prepared.target.read_settings(),
                **self.prepared.servers.read_settings(),
            }

    # -- used by every step --

    @property
    def _run(self) -> RunOptions:
        return self.resolved.run

    @property
    def _directory(self) -> Path | None:
        return self.prepared.location.directory

    @property
    def _slots(self) -> int:
        """Sum over all nodes."""
        return self._run.slots * self._run.nodes

    @property
    def _released(self) -> int:
        """Jobs that start together: one per slot, or fewer if the run has fewer jobs."""
        return min(self._slots, self._run.jobs or self._slots)

    # -- set-up --

    def _make_scratch(self) -> Path:
        """Create empty scratch directories; return that of the first node."""
        location = self.prepared.location
        roots = [(self._directory or self.prepared.work_dir) / OURS / "scratch"]
        if location.local_drives:
            if self._run.nodes > 1 and (why_not := self.workload.why_not_on_local_drives()):
                raise UnsupportedLevelError(f"workload {self.workload.name}: {why_not}")
            if location.elsewhere:
                return self._make_scratch_elsewhere()
            roots = [directory / OURS / "scratch" for directory in location.node_directories]
        if location.users_own:
            # Nobody but `headrace undo` removes what jobs of a killed run wrote there.
            refuse_link(roots[0].parent)
            entries: list[JournalEntry] = []
            self.teardown.later(
                "removing scratch files", lambda: self._remove_scratch(roots[0], entries)
            )
            make_tree(self.prepared.context.journal, roots[0], entries)
            return roots[0]
        for root in roots:
            refuse_link(root.parent)
            self.teardown.later("removing scratch files", lambda root=root: self._clean(root))
            _remove(root)
            root.mkdir(parents=True)
        return roots[0]

    def _remove_scratch(self, scratch: Path, entries: list[JournalEntry]) -> None:
        self.prepared.context.journal.put_back(entries)
        # Our directory may be older than the entries. Only an empty one goes: what is still in it
        # is not ours.
        with contextlib.suppress(OSError):
            scratch.parent.rmdir()

    def _clean(self, scratch: Path) -> None:
        """Remove scratch files, unless the servers that store them, or clients, have ended.

        A hard mount would let this process wait for them, deaf to signals. The storage of servers
        that were started goes with the target.
        """
        if not (ended := self.prepared.location.ended):
            _remove_ours(scratch)
        elif self.prepared.location.cluster is None:
            self.prepared.run.observer.phase(
                f"{OURS}/scratch stays on {self.prepared.target.name}: {ended}"
            )

    def _make_scratch_elsewhere(self) -> Path:
        """The same on storage of nodes, by their agents."""
        roots: list[str] = []
        directories = self.prepared.location.node_directories
        agents = self.prepared.nodes.first(self._run.nodes).agents
        for agent, directory in zip(agents, directories, strict=False):
            storage, place = agent.storage, str(directory)
            self.teardown.later(
                "removing scratch files",
                lambda storage=storage, place=place: storage.remove_scratch(place),
            )
            roots.append(storage.make_scratch(place))
        return Path(roots[0])

    def _make_meeting(self) -> Path:
        """Create an empty directory for rendezvous files of the jobs; return it."""
        meeting = self.prepared.work_dir / "meeting"
        self.teardown.later("removing the meeting place", lambda: _remove(meeting))
        _remove(meeting)
        meeting.mkdir(parents=True)
        return meeting

    def _apply_settings(self) -> None:
        """Apply the levels that are settings.

        Raises UnsupportedLevelError unless all took effect: jobs never run at a level other than
        requested.
        """
        options = self.resolved.target_options
        applied = [
            *self.prepared.target.apply(options, self.prepared.context),
            *self.prepared.servers.apply(options),
        ]
        self.outcome.settings = applied
        if lacking := [setting for setting in applied if not setting.applied]:
            raise UnsupportedLevelError(
                "; ".join(f"{each.name} = {each.asked}: {each.reason}" for each in lacking)
            )

    def _limit_memory(self) -> None:
        """Limit the memory of jobs on each node, if the run requests a limit."""
        size, of_each = self._run.memory_limit, self._run.job_memory_limit
        for agent in self.prepared.nodes.agents[: self._run.nodes]:
            if (limit := size if of_each is None else of_each) is not None:
                self.teardown.later("lifting the memory limit", agent.lift_memory_limit)
                agent.limit_memory(limit, of_each is not None)

    def _prepare_cache(self, layout: DatasetLayout) -> None:
        prepared, cache = self.prepared, self._run.cache
        if cache == "warm":
            agents = prepared.nodes.agents[: self._run.nodes]
            self._cache_watch = CacheWatch((*agents, *prepared.servers.agents))
        if cache == "cold":
            prepared.target.drop_caches(prepared.context)
            prepared.servers.drop_caches()
        if cache in _CACHE_PHASES:
            prepared.run.observer.phase(_CACHE_PHASES[cache])
        own = prepared.location.own_device
        resident = [
            agent.prepare_cache(cache, files, own) for agent, files in self._cached_by(layout)
        ]
        if cache == "warm":
            self._warm_servers(layout)
        known = [size for size in resident if size is not None]
        self.outcome.resident_bytes = sum(known) if known else None

    def _warm_servers(self, layout: DatasetLayout) -> None:
        """Read what jobs reach by URLs once, so that servers have it in memory."""
        prepared = self.prepared
        files = (layout.files, *layout.of_node) if layout.of_node else (layout.files,)
        urls = sorted({file for of_one in files for file in of_one if "://" in file})
        environment = prepared.holding(self.workload).location.environment
        for first in range(0, len(urls), _READ_AT_ONCE):
            if prepared.run.stop.is_set():
                raise InterruptedRunError("stopped")
            part = urls[first : first + _READ_AT_ONCE]
            prepared.nodes.agents[0].read_urls(part, environment)

    def _cached_by(self, layout: DatasetLayout) -> list[tuple[Agent, list[str]]]:
        """Return the agents that prepare the page cache, and the input files of each.

        Nodes of one kernel share its page cache; one that has files of its own may be the only one
        that sees them, as a container does.
        """
        nodes = self.prepared.nodes.first(self._run.nodes)
        if not layout.of_node:
            return [(agent, layout.files) for agent in nodes.by_kernel()]
        pairs = zip(nodes.agents, layout.of_node, strict=False)
        return [(agent, list(files)) for agent, files in pairs]

    # -- the jobs --

    def _task(self, layout: DatasetLayout, scratch_root: Path, meeting: Path) -> PoolTask:
        """Return the task of the job pool."""
        prepared, run, agents = self.prepared, self._run, self.prepared.nodes.agents
        location, holding = prepared.location, prepared.holding(self.workload)
        packets = self._packetiser(layout)
        sustained = run.load == "sustained"

        return PoolTask(
            kind=self.resolved.workload_kind,
            name=self.trial.workload,
            # Only fields that were written: a rule about a given field must not apply to its
            # default.
            options=self.workload.options_for_jobs().model_dump(mode="json", exclude_unset=True),
            slots=self._released,
            network=(holding if self.workload.reads_source() else prepared).location.network,
            make_input=self._inputs(layout, scratch_root, meeting, packets is not None),
            agent=lambda slot: agents[slot // run.slots],
            log_dir=self.keep,
            crash_note=self.workload.crash_note,
            timeout_s=run.timeout,
            packets=packets,
            duration_s=(run.duration or 30.0) if sustained and run.jobs is None else None,
            jobs_total=run.jobs if sustained else None,
            first_leads=self.workload.leads,
            yield_to_kernel=bool(location.emulated),
            environment={**holding.location.environment, **location.environment},
            here=lambda file, slot: moved(
                file, self._directory, location.on_node(slot // run.slots)
            ),
            # A fault may end servers.
            storage_lost=lambda: "" if self.resolved.faults else location.ended,
            progress=self._progress,
            live=self._live if prepared.run.observer.wants_live(run.nodes) else None,
        )

    def _inputs(
        self, layout: DatasetLayout, scratch_root: Path, meeting: Path, packets: bool
    ) -> Inputs:
        folder = self._folder_by_url()
        return Inputs(
            self.prepared,
            self.workload,
            layout,
            scratch_root,
            meeting,
            None if folder is None else f"{self.prepared.location.url}/{folder}",
            slots_per_node=self._run.slots,
            slots=self._slots,
            released=self._released,
            seed=self.trial.seed,
            keep=self.keep,
            packets=packets,
        )

    def _folder_by_url(self) -> str | None:
        """Return the folder that jobs write to on a storage reached by URL; None for a directory.

        Jobs that read a data set write at most an additional output (of a skim), on the node's own
        disk.
        """
        if (
            self._directory is not None
            or self.workload.dataset(self.prepared.slots_max) is not None
        ):
            return None
        folder = f"{OURS}/jobs-{self.trial.id}-{os.urandom(3).hex()}"
        location, journal = self.prepared.location, self.prepared.context.journal
        if location.cluster is None:  # storage that stays when the run is killed
            url, environment = f"{location.url}/{folder}", dict(location.environment)
            entry = journal.begin("clear_url", url=url, environment=environment)
            self.teardown.later("ending a journal entry", lambda: journal.end(entry))
        self.teardown.later("clearing the folder of the jobs", lambda: self._clear(folder))
        return folder

    def _clear(self, folder: str) -> None:
        """Remove what jobs left on a storage reached by URL.

        If the server does not answer, the files stay there.
        """
        if self.prepared.location.ended:
            return  # its clients would try for minutes; its storage goes with the target
        try:
            with self.prepared.nodes.links_open():
                self.prepared.target.clear(folder, self.prepared.context)
        except HeadraceError as error:
            self.prepared.run.observer.phase(
                f"{folder} stays on {self.prepared.target.name}: {error.message}"
            )

    def _packetiser(self, layout: DatasetLayout) -> Packetiser | None:
        if self._run.feed != "packets":
            return None
        spec = self.workload.dataset(self.prepared.slots_max)
        if spec is None:
            raise HeadraceError("packets need a data set whose files and events are known")
        run = self._run
        holding = self.prepared.holding(self.workload)
        held = self.prepared.held
        unknown = [file for file in layout.files if file not in held or not held[file].server]
        located = holding.target.locate(unknown, self.prepared.context)
        first = run.packet_events or first_events(sum(layout.events), self._slots)
        return Packetiser(
            [
                QueryFile(file, events, self._place(file, located.get(file)))
                for file, events in zip(layout.files, layout.events, strict=True)
            ],
            homes=[
                self.prepared.nodes.agents[slot // run.slots].name for slot in range(self._slots)
            ],
            sizes=Sizes(first, run.packet_shortest, run.packet_longest),
            static=run.packets == "static",
            workers_per_server=run.workers_per_server,
            cluster_events=_cluster_events(spec),
        )

    def _copies(self) -> tuple[str, ...]:
        """Return the nodes that have a copy of every file, on drives of their own."""
        prepared = self.prepared
        has_all = prepared.location.local_drives and self._run.nodes > 1
        return prepared.nodes.names[: self._run.nodes] if has_all else ()

    def _place(self, file: str, servers: tuple[str, ...] | None) -> FilePlace:
        """Return where a file of the data set is; `servers`: those that the target names."""
        held = self.prepared.held.get(file)
        if held is not None and held.server:
            local = {} if held.local is None else {held.server: str(held.local)}
            return FilePlace(servers or self._copies() or (held.server,), local)
        if servers is None:
            return FilePlace(self._copies())
        if self.prepared.holding(self.workload).location.cluster is not None:
            return FilePlace(servers)  # servers of Headrace have the names of nodes
        agents = self.prepared.nodes.agents[: self._run.nodes]
        names = NodeNames({agent.name: agent.machine().host for agent in agents if agent.name})
        return names.place_of(servers, file)

    def _run_jobs(self, task: PoolTask) -> None:
        """Prepare the jobs, release them, sample them, and lift the faults after the last one."""
        prepared, outcome, later = self.prepared, self.outcome, self.teardown.later
        location = prepared.location
        later("removing empty logs", lambda: _drop_empty_logs(self.keep))
        pool = JobPool(prepared.launcher, task, prepared.run.stop.is_set)
        probes = NodeProbes(prepared.nodes.agents[: self._run.nodes], self._run)
        injector = FaultInjector(self.resolved.faults, location, prepared.context.journal)
        # On abort the steps run in reverse order: jobs that wait for a stalled drive cannot end
        # before the fault is lifted.
        later("ending the jobs", pool.close)
        later("lifting faults", lambda: self._lift(injector), vital=True)
        later("killing the jobs", pool.kill)
        later("stopping the probes", probes.stop)
        servers = ServerWatch(prepared.servers, self._run.series_interval)
        later("stopping the probes of servers", servers.finish)
        agents = prepared.nodes.agents[: self._run.nodes]
        metering = self._metering = Metering(
            prepared.run.study.meters,
            agents if prepared.launcher.elsewhere else (),
            prepared.servers.agents,
            prepared.servers.target,
        )
        later("closing the meters", metering.stop)
        services = ServiceProbes(prepared.run.study.probes)
        later("stopping the probes of services", services.stop)
        prepared.run.observer.trial_started(
            self.trial, 0 if self._run.load == "sustained" else task.slots
        )
        nodes = NodeWatch(prepared.nodes.agents[: self._run.nodes], self._run.slots)
        jobs = pool.get_ready()
        metering.start()
        self._watch = watch = InterferenceWatch(prepared, self._run.nodes)
        servers.start(self.keep)
        probes.start(location, jobs, self.keep)
        services.start(Watch((), (), None, self.keep))
        before_j = attached_energy_j(location)
        for device in location.emulated:
            device.reset_report()
        injector.start()
        outcome.pool = pool.run()
        uses = watch.finish()
        outcome.machine_use = combined_use([*uses.values()]) if uses else None
        outcome.samples = probes.finish()
        of_nodes = dict(outcome.samples.series)
        servers.finish()
        metering.stop()
        services.finish(outcome.samples, outcome.pool.release_monotonic_s)
        outcome.emulators = emulator_reports(location)
        outcome.injected = injector.finish()
        self._observe(nodes, servers, of_nodes, uses)
        drives = energy_of(before_j, outcome.emulators)
        drifts = {**nodes.drifts(), **servers.drifts()}
        outcome.energy = self._energy(drives, metering, drifts)

    def _observe(
        self,
        nodes: NodeWatch,
        servers: ServerWatch,
        of_nodes: Mapping[str, SampleRows],
        uses: Mapping[str, MachineUse],
    ) -> None:
        """Measure clocks again, correct times by their drift, and take the facts of machines.

        After all else: to ask each for its clock takes time, which no probe or meter should see.
        `of_nodes`: series of the nodes' probes. `uses`: of the CPUs of each kernel.
        """
        outcome = self.outcome
        if outcome.pool is None or outcome.samples is None:
            return
        release_s = outcome.pool.release_monotonic_s
        nodes.finish()
        if self._cache_watch is not None:
            outcome.cache_dropped = self._cache_watch.dropped()
        servers.measure_clocks()
        outcome.pool = nodes.corrected(outcome.pool, of_nodes, outcome.samples.started_s)
        servers.put_into(outcome.samples, release_s)
        outcome.node_facts = nodes.facts(outcome.pool, uses)
        outcome.clocks_s = nodes.clocks_s
        outcome.server_totals = servers.totals()
        outcome.server_facts = servers.facts(release_s)

    def _energy(
        self, drives: Energy, metering: Metering, drifts: Mapping[str, ClockDrift]
    ) -> Energy:
        """Return the energy of the trial, `drives` being that of emulated drives."""
        prepared, pool, samples = self.prepared, self.outcome.pool, self.outcome.samples
        if pool is None or samples is None:
            return drives
        series, cpu = samples.series, samples.totals.get("cpu")
        channels, failed = metering.finish(pool.release_monotonic_s, pool.last_done_s, drifts)
        if metering.rows:
            series["power"] = [{**row} for row in metering.rows]
        location, servers = prepared.location, prepared.servers
        site = site_of(
            self.resolved,
            prepared.nodes.names[: self._run.nodes],
            location.servers,
            location.network and prepared.nodes.cluster is None,
            pool.last_done_s,
            None if cpu is None else cpu.values["busy_s"],
            prepared.run.study.base,
        )
        if servers.agents:
            site = replace(site, servers=servers.names)
        return energy_of_site(drives, servers.covered(channels), failed, site)

    def _progress(self, done: int, running: int, events_per_s: float) -> None:
        """Report the progress of the jobs, and the CPU use of other programs, to the observer."""
        observer = self.prepared.run.observer
        if self._watch is not None:
            observer.load(self._watch.others_now(), self._watch.cpus)
        observer.jobs(done, running, events_per_s)

    def _live(self, elapsed_s: float, nodes: tuple[NodeLive, ...], events: int) -> None:
        """Report the state of each node, and the power read last, to the observer."""
        power = () if self._metering is None else self._metering.live()
        self.prepared.run.observer.live(TrialLive(elapsed_s, nodes, power, events))

    def _lift(self, injector: FaultInjector) -> None:
        self.outcome.injected = injector.finish(look=False)
        injector.check_lifted()


def _cluster_events(spec: Data) -> int:
    """Return the events per cluster; for the user's own files, those of the first cluster."""
    if isinstance(spec, OwnFiles):
        filled = files_with_events(spec) or spec.find()
        return first_cluster_events(filled[0].path, spec.tree)
    from headrace.datasets.writing.events_file import cluster_events  # imports uproot

    return cluster_events(spec)


def _remove(directory: Path) -> None:
    """Remove a directory with its contents, if it exists."""
    if directory.exists():
        shutil.rmtree(directory)


def _remove_ours(scratch: Path) -> None:
    """Remove the scratch directories, and our folder around them unless it holds data sets."""
    _remove(scratch)
    with contextlib.suppress(OSError):
        scratch.parent.rmdir()


def _drop_empty_logs(keep: Path) -> None:
    for log in keep.glob("job-*.log"):
        if log.stat().st_size == 0:
            log.unlink()
