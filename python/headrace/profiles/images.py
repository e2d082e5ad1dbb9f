"""Program images of a recording: the programs of each process, CPU times, unrecorded programs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace.profiles.arena import Text
from headrace.profiles.programs import why_not_recorded

START, END = 1, 2
_FORKED = 1
_LOADER_BYTES = 832
"""Bytes that the loader reads of each object: glibc, `struct filebuf` in elf/dl-load.h (64 bit)."""


@dataclass
class Image:
    """One program image of one process."""

    pid: int
    start: npt.NDArray[np.void] | None = None
    """Its first record, of `START`."""
    end: npt.NDArray[np.void] | None = None
    """Its last record, of `END`."""
    last_cpu_ns: int = 0
    """CPU time of all its threads, at their last records."""

    @property
    def start_ns(self) -> int:
        """When it began, on the monotonic clock."""
        return int(self.start["start_ns"]) if self.start is not None else 0

    @property
    def executed(self) -> bool:
        """True if it began with exec, not as a copy (fork) of another image."""
        return self.start is not None and int(self.start["file"]) != _FORKED


@dataclass
class _Started:
    """A program that a process tried to start, or became."""

    pid: int
    at_ns: int
    path: str


@dataclass
class Images:
    """All images of a recording."""

    of: dict[int, Image] = field(default_factory=dict[int, Image])
    _started: list[_Started] = field(default_factory=list[_Started])

    def take(self, texts: list[Text], directories: Mapping[int, str]) -> None:
        """Register the images and the programs that they tried to start."""
        for text in texts:
            if text.letter == "I":
                self.of[text.number] = Image(int(text.fields[0]))
        tried = [text for text in texts if text.letter in "XYS"]
        for text in sorted(tried, key=lambda text: int(text.fields[1])):
            pid, at_ns, folder = (int(each) for each in text.fields[:3])
            if text.letter == "Y":
                # The last exec attempt of this process returned: it failed.
                last = next((each for each in reversed(self._started) if each.pid == pid), None)
                if last is not None:
                    self._started.remove(last)
                continue
            path = "\t".join(text.fields[3:])
            found = path if "/" in path else shutil.which(path) or path
            if not found.startswith("/"):
                found = str(Path(directories.get(folder, "/")) / found)
            self._started.append(_Started(pid, at_ns if text.letter == "X" else 0, found))

    def _by_process(self) -> dict[int, list[Image]]:
        found: dict[int, list[Image]] = {}
        for image in sorted(self.of.values(), key=lambda image: image.start_ns):
            found.setdefault(image.pid, []).append(image)
        return found

    def unfinished(self) -> tuple[int, ...]:
        """Return the ids of the processes without an end record: killed, ended by a call that the
        recorder does not see, or still running."""
        return tuple(pid for pid, images in self._by_process().items() if images[-1].end is None)

    def cpu_ns(self) -> int:
        """Return the CPU time of all images; exec keeps a process's clock."""
        total = 0
        for image in self.of.values():
            end = int(image.end["offset"]) if image.end is not None else image.last_cpu_ns
            earlier = (
                int(image.start["cpu_start_ns"])
                if image.start is not None and image.executed
                else 0
            )
            total += max(end - earlier, 0)
        return total

    def cpu_wait_ns(self) -> int:
        """Return how long first threads waited for a CPU, in images that ended."""
        total = 0
        for image in self.of.values():
            if image.end is not None and image.start is not None:
                earlier = int(image.start["length"]) if image.executed else 0
                total += max(int(image.end["length"]) - earlier, 0)
        return total

    def loader_read_bytes(self) -> int:
        """Return the bytes that each image read before its recorder began: programs and libraries,
        read by the loader."""
        total = 0
        for images in self._by_process().values():
            for before, image in zip([None, *images], images, strict=False):
                total += int(image.end["file"]) * _LOADER_BYTES if image.end is not None else 0
                if image.start is None or not image.executed:
                    continue
                known = before is None or before.end is not None
                until = (
                    int(before.end["asked"]) if before is not None and before.end is not None else 0
                )
                total += max(int(image.start["offset"]) - until, 0) if known else 0
        return total

    def not_recorded(self) -> Iterator[str]:
        """Yield notes on programs that were started but not recorded."""
        began: dict[int, list[int]] = {}
        for image in self.of.values():
            if image.executed:
                began.setdefault(image.pid, []).append(image.start_ns)
        for each in self._started:
            if any(start_ns >= each.at_ns for start_ns in began.get(each.pid, [])):
                continue
            why = why_not_recorded(each.path)
            reason = (
                f"it is {why}"
                if why is not None
                else (
                    "it did not load the recorder (LD_PRELOAD taken out of its environment, "
                    "or another user's process)"
                )
            )
            yield f"{each.path} was started and is not in the profile: {reason}"
