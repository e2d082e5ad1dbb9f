"""The files that processes have open, from /proc: no file is opened, no server is asked."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.profiles.software import is_software
from headrace.system.devices import name_of

_PATIENCE_S = 2.0
"""For the size of a file: the server of a network mount may be dead."""
_MOST = 100
"""Files of a profile; the largest are kept."""


@dataclass
class OpenDataFile:
    """A data file that the job had open at a look."""

    path: str
    bytes: int | None
    """None when the size could not be read."""
    read: bool = False
    written: bool = False
    direct: bool = False
    mapped: bool = False


class OpenFiles:
    """What the processes of a job had open at any look."""

    def __init__(self) -> None:
        self._found: dict[str, OpenDataFile] = {}
        self.others: set[str] = set()
        """Kinds of other descriptors that can be read: their reads are counted together with those
        of files."""
        self.hidden = False
        """Whether the descriptors of a process could not be read."""
        self.devices: set[str] = set()
        """Block devices that are read themselves."""

    def look(self, pids: Iterable[int]) -> None:
        """Add what is open now."""
        for pid in pids:
            try:
                descriptors = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
            except PermissionError:
                self.hidden = True
                continue
            except OSError:
                continue  # it has ended
            for descriptor in descriptors:
                try:
                    self._add(pid, descriptor)
                except PermissionError:
                    self.hidden = True
                except (OSError, ValueError):
                    continue  # it is closed
            with contextlib.suppress(OSError, ValueError):
                self._add_mapped(pid)

    def _add(self, pid: int, descriptor: str) -> None:
        link = f"/proc/{pid}/fd/{descriptor}"
        path = os.readlink(link)  # noqa: PTH115
        flags = _flags(pid, descriptor)
        mode = flags & os.O_ACCMODE
        reads, writes = mode != os.O_WRONLY, mode != os.O_RDONLY
        device = path.startswith("/dev/") and stat.S_ISBLK(os.stat(link).st_mode)  # noqa: PTH116
        if not path.startswith("/") or (path.startswith(("/dev/", "/proc/", "/sys/"))):
            if not device:
                if reads and (kind := _bulk(path)):
                    self.others.add(kind)
                return
        elif is_software(path):
            return
        path = path.removesuffix(" (deleted)")
        found = self._found.get(path)
        if found is None:
            size = _device_bytes(link, self.devices) if device else size_of(link)
            if size == -1:
                return  # no regular file
            found = self._found[path] = OpenDataFile(path, size)
        found.read |= reads
        found.written |= writes
        found.direct |= bool(flags & os.O_DIRECT)

    def _add_mapped(self, pid: int) -> None:
        for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
            fields = line.split(maxsplit=5)
            if len(fields) < 6 or fields[4] == "0" or "x" in fields[1]:
                continue
            path = fields[5]
            if not path.startswith("/") or path.endswith(" (deleted)") or is_software(path):
                continue
            if path not in self._found:
                size = size_of(path)
                if size == -1:
                    continue
                self._found[path] = OpenDataFile(path, size, read=True)
            self._found[path].mapped = True

    @property
    def mapped(self) -> bool:
        """Whether a data file was mapped: such reads are no calls."""
        return any(file.mapped for file in self._found.values())

    @property
    def files(self) -> list[OpenDataFile]:
        """The data files, the largest first."""
        return sorted(self._found.values(), key=lambda file: -(file.bytes or 0))[:_MOST]

    @property
    def left_out(self) -> int:
        """Number of files beyond those."""
        return max(0, len(self._found) - _MOST)


def _flags(pid: int, descriptor: str) -> int:
    for line in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text().splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8)
    return os.O_RDWR


def _bulk(path: str) -> str:
    """Return the kind of a descriptor that may carry many bytes; empty for one that does not."""
    if path.startswith("pipe:"):
        return "pipes"
    if path.startswith("socket:"):
        return "sockets"
    return "devices" if path in ("/dev/zero", "/dev/urandom", "/dev/random", "/dev/fuse") else ""


def _device_bytes(link: str, devices: set[str]) -> int | None:
    number = os.stat(link).st_rdev  # noqa: PTH116
    name = name_of(f"{os.major(number)}:{os.minor(number)}")
    if name is None:
        return None
    devices.add(name)
    return int(Path(f"/sys/class/block/{name}/size").read_text()) * 512


def size_of(link: str) -> int | None:
    """Return the size of a regular file, -1 for what is none, None if nothing answers."""
    answer: list[int | None] = []

    def ask() -> None:
        with contextlib.suppress(OSError):
            found = os.stat(link)  # noqa: PTH116
            answer.append(found.st_size if stat.S_ISREG(found.st_mode) else -1)

    asking = threading.Thread(target=ask, name="headrace-size", daemon=True)
    asking.start()
    asking.join(_PATIENCE_S)
    return answer[0] if answer else None
