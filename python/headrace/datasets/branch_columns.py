"""The columns of a TTree: its branches, and the leaves of a branch that has a list of several."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

_NUMBERS = {
    "TLeafO": ("?", "?"),
    "TLeafB": ("i1", "u1"),
    "TLeafS": (">i2", ">u2"),
    "TLeafI": (">i4", ">u4"),
    "TLeafL": (">i8", ">u8"),
    "TLeafG": (">i8", ">u8"),
    "TLeafF": (">f4", ">f4"),
    "TLeafD": (">f8", ">f8"),
}
"""ROOT's leaves of numbers, as they are stored: with a sign, and without."""

_MAP = re.compile(r"(std::)?(unordered_)?(multi)?map<")
"""The class of a branch whose members are those of the pairs of a map."""

_WITHOUT_OFFSETS = 1
"""ROOT's feature `kGenerateOffsetMap` of a branch: baskets do not store where an event begins."""

_OF_CLONES = 31
"""ROOT's type of a branch (TBranchElement) that has a member of the objects of a TClonesArray."""

_POINTED = range(41, 60)
"""ROOT's types of members (`TVirtualStreamerInfo`) that point to an array: above `kOffsetP`."""

_LENGTH = re.compile(r"\[(\d+)\]")


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
        if int(self.branch.num_entries) < int(self.branch.tree.num_entries):
            return "unknown"  # added late, or filled less often: it lacks numbers of some events
        try:
            interpretation = self.interpretation
        except Exception:
            return "unknown"  # a type that uproot cannot even name
        kind = type(interpretation).__name__
        if kind == "AsJagged":
            interpretation = interpretation.content
            kind = type(interpretation).__name__
        if kind == "AsDtype":
            dtype = np.dtype(interpretation.to_dtype).base
            if self.leaf is not None:
                if self.leaf not in (dtype.names or ()):
                    return "unknown"
                dtype = dtype[self.leaf].base
            return "objects" if dtype.names is not None else "numbers"
        # When a branch's members have branches of their own, its baskets hold the number of
        # members.
        return "unknown" if kind in ("UnknownInterpretation", "AsGrouped") else "objects"

    @property
    def interpretation(self) -> Any:
        """uproot's interpretation of the branch.

        Of a branch with several leaves, uproot takes the length of an array of one of them for that
        of all, and the first of several dimensions for the only one.
        """
        leaves = self.branch.member("fLeaves")
        if self.leaf is None or not all(leaf.classname in _NUMBERS for leaf in leaves):
            return self.branch.interpretation
        if any(leaf.member("fLeafCount") is not None for leaf in leaves):
            return self.branch.interpretation  # lists, the lengths of which are in another branch
        from uproot import AsDtype

        return AsDtype(np.dtype([_stored(leaf) for leaf in leaves]))

    @property
    def flat(self) -> bool:
        """Whether an event has one number, or one list of numbers."""
        return self._dimensions() in (0, 1)

    @property
    def in_frames(self) -> bool:
        """Whether RDataFrame reads it as one number, or one list of numbers, per event.

        It takes an array of several dimensions for a list, unless the array is a member of a class
        or its length is in another branch (`vm[n][3]`). It cannot read the array of a branch that
        does not have the name of its leaf.
        """
        leaves = self.branch.member("fLeaves")
        if self.branch.classname != "TBranch" or not len(leaves):
            # RDataFrame takes an array to which a member points (`UChar_t *bits; //[n]`) for one
            # number.
            kind = int(self.branch.member("fStreamerType", none_if_missing=True) or 0)
            return self.flat and kind not in _POINTED and not self._nested
        dimensions, is_list = self._dimensions(), self._is_list
        if leaves[0].classname == "TLeafC":
            dimensions, is_list = 1, True
        renamed = self.leaf is None and leaves[0].member("fName") != self.branch.name
        if dimensions is None or renamed:
            return dimensions == 0
        return dimensions < 2 or not is_list

    @property
    def _nested(self) -> bool:
        """Whether it is a member of an object in the objects of a TClonesArray.

        RDataFrame takes its values from other places in these objects.
        """
        if self.branch.member("fType", none_if_missing=True) != _OF_CLONES:
            return False
        above = self.branch.parent  # the TClonesArray: its members are not split any further
        return above is not None and "." in str(self.branch.name).removeprefix(f"{above.name}.")

    @property
    def beyond_loops(self) -> str:
        """What keeps its numbers out of reach of ROOT's event loop; empty when nothing does."""
        above = self.branch.parent
        name = above.member("fClassName", none_if_missing=True) if above is not None else None
        if _MAP.match(str(name or "")):
            return "a member of a map"
        leaves = list(self.branch.member("fLeaves"))
        features = self.branch.member("fIOFeatures", none_if_missing=True)
        offsetless = features is not None and int(features.member("fIOBits")) & _WITHOUT_OFFSETS
        if self.branch.classname != "TBranch" or len(leaves) != 1 or not offsetless:
            return ""
        if leaves[0].member("fLeafCount") is None or int(leaves[0].member("fLen")) < 2:
            return ""
        # TLeaf::GenerateOffsetArrayBase counts one number per array.
        return "a list of arrays without stored offsets, which ROOT takes from wrong places"

    @property
    def _is_list(self) -> bool:
        return self.kind == "numbers" and type(self.interpretation).__name__ == "AsJagged"

    def _dimensions(self) -> int | None:
        """Return the dimensions of an event's numbers; None when it holds no numbers to be read."""
        # A branch with branches of its own holds the number of their values.
        if self.kind != "numbers" or len(self.branch.branches):
            return None
        interpretation, is_list = self.interpretation, self._is_list
        inner = (interpretation.content if is_list else interpretation).inner_shape
        if self.leaf is not None:
            inner = np.dtype(interpretation.to_dtype).base[self.leaf].shape
        return len(inner) + is_list

    def array(self, start: int, stop: int, held: dict[int, tuple[int, Any]]) -> Any:
        """Return the events `start <= event < stop`. Raises ValueError when the branch lacks some.

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
            edges = [int(edge) for edge in self.branch.entry_offsets]
            if edges[-1] < stop:
                raise ValueError(f"its branch has {edges[-1]} of the tree's events")
            until = next(edge for edge in edges if edge >= stop)
            more = self.branch.array(
                self.interpretation, end, until, library="ak", array_cache=None
            )
            array = more if end == start else ak.concatenate([array[start - first :], more])
            first = start
        held[id(self.branch)] = first, array
        found = array[start - first : stop - first]
        return found if self.leaf is None else found[self.leaf]


def _stored(leaf: Any) -> tuple[str, str, tuple[int, ...]]:
    """Return the name, type and dimensions of a leaf of numbers, as numpy takes them."""
    name, title, length = str(leaf.member("fName")), str(leaf.member("fTitle")), leaf.member("fLen")
    lengths = tuple(int(each) for each in _LENGTH.findall(title.removeprefix(name)))
    if math.prod(lengths) != int(length):  # a title of the user's
        lengths = (int(length),) if length > 1 else ()
    return name, _NUMBERS[leaf.classname][bool(leaf.member("fIsUnsigned"))], lengths


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
