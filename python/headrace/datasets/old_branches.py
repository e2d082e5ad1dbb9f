"""Support in uproot for the branches of ROOT 3 and 4 (TBranch versions 8 and 9, TTree 11 and less).

Before version 10 ROOT wrote them with code of their own (`TBranch::Streamer`, "old versions before
automatic schema evolution"). The class descriptions in such files differ from it: the places of
baskets have 32 or 64 bits, as a byte before them says.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import uproot.models.TBranch

_OLD = (8, 9)
_NUMBERS = (
    *("fCompress", "fBasketSize", "fEntryOffsetLen", "fWriteBasket", "fEntryNumber", "fOffset"),
    *("fMaxBaskets", "fSplitLevel", "fEntries", "fTotBytes", "fZipBytes"),
)
_FORMAT = struct.Struct(">iiiiiiIiddd")
_WIDE = 2
"""The byte before places of 64 bits."""
_KNOWN: Any = uproot.models.TBranch.Model_TBranch.known_versions
_Later: Any = uproot.models.TBranch.Model_TBranch_v10


class _OldBranch(_Later):
    """A branch; all but its reading is as in version 10."""

    def read_members(self, chunk: Any, cursor: Any, context: Any, file: Any) -> None:
        """Read the branch from its tree."""

        def read(name: str, *, base: bool = False) -> Any:
            at = {"concrete": self.concrete} if base else {}
            parent = self._parent if base else self.concrete
            version = (1,) if base else ()
            found = file.class_named(name, *version)
            return found.read(chunk, cursor, context, file, self._file, parent, **at)

        self._bases += [read("TNamed", base=True), read("TAttFill", base=True)]
        values = dict(zip(_NUMBERS, cursor.fields(chunk, _FORMAT, context), strict=True))
        counts = {"fEntries", "fTotBytes", "fZipBytes"}
        values = {name: int(value) if name in counts else value for name, value in values.items()}
        self._members.update(values)
        self._members["fBranches"] = read("TObjArray")
        self._members["fLeaves"] = read("TObjArray")
        self._cursor_baskets = cursor.copy()
        if not cursor.skip_over(chunk, context):
            read("TObjArray")
        for name in ("fBasketBytes", "fBasketEntry", "fBasketSeek"):
            wide = cursor.bytes(chunk, 1, context)[0] == _WIDE
            kind = np.dtype(">i8" if wide and name == "fBasketSeek" else ">i4")
            self._members[name] = cursor.array(chunk, self.member("fMaxBaskets"), kind, context)
        cursor.skip_after(self)


def read_old_branches() -> None:
    """Make uproot read such files from now on. Idempotent."""
    for version in _OLD:
        if not (_KNOWN.get(version) and issubclass(_KNOWN[version], _OldBranch)):
            # uproot takes name and version of the class from the name of the model.
            _KNOWN[version] = type(f"Model_TBranch_v{version}", (_OldBranch,), {})
