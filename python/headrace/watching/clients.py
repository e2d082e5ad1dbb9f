"""The clients of network storage of this node, by mount: their counters at each look."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from headrace.system.mounts import Mount, read_mounts
from headrace.watching.client_counters import (
    ClientCounts,
    ceph_counts,
    lustre_counts,
    nfs_counts,
)

_MOUNTS_S = 10.0
"""Time between two looks at the mount tables."""
_DEBUG, _PROC = Path("/sys/kernel/debug"), Path("/proc")
_FUSE = Path("/sys/fs/fuse/connections")


@dataclass(frozen=True)
class ClientSample:
    """One mount of network storage at one look."""

    mount: str
    kind: str
    """`nfs`, `lustre`, `ceph` or `fuse`."""
    last: ClientCounts
    """Since the look before."""
    total: ClientCounts
    """Since the watch began."""
    waiting: int | None = None
    """Requests that wait for the server at this moment (FUSE)."""


class StorageClients:
    """Looks at the clients of the mounts that watched processes see."""

    def __init__(self) -> None:
        self._looked_s = -1e9
        self._spaces: dict[str, int] = {}
        """A process of each mount namespace that has network storage."""
        self._mounts: dict[str, Mount] = {}
        self._before: dict[str, ClientCounts] = {}
        self._totals: dict[str, ClientCounts] = {}

    def look(self, pids: Iterable[int]) -> tuple[ClientSample, ...]:
        """Return the clients. `pids`: one process or more of each job."""
        if time.monotonic() - self._looked_s > _MOUNTS_S:
            self._looked_s = time.monotonic()
            self._find([os.getpid(), *pids])
        if not self._mounts:
            return ()
        counts = self._nfs()
        waiting: dict[str, int] = {}
        for place, mount in self._mounts.items():
            kind = _kind(mount)
            if kind == "lustre" and (text := _text(_lustre_files(mount))):
                counts[place] = lustre_counts(text)
            elif kind == "ceph" and (text := _text(_ceph_files(mount))):
                counts[place] = ceph_counts(text)
            elif kind == "fuse":
                minor = mount.device_number.partition(":")[2]
                with contextlib.suppress(OSError, ValueError):
                    waiting[place] = int((_FUSE / minor / "waiting").read_text())
                    counts[place] = ClientCounts()
        before, self._before = self._before, counts
        samples: list[ClientSample] = []
        for place, now in counts.items():
            last = now - before.get(place, now)
            self._totals[place] = self._totals.get(place, ClientCounts()) + last
            kind = _kind(self._mounts[place])
            samples.append(ClientSample(place, kind, last, self._totals[place], waiting.get(place)))
        return tuple(samples)

    def _nfs(self) -> dict[str, ClientCounts]:
        counts: dict[str, ClientCounts] = {}
        if any(mount.filesystem.startswith("nfs") for mount in self._mounts.values()):
            for pid in self._spaces.values():
                with contextlib.suppress(OSError, ValueError, IndexError):
                    text = (_PROC / str(pid) / "mountstats").read_text()
                    counts |= {key: each for key, each in nfs_counts(text) if key in self._mounts}
        return counts

    def _find(self, pids: Collection[int]) -> None:
        """Find the mounts of network storage in the mount namespaces of these processes."""
        spaces: dict[str, int] = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                spaces.setdefault(os.readlink(f"/proc/{pid}/ns/mnt"), pid)  # noqa: PTH115
        self._spaces, self._mounts = {}, {}
        for space, pid in spaces.items():
            with contextlib.suppress(OSError, ValueError, IndexError):
                found = {
                    str(mount.directory): mount
                    for mount in read_mounts(pid)
                    if _kind(mount) in ("nfs", "lustre", "ceph", "fuse")
                }
                if found:
                    self._spaces[space] = pid
                    self._mounts = {**found, **self._mounts}


def _kind(mount: Mount) -> str:
    """Return the kind of client; FUSE on a block device has its own type, `fuseblk`."""
    name = mount.filesystem
    if name == "fuse" or name.startswith("fuse."):
        return "fuse"
    return "nfs" if name in ("nfs", "nfs4") else name


def _text(files: Iterable[Path]) -> str:
    found: list[str] = []
    for file in files:
        with contextlib.suppress(OSError):
            found.append(file.read_text())
    return "\n".join(found)


def _lustre_files(mount: Mount) -> list[Path]:
    """Return the counters of a mount of Lustre: debugfs since 2.12, /proc before.

    Several mounts of one file system have one each, with a name that tells no mount apart: their
    sums are those of each of these mounts.
    """
    name = mount.source.rpartition(":/")[2].partition("/")[0]
    for place in (_DEBUG / "lustre", _PROC / "fs" / "lustre"):
        if files := sorted((place / "llite").glob(f"{name}-*/stats")):
            return files
    return []


def _ceph_files(mount: Mount) -> list[Path]:
    """Return the counters of a mount of CephFS, whose source names the cluster since Linux 5.17.

    Else the only client; with several the mount has no counters.
    """
    clients = sorted((_DEBUG / "ceph").glob("*.client*"))
    named = [each for each in clients if each.name.partition(".client")[0] in mount.source]
    chosen = named if len(named) == 1 else clients if len(clients) == 1 else []
    return [
        file
        for each in chosen
        for file in (each / "metrics" / "latency", each / "metrics" / "size", each / "metrics")
        if file.is_file()
    ]
