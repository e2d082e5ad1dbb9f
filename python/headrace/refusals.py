"""Base layer: messages for invalid values.

Each of pydantic's error types for values of a TOML file has one entry here; pydantic's own messages
("valid dictionary or instance of SiteNodes") never reach the user.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from headrace.registry import nearest
from headrace.units import QuantityField

MUST_BE: dict[str, str] = {
    **dict.fromkeys(("string_type", "string_unicode", "string_not_ascii"), "text"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "int_parsing_size": "a whole number below 2^63",
    "finite_number": "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(
        ("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), "an array"
    ),
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"),
        "a table",
    ),
    "none_required": "left out",
}
"""Error types that say which type was expected."""

BOUNDS: dict[str, tuple[str, str, str]] = {
    "greater_than": ("is too small", "more than {}", "gt"),
    "greater_than_equal": ("is too small", "at least {}", "ge"),
    "less_than": ("is too large", "less than {}", "lt"),
    "less_than_equal": ("is too large", "at most {}", "le"),
    "multiple_of": ("does not fit", "multiples of {}", "multiple_of"),
}
"""Error types of a number: problem, what is allowed, key of the bound in pydantic's context."""

LENGTHS: dict[str, tuple[str, str, str]] = {
    "string_too_short": ("is too short", "at least {} characters", "min_length"),
    "string_too_long": ("is too long", "at most {} characters", "max_length"),
    "too_short": ("has too few entries", "at least {}", "min_length"),
    "too_long": ("has too many entries", "at most {}", "max_length"),
}
"""Error types of the length of a text or array, in the same form."""

OWN = ("value_error", "assertion_error")
"""Error types whose message is our own."""

OTHERS = (
    "missing",
    "extra_forbidden",
    "literal_error",
    "enum",
    "union_tag_invalid",
    "union_tag_not_found",
    "string_pattern_mismatch",
    "invalid_key",
)
"""Error types that `refusal` handles individually."""


def refusal(
    item: Mapping[str, Any], siblings: list[str], annotation: Any = None
) -> tuple[str, str]:
    """Return what is wrong and what is allowed, for one of pydantic's errors.

    `siblings` are the fields that the table may have, `annotation` is the type of the field.
    """
    kind, context = str(item["type"]), item.get("ctx") or {}
    if kind in MUST_BE:
        return f"must be {MUST_BE[kind]}", ""
    if kind in BOUNDS:
        problem, allowed, key = BOUNDS[kind]
        return problem, allowed.format(_bound(context[key], annotation))
    if kind in LENGTHS:
        problem, allowed, key = LENGTHS[kind]
        if context[key] == 1:
            return "must not be empty", ""
        return problem, allowed.format(context[key])
    if kind in OWN:
        return str(context.get("error", "is not valid")), ""
    return _other(kind, item, context, siblings)


_FORMS: dict[str, str] = {}
"""What each pattern allows, in words."""


def form(pattern: str, words: str) -> str:
    """Return a pattern for a field of text; a message says `words` instead of it."""
    _FORMS[pattern] = words
    return pattern


def _other(
    kind: str, item: Mapping[str, Any], context: Mapping[str, Any], siblings: list[str]
) -> tuple[str, str]:
    if kind == "extra_forbidden":
        name = str(item["loc"][-1])
        if name in siblings:  # of another form of this table
            return "unknown field here: it does not go with the other fields of this table", ""
        return meant("unknown field", name, siblings), ", ".join(siblings)
    if kind in ("missing", "union_tag_not_found"):
        return "is missing", ""
    if kind in ("literal_error", "enum", "union_tag_invalid"):
        expected = str(context.get("expected", context.get("expected_tags", "")))
        allowed = expected.replace(" or ", ", ").replace("'", '"')
        words = [word.strip(' "') for word in allowed.split(",")]
        given = str(context.get("tag", item["input"]))
        return meant("not one of the allowed values", given, words), allowed
    if kind == "string_pattern_mismatch":
        pattern = str(context.get("pattern", ""))
        return "has the wrong form", _FORMS.get(pattern, pattern)
    if kind == "invalid_key":
        return "the name of a field must be text", ""
    return "is not valid", ""


def discriminator(item: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the discriminator field of a union, for an error about that field; else nothing."""
    if str(item["type"]).startswith("union_tag_"):
        return (str((item.get("ctx") or {})["discriminator"]).strip("'"),)
    return ()


def meant(problem: str, word: str, allowed: list[str]) -> str:
    """Return the problem, with the closest allowed word as a suggestion."""
    near = nearest(word, allowed)
    return f'{problem}; did you mean "{near}"?' if near else problem


def _bound(value: Any, annotation: Any) -> str:
    """Return a bound as the user writes it: with the unit of a size, rate or time."""
    for quantity in _quantities(annotation):
        return quantity.form(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _quantities(annotation: Any) -> list[QuantityField]:
    """Return the quantities that a field's value may be, of every member of a union."""
    found = [
        each for each in getattr(annotation, "__metadata__", ()) if isinstance(each, QuantityField)
    ]
    return found + [each for inner in typing.get_args(annotation) for each in _quantities(inner)]


def annotation_of(model: type[BaseModel], names: list[str]) -> Any:
    """Return the type of a field by its path through nested models; None when unknown.

    A table of tables by name, such as `[site.server.NAME]`, takes any name.
    """
    if not names or names[0] not in model.model_fields:
        return None
    field = model.model_fields[names[0]]
    whole = (
        typing.Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    )
    if len(names) == 1:
        return whole
    inner = [annotation_of(each, names[1:]) for each in nested_models(field.annotation)]
    for named in _named(field.annotation):
        found = [annotation_of(each, names[2:]) for each in nested_models(named)]
        inner += [named] if len(names) == 2 else found
    return next((each for each in inner if each is not None), None)


def fields_of(model: type[BaseModel], names: list[str]) -> list[str]:
    """Return the fields that the table at a path may have, through nested models and tables by
    name; of every form that it may have."""
    if not names:
        return list(model.model_fields)
    annotation = annotation_of(model, names)
    found = [name for each in nested_models(annotation) for name in each.model_fields]
    return list(dict.fromkeys(found))


def _named(annotation: Any) -> list[Any]:
    """Return the types of the values of a table by names, of every member of a union."""
    if typing.get_origin(annotation) is dict:
        return [typing.get_args(annotation)[1]]
    if typing.get_origin(annotation) in (list, tuple, set, frozenset):
        return []
    return [named for inner in typing.get_args(annotation) for named in _named(inner)]


def nested_models(annotation: Any) -> list[type[BaseModel]]:
    """Return the models an annotation allows: itself or members of a union, not of collections."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    origin = typing.get_origin(annotation)
    if origin in (list, dict, tuple, set, frozenset):
        return []
    return [model for argument in typing.get_args(annotation) for model in nested_models(argument)]
