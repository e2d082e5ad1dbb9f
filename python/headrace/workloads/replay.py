"""Workload `replay`: runs a job profile, recorded or from the catalog, on files of its own.

It can be measured on any target, or simulated.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from headrace.catalog.tables import CatalogProfile, ProfileFiles
from headrace.errors import HeadraceError, Problem
from headrace.profiles.outlined import outline_note
from headrace.profiles.primitives import Primitive, changed_by, inner_steps, primitives
from headrace.profiles.replaying import Replayer
from headrace.profiles.scenario import scenario_steps
from headrace.profiles.steps import Op, load, profile_table
from headrace.profiles.summary import sizes_given
from headrace.scenario import HostSpec, ServiceSpec, Step
from headrace.site import Site
from headrace.targets.xrootd import Xrootd, XrootdOptions
from headrace.units import MOST_FILE_BYTES, MOST_FILES, Bytes
from headrace.workloads import JobInput, JobOutput, ModelledJob, Workload, WorkloadOptions
from headrace.workloads.fio import client

_SIMULATED_ONLY = frozenset({"memory", "stage", "take"})


class ReplayData(BaseModel):
    """`data = { files = 72, file_size = "656 MB" }`: overrides the profile's input."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    files: int | None = Field(None, ge=1, le=MOST_FILES, description="input files in all")
    file_size: Bytes | None = Field(None, ge=1, le=MOST_FILE_BYTES, description="bytes of each")
    events: int | None = Field(
        None,
        ge=1,
        description="events that packets hand out in all; those of all files when not given",
    )


class ReplayOptions(WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "replay"`."""

    path_fields: ClassVar[tuple[str, ...]] = ("profile",)

    profile: str = Field(min_length=1, description="a profile of the catalog, or a TOML file")
    data: ReplayData = Field(
        default_factory=lambda: ReplayData.model_validate({}),
        description="input files, when they differ from the profile's",
    )  # pyright: ignore[reportArgumentType]
    source: str | None = Field(
        None, description="name of a [site.server.NAME] that input outside the target is read from"
    )
    source_software: str = Field(
        "storage-element", description="entry of the catalog's servers that it runs"
    )
    parameters: dict[str, float | int | str] = Field(
        default_factory=dict[str, float | int | str],
        description='fields of the profile\'s steps to set, such as "cpu_ns"',
    )
    cpu_spread: float | None = Field(
        None, ge=0, lt=1, description="CPU work of jobs differs by so much, evenly"
    )
    pace: Literal["recorded", "fastest"] = Field(
        "recorded",
        description="recorded: work and sleep between the steps are kept; fastest: left out",
    )
    place: Literal["own", "recorded"] = Field(
        "own",
        description="own: each slot reads files of the recorded sizes, made on the target; "
        "recorded: the files themselves, where they were recorded (what the job wrote goes to "
        "the target all the same)",
    )
    software: bool = Field(
        False,
        description="programs and libraries that a recorded job read are read on the target, too",
    )


class Replay(Workload):
    """A recorded or described job."""

    kind = "replay"
    Options: ClassVar[type[WorkloadOptions]] = ReplayOptions
    feeds = frozenset({"files", "packets"})

    def _table(self) -> CatalogProfile:
        return profile_table(self.options.profile)[0]

    @override
    def check(self) -> list[Problem]:
        """Return problems: steps that can only be simulated, missing files, files at risk."""
        needed_by = f"workload {self.name}"
        table = self._table()
        if any(step["do"] in _SIMULATED_ONLY for step in _all_steps(table.job_steps)):
            return [
                Problem(
                    f"the profile {table.name} stages its input or sets its memory, which this "
                    "version does not measure",
                    needed_by,
                    "headrace simulate STUDY takes it in virtual time",
                )
            ]
        if self.options.place == "recorded":
            if any(not each.path for each in self._inputs(table)):
                return [
                    Problem(
                        f"the profile {table.name} does not say where its files lie",
                        needed_by,
                        'leave place = "recorded" out: each slot then has files of its own',
                    )
                ]
            gone = [each.path for each in self._inputs(table) if not Path(each.path).is_file()]
            if gone:
                more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
                return [
                    Problem(
                        f"{gone[0]}{more}: the file is gone, and the profile {table.name} reads it",
                        needed_by,
                        'put it back, or leave place = "recorded" out: each slot then has files '
                        "of its own",
                    )
                ]
            if changed := self._changed():
                return [
                    Problem(
                        f"{changed[0]}: the profile {table.name} writes to this file or removes "
                        "it, and it was there before the job",
                        needed_by,
                        'leave place = "recorded" out: each slot then has files of its own, and '
                        "yours stay as they are",
                    )
                ]
        return []

    def _changed(self) -> list[str]:
        """Return the files that are there before the job, and that it changes.

        A replay must not write to them.
        """
        table = self._table()
        if table.steps_file is None:
            touched = changed_by(table.job_steps)
            return [each.path for each in self._inputs(table) if each.name in touched]
        recording = load(self.options.profile)
        return [
            recording.files[number].path
            for number in sorted(
                recording.files_of(Op.WRITE) & recording.files_of(Op.READ, Op.MAPPED_READ)
            )
            if not recording.files[number].created and not recording.files[number].software
        ]

    def _sets(self, table: CatalogProfile) -> list[ProfileFiles]:
        """Return the sets of files that the job uses."""
        if table.steps_file is None:
            return table.files
        recording = load(self.options.profile)
        made = {number for number, file in enumerate(recording.files) if file.created}
        if self.options.place == "recorded":
            # Data that the job appended to an existing file (a log, redirected output) is written
            # to the target, never to that file.
            made |= recording.files_of(Op.WRITE) - recording.files_of(Op.READ, Op.MAPPED_READ)
        return [
            ProfileFiles(
                name=f"f{number}",
                path=recording.files[number].path,
                bytes=0 if number in made else max(1, recording.files[number].bytes),
                count=0,
                share="new" if number in made else "each",
            )
            for number in recording.used(software=self.options.software)
        ]

    def _inputs(self, table: CatalogProfile) -> list[ProfileFiles]:
        """Return the sets of files that must exist before the job."""
        return [each for each in self._sets(table) if each.share != "new"]

    def _size(self, each: ProfileFiles) -> int:
        changed = self.options.data.file_size
        return changed if changed is not None and each.on != "node" else each.bytes

    @override
    def prepare_files(self, directory: Path, slots: int, seed: int) -> list[str]:
        """Make a file of the recorded size for each set and slot, in that order."""
        if self.options.place == "recorded":
            return []
        table = self._table()
        paths: list[str] = []
        for number, each in enumerate(self._inputs(table)):
            folder = directory / "replay" / f"{table.name}-{each.name}"
            copies = 1 if each.share == "shared" else slots
            made = client.prepare_files(folder, self._size(each), copies, seed + number)
            paths += made * (slots // copies)
        return paths

    @override
    def cut(self, files: list[str], job: int, slots: int) -> tuple[str, ...]:
        """Return the slot's file of each set."""
        return tuple(files[begin + job % slots] for begin in range(0, len(files), slots))

    @override
    def run(self, job: JobInput) -> JobOutput:
        """Run the profile's operations.

        Raises HeadraceError for a file that is missing or cannot be read.
        """
        table, _ = profile_table(self.options.profile)
        inputs = self._inputs(table)
        recorded = self.options.place == "recorded"
        if not recorded and len(job.files) != len(inputs):
            raise HeadraceError(
                f"workload {self.name}: {len(inputs)} input files were to be made, "
                f"{len(job.files)} are there"
            )
        places = {
            each.name: Path(each.path if recorded else job.files[number])
            for number, each in enumerate(inputs)
        }
        made = {
            each.name: job.scratch / each.name for each in self._sets(table) if each.share == "new"
        }
        operations, directs, recorded_s = self._operations(table, job.seed)
        kept = frozenset(places) if recorded else frozenset[str]()
        replayer = Replayer(places | made, new=frozenset(made), directs=directs, kept=kept)
        begin = time.monotonic()
        done = replayer.run(operations, think=self.options.pace == "recorded")
        end = time.monotonic()
        return JobOutput(
            events=done.events or table.events,
            bytes_asked=done.bytes_asked,
            bytes_unique=done.bytes_unique,
            bytes_written=done.bytes_written,
            read_calls=done.read_calls,
            read_wait_s=done.read_wait_s,
            phases=[("replay", begin, end)],
            results={
                "operations": done.operations,
                "replayed_s": end - begin,
                "recorded_s": recorded_s,
                "late_ms_max": done.late_ns_max * 1e-6,
            },
        )

    def _operations(
        self, table: CatalogProfile, seed: int
    ) -> tuple[list[Primitive], frozenset[str], float | None]:
        """Return all operations, the files opened with O_DIRECT, and the recorded duration."""
        sizes = {each.name: self._size(each) for each in self._sets(table)}
        if table.steps_file is None:
            steps = [_changed(step, self.options.parameters) for step in table.job_steps]
            return list(primitives(steps, sizes, seed)), frozenset(), None
        recording = load(self.options.profile)
        names = [f"f{number}" for number in range(len(recording.files))]
        steps = scenario_steps(recording, names, software=self.options.software, sizes=True)
        directs = frozenset(
            name for name, file in zip(names, recording.files, strict=True) if file.direct
        )
        return list(primitives(steps, sizes, seed)), directs, recording.duration_ns * 1e-9

    @override
    def part_of_job(self) -> float:
        """Return what the profile says; 1 for one that cannot be read, whose trials fail."""
        try:
            return self._table().part_of_job
        except HeadraceError:
            return 1.0

    @override
    def not_modelled(self) -> str | None:
        """Return a note on what a profile in outline does not know, or on truncate and allocate
        steps, which the simulator does not have."""
        table = self._table()
        if table.outline is not None:
            return f"profile {table.name}: {outline_note(table.outline)}"
        if table.steps_file is None:
            return None
        told = sizes_given(load(self.options.profile), software=self.options.software)
        if not told:
            return None
        return (
            f"profile {table.name}: sizes and space given to files ({told}) are left out of the "
            "simulation; files are as long as was written"
        )

    @override
    def profile(self, site: Site | None) -> ModelledJob:
        """Return the profile with the study's changes."""
        options: ReplayOptions = self.options
        table = self._table()
        files = [each.part() for each in self._sets(table)]
        for each in files:
            if each["share"] != "new" and each["on"] != "node":
                each["count"] = options.data.files or each.get("count", 1)
                each["bytes"] = options.data.file_size or each.get("bytes", 0)
        if table.steps_file is not None:
            steps = self._recorded_steps(table)
        else:
            steps = [_changed(step, options.parameters) for step in table.job_steps]
            if options.pace == "fastest":
                steps = [_without_thinking(step) for step in steps]
        run = table.job_run
        if options.cpu_spread is not None:
            run["cpu_spread"] = options.cpu_spread
        packets = table.job_packets
        if packets is not None and options.data.events is not None:
            packets["events"] = options.data.events
        servers: tuple[HostSpec, ...] = ()
        services: tuple[ServiceSpec, ...] = ()
        if any(each["on"] == "source" for each in files):
            if options.source is None:
                raise HeadraceError(
                    f"workload {self.name}: the profile {table.name} reads from outside the "
                    "target; give source = NAME of a [site.server.NAME]"
                )
            stored = Xrootd(
                options.source,
                XrootdOptions.model_validate(
                    {"server": options.source, "software": options.source_software}
                ),
            ).model(site)
            servers, services = stored.servers, stored.services
        return ModelledJob(
            steps=steps,
            files=files,
            memory_bytes=table.memory_bytes,
            events=table.events,
            packets=packets,
            own_master=packets is not None,
            run=run,
            servers=servers,
            services=services,
            source=options.source,
            description={"profile": table.name, "parameters": dict(options.parameters)},
        )

    def _recorded_steps(self, table: CatalogProfile) -> list[Step]:
        options: ReplayOptions = self.options
        if options.parameters or options.data.file_size is not None:
            raise HeadraceError(
                f"workload {self.name}: a recorded profile is taken as it was recorded: no "
                "parameters, no data.file_size"
            )
        recording = load(options.profile)
        names = [f"f{number}" for number in range(len(recording.files))]
        steps = scenario_steps(
            recording,
            names,
            software=options.software,
            as_fast_as_it_goes=options.pace == "fastest",
            ahead=True,
        )
        if not steps:
            raise HeadraceError(
                f"workload {self.name}: the profile {table.name} has no steps on data files"
            )
        return steps

    @override
    def target_bytes(self, slots_max: int) -> int:
        """Return the size of the job's input on the target."""
        if self.options.place == "recorded":
            return 0
        return sum(
            self._size(each) * (1 if each.share == "shared" else max(each.count, slots_max))
            for each in self._inputs(self._table())
            if each.on == "target"
        )


def _all_steps(steps: Sequence[Step]) -> list[Step]:
    """Return all steps, with those inside loops."""
    found: list[Step] = []
    for step in steps:
        found.append(step)
        found += _all_steps(inner_steps(step))
    return found


def _without_thinking(step: Step) -> Step:
    """Return a step without CPU work and sleep."""
    if step["do"] == "repeat":
        return {**step, "steps": [_without_thinking(inner) for inner in step["steps"]]}
    if step["do"] == "parallel":
        parts = [[_without_thinking(inner) for inner in part] for part in step["parts"]]
        begin = [_without_thinking(inner) for inner in step.get("begin", [])]
        return {**step, "begin": begin, "parts": parts}
    zeroed = {
        key: value
        for key, value in step.items()
        if key not in ("cpu_after_ns",)
        and not (step["do"] == "sequence" and key in ("cpu_ns", "wait_ns"))
    }
    for key in ("cpu_ns", "wait_ns", "cpu_ns_per_event"):
        if key in zeroed:
            zeroed[key] = 0
    return cast("Step", zeroed)


def _changed(step: Step, parameters: Mapping[str, float | int | str]) -> Step:
    """Return a step with the study's parameters; times and sizes stay integers."""
    changed: dict[str, object] = {}
    for key, value in step.items():
        given = parameters.get(key, value)
        if isinstance(given, float) and key.endswith(("_ns", "_bytes", "count", "times")):
            given = round(given)
        changed[key] = given
    if step["do"] == "repeat":
        changed["steps"] = [_changed(inner, parameters) for inner in step["steps"]]
    if step["do"] == "parallel":
        parts = [[_changed(inner, parameters) for inner in part] for part in step["parts"]]
        begin = [_changed(inner, parameters) for inner in step.get("begin", [])]
        changed |= {"begin": begin, "parts": parts}
    return cast("Step", changed)
