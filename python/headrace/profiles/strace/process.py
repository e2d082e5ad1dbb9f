"""Descriptors and the directory of a traced process."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.profiles.strace.arguments import descriptor
from headrace.profiles.strace.calls import DUPLICATES


@dataclass
class HeldFile:
    """A file that a descriptor names, and the position in it."""

    file: int
    at: int = 0
    direct: bool = False
    """With O_DIRECT."""


@dataclass
class TracedProcess:
    """Threads that share descriptors."""

    directory: str
    """Where the process is, of unnamed_folders.py where the trace does not tell it."""
    open: dict[int, HeldFile] = field(default_factory=dict[int, HeldFile])
    folders: dict[int, str] = field(default_factory=dict[int, str])
    """Descriptors of directories, to which paths of openat and its kin are relative."""
    closed_by_exec: set[int] = field(default_factory=set[int])

    def forked(self) -> TracedProcess:
        """Return a child's descriptors: it shares the positions in files that were open."""
        return TracedProcess(
            self.directory, dict(self.open), dict(self.folders), set(self.closed_by_exec)
        )

    def drop(self, descriptors: set[int]) -> None:
        """Forget descriptors that are closed, or that name something else from now on."""
        for each in descriptors:
            self.open.pop(each, None)
            self.folders.pop(each, None)
        self.closed_by_exec -= descriptors

    def mark(self, descriptor: int, arguments: str) -> None:
        """Note whether exec closes a descriptor, as the call that made it says."""
        if "CLOEXEC" in arguments:
            self.closed_by_exec.add(descriptor)
        else:
            self.closed_by_exec.discard(descriptor)

    def follow_folder(self, name: str, arguments: str, result: int) -> None:
        """Follow a call on a descriptor that is no file: it may be one of a folder."""
        number = descriptor(arguments)
        folder = self.folders.get(number)
        if name in DUPLICATES:
            self.drop({result})
        if folder is not None and name == "close":
            self.drop({number})
        elif folder is not None and (name in DUPLICATES or "F_DUPFD" in arguments):
            self.folders[result] = folder
            self.mark(result, arguments)
