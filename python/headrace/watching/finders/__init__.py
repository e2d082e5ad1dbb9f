"""Finders: which jobs run on this node, and which processes they have. Defines the interface.

Each kind is one module, and `headrace watch` has an option of its name. A finder names the jobs
again at every look, so that jobs that start later are found, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from headrace.errors import MissingError
from headrace.registry import Plugins, parts


@dataclass(frozen=True)
class FoundJob:
    """One job, as a finder names it."""

    key: str
    """Identifies the job as long as it runs."""
    name: str
    """What a user calls it."""
    pids: frozenset[int] = frozenset()
    """Processes of the job."""
    groups: tuple[Path, ...] = field(default=())
    """Directories of its control groups. All processes in them belong to it."""
    follow: bool = True
    """Whether descendants of `pids` belong to it; else the finder names every process."""


class Finder(ABC):
    """Finds jobs of one kind. A subclass is one module that defines `kind` and these methods."""

    kind: ClassVar[str]
    ends: ClassVar[bool] = True
    """Whether a watch ends with its last job; further jobs may come otherwise."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names`: what the user gave with the option. Raises UsageError for what cannot be, and
        MissingError without /proc."""
        if not Path("/proc/self/stat").exists():
            raise MissingError(
                "/proc does not show processes here: nothing can be watched",
                hint="watch on the host, or in a container with /proc mounted: mount -t proc proc "
                "/proc",
            )
        self.names = tuple(names)

    @abstractmethod
    def find(self) -> list[FoundJob]:
        """Return the jobs of this moment.

        The first call raises UsageError when what the user named is not there, and MissingError
        when it cannot be looked for on this machine.
        """


def finder_kinds() -> Plugins[Finder]:
    """Return every registered finder class by kind."""
    return parts("headrace.watching.finders", Finder)  # pyright: ignore[reportReturnType, reportArgumentType, reportAbstractUsage]
