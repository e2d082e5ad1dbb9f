"""Step 1c of the pipeline: the options of one cell, with its levels in the fields they vary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from headrace import targets as target_package
from headrace import workloads as workload_package
from headrace.document import dotted, shown
from headrace.errors import FileProblem, StudyError
from headrace.site import Site
from headrace.study.factors import FAULT, NO_FAULT, find_factor
from headrace.study.fields import anchor_drives, anchored_fields, with_level
from headrace.study.model import RunOptions, Study
from headrace.targets.server_options import SERVER_SETTINGS
from headrace.validation import Model, Refusal, refusals


@dataclass(frozen=True)
class Resolved:
    """Everything that defines one cell of a study, typed."""

    target_kind: str
    target_options: Any
    workload_kind: str
    workload_options: Any
    run: RunOptions
    site: Site | None
    faults: tuple[Any, ...] = ()
    """Options of the faults that affect this cell."""


def applies(study: Study, factor: str, target: str, workload: str) -> bool:
    """Return whether a factor varies anything in a cell of this target and workload."""
    if factor in ("target", "workload"):
        return True
    if factor == FAULT:
        return any(each.target in (None, target) for each in study.faults)
    wanted = {"target": target, "workload": workload}
    return any(
        address.part is None or address.part == wanted.get(address.section)
        for address in find_factor(study, factor)
    )


def levels(study: Study, factor: str, target: str) -> list[Any]:
    """Return the levels of a factor that differ for this target, at least one.

    A fault of another target would be a second cell without a fault.
    """
    every = study.factors[factor]
    if factor != FAULT:
        return every
    affecting = {each.label for each in study.faults if each.target in (None, target)}
    return [level for level in every if level == NO_FAULT or level in affecting] or every[:1]


def hard_to_change(study: Study, factor: str, target: str) -> bool:
    """Return whether a new level of the factor requires a new set-up of the target.

    Such a factor has one level within a whole plot.
    """
    if factor == "target":
        return True
    settings = target_package.kinds()[study.targets[target].kind].settings | SERVER_SETTINGS
    for address in find_factor(study, factor):
        if address.section == "site" or (
            address.section == "run" and address.field in ("on", "batch")
        ):
            return True
        if address.section == "target" and address.part == target and address.field not in settings:
            return True
    return False


def resolve(study: Study, target: str, workload: str, levels: Mapping[str, Any]) -> Resolved:
    """Put levels into options. A level of None (factor does not apply) leaves the field unchanged.

    Raises StudyError for levels that are valid one by one but not together.
    """
    try:
        return _resolved(study, target, workload, levels)
    except _NotTogetherError as error:
        raise StudyError([_not_together(study, levels, each) for each in error.found]) from None


class _NotTogetherError(Exception):
    """Options are refused after levels were put into them."""

    def __init__(self, found: list[Refusal]) -> None:
        super().__init__()
        self.found = found


def _checked(model: type[Model], table: dict[str, Any]) -> Model:
    """Return a table as its model. Raises _NotTogetherError."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise _NotTogetherError(refusals(error, table, model)) from None


def _not_together(study: Study, levels: Mapping[str, Any], refused: Refusal) -> FileProblem:
    cell = ", ".join(
        f"{factor} = {shown(level)}" for factor, level in levels.items() if level is not None
    )
    place, _, problem, allowed = refused
    problem += f" (allowed: {allowed})" if allowed else ""
    field = dotted(place)
    return FileProblem(
        study.file,
        0,
        f"factors{f' ({field})' if field else ''}",
        cell,
        f"these levels cannot be combined: {problem}",
        "exclude them with [[exclude]]",
    )


def _resolved(study: Study, target: str, workload: str, levels: Mapping[str, Any]) -> Resolved:
    target_part, workload_part = study.targets[target], study.workloads[workload]
    target_model = target_package.kinds()[target_part.kind].Options
    workload_model = workload_package.kinds()[workload_part.kind].Options
    tables: dict[str, dict[str, Any]] = {
        "target": target_part.written,
        "workload": workload_part.written,
        "run": study.run_options.model_dump(exclude_unset=True),
        "site": {} if study.site is None else study.site.model_dump(exclude_unset=True),
    }
    names = {"target": target, "workload": workload}
    varied: dict[str, set[str]] = {name: set() for name in tables}
    for factor, level in levels.items():
        if factor in ("target", "workload", FAULT) or level is None:
            continue
        for address in find_factor(study, factor):
            if address.part is None or address.part == names.get(address.section):
                field = tuple(address.field.split("."))
                tables[address.section] = with_level(tables[address.section], field, level)
                varied[address.section].add(field[0])
    for name, model in (("target", target_model), ("workload", workload_model)):
        # The other fields were made absolute when the study was read.
        levels_of = {field: tables[name][field] for field in varied[name]}
        tables[name] = {**tables[name], **anchored_fields(model, levels_of, study.base)[0]}
    for name in ("target", "site"):
        tables[name] = anchor_drives(tables[name], study.base)
    return Resolved(
        target_kind=target_part.kind,
        target_options=_checked(target_model, tables["target"]),
        workload_kind=workload_part.kind,
        workload_options=_checked(workload_model, tables["workload"]),
        run=_checked(RunOptions, tables["run"]),
        site=_checked(Site, tables["site"]) if study.site is not None or tables["site"] else None,
        faults=_faults(study, target, levels.get(FAULT)),
    )


def _faults(study: Study, target: str, level: Any) -> tuple[Any, ...]:
    """Return the faults of a cell: those of its target and, if a factor, of the level."""
    return tuple(
        each
        for each in study.faults
        if each.target in (None, target) and (level is None or each.label == level)
    )
