"""Names of curves, from the factors in which they differ: `GlusterFS, 3 servers, 1 copy`. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from headrace.analysis.findings import Curve
from headrace.study.level_words import level_words, target_words


@dataclass(frozen=True)
class Kinds:
    """Kinds of the study's targets and workloads, by name."""

    targets: Mapping[str, str]
    workloads: Mapping[str, str]
    """In the order of the study file."""
    factors: Sequence[str] = ()
    """In the order of the study file, as far as known."""

    def storage(self, target: str) -> str:
        """Return a target in words: its product's name where its own name only abbreviates it."""
        others = frozenset(kind for name, kind in self.targets.items() if name != target)
        return target_words(target, self.targets.get(target, ""), others)

    def words(self, target: str, workload: str, levels: Mapping[str, Any]) -> dict[str, str]:
        """Return the level of each factor that applies, in words."""
        kinds = self.targets.get(target, ""), self.workloads.get(workload, "")
        names = [name for name in self.in_order(levels) if levels[name] is not None]
        return {name: level_words(name, levels[name], *kinds) for name in names}

    def in_order(self, factors: Iterable[str]) -> list[str]:
        """Return factors in the order of the study file, followed by unknown ones."""
        known = {name: number for number, name in enumerate(self.factors)}
        return sorted(factors, key=lambda name: known.get(name, len(known)))


def level_key(level: object) -> str:
    """Return a level as text that only equal levels have: JSON with sorted fields."""
    return _plain_key(level) if type(level) in _PLAIN else _key(level)


_PLAIN = (str, int, bool, type(None))
"""Types of levels whose equal values have equal texts: 0.0 equals -0.0."""


def _key(level: object) -> str:
    return json.dumps(level, sort_keys=True, default=str)


# A study of ten thousand trials has a few dozen levels.
_plain_key = lru_cache(4096, typed=True)(_key)


def varied_factors(levels: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the factors that have more than one level, in the order of their first use."""
    seen: dict[str, set[str]] = {}
    for each in levels:
        for name, level in each.items():
            seen.setdefault(name, set()).add(level_key(level))
    return [name for name, found in seen.items() if len(found) > 1]


def with_names(curves: Sequence[Curve], kinds: Kinds) -> list[Curve]:
    """Return the curves with `storage`, `words`, `name` and `label`.

    A name distinguishes curves of one workload: it has the target where several are compared, and
    every factor that varies among them. A label adds the workload where there are several, and a
    number where labels would be equal.
    """
    workloads = dict.fromkeys(curve.workload for curve in curves)
    several = len(workloads) > 1
    named: list[Curve] = []
    for workload in [*(name for name in kinds.workloads if name in workloads), *workloads]:
        if any(curve.workload == workload for curve in named):
            continue
        mine = [curve for curve in curves if curve.workload == workload]
        varied = kinds.in_order(varied_factors(curve.levels for curve in mine))
        targets = {curve.target for curve in mine}
        provenances = {curve.provenance for curve in mine}
        for curve in mine:
            storage = kinds.storage(curve.target)
            words = kinds.words(curve.target, workload, curve.levels)
            parts = [words[name] for name in varied if name in words]
            if len(targets) > 1 or not parts:
                parts.insert(0, storage)
            if len(provenances) > 1:
                parts.append(curve.provenance)
            name = ", ".join(parts)
            label = f"{workload}: {name}" if several else name
            named.append(replace(curve, name=name, label=label, words=words, storage=storage))
    return _told_apart(named)


def _told_apart(curves: list[Curve]) -> list[Curve]:
    """Number equal names: a factor may apply to one curve and be None on the other."""
    counts = Counter(curve.label for curve in curves)
    seen: Counter[str] = Counter()
    found: list[Curve] = []
    for curve in curves:
        if counts[curve.label] > 1:
            seen[curve.label] += 1
            mark = f" ({seen[curve.label]})"
            curve = replace(curve, name=curve.name + mark, label=curve.label + mark)
        found.append(curve)
    return found
