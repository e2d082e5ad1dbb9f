"""Base layer: limit bytes and requests per second of a block device by control groups.

They are blkio in version 1, io in version 2.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.system import devices
from headrace.system.cgroups import Hierarchy, hand_on, hierarchy
from headrace.system.shared_settings import set_file

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

_V1_FILES = {
    "rbps": "blkio.throttle.read_bps_device",
    "wbps": "blkio.throttle.write_bps_device",
    "riops": "blkio.throttle.read_iops_device",
    "wiops": "blkio.throttle.write_iops_device",
}


def _hierarchy() -> Hierarchy | None:
    for controller in ("io", "blkio"):
        found = hierarchy(controller)
        if found is not None:
            return found
    return None


def why_not() -> str | None:
    """Return why devices cannot be throttled here, None when they can."""
    found = _hierarchy()
    if found is None:
        return "this kernel has no control group for block I/O"
    if os.geteuid() != 0:
        return "throttling a device needs root"
    if found.version == 1 and not (found.top / _V1_FILES["rbps"]).exists():
        return "this kernel cannot throttle block devices (CONFIG_BLK_DEV_THROTTLING)"
    if found.version == 2 and found.own == found.top:
        return (
            "in control groups of version 2 the uppermost group, which we are in, cannot be bounded"
        )
    return None


def _line(text: str, number: str) -> str | None:
    """Return the rest of the line that begins with a device's number, or None."""
    for line in text.splitlines():
        device, _, rest = line.partition(" ")
        if device == number:
            return rest
    return None


def throttle(journal: Journal, device: str, limits: dict[str, int]) -> list[JournalEntry]:
    """Limit a device by `rbps`, `wbps` (bytes per second), `riops`, `wiops` (requests per second).

    A limit on a partition applies to its disk. Undoing the entries (last first) restores the
    earlier limits. Raises HeadraceError when the kernel refuses; nothing is then left behind.
    """
    found = _hierarchy()
    if found is None:
        raise HeadraceError("this kernel has no control group for block I/O")
    disk = devices.parent_disk(device) or device
    number = (Path("/sys/class/block") / disk / "dev").read_text().strip()
    entries: list[JournalEntry] = []
    try:
        if found.version == 2:
            _throttle_v2(journal, found, number, limits, entries)
        else:
            # Limits of version 1 are not inherited: every group needs its own.
            for group in [
                found.top,
                *sorted(path for path in found.top.rglob("*") if path.is_dir()),
            ]:
                for name, limit in limits.items():
                    file = group / _V1_FILES[name]
                    before = _line(file.read_text(), number) or "0"
                    entries += _bound(journal, file, number, str(limit), before)
    except OSError as error:
        for entry in reversed(entries):
            journal.undo(entry)
        raise HeadraceError(f"{disk} cannot be throttled: {error.strerror}") from error
    return entries


def _throttle_v2(
    journal: Journal,
    found: Hierarchy,
    number: str,
    limits: dict[str, int],
    entries: list[JournalEntry],
) -> None:
    levels = [found.own, *found.own.parents]
    for group in reversed(levels[1 : levels.index(found.top) + 1]):
        if (entry := hand_on(journal, group / "cgroup.subtree_control", "io")) is not None:
            entries.append(entry)
    file = found.own / "io.max"
    unbounded = "rbps=max wbps=max riops=max wiops=max"
    before = _line(file.read_text(), number) or unbounded
    text = " ".join(f"{name}={limit}" for name, limit in limits.items())
    entries += _bound(journal, file, number, text, before)


def _bound(journal: Journal, file: Path, number: str, text: str, before: str) -> list[JournalEntry]:
    entry = set_file(
        journal,
        file,
        f"{number} {text}",
        before=f"{number} {before}",
        key=f"{file} {number}",
        is_set=lambda: False,
    )
    return [] if entry is None else [entry]
