"""The columns of a TTree: its branches, and the leaves of a branch that has a list of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np


@dataclass(frozen=True)
class BranchColumn:
    """A branch with baskets of its own, or one leaf of such a branch with several leaves."""

    branch: Any
    leaf: str | None
    """Name of the leaf; None for the whole branch."""
    first: bool
    """Whether it is the first column of its branch, to which the branch's baskets belong."""

    @property
    def kind(self) -> Literal["numbers", "objects", "unknown"]:
        """How uproot interprets it (see `trees.Column`)."""
        try:
            interpretation: Any = self.branch.interpretation
        except Exception:
            return "unknown"  # a type that uproot cannot even name
        kind = type(interpretation).__name__
        if kind == "AsJagged":
            interpretation = interpretation.content
            kind = type(interpretation).__name__
        if kind == "AsDtype":
            dtype = np.dtype(interpretation.to_dtype)
            dtype = dtype if self.leaf is None else dtype[self.leaf]
            return "objects" if dtype.names is not None else "numbers"
        # When a branch's members have branches of their own, its baskets hold the number of
        # members.
        return "unknown" if kind in ("UnknownInterpretation", "AsGrouped") else "objects"

    @property
    def flat(self) -> bool:
        """Whether an event has one number, or one list of numbers."""
        return self._dimensions() in (0, 1)

    @property
    def in_frames(self) -> bool:
        """Whether RDataFrame reads it as one number, or one list of numbers, per event.

        It takes an array of several dimensions for a list, unless the array is a member of a class.
        It cannot read the array of a branch that does not have the name of its leaf.
        """
        if self.branch.classname != "TBranch":
            return self.flat
        leaf = self.branch.member("fLeaves")[0]
        dimensions = 1 if leaf.classname == "TLeafC" else self._dimensions()
        renamed = self.leaf is None and leaf.member("fName") != self.branch.name
        return dimensions == 0 or (dimensions is not None and not renamed)

    def _dimensions(self) -> int | None:
        """Return the dimensions of an event's numbers; None when it holds no numbers to be read."""
        # A branch with branches of its own holds the number of their values.
        if self.kind != "numbers" or len(self.branch.branches):
            return None
        interpretation = self.branch.interpretation
        is_list = type(interpretation).__name__ == "AsJagged"
        inner = (interpretation.content if is_list else interpretation).inner_shape
        if self.leaf is not None:
            inner = np.dtype(interpretation.to_dtype)[self.leaf].shape
        return len(inner) + is_list

    def array(self, start: int, stop: int, held: dict[int, tuple[int, Any]]) -> Any:
        """Return the events `start <= event < stop`.

        `held` keeps, by branch, the first event and an array to the end of the last basket: a
        basket of several steps is read once, as by `uproot.iterate`, and so is one of several
        leaves.
        """
        import awkward as ak  # not needed to look at a file

        nothing: Any = ()
        first, array = held.get(id(self.branch), (start, nothing))
        if not first <= start <= first + len(array):
            first, array = start, nothing
        end = first + len(array)
        if end < stop:
            until = next(int(edge) for edge in self.branch.entry_offsets if edge >= stop)
            more = self.branch.array(
                entry_start=end, entry_stop=until, library="ak", array_cache=None
            )
            array = more if end == start else ak.concatenate([array[start - first :], more])
            first = start
        held[id(self.branch)] = first, array
        found = array[start - first : stop - first]
        return found if self.leaf is None else found[self.leaf]


def branches_by_path(tree: Any) -> dict[str, BranchColumn]:
    """Return the columns of a tree by their path: of a branch, or `PATH.LEAF` of one of its leaves.

    kernel.hpp (OwnTree) follows the same rule.
    """
    found: dict[str, BranchColumn] = {}
    for path, branch in tree.iteritems(recursive=True, full_paths=True):
        if not int(branch.num_baskets):
            continue
        leaves = [str(leaf.member("fName")) for leaf in branch.member("fLeaves")]
        if branch.classname != "TBranch" or len(leaves) < 2:
            found[str(path)] = BranchColumn(branch, None, True)
            continue
        for leaf in leaves:
            found[f"{path}.{leaf}"] = BranchColumn(branch, leaf, leaf == leaves[0])
    return found


def unique_names(paths: Sequence[str]) -> dict[str, str]:
    """Return each column's name by path: its own, or the path when the name is ambiguous."""
    times: dict[str, int] = {}
    for path in paths:
        own = path.rpartition("/")[2]
        times[own] = times.get(own, 0) + 1
    return {path: own if times[own := path.rpartition("/")[2]] == 1 else path for path in paths}
