"""Findings: statistics with their uncertainty and what they rest on. Values only; computed in this room, shown in report/."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

LimitKind = Literal[
    "cpu", "cpu contention", "device latency", "device bandwidth", "network", "cache", "idle", "unknown"
]


@dataclass(frozen=True)
class Estimate:
    """One number with its interval."""

    value: float
    low: float | None
    high: float | None
    """Bounds of the interval; None with too few repeats."""
    n: int
    """Trials that it rests on."""
    method: str
    """How value and interval were had, such as `mean, t interval` or `median, bootstrap`."""
    trials: tuple[str, ...]
    """Their ids."""
    provenance: str = ""
    """Where it is not that of its point: `modelled` for a computed watt, `stated` for a price of the study file (law 6)."""


@dataclass(frozen=True)
class Limit:
    """What held jobs back at one point."""

    kind: LimitKind
    share: float
    """Share of the jobs' wall time that it took, 0..1."""
    evidence: str
    """The numbers that say so, as one sentence."""


@dataclass(frozen=True)
class Point:
    """One cell: all its valid repeats together."""

    target: str
    workload: str
    levels: dict[str, Any]
    """Every factor's level, `slots` too; without `target` and `workload`, which stand beside it. None where a factor does not
    apply."""
    slots: int
    metrics: dict[str, Estimate]
    """By metric name, unit last: events_per_s, efficiency, throughput_jobs, uncompressed_bytes_per_s, asked_bytes_per_s,
    served_bytes_per_s, device_bytes_per_s, amplification, wall_s, iops, energy_j_per_job …"""
    ledger: dict[str, float]
    """Mean share of wall time: on_cpu, wait_cpu, wait_block, wait_network, other; sums to 1."""
    limit: Limit
    provenance: str
    invalid: int
    failed: int
    cell: str = ""
    """The plan's name for it."""
    trials: tuple[str, ...] = ()
    """Ids of its valid trials, in the order of their repeats."""
    clients: int = 0
    """Jobs at once over all nodes, or the clients that are in them."""


@dataclass(frozen=True)
class SlotsFed:
    """How many jobs a storage feeds at the wanted job efficiency."""

    slots: int
    """The largest number tried that holds the efficiency (0: not even the smallest)."""
    interpolated: float | None
    """Where the efficiency crosses the bound, between two numbers tried; None when it never does."""
    efficiency: float
    """The bound."""
    censored: bool
    """True when the largest number tried still holds it: the answer is 'at least'."""
    why: str
    """What limits the next one."""


@dataclass(frozen=True)
class Knee:
    """Where more slots stop helping."""

    slots: int
    metric: str
    value: float
    beyond: str
    """`level` or `falls`: what the rate does beyond it."""


@dataclass(frozen=True)
class Growth:
    """How a storage's rate grows with the clients that load it, however they are dealt out to slots and nodes."""

    metric: str
    clients: tuple[int, ...]
    """Numbers tried, rising; of one number the ways with the highest rate."""
    rates: tuple[float, ...]
    """At each."""
    enough: int
    """The fewest that reach 95 % of the highest rate."""
    beyond: str
    """What the rate does beyond them: `level`, `falls`, or `untried` where they are the most that were tried."""
    why: LimitKind
    """What held clients back there."""


@dataclass(frozen=True)
class Curve:
    """One storage and workload at all numbers of slots, other factors fixed."""

    label: str
    target: str
    workload: str
    levels: dict[str, Any]
    """Without `slots`, `target` and `workload`."""
    points: tuple[Point, ...]
    """By rising slots."""
    knee: Knee | None
    slots_fed: SlotsFed | None
    """None for a workload that does not compute, whose efficiency says nothing."""
    provenance: str = ""
    growth: Growth | None = None
    """Of a workload that loads the storage: over all curves that differ in nodes and clients alone."""


@dataclass(frozen=True)
class LevelEffect:
    """One level of one factor, the others averaged over."""

    level: Any
    estimate: Estimate


@dataclass(frozen=True)
class FactorEffect:
    """What a factor does to a metric of one workload."""

    factor: str
    workload: str
    metric: str
    levels: tuple[LevelEffect, ...]
    best: Any
    worst: Any
    cost_of_wrong: Estimate
    """1 - worst/best (for a metric of which less is better: worst/best - 1), as a fraction."""
    p_value: float | None
    error_term: str
    """`trials` or `whole plots`, or why there is none."""
    less_is_better: bool = False
    targets: tuple[str, ...] = ()
    """Targets that it rests on: those to which the factor applies."""
    provenance: str = ""
    """`measured`, or several joined by ` + ` where the levels themselves differ in it."""
    note: str = ""
    """What was averaged over, and what was left out for want of a partner."""


@dataclass(frozen=True)
class Combined:
    """Best against worst over all factors together."""

    workload: str
    target: str | None
    slots: int
    metric: str
    best: dict[str, Any]
    """Every factor's level that applies; `target` too where several are compared."""
    worst: dict[str, Any]
    cost: Estimate
    best_value: float = 0.0
    worst_value: float = 0.0
    cells: int = 0
    """Cells that were compared."""
    provenance: str = ""


@dataclass(frozen=True)
class LeftOut:
    """A trial that no finding rests on, and why."""

    trial: str
    levels: dict[str, Any]
    status: Literal["invalid", "failed", "unsupported"]
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class FaultEffect:
    """What one fault did to the jobs of one cell."""

    fault: str
    """Its name in the study."""
    what: str
    """Its kind."""
    target: str
    workload: str
    slots: int
    levels: dict[str, Any]
    """Of the other factors."""
    fired: int
    """How often it took effect, all trials together."""
    jobs: int
    failed_jobs: int
    error: str
    """The commonest cause of failure; empty when none failed."""
    stall_s: float | None
    """The longest time after it struck in which nothing moved; None when that is not known."""
    recovered_s: float | None
    """From its end until the storage moved as before, mean; None when it did not, or jobs were done before."""
    rate: Estimate | None
    """Rate under it over the rate without it."""
    rate_metric: str
    """Of what; empty for the bytes that the storage moved."""
    against: str
    """`the same without it` or `before it struck`."""
    acknowledged_writes: int | None
    """Writes that were said to be on stable storage, of those that were looked for afterwards."""
    lost_writes: int | None
    """Those of them that are gone."""
    lost_bytes: int | None
    """Acknowledged and never flushed, so that they may be lost."""
    note: str
    """What the check of the file system found."""
    provenance: str
    trials: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """All that a set of records says."""

    title: str
    provenance: tuple[str, ...]
    curves: tuple[Curve, ...]
    effects: tuple[FactorEffect, ...]
    combined: tuple[Combined, ...]
    left_out: tuple[LeftOut, ...]
    trials_planned: int
    trials_done: int
    environment: dict[str, Any]
    warnings: tuple[str, ...] = ()
    extra_tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, "list[dict[str, Any]]"])
    """Tables of single workloads: fio's percentiles, merged physics results."""
    headline: dict[str, str] = field(default_factory=dict[str, str])
    """Workload -> the metric that 'best' means for it."""
    confidence: float = 0.95
    """Of all intervals."""
    study_hash: str = ""
    faults: tuple[FaultEffect, ...] = ()


@dataclass(frozen=True)
class EnvironmentDifference:
    """Something of the machines that is not the same in both result sets."""

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
    levels: dict[str, Any]
    slots: int
    metric: str
    a: Estimate
    b: Estimate
    ratio: Estimate
    """B/A of the means, with its interval (Welch, on the logarithm)."""
    effect_size: Estimate
    """Hedges' g of B - A: standard deviations, corrected for few trials."""
    p_value: float | None
    different: bool
    """True when the interval of the ratio leaves out 1."""
    better: Literal["a", "b", ""] = ""
    """Which is better, when they are different."""


@dataclass(frozen=True)
class Comparison:
    """Two result sets beside each other."""

    title_a: str
    title_b: str
    provenance: str
    differences: tuple[Difference, ...]
    only_a: tuple[str, ...]
    """Cells without a partner, as text."""
    only_b: tuple[str, ...]
    environment: tuple[EnvironmentDifference, ...]
    warnings: tuple[str, ...] = ()
    confidence: float = 0.95
