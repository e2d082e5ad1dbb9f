"""Findings: statistics with their uncertainty and evidence.

These classes hold only values; this package computes them, report/ shows them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.analysis.interference import Disturbance
from headrace.records.energy_basis import EnergyBasis

LimitKind = Literal[
    "cpu",
    "cpu contention",
    "device latency",
    "device bandwidth",
    "network",
    "memory",
    "cache",
    "sleep",
    "idle",
    "unknown",
]


@dataclass(frozen=True)
class Estimate:
    """One number with its interval."""

    value: float
    low: float | None
    high: float | None
    """Bounds of the interval; None with too few repeats."""
    n: int
    """Number of trials behind the estimate."""
    method: str
    """How value and interval were computed: `mean, t interval`, `median, order statistics` …"""
    trials: tuple[str, ...]
    """Ids of these trials."""
    provenance: str = ""
    """Set where it differs from the point's: `modelled` for a computed power, `stated` for a
    price of the study file (law 6)."""


def is_seen(cost: Estimate) -> bool:
    """Return whether the interval of a cost excludes zero difference."""
    return cost.low is not None and cost.low > 0


@dataclass(frozen=True)
class Limit:
    """The bottleneck of jobs at one point."""

    kind: LimitKind
    share: float
    """Share of the jobs' wall time that it took, 0..1."""
    evidence: str
    """The numbers that show it, as one sentence."""


@dataclass(frozen=True)
class Point:
    """One cell: all its valid repeats together, or (with `reasons`) all its invalid ones."""

    target: str
    workload: str
    levels: dict[str, object]
    """Level of every factor, including `slots`; without `target` and `workload`, which are
    fields of their own. None where a factor does not apply."""
    slots: int
    metrics: dict[str, Estimate]
    """By metric name, unit last: events_per_s, efficiency, throughput_jobs,
    uncompressed_bytes_per_s, asked_bytes_per_s, served_bytes_per_s, device_bytes_per_s,
    amplification, wall_s, iops, energy_j_per_job …"""
    ledger: dict[str, float]
    """Mean share of wall time: on_cpu, wait_cpu, wait_block, wait_network, other; sums to 1."""
    limit: Limit
    provenance: str
    invalid: int
    failed: int
    cell: str = ""
    """The cell's name in the plan."""
    trials: tuple[str, ...] = ()
    """Ids of its trials, in the order of their repeats."""
    clients: int = 0
    """Concurrent jobs over all nodes, or the clients in these jobs; 0 means equal to `slots`."""
    reasons: tuple[str, ...] = ()
    """Why these trials cannot be trusted; empty for valid ones."""
    energy_basis: EnergyBasis | None = None
    """What its joules are of and where they come from; None without any."""

    @property
    def load(self) -> int:
        """Concurrent clients: the x axis of curves."""
        return self.clients or self.slots


@dataclass(frozen=True)
class SlotsFed:
    """How many concurrent jobs a storage feeds at the required job efficiency."""

    slots: int
    """The largest number tried up to which every number tried reaches the required efficiency;
    0: not even the smallest."""
    interpolated: float | None
    """Where the efficiency crosses the required one, interpolated between two numbers tried;
    None when it never does."""
    efficiency: float
    """The required efficiency."""
    censored: bool
    """True when the largest number tried still reaches it: the answer is 'at least'."""
    why: str
    """What limits the next number tried."""
    smallest: int = 1
    """The smallest number tried."""
    low: int | None = None
    """The fewest, of the numbers tried, that the intervals of the efficiencies allow (0: fewer
    than the smallest); None without repeats."""
    high: int | None = None
    """The most that these intervals allow; None without repeats."""
    open_above: bool = False
    """True when `high` is the largest number tried: the true value may be larger."""
    interpolated_low: float | None = None
    """Where the lower bounds of the intervals cross the required efficiency; None when the
    smallest number is already below it."""
    interpolated_high: float | None = None
    """Where the upper bounds cross it; None when they never do."""
    failed_above: tuple[int, ...] = ()
    """Larger numbers that were tried without a valid trial, where `censored`."""


@dataclass(frozen=True)
class Knee:
    """Where more slots (clients) stop helping: the fewest that reach 95 % of the highest rate."""

    slots: int
    metric: str
    value: float
    beyond: str
    """What the rate does beyond the knee: `level` or `falls`."""
    low: int | None = None
    """The fewest whose rate may reach that share, by the intervals of the ratios; None without
    repeats."""
    high: int | None = None
    """The fewest whose rate is shown to reach it; None when no number is, or without repeats."""
    difference_seen: bool | None = None
    """Whether the rates at any two numbers of slots differ significantly; None without repeats."""


@dataclass(frozen=True)
class Growth:
    """How a storage's rate grows with the number of clients, however they are spread over slots
    and nodes."""

    metric: str
    clients: tuple[int, ...]
    """Numbers tried, rising; where several combinations give the same number, the one with the
    highest rate."""
    rates: tuple[float, ...]
    """Rate at each number of clients."""
    enough: int
    """The fewest that reach 95 % of the highest rate."""
    beyond: str
    """What the rate does beyond `enough`: `level`, `falls`, or `untried` where it is the largest
    number tried."""
    why: LimitKind
    """The bottleneck at `enough`."""
    low: int | None = None
    """As in Knee."""
    high: int | None = None
    """As in Knee."""
    difference_seen: bool | None = None
    """As in Knee."""
    failed_above: tuple[int, ...] = ()
    """Larger numbers that were tried without a valid trial."""


@dataclass(frozen=True)
class Curve:
    """One storage and workload against the load (slots, or clients over all nodes); other
    factors fixed."""

    label: str
    """Unique in these findings: the workload (where there are several) and `name`."""
    target: str
    workload: str
    levels: dict[str, object]
    """Without `slots`, `target`, `workload`, and other load factors that vary along the curve."""
    points: tuple[Point, ...]
    """Valid points, by rising load; empty when no trial is valid."""
    knee: Knee | None
    slots_fed: SlotsFed | None
    """None for a workload that does not compute: its efficiency has no meaning."""
    provenance: str = ""
    growth: Growth | None = None
    """For a workload that loads the storage: over all curves that differ only in the load."""
    distrusted: tuple[Point, ...] = ()
    """Points of invalid trials, by rising load: shown with their reasons, used in no statistic."""
    name: str = ""
    """What varies, in words: `GlusterFS, 3 servers, 1 copy`."""
    words: dict[str, str] = field(default_factory=dict[str, str])
    """The level of each factor in words: `servers` -> `3 servers`."""
    storage: str = ""
    """The target in words: `GlusterFS`; its name in the study where that is more informative."""
    rank: int | None = None
    """1 + the number of storages (targets with their choices, at any load) of the same workload
    and provenance that are significantly better; None without repeats. Curves of one storage
    share it."""
    alike: int = 0
    """How many other storages do not differ significantly from it: the true rank may be up to
    `rank + alike`."""

    @property
    def axis(self) -> Literal["slots", "clients"]:
        """What `Point.load` counts on this curve."""
        points = (*self.points, *self.distrusted)
        several = self.growth is not None or any(point.load != point.slots for point in points)
        return "clients" if several else "slots"


@dataclass(frozen=True)
class LevelEffect:
    """One level of one factor, averaged over the other factors."""

    level: Any
    estimate: Estimate


@dataclass(frozen=True)
class FactorEffect:
    """The effect of a factor on one metric of one workload."""

    factor: str
    workload: str
    metric: str
    levels: tuple[LevelEffect, ...]
    best: Any
    worst: Any
    cost_of_wrong: Estimate
    """1 - worst/best (worst/best - 1 for a metric where less is better), as a fraction.

    Its interval holds for all pairs of levels at once, at `Findings.joint_confidence`.
    """
    p_value: float | None
    """Of this factor alone, not corrected for other comparisons."""
    error_term: str
    """`trials` or `whole plots`, or why there is none."""
    less_is_better: bool = False
    targets: tuple[str, ...] = ()
    """Targets whose trials it uses: those to which the factor applies."""
    provenance: str = ""
    """`measured`, or several joined by ` + ` where the levels themselves differ in provenance."""
    note: str = ""
    """What was averaged over, and what was left out because it has no partner."""
    alike_best: tuple[Any, ...] = ()
    """Levels that are not significantly worse than the best."""
    alike_worst: tuple[Any, ...] = ()
    """Levels that are not significantly better than the worst."""
    detectable: float | None = None
    """The cost that would have been detected with a probability of 80 %; None without an error
    term."""

    @property
    def seen(self) -> bool:
        """Whether the difference is significant: the interval excludes 0.

        Only then are best, worst and cost named.
        """
        return is_seen(self.cost_of_wrong)


@dataclass(frozen=True)
class Combined:
    """Best against worst combination of levels, over all factors that are choices."""

    workload: str
    target: str | None
    slots: int
    """Concurrent clients of the cells compared."""
    metric: str
    best: dict[str, object]
    """The level of every choice that applies; includes `target` where several are compared."""
    worst: dict[str, object]
    cost: Estimate
    """As `FactorEffect.cost_of_wrong`, over all pairs of cells."""
    best_value: float = 0.0
    worst_value: float = 0.0
    cells: int = 0
    """Number of cells compared."""
    provenance: str = ""
    alike_best: int = 0
    """Number of cells that are not significantly worse than the best."""
    best_name: str = ""
    """The best cell in words: `GlusterFS, 3 servers, 1 copy`."""
    worst_name: str = ""
    detectable: float | None = None
    """As in FactorEffect."""

    @property
    def seen(self) -> bool:
        """Whether best and worst differ significantly."""
        return is_seen(self.cost)


@dataclass(frozen=True)
class LeftOut:
    """A trial that no finding uses, and why."""

    trial: str
    levels: dict[str, object]
    status: Literal["invalid", "failed", "unsupported", "damaged"]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Unanswered:
    """A workload and target without any valid trial, and why."""

    workload: str
    target: str
    storage: str
    """The target in words."""
    planned: int
    """Trials in the plan."""
    invalid: int
    failed: int
    unsupported: int
    reasons: tuple[tuple[str, int], ...]
    """Each reason with the number of trials that have it, the most common first."""

    @property
    def missing(self) -> int:
        """Trials that have not been run."""
        return max(0, self.planned - self.invalid - self.failed - self.unsupported)


@dataclass(frozen=True)
class FaultEffect:
    """The effect of one fault on the jobs of one cell."""

    fault: str
    """Its name in the study."""
    what: str
    """Its kind."""
    target: str
    workload: str
    slots: int
    levels: dict[str, object]
    """Levels of the other factors."""
    fired: int
    """How often it took effect, over all trials."""
    jobs: int
    failed_jobs: int
    error: str
    """The most common cause of failure; empty when no job failed."""
    stall_s: float | None
    """The longest time after injection in which no data moved; None when not known."""
    recovered_s: float | None
    """Mean time from the end of the fault until the storage moved data at its earlier rate; None
    when it did not, or when the jobs finished before."""
    rate: Estimate | None
    """Rate under the fault over the rate without it."""
    rate_metric: str
    """The metric of `rate`; empty for the bytes that the storage moved."""
    against: str
    """The reference of `rate`: `the same without it` or `before the fault`."""
    acknowledged_writes: int | None
    """Writes acknowledged as being on stable storage, of those that were checked afterwards."""
    lost_writes: int | None
    """Acknowledged writes that are lost."""
    lost_bytes: int | None
    """Bytes acknowledged and never flushed, which may therefore be lost."""
    note: str
    """Result of the file system check."""
    provenance: str
    trials: tuple[str, ...]


SLOW_NODE = 1.05
"""Time per event over that of the other nodes from which a node is called slow."""


@dataclass(frozen=True)
class NodeLoad:
    """One node of a cell: what its jobs did, over all trials."""

    name: str
    jobs: int
    failed_jobs: int
    per_s: float
    """Events per second (jobs per second, where jobs have no events) while its slots were busy."""
    bytes_per_s: float
    """Bytes delivered to its jobs per second while its slots were busy."""
    efficiency: float
    """CPU time over wall time of its jobs."""
    ledger: dict[str, float]
    """Shares of the wall time of its jobs."""
    relative: Estimate | None
    """Its time per event (or job) over the median of the other nodes in the same trial; None when
    they cannot be compared."""
    excess_s: dict[str, float]
    """Seconds per event (or job) more than the other nodes' median, by part of the ledger."""
    start_s: float
    """The latest start of its first jobs after the common release, mean over the trials."""
    other_cpus: float | None
    """CPUs of it that other programs used; None when not known."""
    metered_w: float | None = None
    """Mean power of the node, or of its processors and memory, by meters of its own."""
    host: str = ""
    """Name of the machine; empty when not known."""
    cpu_model: str = ""
    events: tuple[str, ...] = ()
    """What happened to it: when it was lost."""

    @property
    def is_slow(self) -> bool:
        """Whether it was slower than the others, beyond chance and by more than 5 %."""
        found = self.relative
        return (
            found is not None
            and found.value >= SLOW_NODE
            and found.low is not None
            and found.low > 1.0
        )


@dataclass(frozen=True)
class NodesOfCell:
    """The nodes of a cell whose jobs ran on several nodes."""

    target: str
    workload: str
    slots: int
    levels: dict[str, object]
    nodes: tuple[NodeLoad, ...]
    per: Literal["event", "job"]
    """What `NodeLoad.per_s`, `relative` and `excess_s` count."""
    provenance: str
    trials: tuple[str, ...]


@dataclass(frozen=True)
class StoragePrice:
    """What a storage costs for what it achieves, at the point with its highest rate."""

    workload: str
    target: str
    levels: dict[str, object]
    """Of that point."""
    label: str
    load: int
    amount: float
    currency: str
    source: str
    """`stated` by the study, or `published`: a dated price of the catalog."""
    what: str
    """What the amount buys, and when."""
    per: dict[str, Estimate]
    """Price per throughput (jobs' worth of computing), mb_per_s, event_per_s, job_per_h, gb."""
    efficiency: Estimate | None
    provenance: str
    """Of the rates."""
    trials: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """Everything that the analysis found in a set of records."""

    title: str
    provenance: tuple[str, ...]
    curves: tuple[Curve, ...]
    effects: tuple[FactorEffect, ...]
    combined: tuple[Combined, ...]
    left_out: tuple[LeftOut, ...]
    trials_planned: int
    """Without a plan that can be read, the trials with a record."""
    trials_done: int
    environment: dict[str, object]
    plan_known: bool = True
    """Whether the plan can be read: otherwise it is not known how many trials are missing."""
    warnings: tuple[str, ...] = ()
    extra_tables: dict[str, list[dict[str, object]]] = field(
        default_factory=dict[str, "list[dict[str, object]]"]
    )
    """Tables of single workloads: fio's percentiles, merged physics results."""
    headline: dict[str, str] = field(default_factory=dict[str, str])
    """Workload -> the metric that defines 'best' for it."""
    confidence: float = 0.95
    """Confidence of all intervals."""
    study_hash: str = ""
    faults: tuple[FaultEffect, ...] = ()
    nodes: tuple[NodesOfCell, ...] = ()
    """Of each cell whose jobs ran on several nodes."""
    interference: tuple[Disturbance, ...] = ()
    """CPU time taken by other programs, where it disturbed trials."""
    retried: int = 0
    """Records set aside because their trials were run again."""
    unanswered: tuple[Unanswered, ...] = ()
    """Workloads and targets without a valid trial."""
    comparisons: int = 0
    """Number of comparisons that may name a difference: effects, combinations, rankings."""
    prices: tuple[StoragePrice, ...] = ()
    """Of the storages whose price is known, the best first."""
    joint_confidence: float = 0.95
    """Confidence of the intervals of these comparisons.

    It controls the false discovery rate: at most 5 % of the differences named are false on average
    (at a confidence of 95 %), and a study without any real difference names one in at most 5 % of
    cases.
    """


@dataclass(frozen=True)
class EnvironmentDifference:
    """A property of the machines that differs between the two result sets."""

    name: str
    """Dotted path in the environment: `kernel`, `cpu.model`, `location.filesystem`."""
    a: tuple[str, ...]
    """Every value that occurs in A."""
    b: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """One metric of one cell, in both result sets."""

    target: str
    workload: str
    levels: dict[str, object]
    slots: int | None
    """None for the windows of a watch, whatever the number of their jobs."""
    metric: str
    a: Estimate
    b: Estimate
    ratio: Estimate
    """B/A of the means, with its interval (Welch, on the logarithm) at
    `Comparison.joint_confidence`."""
    effect_size: Estimate
    """Hedges' g of B - A: in standard deviations, corrected for few trials."""
    p_value: float | None
    different: bool
    """True when the interval of the ratio excludes 1."""
    better: Literal["a", "b", ""] = ""
    """Which one is better, when they are different."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of two result sets."""

    title_a: str
    title_b: str
    provenance: str
    differences: tuple[Difference, ...]
    only_a: tuple[str, ...]
    """Cells without a counterpart in B, as text."""
    only_b: tuple[str, ...]
    environment: tuple[EnvironmentDifference, ...]
    warnings: tuple[str, ...] = ()
    confidence: float = 0.95
    joint_confidence: float = 0.95
    """Confidence of the ratios' intervals, as in Findings."""
