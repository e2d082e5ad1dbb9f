"""Check tables of a TOML document against models: the only module that reads pydantic's errors.

Study files and catalog entries share it. Every problem becomes a `FileProblem` with file, line and
field.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from headrace.document import Document, FieldPath, dotted, shown
from headrace.errors import FileProblem, UsageError
from headrace.refusals import (
    MUST_BE,
    annotation_of,
    discriminator,
    fields_of,
    meant,
    nested_models,
    refusal,
)

NamePath = tuple[str, ...]
_ARRAYS = (list, tuple, set, frozenset)
Model = TypeVar("Model", bound=BaseModel)


@cache
def field_paths(model: type[BaseModel]) -> tuple[NamePath, ...]:
    """Return every field of a model and of its nested models, shallow ones first."""
    level: list[tuple[NamePath, type[BaseModel]]] = [((), model)]
    paths: list[NamePath] = []
    while level:
        deeper: list[tuple[NamePath, type[BaseModel]]] = []
        for prefix, current in level:
            for name, info in current.model_fields.items():
                path = (*prefix, name)
                if path not in paths:
                    paths.append(path)
                if len(path) < 5:
                    deeper.extend((path, inner) for inner in nested_models(info.annotation))
        level = deeper
    return tuple(paths)


class Problems:
    """Collect every problem of a document, so that the user sees all at once."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[FileProblem] = []

    def add(
        self, path: FieldPath, problem: str, *, given: object = None, allowed: str = ""
    ) -> None:
        """Add one problem of a field. `given` is None when there is no value."""
        self.found.append(self.document.problem(path, problem, given=given, allowed=allowed))

    def unknown(self, path: FieldPath, name: str, allowed: list[str]) -> None:
        """Add the problem that a table has an unknown field."""
        self.add(
            path, meant("unknown field", name, allowed), given=name, allowed=", ".join(allowed)
        )

    def table(self, path: FieldPath, value: object) -> dict[str, Any] | None:
        """Return the value when it is a table, else add a problem."""
        if isinstance(value, dict):
            return cast("dict[str, Any]", value)
        self.add(path, "must be a table", given=value)
        return None

    def tables(self, path: FieldPath, value: object) -> list[tuple[FieldPath, dict[str, Any]]]:
        """Return the tables of an array of tables, each with its path."""
        if not isinstance(value, list):
            self.add(path, f"must be an array of tables, [[{path[-1]}]]", given=value)
            return []
        places = [((*path, index), item) for index, item in enumerate(cast("list[object]", value))]
        found = [(place, self.table(place, item)) for place, item in places]
        return [(place, table) for place, table in found if table is not None]

    def choice(
        self, path: FieldPath, value: object, allowed: Collection[str], problem: str
    ) -> str | None:
        """Return the value when it is one of the allowed words, else add a problem."""
        if isinstance(value, str) and value in allowed:
            return value
        words = ", ".join(allowed)  # all kinds of plug-ins are imported only here
        if value is None:
            self.add(path, "is missing", allowed=words)
        elif isinstance(value, str):
            self.add(path, meant(problem, value, list(allowed)), given=value, allowed=words)
        else:
            self.add(path, "must be text", given=value, allowed=words)
        return None

    def validated(
        self,
        path: FieldPath,
        table: dict[str, Any],
        model: type[Model],
        *,
        at: FieldPath | None = None,
        several: str = "",
    ) -> Model | None:
        """Return the table as its model, None when it has problems.

        A problem's path is `path` followed by its place in the table, or `at` when given. `several`
        is a hint, with `{}` for the field, for an array where the field takes one value.
        """
        try:
            made = model.model_validate(table)
        except ValidationError as error:
            for place, given, problem, allowed in refusals(error, table, model):
                where = path + place if at is None else at
                if several and _are_levels(given, problem) and _takes_one(model, place):
                    problem += f"; {several.format(dotted(place))}"
                listed = self.document.problem(where, problem, given=given, allowed=allowed)
                if listed not in self.found:
                    self.found.append(listed)
            return None
        wrong = list(_misread(table, made))
        for place, given, problem in wrong:
            self.add(path + place if at is None else at, problem, given=given)
        return None if wrong else made


def _misread(
    table: Mapping[str, object], made: BaseModel | Mapping[str, object]
) -> Iterator[tuple[FieldPath, bool | str, str]]:
    """Yield every value that pydantic takes and nobody can mean: its place, it, and the problem.

    These are true or false for 1 or 0, and empty text for a field that is not empty by itself.
    """
    for name, value in table.items():
        # A dictionary has tables by names, such as those of servers.
        field = made.get(name) if isinstance(made, Mapping) else getattr(made, name, None)
        if isinstance(value, bool) and type(field) in (int, float):
            whole = "whole " if type(field) is int else ""
            yield (name,), value, f"must be a {whole}number"
        elif isinstance(value, str) and isinstance(made, BaseModel):
            known = type(made).model_fields.get(name)
            meant_empty = known is None or known.default == ""
            if isinstance(field, str) and not value.strip() and not meant_empty:
                yield (name,), value, "must not be empty"
        elif isinstance(value, dict) and isinstance(field, (BaseModel, dict)):
            for place, given, problem in _misread(
                cast("dict[str, object]", value), cast("BaseModel | dict[str, object]", field)
            ):
                yield (name, *place), given, problem


def _are_levels(given: object, problem: str) -> bool:
    """Return whether a value may be levels of its field: an array, and no texts for a number."""
    if not isinstance(given, list):
        return False
    texts = all(isinstance(item, str) for item in cast("list[object]", given))
    return not (texts and problem.startswith("must be a whole number"))


def _takes_one(model: type[BaseModel], place: FieldPath) -> bool:
    """Return whether a field of a model takes single values only. A factor can be none of the
    fields of tables by name."""
    names = tuple(part for part in place if isinstance(part, str))
    known = names == place and names in field_paths(model)
    annotation = annotation_of(model, list(names)) if known else None
    return annotation is not None and not _takes_array(annotation)


def _takes_array(annotation: Any) -> bool:
    if annotation in _ARRAYS or typing.get_origin(annotation) in _ARRAYS:
        return True
    return any(_takes_array(inner) for inner in typing.get_args(annotation))


def made_of(model: type[Model], table: dict[str, Any], what: str) -> Model:
    """Return the table as its model, for a table assembled from several fields of a file.

    Raises UsageError with Headrace's messages; `what` names the table, such as "target nfs:
    export".
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        texts = [
            str(FileProblem(Path(what), 0, dotted(place), shown(given), problem, allowed))
            for place, given, problem, allowed in refusals(error, table, model)
        ]
        raise UsageError("\n".join(texts)) from None


Refusal = tuple[FieldPath, object, str, str]
"""Place in the table, given value (None when there is none), problem, allowed."""


def refusals(
    error: ValidationError, table: dict[str, Any], model: type[BaseModel]
) -> list[Refusal]:
    """Return what is wrong with a table, each problem once.

    For a union, pydantic reports an error for each member type: errors of a type that cannot be
    meant are left out, and the remaining ones at one place are merged into one problem.
    """
    items = [(_place(table, item), item) for item in error.errors(include_url=False)]
    meant_here = {place[:end] for place, _ in items for end in range(len(place))}
    meant_here |= {place for place, item in items if item["type"] not in MUST_BE}
    found: dict[FieldPath, Refusal] = {}
    for place, item in items:
        kind, given = item["type"], item["input"]
        if kind in MUST_BE and isinstance(given, (dict, list)) and place in meant_here:
            continue  # a table or array was meant, and it or an item of it is wrong
        problem, allowed = refusal(item, *_around(model, place))
        before = found.get(place)
        if before is not None:
            if kind in MUST_BE and before[2].startswith("must be ") and problem not in before[2]:
                problem = f"{before[2]} or {MUST_BE[kind]}"
                found[place] = (place, before[1], problem, before[3])
            continue
        hidden = kind in ("missing", "extra_forbidden") or isinstance(given, dict)
        found[place] = (place, None if hidden else _written(table, place), problem, allowed)
    return list(found.values())


def _written(table: Any, place: FieldPath) -> object:
    """Return the value at a place as written; pydantic reports the converted value.

    None where there is no value, and for a table.
    """
    for part in place:
        if isinstance(table, dict) and part not in table:
            return None
        table = cast(Any, table)[part]
    return None if isinstance(table, dict) else table


def _around(model: type[BaseModel], place: FieldPath) -> tuple[list[str], Any]:
    """Return the names of a field's siblings (itself included), and its type."""
    names = [part for part in place if isinstance(part, str)]
    return fields_of(model, names[:-1]), annotation_of(model, names)


def _place(table: Any, item: Any) -> FieldPath:
    """Return the part of pydantic's location that is in the file: it also names union members."""
    place: list[str | int] = []
    inner: Any = table
    for part in item["loc"]:
        if (isinstance(inner, dict) and part in inner) or (
            isinstance(inner, list)
            and isinstance(part, int)
            and part < len(cast("list[Any]", inner))
        ):
            inner = cast(Any, inner)[part]
            place.append(part)
    if item["type"] == "missing":
        place.append(item["loc"][-1])
    return (*place, *discriminator(item))
