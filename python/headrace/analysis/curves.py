"""Points -> curves: each storage against its load, with knee and slots fed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headrace.analysis.findings import Curve, Growth, Point, SlotsFed
from headrace.analysis.loads import find_growth, find_knee, slots_fed
from headrace.analysis.naming import level_key, varied_factors

LOAD_FACTORS = frozenset({"slots", "nodes", "jobs", "clients"})
"""Factors that are an amount of load: x axes of curves, not choices."""


def is_load(factor: str) -> bool:
    """Return whether a factor, by its name or dotted path, is an amount of load."""
    return factor.rpartition(".")[2] in LOAD_FACTORS


def choices(levels: Mapping[str, object]) -> dict[str, object]:
    """Return the levels that are choices: those of the factors that are not load."""
    return {name: level for name, level in levels.items() if not is_load(name)}


Family = tuple[str, str, str, frozenset[tuple[str, str]]]
"""A storage with its choices, at any load: the unit of comparison."""


@dataclass(frozen=True)
class CurveOptions:
    """Options for making curves."""

    headline: Mapping[str, str]
    """Workload -> the metric that defines 'best' for it."""
    efficiency: float = 0.9
    confidence: float = 0.95
    loading: Collection[str] = ()
    """Workloads that load the storage."""
    values: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict[str, "Mapping[str, float]"]
    )
    """The headline metric of valid trials, by workload and trial."""
    failed: Mapping[Family, Collection[int]] = field(
        default_factory=dict["Family", "Collection[int]"]
    )
    """Loads of the trials that failed or are invalid, by family."""


def make_curves(
    points: Sequence[Point], options: CurveOptions, distrusted: Sequence[Point] = ()
) -> list[Curve]:
    """Return a curve for each workload, target, set of choices and provenance, by rising load.

    Points that differ only in load factors form one curve. Where such points have the same number
    of clients (2 nodes with 4 slots, 4 nodes with 2), each combination of the load factors other
    than slots is a separate curve.
    """
    families: dict[Family, list[Point]] = {}
    for point in (*points, *distrusted):
        families.setdefault(family_of(point), []).append(point)
    curves: list[Curve] = []
    for family in families.values():
        growing = family[0].workload in options.loading
        groups = _without_collisions(family)
        for members in groups:
            curve = _curve(members, options)
            if growing:
                curve = replace(curve, growth=_growth(family, options))
            if len(groups) > 1 and curve.points:
                curve = replace(curve, slots_fed=_fed_by_family(family, options))
            curves.append(_with_failed(curve, family, options))
    return curves


def _with_failed(curve: Curve, family: Sequence[Point], options: CurveOptions) -> Curve:
    """Return the curve with the loads above its largest valid one that were tried in vain."""
    largest = max((point.load for point in family if not point.reasons), default=0)
    above = {load for load in options.failed.get(family_of(curve), ()) if load > largest}
    if not above:
        return curve
    fed, growth, loads = curve.slots_fed, curve.growth, tuple(sorted(above))
    return replace(
        curve,
        slots_fed=replace(fed, failed_above=loads) if fed is not None and fed.censored else fed,
        growth=None if growth is None else replace(growth, failed_above=loads),
    )


def family_of(of: Point | Curve) -> Family:
    """Return the unit of comparison, as a key: a storage with its choices, at any load."""
    return family_key(of.workload, of.target, of.provenance, of.levels)


def family_key(workload: str, target: str, provenance: str, levels: Mapping[str, object]) -> Family:
    """Return the same from its parts; `levels` without target and workload."""
    return workload, target, provenance, _levels_key(choices(levels))


def _fed_by_family(family: Sequence[Point], options: CurveOptions) -> SlotsFed | None:
    """Return how many clients the storage feeds.

    Where several points have the same number of clients, the one with the highest efficiency
    counts.
    """
    best: dict[int, Point] = {}
    for point in family:
        if point.reasons or "efficiency" not in point.metrics:
            continue
        other = best.get(point.load)
        if other is None or point.metrics["efficiency"].value > other.metrics["efficiency"].value:
            best[point.load] = point
    points = [best[load] for load in sorted(best)]
    return slots_fed(points, options.efficiency) if points and _computes(points) else None


def _levels_key(levels: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    return frozenset((name, level_key(level)) for name, level in levels.items())


def _without_collisions(family: Sequence[Point]) -> list[list[Point]]:
    """Return the points as groups in which no two cells have the same load."""
    cells = {(point.load, _levels_key(point.levels)) for point in family}
    if len(cells) == len({load for load, _ in cells}):
        return [list(family)]
    groups: dict[frozenset[tuple[str, str]], list[Point]] = {}
    for point in family:
        rest = {
            name: level for name, level in point.levels.items() if is_load(name) and name != "slots"
        }
        groups.setdefault(_levels_key(rest), []).append(point)
    return list(groups.values())


def _curve(members: Sequence[Point], options: CurveOptions) -> Curve:
    by_load = sorted(members, key=lambda point: point.load)
    points = tuple(point for point in by_load if not point.reasons)
    first = by_load[0]
    varying = [name for name in varied_factors(point.levels for point in members) if is_load(name)]
    levels = {
        name: level
        for name, level in first.levels.items()
        if name != "slots" and name not in varying
    }
    metric = options.headline.get(first.workload)
    values = options.values.get(first.workload, {})
    return Curve(
        label=first.target,
        target=first.target,
        workload=first.workload,
        levels=levels,
        points=points,
        knee=find_knee(points, metric, values, options.confidence),
        slots_fed=slots_fed(points, options.efficiency) if points and _computes(points) else None,
        provenance=first.provenance,
        distrusted=tuple(point for point in by_load if point.reasons),
    )


def _growth(family: Sequence[Point], options: CurveOptions) -> Growth | None:
    valid = [point for point in family if not point.reasons]
    workload = family[0].workload
    return find_growth(
        valid, options.headline.get(workload), options.values.get(workload, {}), options.confidence
    )


def _computes(points: Sequence[Point]) -> bool:
    """Return whether the workload's jobs compute, so that their efficiency has a meaning.

    True when jobs count events, or when at the lowest load they spend at least half of their time
    on a CPU. A program that only moves bytes has no meaningful efficiency.
    """
    first = points[0]
    return "events_per_s" in first.metrics or first.ledger["on_cpu"] >= 0.5
