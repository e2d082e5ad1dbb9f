"""The study as a typed value, shared by all engines (docs/study-file.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from headrace import launchers
from headrace.currencies import currency_code
from headrace.document import dotted
from headrace.errors import FileProblem
from headrace.labels import Label
from headrace.launchers.batch.options import BatchOptions
from headrace.refusals import form
from headrace.site import Section
from headrace.units import (
    MOST_HOSTS,
    MOST_JOBS,
    MOST_SLOTS,
    Bytes,
    Seconds,
)

if TYPE_CHECKING:
    from headrace.document import Document, FieldPath
    from headrace.offers import Offers
    from headrace.site import Site

LEAST_JOB_MEMORY = 2 << 20
"""Smallest memory limit of a job, in bytes: the simulator's smallest page cache, twice."""


class Repeats(Section):
    """Number of repeats of each cell."""

    min: int = Field(
        3,
        ge=1,
        description="repeats of every cell; at least 3 for an interval, 6 for the interval of a "
        "median",
    )
    max: int | None = Field(None, ge=1, description="repeats at most, with `interval`")
    interval: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="stop repeating a cell once the interval of its events/s is this narrow "
        "(half width / mean)",
    )
    statistic: Literal["mean", "median"] = Field("mean", description="whose interval")

    @model_validator(mode="after")
    def _consistent(self) -> Repeats:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max ({self.max}) is below min ({self.min})")
        if self.statistic == "median" and self.min < 6:
            raise ValueError(f"the interval of a median needs min >= 6 (given {self.min})")
        return self

    @property
    def notes(self) -> tuple[str, ...]:
        """What has no effect. Studies stored with results of 0.1 may have it: no problem."""
        if self.interval is None and self.max not in (None, self.min):
            return (
                f"[plan] repeats: max = {self.max} has no effect without interval, so every cell "
                f"has {self.min} repeats; interval = 0.05 repeats a cell until its interval is "
                "that share of its rate",
            )
        if self.interval is not None and self.max is None:
            return (
                "[plan] repeats: interval has no effect without max, the most repeats of a cell, "
                f"so every cell has {self.min} repeats",
            )
        return ()

    @property
    def most(self) -> int:
        """Number of repeats in the plan for each cell."""
        return self.min if self.max is None or self.interval is None else self.max


class PlanOptions(Section):
    """`[plan]`: which cells, how often, in which order."""

    design: Literal["full", "fractional", "screen"] = Field(
        "full",
        description="full: every cell; fractional: a balanced fraction; screen: two levels a "
        "factor, main effects only",
    )
    fraction: int = Field(2, ge=2, description="fractional: one in this many cells")
    repeats: Repeats = Field(default_factory=lambda: Repeats.model_validate({}))
    seed: int = Field(1, ge=0, description="seed of order, data and jobs")
    budget: Seconds | None = Field(
        None,
        description="no new repeat is started after this time; the first `min` are always made",
    )


class RunOptions(Section):
    """`[run]`: how slots are filled and sampled. Each field can be a factor."""

    on: str | None = Field(
        None,
        description="where jobs run: local (this machine), namespaces (nodes that are network "
        "namespaces of it), ssh://HOST,HOST (hosts reached by SSH, one for each node), "
        "dask://HOST:PORT (workers of a running Dask cluster, one for each node), or slurm, sge, "
        "htcondor or pbs (a batch job for each node); namespaces when not given and the study has "
        "nodes or servers, local otherwise",
    )
    python: str | None = Field(
        None,
        pattern=form(r"^[^-\s][^\x00-\x1f]*$", "a path that begins with no space or -"),
        description="ssh and batch systems: path of the Python with Headrace on the nodes; the "
        "path of this one when not given",
    )
    batch: BatchOptions | None = Field(
        None,
        validate_default=True,
        description="how nodes are requested from the batch system that `on` names",
    )
    slots: Annotated[int, Label("{} slot", "{} slots")] = Field(
        1, ge=1, le=MOST_SLOTS, description="jobs that run at once on a node"
    )
    load: Literal["batch", "sustained"] = Field(
        "batch",
        description="batch: one job per slot, all at once; sustained: slots kept full (what "
        "`jobs` and `duration` mean when no load is given)",
    )
    feed: Literal["files", "packets"] = Field(
        "files",
        description="files: one job, one file of its own; packets: workers pull events of one "
        "query",
    )
    duration: Seconds | None = Field(
        None, gt=0, description="sustained: how long slots are kept full (default 30 s)"
    )
    jobs: Annotated[int | None, Label("{} job", "{} jobs")] = Field(
        None,
        ge=1,
        le=MOST_JOBS,
        description="sustained: run this many jobs instead, as slots become free",
    )
    timeout: Seconds = Field(
        600.0, gt=0, description="a job that takes longer is killed and recorded as hung"
    )
    cache: Literal["cold", "warm", "as-is"] = Field(
        "cold",
        description="page cache before the jobs: cold (dropped), warm (files read once), as-is",
    )
    memory_limit: Bytes | None = Field(
        None,
        ge=LEAST_JOB_MEMORY,
        description="memory for the jobs of a node and their page cache (needs root)",
    )
    job_memory_limit: Bytes | None = Field(
        None,
        ge=LEAST_JOB_MEMORY,
        description="memory of each job and the page cache that it fills, as batch systems limit "
        "it (needs root)",
    )
    packets: Literal["adaptive", "static"] = Field(
        "adaptive",
        description="packets: adaptive: of equal time, handed out on request; static: equal shares "
        "of the events, fixed before the workers start",
    )
    packet_shortest: Seconds = Field(
        0.1, gt=0, description="packets: time that a packet should take at least"
    )
    packet_longest: Seconds = Field(
        10.0, gt=0, description="packets: time that a packet should take at most"
    )
    packet_events: int | None = Field(
        None, ge=1, description="packets: events of the first packet; adaptive after it"
    )
    workers_per_server: int | None = Field(
        None, ge=1, description="packets: workers that read one file server at once, at most"
    )
    nodes: Annotated[int, Label("{} node", "{} nodes")] = Field(
        1, ge=1, le=MOST_HOSTS, description="nodes that run jobs"
    )
    series_interval: Seconds = Field(
        1.0, ge=0.05, description="time between samples of device, CPU and memory"
    )
    foreign_load: Literal["invalid", "warning"] = Field(
        "invalid",
        description="a trial whose jobs may have lost a tenth of their time to other programs on "
        "their CPUs is invalid, or valid with a warning",
    )
    shortest: Seconds = Field(
        0.5, ge=0, description="a measured trial shorter than this is invalid"
    )
    start_spread: float = Field(
        0.25,
        gt=0,
        description="several nodes: a trial whose jobs began further apart than this share of its "
        "shortest job, and than 0.1 s, is invalid",
    )
    node_patience: Seconds = Field(
        60.0,
        ge=0,
        description="other machines: time that a trial waits for a node that was lost before it "
        "fails; half as long each further time until the node has returned",
    )
    node_silence: Seconds = Field(
        90.0,
        ge=1,
        le=86400,
        description="other machines: a node that is not heard of for this time is lost",
    )
    verify: bool = Field(
        False,
        description="compare the contents of a data set's files with their checksums before "
        "every trial",
    )
    trace: bool = Field(
        False,
        description="record every block request of the target's device in the trial's trace/ "
        "(needs root)",
    )

    @field_validator("on")
    @classmethod
    def _known_launcher(cls, value: str | None) -> str | None:
        if value is None:
            return value
        kinds = launchers.kinds()
        kind, address = launchers.split_on(value)
        if kind not in kinds or bool(address) != bool(kinds[kind].address_form):
            forms = [f"'{each.address_form or each.kind}'" for each in kinds.values()]
            raise PydanticKnownError("literal_error", {"expected": ", ".join(forms)})
        if (wrong := kinds[kind].misread(address)) is not None:
            raise ValueError(wrong)
        return value

    @field_validator("python")
    @classmethod
    def _started_by_launcher(cls, value: str | None, info: ValidationInfo) -> str | None:
        on = info.data.get("on")
        if on is not None and value is not None:
            part = launchers.kinds()[launchers.split_on(on)[0]]
            if (why_not := part.refuses_python(value)) is not None:
                raise ValueError(why_not)
        return value

    @field_validator("batch")
    @classmethod
    def _fits_launcher(cls, value: BatchOptions | None, info: ValidationInfo) -> Any:
        on = info.data.get("on")
        if on is not None:
            part = launchers.kinds()[launchers.split_on(on)[0]]
            if (why_not := part.refuses_batch(value)) is not None:
                raise ValueError(why_not)
        return value

    @model_validator(mode="before")
    @classmethod
    def _kept_full(cls, values: Any) -> Any:
        """Set `load` to sustained when `jobs` or `duration` is given."""
        if not isinstance(values, dict):
            return values  # pyright: ignore[reportUnknownVariableType]
        written: dict[str, Any] = dict(values)  # pyright: ignore[reportUnknownArgumentType]
        if "load" not in written and any(
            written.get(name) is not None for name in ("jobs", "duration")
        ):
            written["load"] = "sustained"
        return written

    @model_validator(mode="after")
    def _consistent(self) -> RunOptions:
        for name in ("jobs", "duration"):
            if self.load == "batch" and getattr(self, name) is not None:
                raise ValueError(
                    f'{name} = {getattr(self, name):g} has no meaning with load = "batch", which '
                    f"is one job per slot; "
                    f'load = "sustained" keeps the slots full'
                )
        if self.load == "sustained" and self.feed == "packets":
            raise ValueError(
                'feed = "packets" is one query over all events: it has neither jobs nor '
                'duration, and load = "batch"'
            )
        if self.packet_longest < self.packet_shortest:
            raise ValueError(
                f"packet_longest ({self.packet_longest:g} s) is less than packet_shortest "
                f"({self.packet_shortest:g} s)"
            )
        if self.memory_limit is not None and self.job_memory_limit is not None:
            raise ValueError(
                "memory_limit is one limit for all jobs of a node, job_memory_limit one for each: "
                "give one of them"
            )
        if self.nodes * self.slots > MOST_JOBS:
            raise ValueError(
                f"{self.nodes} nodes with {self.slots} slots each are {self.nodes * self.slots} "
                f"jobs at once; at most {MOST_JOBS}"
            )
        return self


class Price(Section):
    """Price of one storage."""

    price: float = Field(ge=0, le=1e12)
    currency: Annotated[str, BeforeValidator(currency_code)] = "EUR"
    drives: int = Field(1, ge=1, le=1_000_000)

    @model_validator(mode="before")
    @classmethod
    def _without_capacity(cls, given: Any) -> Any:
        """Ignore the field `capacity` of Headrace 0.1: it had no effect, and stored studies have
        it."""
        if isinstance(given, dict):
            return {name: value for name, value in given.items() if name != "capacity"}
        return given


class ReportOptions(Section):
    """`[report]`: what is compared."""

    metric: str | None = Field(
        None,
        description="what 'best' means: any metric, such as events_per_s, efficiency, "
        "energy_wh_per_job or events_per_s_per_eur, or bytes_per_s, throughput, iops; events/s, or "
        "bytes/s for a workload without events, when not given",
    )
    efficiency: float = Field(
        0.9, gt=0, le=1, description="job efficiency down to which a slot counts as fed"
    )
    confidence: float = Field(0.95, gt=0.5, lt=1, description="confidence of all intervals")
    price: dict[str, Price] = Field(
        default_factory=dict[str, Price], description="price of each target"
    )


@dataclass(frozen=True, kw_only=True)
class NamedPlugin:
    """A named target or workload: its kind, its options as written, and the validated options."""

    name: str
    kind: str
    written: dict[str, Any]
    options: Any


@dataclass(frozen=True, kw_only=True)
class Study:
    """A validated study. Created by `headrace.load_study`, which validates each of its parts."""

    headrace: int
    title: str
    file: Path
    targets: dict[str, NamedPlugin]
    workloads: dict[str, NamedPlugin]
    factors: dict[str, list[Any]]
    """Every factor with its levels as written; `target` and `workload` come first."""
    exclude: list[dict[str, list[Any]]]
    only: list[dict[str, list[Any]]] = field(default_factory=list[dict[str, list[Any]]])
    """Partial cells: where there are any, every other cell is left out."""
    plan_options: PlanOptions
    run_options: RunOptions
    report_options: ReportOptions
    offers: Offers | None = None
    """`[offers]`: prices for `headrace decide`."""
    site: Site | None
    faults: list[Any]
    meters: dict[str, NamedPlugin] = field(default_factory=dict[str, NamedPlugin])
    """Power meters, read while jobs run in real time."""
    probes: dict[str, NamedPlugin] = field(default_factory=dict[str, NamedPlugin])
    """Monitoring services that are asked while jobs run in real time."""
    base: Path = Path()
    """Directory that relative paths refer to."""
    document: Document | None = field(default=None, repr=False)
    """The study file as read, for the lines of its fields."""
    hash: str
    """Hash of everything that affects what a trial measures, independent of how the file is
    written.
    """

    def fault(self, path: FieldPath, given: str, problem: str, allowed: str) -> FileProblem:
        """Return a problem at a field of the study file, found after it was loaded."""
        line = 0 if self.document is None else self.document.line(path)
        return FileProblem(self.file, line, dotted(path), given, problem, allowed)
