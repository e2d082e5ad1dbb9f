"""The file of an outline: a profile whose head says how sure each figure is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.catalog.tables import PROFILE_VERSION
from headrace.outline.figures import BoundedFigure
from headrace.outline.open_files import OpenDataFile
from headrace.outline.steps import files_and_steps
from headrace.profiles.outlined import amount, label, span
from headrace.units import format_seconds
from headrace.whole_file import write_whole

if TYPE_CHECKING:
    from tomlkit.items import InlineTable

BY = "headrace watch"


@dataclass(frozen=True)
class Outline:
    """All that a profile in outline says."""

    name: str
    job: str
    began_utc: str
    wall_s: float
    machine: str
    figures: dict[str, BoundedFigure]
    files: Sequence[OpenDataFile]
    unknown: tuple[str, ...]
    """What could not be seen, and what the profile assumes instead."""


def text_of(outline: Outline) -> str:
    """Return the profile as TOML."""
    import tomlkit

    sets, steps = files_and_steps(outline.files, outline.figures)
    document = tomlkit.document()
    for line in _head(outline):
        document.add(tomlkit.comment(line) if line else tomlkit.nl())
    document["name"] = outline.name
    document["about"] = f"in outline, seen from outside for {outline.wall_s:.1f} s: {outline.job}"
    document["version"] = PROFILE_VERSION
    document["memory_bytes"] = round(outline.figures["memory_bytes"].value)
    for key, tables in (("files", sets), ("steps", steps)):
        rows = tomlkit.array()
        for each in tables:
            rows.append(_inline({name: part for name, part in each.items() if part is not None}))
        document[key] = rows.multiline(multiline=True)
    told = tomlkit.table()
    told["by"], told["job"] = BY, outline.job
    told["began_utc"], told["duration_s"] = outline.began_utc, round(outline.wall_s, 6)
    told["machine"] = outline.machine
    unknown = tomlkit.array()
    unknown.extend(outline.unknown)
    told["unknown"] = unknown.multiline(multiline=True)
    told["figures"] = {
        name: _inline(_rounded(name, figure)) for name, figure in outline.figures.items()
    }
    document["outline"] = told
    document["source"] = {
        "memory_bytes": f"{BY}: outline.figures.memory_bytes",
        "files": f"{BY}: data files that the job had open; sizes of when they were first seen",
        "steps": f"{BY}: outline.figures; bytes are divided among the files by size",
        "outline": BY,
        "version": BY,
    }
    return tomlkit.dumps(document)


def _rounded(name: str, figure: BoundedFigure) -> dict[str, object]:
    digits = 0 if name.endswith(("_bytes", "_calls")) else 6
    numbers = {"value": figure.value, "low": figure.low, "high": figure.high}
    shown: dict[str, object] = {
        key: round(number, digits) if digits else round(number) for key, number in numbers.items()
    }
    return {**shown, "source": figure.source}


def _inline(values: Mapping[str, object]) -> InlineTable:
    import tomlkit

    table = tomlkit.inline_table()
    for name, value in values.items():
        table[name] = _inline(value) if isinstance(value, dict) else value  # pyright: ignore[reportUnknownArgumentType]
    return table


def write(outline: Outline, path: Path) -> None:
    """Write the profile, whole or not at all. Raises HeadraceError."""
    write_whole(path, lambda part: part.write_text(text_of(outline), "utf-8", "replace"))


def _head(outline: Outline) -> list[str]:
    rows = [
        (
            label(name),
            amount(name, figure.value),
            span(name, figure.low, figure.high),
            figure.source,
        )
        for name, figure in outline.figures.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        f"A job profile in outline: what {outline.job} did in {format_seconds(outline.wall_s)},",
        "seen from outside by headrace watch. Each figure, what it can be, and where it is from:",
        "",
        *(
            "  ".join([*(c.ljust(w) for c, w in zip(row, widths, strict=False)), row[3]])
            for row in rows
        ),
    ]
    if outline.unknown:
        lines += ["", "Unknown:", *(f"- {sentence}" for sentence in outline.unknown)]
    return [*lines, ""]
