"""Step 1 of the pipeline: find the fields that factors vary and check their levels."""

from __future__ import annotations

from typing import Any, Literal, cast

from pydantic import BaseModel

from headrace.document import FieldPath
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


class FactorsReader:
    """Reads `[factors]`, `[[exclude]]` and `[[only]]` of a study whose parts are already read."""

    def __init__(self, problems: Problems, parts: PartsReader, study: Study) -> None:
        self.problems = problems
        self._parts = parts
        self._study = study

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
        for name, value in _flat(table):
            path: FieldPath = ("factors", *name.split("."))
            levels: list[Any] = value if isinstance(value, list) else [value]
            if not levels:
                self.problems.add(path, "a factor needs at least one level", given="[]")
                continue
            for index, level in enumerate(levels):
                if level in levels[:index]:
                    self.problems.add((*path, index), "duplicate level", given=level)
            if name in ("target", "workload"):
                known = list(study.targets if name == "target" else study.workloads)
                for index, level in enumerate(levels):
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
                    '"run.batch" is varied as a whole: its levels are tables of all its fields'
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
            problem = "the name fits more than one field; name one of them whole"
            self.problems.add(path, problem, given=name, allowed=both)
            return
        for index, level in enumerate(levels):
            self._check_level(addresses, path, index, level)

    def _check_level(
        self, addresses: list[Address], path: FieldPath, index: int, level: Any
    ) -> None:
        at: FieldPath = (*path, index)
        before = len(self.problems.found)
        for address in addresses:
            if self._faulty(address):
                continue  # its own problems are reported already
            model, written = self._owner(address)
            field = tuple(address.field.split("."))
            self._parts.known_entries(path, with_level({}, field, level), at=at)
            table = self._parts.anchored(path, model, with_level(written, field, level), at=at)
            options = self.problems.validated(path, table, model, at=at)
            if options is not None and len(self.problems.found) == before:
                self._parts.check_own_files(path, options, at=at)
            if len(self.problems.found) > before:
                return

    def _check_fault_levels(self, path: FieldPath, levels: list[Any]) -> None:
        labels = dict.fromkeys(each.label for each in self._study.faults if each is not None)
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
        part, _, field = rest.partition(".")
        parts = study.targets if head == "target" else study.workloads
        return _in_part(head, parts[part], field) if part in parts and field else []
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
