"""Base layer: the storage behind a directory: mount, file system, devices or server, free space."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from headrace.system import block_queue, devices
from headrace.system.mounts import Mount, mount_of
from headrace.system.network_filesystems import NetworkFilesystem, recognise

NO_LIMIT = 1 << 62
"""More free bytes than any file system has."""
_COUNT_INODES = ("ext2", "ext3", "ext4", "xfs", "tmpfs")
"""File systems whose statfs has the number of free inodes."""


@dataclass(frozen=True)
class Storage:
    """The storage behind a directory."""

    directory: Path
    mount: Mount
    device_names: tuple[str, ...]
    """Block devices directly below the file system; their counters measure its I/O."""
    disks: tuple[str, ...]
    """Whole disks below these; their queues have scheduler and depth."""
    network: NetworkFilesystem | None

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-compatible mapping for the record, with current settings and free space."""
        found = os.statvfs(self.directory)
        said: dict[str, object] = {
            "directory": str(self.directory),
            "filesystem": self.mount.filesystem,
            "mount_source": self.mount.shown_source,
            "mount_directory": str(self.mount.directory),
            "mount_root": self.mount.root,
            "mount_options": list(self.mount.all_options),
            "size_bytes": found.f_blocks * found.f_frsize or None,
            "free_bytes": free_bytes(self.directory) if found.f_blocks else None,
            "block_bytes": found.f_bsize,
            "read_ahead_bytes": block_queue.read_read_ahead(self.mount),
            "devices": [devices.describe(name).as_dict() for name in self.device_names],
        }
        if self.network is not None:
            said["network"] = self.network.as_dict()
        return said


def storage_of(directory: Path) -> Storage:
    """Return the storage behind a directory. Raises HeadraceError when it cannot be reached."""
    directory = directory.resolve()
    mount = mount_of(directory)
    names = tuple(devices.devices_of(mount, directory))
    disks = tuple(sorted({disk for name in names for disk in devices.whole_disks(name)}))
    return Storage(directory, mount, names, disks, recognise(mount, directory))


def free_bytes(directory: Path) -> int:
    """Return the bytes that this process can still write below a directory.

    Root may also use the reserved blocks. `NO_LIMIT` where the file system does not know its size:
    clients in user space (FUSE) of object storage often do not.
    """
    found = os.statvfs(directory)
    if not found.f_blocks:
        return NO_LIMIT
    return (found.f_bfree if os.geteuid() == 0 else found.f_bavail) * found.f_frsize


def free_files(directory: Path) -> int:
    """Return the number of files that can still be made below a directory (its free inodes).

    `NO_LIMIT` where the file system has no fixed number of them, as Btrfs, or is one of many
    clients of servers, which do not know it.
    """
    found = os.statvfs(directory)
    counts = found.f_files and mount_of(directory).filesystem in _COUNT_INODES
    return found.f_favail if counts else NO_LIMIT
