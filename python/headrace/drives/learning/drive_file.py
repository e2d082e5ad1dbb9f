"""Writes a learnt drive as a file: its table, and in `[source]` what each value follows from."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import tomlkit
from tomlkit.items import InlineTable
from tomlkit.items import Table as TomlTable

from headrace.drives.learning.values import DIGITS, LearntDrive, LearntValue
from headrace.scenario import Table
from headrace.whole_file import write_errors, write_new


def write_learnt(learnt: LearntDrive, path: Path, *, device: str, date: str) -> None:
    """Write a new drive file. Raises HeadraceError if it cannot be written, or is there
    already."""
    learnt.table["name"] = path.stem
    document = tomlkit.document()
    what = "reads and writes" if learnt.written_bytes else "reads"
    about = f"learnt by {what} of {device} on {date}"
    document["kind"], document["name"], document["about"] = (
        learnt.table["kind"],
        learnt.table["name"],
        about,
    )
    for key, value in learnt.table.items():
        if key not in ("kind", "name"):
            document[key] = _item(value)
    source = tomlkit.table()
    known = {value.name: value for value in learnt.values}
    for key in _names(learnt.table):
        source[key] = _source(key, known, learnt, about)
    document["source"] = source
    with write_errors(path):
        write_new(path, tomlkit.dumps(document))  # another program may have made it meanwhile


def _item(value: object) -> object:
    """Return a value as TOML: tables on one line, numbers with `DIGITS` digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        made = tomlkit.inline_table()
        _fill(made, cast("Table", value))
        return made
    if isinstance(value, list):
        array = tomlkit.array()
        items = [_item(each) for each in cast("list[object]", value)]
        if items and isinstance(items[0], InlineTable):
            array.multiline(True)
        array.extend(items)
        return array
    return value


def _fill(made: InlineTable | TomlTable, table: Table) -> None:
    for key, value in table.items():
        made[key] = _item(value)


def _names(table: Table) -> list[str]:
    """Return the fields of the table, those of inner tables by their dotted path."""
    found: list[str] = []
    for key, value in table.items():
        if key in ("kind", "name"):
            continue
        if isinstance(value, dict):
            found += [f"{key}.{inner}" for inner in cast("Table", value)]
        else:
            found.append(key)
    return found


def _source(key: str, known: dict[str, LearntValue], learnt: LearntDrive, about: str) -> str:
    if key in known:
        value = known[key]
        error = (
            "" if value.error is None else f" (± {value.error:.2g} {value.unit})".replace(" )", ")")
        )
        doubt = f"; doubtful: {value.doubt}" if value.doubt else ""
        return f"{about}: {value.how}{error}{doubt}"
    for unknown in learnt.unknown:
        if key in unknown.name or key.split(".")[-1] in unknown.name.replace(",", " ").split():
            return f"assumption: {unknown.why}"
    if key.split(".")[0] in ("seek", "zone", "queue", "buffer", "head_switch_ms", "capacity_bytes"):
        return about
    return "assumption: nothing that was measured depends on it"
