"""Step 1 of the pipeline: find the fields that factors vary and check their levels."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import BaseModel, ValidationError

from headrace.document import FieldPath, shown
from headrace.registry import nearest
from headrace.site import Site
from headrace.study.fields import Address, find_field, with_level
from headrace.study.model import NamedPlugin, RunOptions, Study
from headrace.study.parts import PartsReader, kinds_of, source_of
from headrace.validation import Problems, field_paths

FAULT = "fault"
"""Name of the factor that varies which of the study's faults is injected."""
NO_FAULT = "none"
"""Level of that factor for no fault."""
_MOST_TRIED = 1000
"""Combinations of other levels that are tried for a level; beyond, each cell is checked alone."""


@dataclass(frozen=True)
class _Apart:
    """A level that cannot be had beside some levels of other factors."""

    name: str
    level: Any
    at: FieldPath
    beside: dict[str, Any]
    problem: str


class FactorsReader:
    """Reads `[factors]`, `[[exclude]]` and `[[only]]` of a study whose parts are already read."""

    def __init__(self, problems: Problems, parts: PartsReader, study: Study) -> None:
        self.problems = problems
        self._parts = parts
        self._study = study
        self._levels: dict[str, list[Any]] = {}
        self._apart: list[_Apart] = []

    def factors(self) -> dict[str, list[Any]]:
        """Return every factor with its levels as written; `target` and `workload` come first."""
        study = self._study
        table = (
            self.problems.table(("factors",), self.problems.document.values.get("factors", {}))
            or {}
        )
        # A target that only supplies a workload's input is tested only if a level names it.
        sources = {source_of(part) for part in study.workloads.values()}
        tested = [name for name in study.targets if name not in sources] or list(study.targets)
        found: dict[str, list[Any]] = {"target": tested, "workload": list(study.workloads)}
        self._levels = {
            name: value if isinstance(value, list) else [value] for name, value in _flat(table)
        }
        for name, levels in self._levels.items():
            path: FieldPath = ("factors", *name.split("."))
            if not levels:
                self.problems.add(path, "a factor needs at least one level", given=levels)
                continue
            for index, level in enumerate(levels):
                if level in levels[:index]:
                    self.problems.add((*path, index), "duplicate level", given=level)
            if name in ("target", "workload"):
                known = list(study.targets if name == "target" else study.workloads)
                written = self.problems.document.values.get(name)
                for index, level in enumerate(levels):
                    if isinstance(written, dict) and isinstance(level, str) and level in written:
                        continue  # what is wrong with it is reported already
                    self.problems.choice((*path, index), level, known, f"no such {name}")
            else:
                self._check_levels(name, path, levels)
            found[name] = levels
        return found

    def _check_levels(self, name: str, path: FieldPath, levels: list[Any]) -> None:
        if name == FAULT:
            self._check_fault_levels(path, levels)
            return
        addresses = find_factor(self._study, name)
        if not addresses:
            known = factor_names(self._study)
            near = nearest(name, known)
            problem = "no target, workload or run field has this name"
            problem += f'; did you mean "{near}"?' if near else ""
            if name.startswith("run.batch."):
                problem = (
                    '"run.batch" can only be varied as a whole: each level is a table of all fields'
                )
            self.problems.add(path, problem, given=name, allowed=", ".join(known))
            return
        if len({address.section for address in addresses}) > 1:
            both = ", ".join(
                sorted(
                    f"{a.section}.{a.part}.{a.field}" if a.part else f"{a.section}.{a.field}"
                    for a in addresses
                )
            )
            problem = "the name fits more than one field; write the full name of one of them"
            self.problems.add(path, problem, given=name, allowed=both)
            return
        made: list[list[BaseModel]] = []
        for index, level in enumerate(levels):
            options = self._check_level(name, addresses, path, index)
            if options and options in made and level not in levels[:index]:
                same = shown(levels[made.index(options)])
                self.problems.add((*path, index), f"duplicate level: {same}", given=level)
            made.append(options)

    def _check_level(
        self, name: str, addresses: list[Address], path: FieldPath, index: int
    ) -> list[BaseModel]:
        """Return what each field's table is with the level; nothing where that is not known."""
        level, at = self._levels[name][index], (*path, index)
        before = len(self.problems.found)
        made: list[BaseModel] = []
        for address in addresses:
            if self._faulty(address):
                continue  # its own problems are reported already
            model, written = self._owner(address)
            field = tuple(address.field.split("."))
            self._parts.known_entries(path, with_level({}, field, level), at=at)
            table = self._parts.anchored(path, model, with_level(written, field, level), at=at)
            if self._needs_other_levels(name, address, model, table, at):
                continue
            options = self.problems.validated(path, table, model, at=at)
            if options is not None and len(self.problems.found) == before:
                self._parts.check_own_files(path, options, at=at)
            if options is None or len(self.problems.found) > before:
                return []
            made.append(options)
        return made if len(made) == len(addresses) else []

    def _needs_other_levels(
        self,
        name: str,
        address: Address,
        model: type[BaseModel],
        table: dict[str, Any],
        at: FieldPath,
    ) -> bool:
        """Return whether a level is refused beside the fields as written, and not beside some
        levels of the other factors; `check_together` tells of those that it cannot be had with.
        """
        if not _refused_together(model, table):
            return False
        level = self._levels[name][cast("int", at[-1])]
        others = [
            (other, tuple(each.field.split(".")), self._levels[other])
            for other in self._levels
            if other != name
            for each in find_factor(self._study, other)
            if (each.section, each.part) == (address.section, address.part)
        ]
        if math.prod(len(levels) for _, _, levels in others) > _MOST_TRIED:
            return True
        accepted, refused = False, list[_Apart]()
        for chosen in itertools.product(*(levels for _, _, levels in others)):
            tried = table
            for (_, field, _), other_level in zip(others, chosen, strict=True):
                tried = with_level(tried, field, other_level)
            problem = _refused_together(model, tried)
            accepted |= not problem
            if problem:
                beside = {other: level for (other, _, _), level in zip(others, chosen, strict=True)}
                refused.append(_Apart(name, level, at, beside, problem))
        self._apart += refused if accepted else []
        return accepted

    def check_together(self, exclude: list[dict[str, list[Any]]], *, only: bool) -> None:
        """Add the levels that cannot be combined and that no `[[exclude]]` mentions.

        With an `[[only]]`, and where an `[[exclude]]` names further factors, the cells are checked
        one by one before a run.
        """
        for each in () if only else self._apart:
            cell = {each.name: each.level, **each.beside}
            if any(_touches(partial, cell) for partial in exclude):
                continue
            beside = ", ".join(f"{name} = {shown(level)}" for name, level in each.beside.items())
            self.problems.add(
                each.at,
                f"cannot be combined with {beside}: {each.problem}",
                given=each.level,
                allowed="other levels; [[exclude]] leaves combinations out",
            )

    def _check_fault_levels(self, path: FieldPath, levels: list[Any]) -> None:
        labels = dict.fromkeys(each.label for each in self._study.faults if each is not None)
        if None in self._study.faults:
            return  # its own problem is named, and its label is not known
        if not labels:
            self.problems.add(path, "the study has no [[fault]] to vary")
            return
        for index, level in enumerate(levels):
            self.problems.choice((*path, index), level, [NO_FAULT, *labels], "no such fault")

    def _faulty(self, address: Address) -> bool:
        parts = {"target": self._study.targets, "workload": self._study.workloads}.get(
            address.section
        )
        return parts is not None and parts[str(address.part)].options is None

    def _owner(self, address: Address) -> tuple[type[BaseModel], dict[str, Any]]:
        study = self._study
        if address.section in ("target", "workload"):
            part = (study.targets if address.section == "target" else study.workloads)[
                str(address.part)
            ]
            return kinds_of(address.section)[part.kind].Options, part.written
        if address.section == "run":
            return RunOptions, study.run_options.model_dump(exclude_unset=True)
        return Site, (study.site or Site.model_validate({})).model_dump(exclude_unset=True)

    def partial_cells(
        self, name: Literal["exclude", "only"], factors: dict[str, list[Any]]
    ) -> list[dict[str, list[Any]]]:
        """Return the partial cells of `[[exclude]]` or `[[only]]`: factor -> levels."""
        found: list[dict[str, list[Any]]] = []
        values = self.problems.document.values.get(name, [])
        for place, table in self.problems.tables((name,), values):
            cell: dict[str, list[Any]] = {}
            for factor, value in _flat(table):
                path: FieldPath = (*place, *factor.split("."))
                if factor not in factors:
                    self.problems.unknown(path, factor, list(factors))
                    continue
                wanted: list[Any] = value if isinstance(value, list) else [value]
                for level in wanted:
                    if level not in factors[factor]:
                        allowed = ", ".join(map(str, factors[factor]))
                        self.problems.add(
                            path, "the factor has no such level", given=level, allowed=allowed
                        )
                cell[factor] = wanted
            if not table:
                does = "excludes" if name == "exclude" else "keeps"
                self.problems.add(place, f"{does} everything: it names no factor")
            elif cell:
                found.append(cell)
        return found


def _refused_together(model: type[BaseModel], table: dict[str, Any]) -> str:
    """Return the problem of fields of a table together, if it has no other; else empty text."""
    try:
        model.model_validate(table)
    except ValidationError as error:
        found = error.errors(include_url=False)
        if all(not each["loc"] for each in found):
            return found[0]["msg"].removeprefix("Value error, ")
    return ""


def _touches(partial: dict[str, list[Any]], cell: dict[str, Any]) -> bool:
    """Return whether a partial cell may match a cell of which some levels are known."""
    common = partial.keys() & cell.keys()
    return bool(common) and all(cell[name] in partial[name] for name in common)


def _flat(table: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Flatten nested tables: `link.rate = […]` and `[factors.link] rate = […]` are one factor."""
    found: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, dict):
            found += _flat(cast("dict[str, Any]", value), f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found


def find_factor(study: Study, name: str) -> list[Address]:
    """Return every field that a factor varies; none when no part has it."""
    head, _, rest = name.partition(".")
    if head == "run" and rest:
        return [Address("run", None, rest)] if rest in RunOptions.model_fields else []
    if head in ("target", "workload") and rest:
        parts = study.targets if head == "target" else study.workloads
        # Names may have dots; of `a` and `a.b`, `a.b.size` is of the second.
        owners = [name for name in parts if rest.startswith(f"{name}.")]
        owner = max(owners, key=len, default="")
        return _in_part(head, parts[owner], rest[len(owner) + 1 :]) if owner else []
    if name == FAULT and study.faults:
        return [Address("fault", None, name)]
    if name in RunOptions.model_fields:
        return [Address("run", None, name)]
    found = [
        address for part in study.targets.values() for address in _in_part("target", part, name)
    ]
    found += [
        address for part in study.workloads.values() for address in _in_part("workload", part, name)
    ]
    if not found:
        inner = rest if head == "site" else name
        found = [Address("site", None, ".".join(path)) for path in find_field(Site, inner)]
        if not found and inner.startswith("node.drives."):
            # A mapping: its keys are names chosen by the study.
            found = [Address("site", None, inner)]
    return found


def _in_part(section: str, part: NamedPlugin, field: str) -> list[Address]:
    options = kinds_of(section)[part.kind].Options
    return [Address(section, part.name, ".".join(path)) for path in find_field(options, field)]


def factor_names(study: Study) -> list[str]:
    """Return the names that a factor of this study may have, without the qualified forms."""
    names: list[str] = ["target", "workload", *RunOptions.model_fields]
    for section, parts in (("target", study.targets), ("workload", study.workloads)):
        for part in parts.values():
            names.extend(path[-1] for path in field_paths(kinds_of(section)[part.kind].Options))
    return list(dict.fromkeys(names))
