"""Whatever a field is given, the user reads Headrace's words.

Every type of pydantic's errors is translated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel
from pydantic_core._pydantic_core import list_all_errors

from headrace import faults, targets, workloads
from headrace.catalog.tables import TABLES
from headrace.document import Document
from headrace.refusals import BOUNDS, LENGTHS, MUST_BE, OTHERS, OWN
from headrace.site import Site
from headrace.study.model import PlanOptions, ReportOptions, RunOptions
from headrace.validation import Problems

PACKAGES: tuple[Any, ...] = (targets, workloads, faults)
MODELS: list[type[BaseModel]] = [
    PlanOptions,
    ReportOptions,
    RunOptions,
    Site,
    *TABLES.values(),
    *(kind.Options for package in PACKAGES for kind in package.kinds().values()),
]

# What a schema is built of, and which types of errors that can bring. `nothing`: by itself none.
NOTHING: tuple[str, ...] = ()
WHOLE = ("int_type", "int_parsing", "int_from_float", "int_parsing_size")
BROUGHT: dict[str, tuple[str, ...]] = {
    "any": NOTHING,
    "bool": ("bool_type", "bool_parsing"),
    "chain": NOTHING,
    "default": NOTHING,
    "definition-ref": NOTHING,
    "definitions": NOTHING,
    "dict": ("dict_type", "too_short", "too_long"),
    "float": ("float_type", "float_parsing", "finite_number", *BOUNDS),
    "function-after": OWN,
    "function-before": OWN,
    "function-plain": OWN,
    "function-wrap": OWN,
    "int": (*WHOLE, *BOUNDS),
    "list": ("list_type", "too_short", "too_long"),
    "literal": ("literal_error",),
    "model": ("model_type", "model_attributes_type"),
    "model-field": ("missing",),
    "model-fields": ("extra_forbidden", "invalid_key"),
    "no-info": NOTHING,
    "nullable": NOTHING,
    "str": (
        "string_type",
        "string_unicode",
        "string_pattern_mismatch",
        "string_too_short",
        "string_too_long",
    ),
    "tagged-union": ("union_tag_invalid", "union_tag_not_found"),
    "tuple": ("tuple_type", "too_short", "too_long", "missing", "extra_forbidden"),
    "union": NOTHING,
    "with-info": NOTHING,
}
TRANSLATED = {*MUST_BE, *BOUNDS, *LENGTHS, *OWN, *OTHERS}

PYDANTIC = re.compile(
    r"\b(input|valid|instance|dictionary|extracted|parse|str|int|NoneType|Literal|validat\w+|Options|Site\w+)\b"
)
"""Words that our own messages do not have."""


def schemas(node: Any) -> Iterator[str]:
    """The type of every node of a core schema."""
    if isinstance(node, dict):
        table = cast("dict[str, Any]", node)
        if isinstance(table.get("type"), str):
            yield table["type"]
        for name, inner in table.items():
            if name not in ("metadata", "serialization", "ref", "default", "expected"):
                yield from schemas(inner)
    elif isinstance(node, (list, tuple)):
        for inner in cast("list[Any]", node):
            yield from schemas(inner)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_type_of_error_that_a_model_can_bring_is_translated(model: type[BaseModel]) -> None:
    built_of = set(schemas(model.__pydantic_core_schema__))
    assert built_of <= set(BROUGHT), "a schema of a new type: which errors does it bring?"
    brought = {kind for each in built_of for kind in BROUGHT[each]}
    assert brought <= TRANSLATED


def test_the_table_holds_types_that_pydantic_has() -> None:
    known = {str(error["type"]) for error in list_all_errors()}
    assert known >= TRANSLATED
    assert {kind for kinds in BROUGHT.values() for kind in kinds} <= known


ODD: tuple[Any, ...] = (
    "",
    "no such word",
    -1,
    0,
    3,
    10**15,
    0.5,
    -2.5,
    1e18,
    True,
    [],
    [1],
    ["x"],
    {},
    {"a": 1},
)


def written(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """Tables that are wrong in one field: each of its fields with every kind of value.

    And in all of them.
    """
    names = list(model.model_fields)
    yield {}
    yield {"no_such_field": 1}
    for value in ODD:
        for name in names:
            yield {name: value}
            yield {name: [value, value]}
            yield {name: {"drive": value, "count": value, "a": {"drive": value}, "nodes": value}}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_no_word_of_pydantic_reaches_the_user(model: type[BaseModel]) -> None:
    for table in written(model):
        problems = Problems(Document(Path("s.toml"), table))
        problems.validated((), table, model)
        places = [fault.field for fault in problems.found]
        assert len(set(places)) == len(places), f"{table}: one place, one problem: {problems.found}"
        for fault in problems.found:
            assert fault.problem != "is not valid", (table, fault)
            # What is allowed may be the names of fields, one of which is `input`.
            said = (
                fault.problem
                if "unknown field" in fault.problem
                else f"{fault.problem} {fault.allowed}"
            )
            assert not PYDANTIC.search(said), (table, str(fault))
            assert not fault.problem[:1].isupper() or fault.problem.split()[0].isupper(), str(fault)


@pytest.mark.parametrize(
    ("model", "table", "said"),
    [
        (Site, {"node": 5}, "s.toml: node: must be a table (given: 5)"),
        (Site, {"node": {"drives": {"disk": 5}}}, "s.toml: node.drives.disk: must be text or a "
                                                  "table (given: 5)"),
        (Site, {"node": {"drives": {"disk": {"drive": "x", "count": 0}}}},
         "s.toml: node.drives.disk.count: is too small (given: 0); allowed: at least 1"),
        (Site, {"node": {"link": {"socket_buffer": "1 KiB"}}},
         's.toml: node.link.socket_buffer: is too small (given: "1 KiB"); allowed: at least 4 KiB'),
        (RunOptions, {"series_interval": "1 ms"},
         's.toml: series_interval: is too small (given: "1 ms"); allowed: at least 50 ms'),
        (RunOptions, {"slots": 1.5}, "s.toml: slots: must be a whole number (given: 1.5)"),
        (RunOptions, {"slot": 1}, 's.toml: slot: unknown field; did you mean "slots"?'),
        (RunOptions, {"verify": "perhaps"}, 's.toml: verify: must be true or false (given: '
                                            '"perhaps")'),
        (RunOptions, {"cache": "cool"}, 's.toml: cache: not one of the allowed values; did you '
                                        'mean "cold"?'),
        (ReportOptions, {"efficiency": 2}, "s.toml: efficiency: is too large (given: 2); allowed: "
                                           "at most 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_the_words(model: type[BaseModel], table: dict[str, Any], said: str) -> None:
    problems = Problems(Document(Path("s.toml"), table))
    problems.validated((), table, model)
    (fault,) = problems.found
    assert str(fault).startswith(said)
