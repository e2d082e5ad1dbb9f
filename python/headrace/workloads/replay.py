"""Workload `replay`: a job profile of the catalog, or of a file, job after job. Simulated; measuring it comes with a later version."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from headrace.catalog import entry
from headrace.catalog.tables import Profile
from headrace.errors import HeadraceError, Problem
from headrace.targets.modelled import Bricks
from headrace.targets.xrootd import Xrootd, XrootdOptions
from headrace.units import Bytes
from headrace.workloads import JobInput, JobOutput, ModelledJob, Workload, WorkloadOptions


class ReplayData(BaseModel):
    """`data = { files = 72, file_size = "656 MB" }`: what the profile says of its input, otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    files: int | None = Field(None, ge=1, description="input files in all")
    file_size: Bytes | None = Field(None, ge=1, description="bytes of each")
    events: int | None = Field(
        None, ge=1, description="events that packets hand out in all; those of all files when not given"
    )


class ReplayOptions(WorkloadOptions):
    """Fields of `[workload.NAME]` with `kind = "replay"`."""

    profile: str = Field(description="a profile of the catalog, or a TOML file")
    data: ReplayData = Field(
        default_factory=lambda: ReplayData.model_validate({}),
        description="input files, when they differ from the profile's",
    )  # pyright: ignore[reportArgumentType]
    source: str | None = Field(
        None, description="name of a [site.server.NAME] that input outside the target is read from"
    )
    source_software: str = Field("storage-element", description="entry of the catalog's servers that it runs")
    parameters: dict[str, float | int | str] = Field(
        default_factory=dict[str, float | int | str],
        description='fields of the profile\'s steps to set, such as "cpu_ns"',
    )
    cpu_spread: float | None = Field(
        None, ge=0, lt=1, description="CPU work of jobs differs by so much, evenly"
    )


class Replay(Workload):
    """A recorded or described job."""

    kind = "replay"
    Options: ClassVar[type[WorkloadOptions]] = ReplayOptions
    feeds = frozenset({"files", "packets"})

    @override
    def check(self) -> list[Problem]:
        """Always one problem: profiles are simulated only."""
        return [
            Problem(
                f"kind = {self.kind!r} cannot be measured by this version",
                f"workload {self.name}",
                "headrace simulate STUDY takes it in virtual time; measuring needs a real job: scan, analysis, skim, command",
            )
        ]

    @override
    def run(self, job: JobInput) -> JobOutput:
        """Never called after `check`."""
        raise HeadraceError(f"workload {self.name}: kind {self.kind!r} cannot be measured by this version")

    @override
    def profile(self, site: Any) -> ModelledJob:
        """The profile with the study's changes."""
        options: ReplayOptions = self.options
        table: Profile = entry("profiles", options.profile).table
        files = [each.model_dump() for each in table.files]
        for each in files:
            if each["share"] != "new" and each["on"] != "node":
                each["count"] = options.data.files or each["count"]
                each["bytes"] = options.data.file_size or each["bytes"]
        steps = [_changed(step, options.parameters) for step in table.steps]
        run = dict(table.run)
        if options.cpu_spread is not None:
            run["cpu_spread"] = options.cpu_spread
        packets = table.packets
        if packets is not None and options.data.events is not None:
            packets = {**packets, "events": options.data.events}
        servers: tuple[dict[str, Any], ...] = ()
        services: tuple[dict[str, Any], ...] = ()
        if any(each["on"] == "source" for each in files):
            if options.source is None:
                raise HeadraceError(
                    f"workload {self.name}: the profile {table.name} reads from outside the target; give source = NAME of a [site.server.NAME]"
                )
            stored = Xrootd(
                options.source,
                XrootdOptions(server=options.source, software=options.source_software, bricks=Bricks()),  # pyright: ignore[reportCallIssue]
            ).model(site)
            servers, services = stored.servers, stored.services
        return ModelledJob(
            steps=steps,
            files=files,
            memory_bytes=table.memory_bytes,
            events=table.events,
            packets=packets,
            run=run,
            servers=servers,
            services=services,
            source=options.source,
            description={"profile": table.name, "parameters": dict(options.parameters)},
        )

    @override
    def target_bytes(self, slots_max: int) -> int:
        """Bytes of its input on the target."""
        table: Profile = entry("profiles", self.options.profile).table
        return sum(each.bytes * max(each.count, slots_max) for each in table.files if each.on == "target")


def _changed(step: dict[str, Any], parameters: dict[str, float | int | str]) -> dict[str, Any]:
    """A step with the study's parameters in it; times and sizes stay whole numbers."""
    changed: dict[str, Any] = {}
    for key, value in step.items():
        if key == "steps":
            changed[key] = [_changed(inner, parameters) for inner in value]
            continue
        changed[key] = parameters.get(key, value)
        if isinstance(changed[key], float) and key.endswith(("_ns", "_bytes", "count", "times")):
            changed[key] = round(changed[key])
    return changed
