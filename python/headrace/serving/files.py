"""Files below the folder that is served, which may appear, change or go at any time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

Each = TypeVar("Each")


@dataclass(frozen=True)
class Listed(Generic[Each]):
    """The first of what was found: a page of thousands of lines is of no use."""

    shown: Sequence[Each]
    left_out: int = 0
    """Number of others, which the page names."""


def listed(found: Iterable[Each], at_most: int) -> Listed[Each]:
    """Return the first of what was found, and how many there are besides."""
    every = list(found)
    return Listed(every[:at_most], max(0, len(every) - at_most))


def files_below(
    root: Path, suffix: str | tuple[str, ...] = ".toml", *, traces_of_trials: bool = False
) -> Iterator[tuple[str, Path]]:
    """Yield the files whose names end with `suffix` by name, without links that lead out.

    Hidden folders are left out: a run makes a record in one, which is gone a moment later.
    `traces_of_trials`: also in `trials/…/trace` of results folders, of which the rest is closed: a
    look at every folder of 20 000 trials would take seconds.
    """
    top = root.resolve()
    found: list[Path] = []
    # Unlike Path.glob, it goes on when a folder is gone or may not be read.
    for place, folders, names in os.walk(root):
        closed = "trials" if "results.json" in names else None
        if closed in folders and traces_of_trials:
            found += _in_traces(Path(place, "trials"), suffix)
        folders[:] = [each for each in folders if each != closed and not each.startswith(".")]
        found += [Path(place, name) for name in names if name.endswith(suffix)]
    for file in sorted(found):
        name = str(file.relative_to(root))
        # To open a pipe would wait for its writer. os.path.isfile: False where Path raises.
        if is_text(name) and os.path.isfile(file) and _is_inside(file, top):  # noqa: PTH113
            yield name, file


def _in_traces(trials: Path, suffix: str | tuple[str, ...]) -> Iterator[Path]:
    """Yield the files of the traces that a study with `trace = true` keeps."""
    for trial in _names_in(trials):
        trace = trials / trial / "trace"
        yield from (trace / name for name in _names_in(trace) if name.endswith(suffix))


def _names_in(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - a Path for each name takes longer
    except OSError:
        return []


def _is_inside(file: Path, top: Path) -> bool:
    try:
        return not file.is_symlink() or file.resolve().is_relative_to(top)
    except (OSError, RuntimeError):  # a loop of links
        return False


def is_text(name: str) -> bool:
    """Return whether a name is UTF-8: no page can show another one, nor have it in an address."""
    return not any("\ud800" <= each <= "\udfff" for each in name)
