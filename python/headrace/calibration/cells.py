"""Which cells of a study are measured to learn its site, and which to check what was learnt."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tomlkit

from headrace.calibration.choices import choices
from headrace.plan.cells import Cell, key
from headrace.plan.order import make_plan
from headrace.plan.trial import Trial
from headrace.study.load import load_study_text
from headrace.study.model import Study
from headrace.units import MOST_SLOTS
from headrace.whatif.matrix import full_matrix
from headrace.whatif.smaller_study import smaller_study

FEW = 4
"""Slots, or clients, of the cells with a few of them, at most."""


@dataclass(frozen=True)
class CalibrationPlan:
    """A study of the cells to measure, and what each cell is for. Cells are named as
    `Trial.cell`."""

    study: Study
    """Of the cells to measure: a subset of the user's study, with cells of a warm cache."""
    text: str
    learn: frozenset[str]
    """Cells that values are fitted to."""
    check: frozenset[str]
    """Cells that are measured to check predictions; nothing is fitted to them."""
    every: tuple[Trial, ...]
    """One trial of each cell that can be predicted: the cells of the user's study and the
    measured ones."""


def calibration_plan(
    study: Study, text: str, check: int | None = None, cores: int | None = None
) -> CalibrationPlan:
    """Choose the cells of a study to measure.

    `check`: how many cells check the predictions; when None, one for each target and workload, and
    one for each word of their factors that is learnt from. `cores`: of a node, if known; a study
    with more slots than that learns what turns at a core cost.
    """
    slots = next((name for name in study.factors if name in ("slots", "run.slots")), None)
    nodes = next((name for name in study.factors if name in ("nodes", "run.nodes")), None)
    cache = next((name for name in study.factors if name in ("cache", "run.cache")), None)
    wide_text = text
    if slots is None:
        slots, one = "slots", study.run_options.slots
        levels = [each for each in (one, 2 * one, 4 * one) if each <= MOST_SLOTS]
        wide_text = _with_factor(wide_text, slots, levels)
    if cache is None and study.run_options.cache == "cold":
        cache = "cache"
        wide_text = _with_factor(wide_text, cache, ["cold", "warm"])
    wide = load_study_text(wide_text, file=study.file, base=study.base)
    trials = {trial.cell: trial for trial in make_plan(full_matrix(wide)).trials[::-1]}
    choice = _Choice(wide, slots, nodes, cache)
    groups = _groups(trials)
    learn = [cell for group in groups for cell in choice.to_learn(group)]
    if cores is not None:
        learn += _crowded(groups, choice, learn, cores)
    own = _own(study, trials)
    left = [trial for trial in trials.values() if trial.cell in own and trial.cell not in learn]
    chosen = _to_check(left, choice, check)
    kept = {*learn, *chosen}
    comment = "Cells that headrace calibrate measures to learn a site and to check it."
    made = smaller_study(wide, wide_text, study.file, kept, comment)
    every = tuple(trial for trial in trials.values() if trial.cell in own | kept)
    loaded = load_study_text(made, file=study.file, base=study.base)
    return CalibrationPlan(loaded, made, frozenset(learn), frozenset(chosen), every)


def _crowded(
    groups: Sequence[Sequence[Trial]], choice: _Choice, learn: Sequence[str], cores: int
) -> list[str]:
    """Return a cell of each workload with more jobs than cores, where none is learnt from yet.

    It is one of the first target, with a warm cache: jobs then wait for cores rather than for
    storage, and the cells with the most slots and a cold cache are left to check.
    """
    done = {
        trial.workload
        for group in groups
        for trial in group
        if trial.cell in learn and _number(trial.levels[choice.slots]) > cores
    }
    places = list(choice.study.targets)
    found: list[str] = []
    for group in sorted(groups, key=lambda each: places.index(each[0].target)):
        workload = group[0].workload
        if workload not in done and (cell := choice.crowded(group, cores)) is not None:
            found.append(cell)
            done.add(workload)
    return found


def _with_factor(text: str, name: str, levels: Sequence[object]) -> str:
    document: Any = tomlkit.parse(text)
    if "factors" not in document:
        document["factors"] = tomlkit.table()
    document["factors"][name] = list(levels)
    return tomlkit.dumps(document)


def _groups(trials: dict[str, Trial]) -> list[list[Trial]]:
    found: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials.values():
        found.setdefault((trial.target, trial.workload), []).append(trial)
    return list(found.values())


def _own(study: Study, trials: dict[str, Trial]) -> set[str]:
    """Return the cells that the user's study has, whatever its design."""
    known = {key(trial.levels) for trial in make_plan(full_matrix(study)).trials}
    own = study.run_options
    found: set[str] = set()
    for trial in trials.values():
        levels = dict(trial.levels)
        for name, value in (("slots", own.slots), ("cache", own.cache)):
            # A factor that only the calibration has: other slots count as the study's own.
            if name not in study.factors and name in levels:
                given = levels.pop(name)
                if name == "cache" and given != value:
                    break
        else:
            if key(levels) in known:
                found.add(trial.cell)
    return found


@dataclass(frozen=True)
class _Choice:
    """Chooses cells by the levels of slots, nodes and cache, and of factors that are words; other
    factors stay at their first."""

    study: Study
    slots: str
    nodes: str | None
    cache: str | None

    def to_learn(self, group: Sequence[Trial]) -> list[str]:
        """Return the cells of one target and workload that values are fitted to."""
        base = self._base(group)
        if base is None:
            return []
        few = _few(self._levels(self.slots, group))
        few_slots: list[Cell] = [] if few is None else [{self.slots: few}]
        changes: list[Cell] = [{}, *few_slots]
        few_nodes = None if self.nodes is None else _few(self._levels(self.nodes, group))
        if self.nodes is not None and few_nodes is not None:
            changes.append({self.nodes: few_nodes})
        if self.cache is not None and "warm" in self._levels(self.cache, group):
            changes.append({self.cache: "warm"})
        for word in self._other_words(group, base):
            # What other code costs, and what it loses to busy neighbours.
            changes += [{**word, **slots} for slots in ({}, *few_slots)]
        wanted = {key({**base.levels, **change}) for change in changes}
        return [trial.cell for trial in group if key(trial.levels) in wanted]

    def crowded(self, group: Sequence[Trial], cores: int) -> str | None:
        """Return the cell with the fewest slots above `cores`, and a warm cache if it can have one,
        that is like the base otherwise."""
        base = self._base(group)
        if base is None:
            return None
        known = {key(trial.levels): trial.cell for trial in group}
        slots = sorted(self._levels(self.slots, group))
        warm = self.cache is not None and "warm" in self._levels(self.cache, group)
        changes: list[Cell] = [
            {self.slots: count, **({self.cache: "warm"} if self.cache and warm else {})}
            for count in slots
            if count > cores and (warm or count < slots[-1])
        ]
        made = (key({**base.levels, **change}) for change in changes)
        return next((known[each] for each in made if each in known), None)

    def _other_words(self, group: Sequence[Trial], base: Trial) -> list[Cell]:
        """Return the other levels of factors that decide which code a job runs."""
        usual, known = choices(self.study, base), {key(trial.levels): trial for trial in group}
        found: list[Cell] = []
        for name, level in base.levels.items():
            if level is None or name in ("target", "workload"):
                continue
            for other in self._levels(name, group):
                trial = known.get(key({**base.levels, name: other}))
                if trial is not None and choices(self.study, trial) != usual:
                    found.append({name: other})
        return found

    def size(self, trial: Trial) -> tuple[int, bool, str]:
        """Order cells: the most slots and nodes first, then those near the base, then by chance."""
        jobs = _number(trial.levels.get(self.slots))
        if self.nodes is not None:
            jobs *= _number(trial.levels.get(self.nodes))
        chance = hashlib.sha256(trial.cell.encode()).hexdigest()
        return -jobs, not self._is_first(trial), chance

    def _is_first(self, trial: Trial) -> bool:
        return all(
            trial.levels[name] in (None, levels[0])
            for name, levels in self.study.factors.items()
            if name not in ("target", "workload", self.slots, self.nodes)
        )

    def _levels(self, name: str, group: Sequence[Trial]) -> list[Any]:
        return [
            level
            for level in self.study.factors[name]
            if any(trial.levels[name] == level for trial in group)
        ]

    def _base(self, group: Sequence[Trial]) -> Trial | None:
        """Return the cell with the fewest slots and nodes and the first levels of the rest."""

        def place(trial: Trial) -> tuple[int, ...]:
            return tuple(
                _number(level)
                if name in (self.slots, self.nodes)
                else self.study.factors[name].index(level)
                for name, level in trial.levels.items()
                if level is not None and name not in ("target", "workload")
            )

        return min(group, key=place, default=None)


def _number(level: object) -> int:
    return level if isinstance(level, int) else 1


def _few(levels: Sequence[int]) -> int | None:
    """Return the level with a few slots: the largest up to `FEW` that others exceed."""
    ordered = sorted(levels)[1:-1]
    return max((level for level in ordered if level <= FEW), default=next(iter(ordered), None))


def _to_check(left: Sequence[Trial], choice: _Choice, wanted: int | None) -> list[str]:
    """Return cells that check the predictions, of each target and workload in turn.

    Those of the same target and workload differ in the words of their factors while they can.
    """
    groups = _groups({trial.cell: trial for trial in left})
    queues = [_by_words(sorted(group, key=choice.size), choice) for group in groups]
    count = sum(most for _, most in queues) if wanted is None else wanted
    return _in_turn([queue for queue, _ in queues], count)


def _by_words(group: Sequence[Trial], choice: _Choice) -> tuple[list[Trial], int]:
    """Return cells with one of each word first, and how many these are."""
    seen: set[tuple[str, str]] = set()
    first: list[Trial] = []
    for trial in group:
        words = choices(choice.study, trial).items()
        if not first or not seen.issuperset(words):
            first.append(trial)
            seen.update(words)
    rest = [trial for trial in group if trial not in first]
    return [*first, *rest], len(first)


def _in_turn(queues: Sequence[list[Trial]], count: int) -> list[str]:
    chosen: list[str] = []
    while len(chosen) < count and any(queues):
        for queue in queues:
            if queue and len(chosen) < count:
                chosen.append(queue.pop(0).cell)
    return chosen
