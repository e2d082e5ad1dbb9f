"""Files of a trace, by the names that the trace tells, at once or later."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from headrace.profiles.software import is_software
from headrace.profiles.steps import Op, RecordedFile
from headrace.profiles.strace.process import HeldFile
from headrace.profiles.unnamed_folders import UnnamedFolders, shown


class TracedFiles:
    """Files, numbered in the order in which calls name them."""

    def __init__(self) -> None:
        self.files: list[RecordedFile] = []
        self.unnamed = UnnamedFolders()
        self.start = self.unnamed.new()
        """Where the first process is."""
        self._opened: set[int] = set()
        """Files that were opened, not only named by calls such as stat."""
        self._direct: Counter[int] = Counter()
        """Reads and writes of a file past the page cache, less the others."""
        self._numbers: dict[str, int] = {}
        self._same: dict[int, int] = {}
        """Files that turned out to be another one, when the name of their folder was learnt."""

    def number(self, path: str) -> int:
        """Return the number of a file."""
        path = self.unnamed.resolved(path)
        if path not in self._numbers:
            self._numbers[path] = len(self.files)
            self.files.append(RecordedFile(path, 0, software=is_software(shown(path))))
        return self._numbers[path]

    def open(self, path: str, flags: str, *, created: bool) -> HeldFile:
        """Return a file that is opened; `flags`: the arguments of the call.

        The first open tells whether the job made it, any of them whether its writes are
        synchronous, and most reads and writes whether it is direct.
        """
        number = self.number(path)
        old = self.files[number]
        created = old.created if number in self._opened else created
        synchronous = old.synchronous or "O_SYNC" in flags or "O_DSYNC" in flags
        self._opened.add(number)
        self.files[number] = replace(old, created=created, synchronous=synchronous)
        return HeldFile(number, direct="O_DIRECT" in flags)

    def count_transfer(self, held: HeldFile) -> None:
        """Count a read or a write, for the question whether a file is read past the page cache."""
        self._direct[held.file] += 1 if held.direct else -1

    def grow(self, number: int, end: int, op: Op) -> None:
        """Extend a file to at least the end of what was read from it."""
        old = self.files[number]
        if op == Op.READ and not old.created and end > old.bytes:
            self.files[number] = replace(old, bytes=end)

    def learn(self, folder: str, directory: str) -> None:
        """Note the absolute name of a folder that had none: its files may be known by it."""
        if not self.unnamed.learn(folder, directory):
            return
        for path, number in list(self._numbers.items()):
            if (named := self.unnamed.resolved(path)) == path:
                continue
            del self._numbers[path]
            if named in self._numbers:
                self._same[number] = self._numbers[named]
            else:
                self._numbers[named] = number

    def rename(self, old: str, new: str, *, exchange: bool) -> None:
        """Let a file have another name from now on. Its first name is the one that is kept."""
        old, new = self.unnamed.resolved(old), self.unnamed.resolved(new)
        changed = (old, new) if exchange else (old,)
        numbers = [self._numbers.pop(path, None) for path in changed]
        for path, number in zip((new, old), numbers, strict=False):
            if number is not None:
                self._numbers[path] = number

    def finished(
        self, rows: list[tuple[int, ...]]
    ) -> tuple[list[RecordedFile], list[tuple[int, ...]]]:
        """Return the files, by the names that the whole trace tells, and the steps."""
        for number, other in self._same.items():
            one, two = self.files[other], self.files[number]
            synchronous = one.synchronous or two.synchronous
            size = max(one.bytes, two.bytes)
            self.files[other] = replace(one, bytes=size, synchronous=synchronous)
            self._direct[other] += self._direct[number]
        files = [
            # Direct where most reads and writes went past the page cache.
            replace(
                file,
                path=shown(self.unnamed.resolved(file.path)),
                direct=self._direct[number] > 0,
            )
            for number, file in enumerate(self.files)
        ]
        if not self._same:
            return files, rows
        return files, [(*row[:4], self._same.get(row[4], row[4]), *row[5:]) for row in rows]
