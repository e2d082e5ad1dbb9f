"""Text of factor levels: the label of the option that a factor varies, else its name and unit."""

from __future__ import annotations

import itertools
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from headrace import targets as target_package
from headrace import workloads as workload_package
from headrace.labels import Label, plain
from headrace.site import Site
from headrace.study.fields import find_field
from headrace.study.model import RunOptions
from headrace.units import QuantityField
from headrace.validation import field_paths, nested_models

_SECTIONS = ("run", "target", "workload", "site")


def level_words(factor: str, level: Any, target_kind: str, workload_kind: str) -> str:
    """Return a level as text for a name: `3 servers`, `xfs`, `read-ahead 128 KiB`, `no io-cache`.

    Returns an empty text for None: the factor does not apply. The kinds determine whose option the
    factor varies. If a kind is not installed or the option no longer exists, the text is the
    factor's name and the level as written.
    """
    if level is None:
        return ""
    if factor == "fault" and level == "none":
        return "no fault"
    parts = factor.split(".")
    own = parts[-1:] if parts[0] in ("target", "workload", "run") else parts[-2:]
    name = " ".join(own).replace("_", "-")
    option = _option(factor, target_kind, workload_kind)
    metadata = () if option is None else tuple(_metadata(option))
    for each in metadata:
        if isinstance(each, Label):
            return each.of(plain(level))
    if isinstance(level, bool):
        return name if level else f"no {name}"
    if isinstance(level, (int, float)):
        for each in metadata:
            if isinstance(each, QuantityField):
                return f"{name} {each.form(level)}"
    return f"{name} {plain(level)}"


def target_words(name: str, kind: str, kinds: frozenset[str] = frozenset()) -> str:
    """Return a target's name for reports: `GlusterFS` if its name in the study only abbreviates its
    kind.

    `kinds` are the kinds of the study's other targets: two targets of one kind keep their names.
    """
    part = target_package.kinds().get(kind)
    label = "" if part is None else part.label
    return label if label and kind.startswith(name.lower()) and kind not in kinds else name


@cache
def option_of(
    factor: str, target_kind: str, workload_kind: str
) -> tuple[str, tuple[str, ...]] | None:
    """Return the section and the path of the field that a factor varies; None when no model has it.

    The section is `run`, `target`, `workload` or `site`.
    """
    section, _, field = factor.partition(".")
    if section in ("target", "workload"):
        field = field.partition(".")[2]
    if section not in _SECTIONS:
        section, field = "", factor
    models = _models(target_kind, workload_kind)
    while field:
        for name, model in models.items():
            paths = find_field(model, field) if model is not None and section in ("", name) else ()
            if paths:
                return name, paths[0]
        # The name of a target or workload may have dots.
        field = field.partition(".")[2] if section in ("target", "workload") else ""
    return None


def _models(target_kind: str, workload_kind: str) -> dict[str, type[BaseModel] | None]:
    target, workload = (
        target_package.kinds().get(target_kind),
        workload_package.kinds().get(workload_kind),
    )
    return {
        "run": RunOptions,
        "target": None if target is None else target.Options,
        "workload": None if workload is None else workload.Options,
        "site": Site,
    }


def default_of(section: str, path: str, target_kind: str, workload_kind: str) -> object:
    """Return the default of a field as records have it; None where it has none, or is unknown."""
    model = _models(target_kind, workload_kind).get(section)
    names = tuple(path.split("."))
    if model is None or names not in field_paths(model):
        return None
    default = _field(model, names).get_default(call_default_factory=True, validated_data={})
    return None if default is PydanticUndefined else default


@cache
def _option(factor: str, target_kind: str, workload_kind: str) -> FieldInfo | None:
    """Return the field that a factor varies; None when no model has it."""
    found = option_of(factor, target_kind, workload_kind)
    model = None if found is None else _models(target_kind, workload_kind)[found[0]]
    return None if found is None or model is None else _field(model, found[1])


def _field(model: type[BaseModel], path: tuple[str, ...]) -> FieldInfo:
    for name, following in itertools.pairwise(path):
        inner = nested_models(model.model_fields[name].annotation)
        model = next(each for each in inner if following in each.model_fields)
    return model.model_fields[path[-1]]


def _metadata(option: FieldInfo) -> Iterator[Any]:
    yield from option.metadata
    yield from _annotations(option.annotation)


def _annotations(annotation: Any) -> Iterator[Any]:
    yield from getattr(annotation, "__metadata__", ())
    for argument in typing.get_args(annotation):
        yield from _annotations(argument)
