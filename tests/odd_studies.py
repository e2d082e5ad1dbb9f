"""Study files with fields and levels of every kind, most of them possible one by one: for the fuzz
tests.

Fields come from the options of the registered kinds, values from the types of the fields.
"""

from __future__ import annotations

import copy
import tomllib
import typing
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import tomlkit
from hypothesis import strategies as st
from pydantic import BaseModel

from headrace import faults, targets, workloads
from headrace.refusals import annotation_of
from headrace.site import Site
from headrace.study.model import PlanOptions, ReportOptions, RunOptions
from headrace.validation import field_paths
from mutations import places

Value: typing.TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value]"
"""What a study file can hold."""
Document = dict[str, Value]

STUDIES = sorted((Path(__file__).parents[1] / "studies").rglob("*.toml"))
_NUMBERS = [0, 1, 2, 3, 7, -1, 0.5, 64, 4096, 10**6, 2**31, 2**63 - 1, 1e-308, 1e308, True]
_QUANTITIES = [
    "1 GB",
    "64 KiB",
    "1 B",
    "0 B",
    "8000 PB",
    "1e9 s",
    "1 ns",
    "10 s",
    "100 MB/s",
    "1 Gb/s",
]
_TEXTS = [
    "",
    "x",
    "/proc/self/mem",
    "~nosuch/x",
    "$HOME/a b",
    "$NOSUCH",
    "*.root",
    "http://[",
    "{slot}",
    "%s",
    "ü" * 300,
    "\n",
    "\\",
    "0 x 1 GbE",
    "999999999999 x 10 GbE",
    "4 x 1 GbE",
    "seagate-st3750640ns",
    "ext4",
    "ext4-rhel5",
    "none",
    "store",
    "nfs",
]
_TABLES: list[Value] = [
    {},
    {"a": 1},
    {"drive": "seagate-st3750640ns", "count": 3},
    {"count": 10**9},
]
_ARRAYS: list[Value] = [[], [1], ["a"], [[]], [{}], [1, 2, 4, 8]]
_ANY: list[Value] = [*_NUMBERS, *_QUANTITIES, *_TEXTS, *_TABLES, *_ARRAYS]


def _fitting(annotation: Any) -> list[Value]:
    """Values that a field of this type may take, at least by their form."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if annotation is bool:
        return [True, False]
    if annotation in (int, float):
        return [*_NUMBERS, *_QUANTITIES]
    if annotation is str:
        return _TEXTS
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _TABLES
    if get_origin(annotation) in (list, tuple, set):
        return [*_ARRAYS, *_TEXTS]
    return [value for inner in get_args(annotation) for value in _fitting(inner)]


_SECTIONS: dict[str, type[BaseModel]] = {
    "run": RunOptions,
    "site": Site,
    "plan": PlanOptions,
    "report": ReportOptions,
}
_KINDS: dict[str, dict[str, type[BaseModel]]] = {
    "target": {name: kind.Options for name, kind in targets.kinds().items()},
    "workload": {name: kind.Options for name, kind in workloads.kinds().items()},
}
_FAULTS: dict[str, type[BaseModel]] = {name: kind.Options for name, kind in faults.kinds().items()}


@st.composite
def _value(draw: st.DrawFn, model: type[BaseModel], path: tuple[str, ...]) -> Value:
    fitting = _fitting(annotation_of(model, list(path))) if draw(st.integers(0, 9)) else []
    return copy.deepcopy(draw(st.sampled_from(fitting or _ANY)))


def _inner(table: Document, name: str) -> Document:
    """The table of that name, made where there is none."""
    found = table.get(name)
    if not isinstance(found, dict):
        found = table[name] = {}
    return found


def _parts(document: Document, room: str) -> list[Document]:
    """The targets or workloads of a known kind."""
    return [
        part
        for part in _inner(document, room).values()
        if isinstance(part, dict) and part.get("kind") in _KINDS[room]
    ]


def _put(table: Document, path: tuple[str, ...], value: Value) -> None:
    for name in path[:-1]:
        table = _inner(table, name)
    table[path[-1]] = value


@st.composite
def _set_field(draw: st.DrawFn, document: Document) -> None:
    section = draw(st.sampled_from([*_SECTIONS, "target", "target", "workload", "workload"]))
    if section in _SECTIONS:
        model, table = _SECTIONS[section], _inner(document, section)
    else:
        parts = _parts(document, section)
        if not parts:
            return
        table = draw(st.sampled_from(parts))
        model = _KINDS[section][str(table["kind"])]
    path = draw(st.sampled_from(field_paths(model)))
    _put(table, path, draw(_value(model, path)))


@st.composite
def _set_factor(draw: st.DrawFn, document: Document) -> None:
    models = [
        _KINDS[section][str(part["kind"])]
        for section in ("target", "workload")
        for part in _parts(document, section)
    ]
    model = draw(st.sampled_from([*models, RunOptions, Site]))
    path = draw(st.sampled_from(field_paths(model)))
    levels = draw(st.lists(_value(model, path), min_size=1, max_size=3))
    name = ".".join(path[-2:] if draw(st.booleans()) else path[-1:])
    _inner(document, "factors")[name] = levels


@st.composite
def _set_kind(draw: st.DrawFn, document: Document) -> None:
    section = draw(st.sampled_from(["target", "workload"]))
    names = _inner(document, section)
    name = draw(st.sampled_from([*names, "a b", "x.y", "ü"]))
    _inner(names, name)["kind"] = draw(st.sampled_from(sorted(_KINDS[section])))


@st.composite
def _set_fault(draw: st.DrawFn, document: Document) -> None:
    what = draw(st.sampled_from(sorted(_FAULTS)))
    fault: Document = {"what": what}
    for path in draw(st.lists(st.sampled_from(field_paths(_FAULTS[what])), max_size=4)):
        if path != ("what",):
            _put(fault, path, draw(_value(_FAULTS[what], path)))
    document["fault"] = [fault]


@st.composite
def _replace(draw: st.DrawFn, document: Document) -> None:
    *path, key = draw(st.sampled_from(list(places(document))))
    inner: Any = document
    for part in path:
        inner = inner[part]
    if draw(st.booleans()) and isinstance(inner, dict):
        del inner[key]
    else:
        inner[key] = copy.deepcopy(draw(st.sampled_from(_ANY)))


@st.composite
def odd_study(draw: st.DrawFn) -> str:
    """The text of a study file that Headrace comes with, with one to three fields, levels, kinds or
    faults set."""
    document = copy.deepcopy(draw(st.sampled_from(_DOCUMENTS)))
    edits = [_set_field, _set_field, _set_factor, _set_kind, _set_fault]
    for edit in draw(st.lists(st.sampled_from(edits), min_size=1, max_size=3)):
        draw(edit(document))
    if not draw(st.integers(0, 3)):
        draw(_replace(document))
    return tomlkit.dumps(document)


_DOCUMENTS: list[Document] = [tomllib.loads(file.read_text()) for file in STUDIES]
