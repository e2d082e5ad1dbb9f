"""A study file with fewer levels and cells; its other text, comments included, stays as it is."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, cast

import tomlkit

Table = MutableMapping[str, Any]


def narrowed_text(
    text: str,
    factors: Mapping[str, Sequence[Any]],
    only: Sequence[Mapping[str, Sequence[Any]]],
    comment: str,
) -> str:
    """Return the text of a study with these factors and these tables `[[only]]`.

    `factors`: the levels that stay of every factor. Excludes lose levels that are gone, and
    `[plan]` its design, so that the cells are those of the full matrix. `comment` comes first.
    """
    document: Any = tomlkit.parse(text)
    for name, levels in factors.items():
        _narrow_factor(document, name, levels)
    _narrow_excludes(document, factors)
    document.pop("only", None)
    if "plan" in document:
        for name in ("design", "fraction"):
            document["plan"].pop(name, None)
    made = tomlkit.dumps(document).rstrip("\n") + "\n"
    return _commented(made + "".join(_only(box) for box in only), comment)


def _commented(text: str, comment: str) -> str:
    """Return the text below a comment; a line for editors (`#:schema`) stays the first."""
    first, rest = "", text
    if text.startswith("#:"):
        first, _, rest = text.partition("\n")
        first += "\n"
    return first + "".join(f"# {line}\n" for line in comment.splitlines()) + rest


def _narrow_factor(document: Table, name: str, levels: Sequence[Any]) -> None:
    found = _owner(document.get("factors", {}), name)
    if found is None:
        if name in ("target", "workload") and len(document.get(name, {})) > len(levels):
            _factors(document)[name] = list(levels)
        return
    table, last = found
    written = table[last]
    if isinstance(written, list):
        items = cast("list[Any]", written)
        for index in reversed(range(len(items))):
            if _plain(items[index]) not in levels:
                del items[index]


def _factors(document: Table) -> Table:
    if "factors" not in document:
        document["factors"] = tomlkit.table()
    return document["factors"]


def _narrow_excludes(document: Table, factors: Mapping[str, Sequence[Any]]) -> None:
    """Drop from `[[exclude]]` the levels that are gone, and tables that then match no cell."""
    tables = document.get("exclude")
    if tables is None:
        return
    for index in reversed(range(len(tables))):
        if not all(_narrow_exclude(tables[index], name, factors[name]) for name in factors):
            del tables[index]
    if not len(tables):
        document.pop("exclude")


def _narrow_exclude(table: Table, name: str, levels: Sequence[Any]) -> bool:
    """Drop levels of one factor from a partial cell; return whether it can still match."""
    found = _owner(table, name)
    if found is None:
        return True
    owner, last = found
    if not isinstance(owner[last], list):
        return _plain(owner[last]) in levels
    left = [level for level in _plain(owner[last]) if level in levels]
    if left and len(left) < len(owner[last]):
        owner[last] = left
    return bool(left)


def _owner(table: Table, name: str) -> tuple[Table, str] | None:
    """Return the table that has a field with this dotted name, and the last part of the name."""
    *parts, last = name.split(".")
    for part in parts:
        inner = table.get(part)
        if not isinstance(inner, MutableMapping):
            return None
        table = cast("Table", inner)
    return (table, last) if last in table else None


def _plain(value: Any) -> Any:
    return value.unwrap() if hasattr(value, "unwrap") else value


def _only(box: Mapping[str, Sequence[Any]]) -> str:
    lines = ["", "[[only]]"]
    for name, levels in box.items():
        # In a list, a level that is a table is written on its line.
        one = len(levels) == 1 and not isinstance(levels[0], dict)
        given: Any = levels[0] if one else list(levels)
        lines.append(f"{name} = {tomlkit.item(given).as_string()}")
    return "\n".join(lines) + "\n"
