"""The choice of the tree that jobs read, among those of a ROOT file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from headrace.errors import HeadraceError

EVENT_TREES = (
    "Events",
    "CollectionTree",
    "events",
    "Delphes",
    "mini",
    "nominal",
    "analysis",
    "ntuple",
    "tree",
)
"""Common names of event trees: CMS, ATLAS, FCC, Delphes, ATLAS Open Data and analyses."""


def counted_trees(names: Collection[str], wanted: str | None) -> list[str]:
    """Return the trees whose events are counted to choose one: none when the name is enough."""
    if wanted is not None or len(names) < 2:
        return []
    known = [name for name in names if name.rpartition("/")[2] in EVENT_TREES]
    return [] if len(known) == 1 else known or list(names)


def choose_tree(
    names: Collection[str],
    wanted: str | None,
    file: str,
    events: Callable[[Sequence[str]], Sequence[int]],
) -> str:
    """Return the wanted tree of a file, or the only one, or the one with a well-known name.

    Of several well-known names, return the tree with most events; without any, the only tree with
    events, which `events` counts. Raises HeadraceError, listing the trees of the file.
    """
    if not names:
        raise HeadraceError(f"{file}: has no TTree or RNTuple")
    if wanted is not None:
        if wanted not in names:
            raise HeadraceError(f"{file}: has no tree {wanted}; it has: {_listed(names)}")
        return wanted
    if len(names) == 1:
        return next(iter(names))
    counting = counted_trees(names, wanted)
    counted = dict(zip(counting, events(counting) if counting else (), strict=True))
    if not counted:
        return next(name for name in names if name.rpartition("/")[2] in EVENT_TREES)
    if next(iter(counted)).rpartition("/")[2] in EVENT_TREES:
        return max(counted, key=lambda name: counted[name])
    filled = [name for name, count in counted.items() if count]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        raise HeadraceError(f"{file}: none of its trees has events: {_listed(names)}")
    sizes = [f"{name} ({counted[name]:,} events)" for name in filled]
    empty = f"; without events: {len(counted) - len(filled)}" if len(filled) < len(counted) else ""
    raise HeadraceError(
        f"{file}: has several trees: {_listed(sizes)}{empty}",
        hint='name one of them: data = { …, tree = "…" }',
    )


def _listed(names: Collection[str]) -> str:
    some = list(names)[:10]
    return ", ".join(some) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
