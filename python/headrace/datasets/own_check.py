"""Check, when a study is loaded, that the user's own files can be read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.datasets.own_files import OwnFile, OwnFiles, expanded, state_of, typical
from headrace.datasets.trees import events_of, look_over, names_in, tree_facts
from headrace.errors import HeadraceError
from headrace.units import format_amount

MOST_PROBLEMS = 5
"""Maximum number of problems reported for a folder of files that are not ROOT files."""
MOST_COUNTED = 20
"""Maximum number of files whose events are counted, which takes up to 1 s each."""

Wrong = tuple[tuple[str | int, ...], str]
"""Path of a field in the table `data`, and its problem."""


def wrong_files(own: OwnFiles) -> list[Wrong]:
    """Return the problems of the files: missing, damaged, without the tree or without events."""
    found: list[Wrong] = []
    place_of: dict[Path, tuple[str | int, ...]] = {}
    for number, text in enumerate(own.files):
        try:
            place_of |= {path: ("files", number) for path in expanded(text) if path not in place_of}
        except (HeadraceError, OSError) as error:
            found.append((("files", number), _text(error)))
    chosen: list[tuple[Path, str]] = []
    for path, place in place_of.items():
        if len(found) == MOST_PROBLEMS:
            break
        try:
            state_of(path)
            chosen.append((path, look_over(path, own.tree)))
            if len(chosen) > 1:
                _check_same(chosen[0], chosen[-1])
        except HeadraceError as error:
            found.append((_place(own, error, place), _text(error)))
    return found or _without_events(own, own.find())


def _check_same(first: tuple[Path, str], other: tuple[Path, str]) -> None:
    """Raise HeadraceError for a file with the tree that jobs read in the first one, and another.

    Of several trees, that with events is read: files may have them in different trees.
    """
    if first[1] != other[1] and first[1] in names_in(other[0]):
        raise HeadraceError(
            f"{other[0]}: its events are in {other[1]}, those of {first[0].name} in {first[1]}",
            hint='name the tree: data = { …, tree = "…" }',
        )


def described(own: OwnFiles) -> str:
    """Return a description of the files: number, size, and the tree of a representative file.

    Raises HeadraceError as `tree_facts` does.
    """
    files = own.find()
    facts = tree_facts(typical_filled(own, files).path, own.tree)
    empty = [file for file in files[:MOST_COUNTED] if not events_of(file.path, own.tree)]
    stored = sum(column.stored_bytes for column in facts.columns)
    memory = sum(column.memory_bytes for column in facts.columns)
    pieces = sum(column.pieces for column in facts.columns)
    of_pieces = "baskets" if facts.format == "ttree" else "pages"
    total = (
        f"{len(files)} file{'s' if len(files) > 1 else ''} of "
        f"{format_amount(sum(f.bytes for f in files))}"
    )
    return (
        f"{total}; {facts.file.name} has {facts.events:,} events in {facts.name}"
        f"{facts.chosen_by_events}: "
        f"{len(facts.columns):,} columns, {format_amount(memory)} uncompressed, "
        f"{format_amount(stored)} stored in {pieces:,} {of_pieces}, {facts.clusters:,} "
        f"cluster{'s' if facts.clusters != 1 else ''}"
        + (f"; without events: {', '.join(file.path.name for file in empty)}" if empty else "")
    )


def typical_filled(own: OwnFiles, files: Sequence[OwnFile]) -> OwnFile:
    """Return the file that represents all: of those with events the nearest to the mean size.

    Raises HeadraceError for a file that cannot be read.
    """
    left = list(files)
    while len(left) > 1 and not events_of((chosen := typical(left)).path, own.tree):
        left.remove(chosen)
    return typical(left)


def _without_events(own: OwnFiles, files: list[OwnFile]) -> list[Wrong]:
    """Return a problem when no file has events, or when one of the first cannot be read."""
    filled = False
    for number, file in enumerate(files):
        if filled and number >= MOST_COUNTED:
            break
        try:
            filled = bool(events_of(file.path, own.tree)) or filled
        except HeadraceError as error:
            return [(("files",), _text(error))]
    if filled:
        return []
    which = f"{files[0].path}: has no events" if len(files) == 1 else "no file has events"
    return [(("files",), which)]


def files_with_events(own: OwnFiles) -> list[OwnFile]:
    """Return those of the first files that have events, which a chain need not have everywhere.

    Raises HeadraceError for a file that cannot be read.
    """
    return [file for file in own.find()[:MOST_COUNTED] if events_of(file.path, own.tree)]


def _place(
    own: OwnFiles, error: HeadraceError, place: tuple[str | int, ...]
) -> tuple[str | int, ...]:
    return ("tree",) if own.tree is not None and "has no tree" in error.message else place


def _text(error: HeadraceError | OSError) -> str:
    if isinstance(error, HeadraceError):
        return error.message + (f"; {error.hint}" if error.hint else "")
    return f"{error.filename}: {error.strerror}"
