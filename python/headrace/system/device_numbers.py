"""Base layer: block devices by number (`major:minor`), which no link or second name changes."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

_SYS = Path("/sys/dev/block")


def number_at(path: str) -> str | None:
    """Return the number of the block device with this path; None for anything else."""
    if not path.startswith("/"):
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None
    if not stat.S_ISBLK(found.st_mode):
        return None
    return f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"


def numbers_of(path: Path) -> set[str]:
    """Return the numbers of a block device, of its partitions, and of the disk that it is part
    of."""
    number = number_at(str(path.absolute()))
    if number is None:
        return set()
    folder = (_SYS / number).resolve()
    partitions = (part for part in folder.glob("*/") if (part / "partition").exists())
    disk = [folder.parent] if (folder / "partition").exists() else []
    return {number, *((each / "dev").read_text().strip() for each in (*partitions, *disk))}


def processes_with_open(path: Path) -> list[str]:
    """Return other processes that have a block device, its disk or a partition open, as
    `name (pid)`.

    Most programs do not claim a device that they open, so the kernel lets others write to it. Users
    without root see their own processes only.
    """
    numbers = numbers_of(path)
    found: list[str] = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if any(_is_open(link, numbers) for link in (process / "fd").iterdir()):
                name = (process / "comm").read_text(errors="replace").strip()
                found.append(f"{name} ({process.name})")
    return sorted(found)


def _is_open(link: Path, numbers: set[str]) -> bool:
    try:
        # Files of a hung file system are not looked at: that would wait for its server.
        return str(link.readlink()).startswith("/dev/") and number_at(str(link)) in numbers
    except OSError:
        return False
