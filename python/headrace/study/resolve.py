"""Step 1c of the way: the options of one cell, its levels put into the fields they vary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace import targets as target_room
from headrace import workloads as workload_room
from headrace.study.fields import anchor_drives, with_level
from headrace.study.load import FAULT, find_factor
from headrace.study.model import RunOptions, Site, Study


@dataclass(frozen=True)
class Resolved:
    """Everything that one cell of a study is, typed."""

    target_kind: str
    target_options: Any
    workload_kind: str
    workload_options: Any
    run: RunOptions
    site: Site | None
    faults: tuple[Any, ...] = ()
    """Options of the faults that strike this cell."""


def applies(study: Study, factor: str, target: str, workload: str) -> bool:
    """Whether a factor varies anything in a cell of this target and workload."""
    if factor in ("target", "workload"):
        return True
    if factor == FAULT:
        return any(each.target in (None, target) for each in study.faults)
    wanted = {"target": target, "workload": workload}
    return any(
        address.part is None or address.part == wanted.get(address.room)
        for address in find_factor(study, factor)
    )


def hard_to_change(study: Study, factor: str, target: str) -> bool:
    """Whether changing the factor's level means that the target has to come to be anew (a whole plot)."""
    if factor == "target":
        return True
    settings = target_room.kinds()[study.targets[target].kind].settings
    for address in find_factor(study, factor):
        if address.room == "site":
            return True
        if address.room == "target" and address.part == target and address.field not in settings:
            return True
    return False


def resolve(study: Study, target: str, workload: str, levels: Mapping[str, Any]) -> Resolved:
    """Puts levels into options. Levels of None (factor does not apply) leave the field as the study has it."""
    target_part, workload_part = study.targets[target], study.workloads[workload]
    target_model = target_room.kinds()[target_part.kind].Options
    workload_model = workload_room.kinds()[workload_part.kind].Options
    tables: dict[str, dict[str, Any]] = {
        "target": target_part.written,
        "workload": workload_part.written,
        "run": study.run_options.model_dump(exclude_unset=True),
        "site": {} if study.site is None else study.site.model_dump(exclude_unset=True),
    }
    names = {"target": target, "workload": workload}
    for factor, level in levels.items():
        if factor in ("target", "workload", FAULT) or level is None:
            continue
        for address in find_factor(study, factor):
            if address.part is None or address.part == names.get(address.room):
                tables[address.room] = with_level(
                    tables[address.room], tuple(address.field.split(".")), level
                )
    for name in getattr(target_model, "path_fields", ()):
        if isinstance(tables["target"].get(name), str):
            path = study.base / Path(tables["target"][name]).expanduser()
            tables["target"] = {**tables["target"], name: str(path)}
    for name in getattr(workload_model, "path_fields", ()):
        # A name without an ending is an entry of the catalog.
        if str(tables["workload"].get(name, "")).endswith(".toml"):
            path = study.base / Path(tables["workload"][name]).expanduser()
            tables["workload"] = {**tables["workload"], name: str(path)}
    for name in ("target", "site"):
        tables[name] = anchor_drives(tables[name], study.base)
    return Resolved(
        target_kind=target_part.kind,
        target_options=target_model.model_validate(tables["target"]),
        workload_kind=workload_part.kind,
        workload_options=workload_model.model_validate(tables["workload"]),
        run=RunOptions.model_validate(tables["run"]),
        site=Site.model_validate(tables["site"]) if study.site is not None or tables["site"] else None,
        faults=_faults(study, target, levels.get(FAULT)),
    )


def _faults(study: Study, target: str, level: Any) -> tuple[Any, ...]:
    """The faults of a cell: those of its target, and of the one level when they are a factor."""
    return tuple(
        each
        for each in study.faults
        if each.target in (None, target) and (level is None or each.label == level)
    )
