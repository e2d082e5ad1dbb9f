"""All jobs of this node: `headrace watch --all`. Batch jobs, scopes of systemd, else sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from typing_extensions import override

from headrace.watching.finders import Finder, FoundJob
from headrace.watching.process_table import ProcessTable, grouped


class AllFinder(Finder):
    """Every process of the machine belongs to a job, except this one and the kernel's threads."""

    kind: ClassVar[str] = "all"
    ends: ClassVar[bool] = False

    def __init__(self, names: Sequence[str] = ()) -> None:
        super().__init__(names)
        self._table = ProcessTable()
        self._names: dict[str, str] = {}

    @override
    def find(self) -> list[FoundJob]:
        """Return the jobs of this moment."""
        return grouped(self._table.look(), self._names)
