"""Which storage a file of a process lies on: a block device, or a mount of network storage.

Nothing here accesses a file system, whose server may be dead: only /proc is read.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.system.devices import devices_of, name_of
from headrace.system.mounts import Mount, deepest_above, mount_of, read_mounts
from headrace.system.network_filesystems import recognise
from headrace.system.overlays import in_layer, layers_of
from headrace.watching.ledger import StorageWait
from headrace.watching.peers import Peers

_MAPS_S = 2.0
"""Shortest time between two looks at a process's map of memory."""
_MOUNTS_S = 10.0
"""The same for a mount table, unless a mount is not in it."""
_BY_LAYER = StorageWait("block", "")
"""Of an overlay: which device depends on the file, or cannot be seen from here."""


class Places:
    """The storage behind the files of processes, by mount table."""

    def __init__(self) -> None:
        self._mounts: dict[str, _MountTable] = {}
        self._mapped: dict[int, tuple[float, StorageWait | None]] = {}
        self._opened: dict[int, tuple[float, StorageWait | None]] = {}
        self.peers = Peers()

    def of_descriptor(self, pid: int, descriptor: int) -> StorageWait | None:
        """Return what a read or write of a descriptor waits for: a file's storage, or the server of
        a TCP connection; None for others, and for connections that the program has accepted."""
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115 - at every sample
            if target.startswith("socket:"):
                server = self.peers.of_socket(pid, target)
                return StorageWait("network", server) if server else None
            if not target.startswith("/"):
                return None
            if target.startswith("/dev/"):
                return _device(target)
            info = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_bytes()
        except OSError:
            return None
        for line in info.splitlines():
            if line.startswith(b"mnt_id:"):
                return self._table(pid).by_id(int(line.split()[1]), target)
        return None

    def is_pipe(self, pid: int, descriptor: int) -> bool:
        """Return whether a descriptor is a pipe, with a name or without, or a terminal."""
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115 - at samples
            if target.startswith("pipe:"):
                return True
            # Its node may be on a file system whose server is dead; a name in /dev is not.
            return target.startswith(("/dev/pts/", "/dev/tty"))
        return False

    def of_largest_map(self, pid: int) -> StorageWait | None:
        """Return the storage of the largest file that is mapped as data; None without one."""
        when_s, known = self._mapped.get(pid, (-1e9, None))
        now_s = time.monotonic()
        if now_s - when_s > _MAPS_S:
            known = None
            with contextlib.suppress(OSError, ValueError, IndexError):
                known = self._table(pid).by_number(*_largest_map(pid))
            if len(self._mapped) > 10_000:
                self._mapped.clear()
            self._mapped[pid] = (now_s, known)
        return known

    def of_open_files(self, pid: int) -> StorageWait | None:
        """Return the storage of the files that a process has open: of those past the page cache if
        there are any, else of most that it may read; None without one."""
        when_s, known = self._opened.get(pid, (-1e9, None))
        now_s = time.monotonic()
        if now_s - when_s > _MAPS_S:
            known = None
            with contextlib.suppress(OSError, ValueError):
                known = self._most_open(pid)
            if len(self._opened) > 10_000:
                self._opened.clear()
            self._opened[pid] = (now_s, known)
        return known

    def _most_open(self, pid: int) -> StorageWait | None:
        found: Counter[StorageWait] = Counter()
        for entry in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
            if int(entry) <= 2:
                continue
            wait = self.of_descriptor(pid, int(entry))
            if wait is None or (wait.kind == "network" and not wait.place.startswith("/")):
                continue
            for line in Path(f"/proc/{pid}/fdinfo/{entry}").read_bytes().splitlines():
                if line.startswith(b"flags:"):
                    flags = int(line.split()[1], 8)
                    if flags & os.O_DIRECT:
                        return wait
                    found[wait] += flags & os.O_ACCMODE != os.O_WRONLY
        return found.most_common(1)[0][0] if found else None

    def of_kind(self, pid: int, filesystems: tuple[str, ...]) -> StorageWait | None:
        """Return the only mount of these file systems; None when there are several or none."""
        return self._table(pid).only(filesystems)

    def of_path(self, pid: int, path: str) -> StorageWait | None:
        """Return the storage of a path by the names of mounts: symbolic links are not followed."""
        return self._table(pid).by_path(path)

    def _table(self, pid: int) -> _MountTable:
        try:
            namespace = os.readlink(f"/proc/{pid}/ns/mnt")  # noqa: PTH115
        except OSError:
            namespace = f"of {pid}"
        table = self._mounts.get(namespace)
        if table is None:
            table = self._mounts[namespace] = _MountTable()
        table.look(pid)
        return table


class _MountTable:
    """The mounts that some processes see."""

    def __init__(self) -> None:
        self._read_s = -1e9
        self._mounts: dict[int, Mount] = {}
        self._places: dict[int, StorageWait | None] = {}
        self._layered: dict[tuple[int, str], StorageWait | None] = {}
        """By mount and path: of overlays with layers on several devices."""

    def look(self, pid: int) -> None:
        """Read the table again after a while."""
        now_s = time.monotonic()
        if now_s - self._read_s > _MOUNTS_S:
            self._read_s = now_s
            with contextlib.suppress(OSError, ValueError, IndexError):
                mounts = {mount.id: mount for mount in read_mounts(pid)}
                for number in [*self._places]:
                    if mounts.get(number) != self._mounts.get(number):
                        del self._places[number]
                        self._layered.clear()
                self._mounts = mounts

    def by_id(self, number: int, path: str) -> StorageWait | None:
        """Return the storage of a file on a mount."""
        if number not in self._places:
            mount = self._mounts.get(number)
            if mount is None:
                self._read_s = -1e9  # a new mount: read the table at the next sample
                return None
            self._places[number] = _storage(mount)
        if self._places[number] is not _BY_LAYER:
            return self._places[number]
        key = (number, path)
        if key not in self._layered:
            if len(self._layered) > 10_000:
                self._layered.clear()
            self._layered[key] = _of_layer(self._mounts[number], Path(path))
        return self._layered[key]

    def by_number(self, device: str, path: str) -> StorageWait | None:
        """Return the storage of a file on a device number `major:minor`."""
        block = name_of(device)
        if block is not None:
            return StorageWait("block", block)
        return next(
            (
                self.by_id(each.id, path)
                for each in self._mounts.values()
                if each.device_number == device
            ),
            None,
        )

    def by_path(self, path: str) -> StorageWait | None:
        """Return the storage of the deepest mount above a path, the last one of several there."""
        found = deepest_above(path, self._mounts.values())
        return None if found is None else self.by_id(found.id, path)

    def only(self, filesystems: tuple[str, ...]) -> StorageWait | None:
        """Return the one place of some file systems."""
        found = {
            self.by_id(each.id, "")
            for each in [*self._mounts.values()]
            if each.filesystem.startswith(filesystems)
        }
        return found.pop() if len(found) == 1 else None


def _storage(mount: Mount) -> StorageWait | None:
    with contextlib.suppress(HeadraceError, OSError):
        if recognise(mount) is not None:
            return StorageWait("network", str(mount.directory))
        if mount.filesystem == "overlay":
            found = {_storage(below) for _, below in _layers_below(mount)}
            return found.pop() if len(found) == 1 else _BY_LAYER
        if names := devices_of(mount):
            return StorageWait("block", names[0])
    if mount.filesystem.startswith("fuse"):
        return StorageWait("network", str(mount.directory))
    return _BY_LAYER if mount.filesystem == "overlay" else None


def _layers_below(mount: Mount) -> Iterator[tuple[Path, Mount]]:
    """Yield the layers of an overlay that this process can see, with their own mounts.

    The mount of a layer is found by name first: a server below it may be dead.
    """
    own = read_mounts()
    for layer in layers_of(mount):
        below = deepest_above(str(layer), own)
        if below is not None and recognise(below) is None:
            with contextlib.suppress(HeadraceError):
                below = mount_of(layer)
        if below is not None and below.filesystem != "overlay":
            yield layer, below


def _of_layer(mount: Mount, path: Path) -> StorageWait:
    """Return the storage of a file of an overlay: that of the first layer that has it.

    A layer on network storage is taken to have it, because its server may be dead.
    """
    with contextlib.suppress(OSError):
        for layer, below in _layers_below(mount):
            network = recognise(below) is not None
            if network or os.path.lexists(in_layer(mount, layer, path)):
                return _storage(below) or _BY_LAYER
    return _BY_LAYER


def _device(path: str) -> StorageWait | None:
    """Return the wait for a block device that is read itself. Its node is in memory."""
    with contextlib.suppress(OSError):
        found = os.stat(path)  # noqa: PTH116 - at every sample
        if stat.S_ISBLK(found.st_mode):
            name = name_of(f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}")
            return StorageWait("block", name or path.removeprefix("/dev/"))
    return None


def _largest_map(pid: int) -> tuple[str, str]:
    """Return the device number and path of the largest file mapped as data.

    Raises OSError, ValueError.
    """
    largest, device, path = 0, "", ""
    for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
        span, rights, _, number, inode, *name = line.split(maxsplit=5)
        if inode == b"0" or b"x" in rights:
            continue
        begin, _, end = span.partition(b"-")
        size = int(end, 16) - int(begin, 16)
        if size > largest:
            major, _, minor = number.partition(b":")
            largest, device = size, f"{int(major, 16)}:{int(minor, 16)}"
            path = os.fsdecode(name[0]) if name else ""
    return device, path
