"""Base layer: the contents and users of a block device or image file, checked before formatting."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from headrace.system import loops
from headrace.system.device_numbers import number_at, numbers_of, processes_with_open
from headrace.system.mounts import read_mounts
from headrace.system.requirements import require_program
from headrace.system.waiting import wait_until

_EDGE = 1 << 20
"""Bytes at both ends of a device that are checked, and blanked after use.

Every primary superblock is in this range.
"""
_LOOK_PATIENCE_S = 2.0
"""Time that a program may have a device open which only looks at it, such as udev after a change of
it."""


@dataclass(frozen=True)
class Signature:
    """What libblkid recognises on a device."""

    type: str
    """`ext4`, `gpt`, `LVM2_member` …"""
    uuid: str
    label: str
    usage: str
    """`filesystem`, `raid`, `crypto`, `other`, or `partition table`."""

    def __str__(self) -> str:
        name = f' named "{self.label}"' if self.label else ""
        return (
            f"a partition table ({self.type})"
            if self.usage == "partition table"
            else f"{self.type}{name}"
        )


def device_size(path: Path) -> int:
    """Return the size of a block device or file in bytes."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.lseek(handle, 0, os.SEEK_END)
    finally:
        os.close(handle)


def read_signature(path: Path) -> Signature | None:
    """Return what is recognised on a device or image file, or None.

    Raises MissingError without blkid, OSError when unreadable.
    """
    with path.open("rb"):
        pass  # blkid reports "nothing found" for a device that it may not read
    argv = [require_program("blkid"), "-p", "-o", "export", "--", str(path)]
    found = subprocess.run(argv, capture_output=True, text=True)
    fields = dict(line.split("=", 1) for line in found.stdout.splitlines() if "=" in line)
    if found.returncode == 8:  # several contradictory signatures
        return Signature("several file systems", "", "", "ambivalent")
    if "TYPE" in fields:
        return Signature(
            fields["TYPE"],
            fields.get("UUID", ""),
            fields.get("LABEL", ""),
            fields.get("USAGE", "other"),
        )
    if "PTTYPE" in fields:
        return Signature(fields["PTTYPE"], fields.get("PTUUID", ""), "", "partition table")
    return None


def contents(path: Path) -> str | None:
    """Return in words what formatting a device or image file would destroy; None when it is blank.

    Blank means that nothing is recognised, that the kernel has no partitions of it, and that all
    bytes are zero: of a file all, of a device the first and last MiB.
    """
    size = device_size(path)
    signature = read_signature(path) if size else None
    if signature is not None:
        return str(signature)
    if partitions := _partitions(path):
        return f"partitions ({', '.join(partitions)})"
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if path.is_block_device():
            starts = sorted({0, max(0, size - _EDGE)})
            blank = not any(any(os.pread(handle, _EDGE, start)) for start in starts)
        else:
            blank = _only_zeros(handle)
    finally:
        os.close(handle)
    return None if blank else "data of no known kind"


def _partitions(path: Path) -> list[str]:
    """Return the partitions that the kernel has of a device, whatever is left of their table."""
    found = path.stat()
    if not stat.S_ISBLK(found.st_mode):
        return []
    folder = Path(f"/sys/dev/block/{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}")
    return sorted(part.name for part in folder.glob("*/") if (part / "partition").exists())


def _only_zeros(handle: int) -> bool:
    """Return True for a file with only zero bytes. Holes are not read."""
    position = 0
    while True:
        try:
            position = os.lseek(handle, position, os.SEEK_DATA)
            end = os.lseek(handle, position, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # no data beyond
                return True
            raise
        if end <= position:
            return True
        while position < end:
            piece = os.pread(handle, min(_EDGE, end - position), position)
            if not piece or any(piece):
                return not piece
            position += len(piece)


def blank(path: Path) -> None:
    """Overwrite the first and last MiB with zeros, so that nothing is recognised any more.

    Only for devices that we formatted.
    """
    size = device_size(path)
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_EXCL if path.is_block_device() else 0))
    try:
        for start in {0, max(0, size - _EDGE)}:
            os.pwrite(handle, bytes(min(_EDGE, size - start)), start)
        os.fsync(handle)
    finally:
        os.close(handle)


def opened_by(path: Path) -> list[str]:
    """Return the programs that keep a block device open without a claim to it, as `name (pid)`.

    A virtual machine does so. Empty for an image file.
    """
    if not path.is_block_device():
        return []
    wait_until(lambda: not processes_with_open(path), _LOOK_PATIENCE_S, 0.2)
    return processes_with_open(path)


ANOTHER_PROGRAM = "another program"
"""What `holders` says of a program, or of a mount in another mount namespace."""


def holders(path: Path) -> list[str]:
    """Return the users of a block device or image file in words.

    These are mounts, swap, devices on top of it, or a program that opened it exclusively.
    """
    path = path.resolve()
    found = path.stat()
    if not stat.S_ISBLK(found.st_mode):
        return [f"the loop device /dev/{name}" for name in loops.backed_by(path, found.st_ino)]
    number = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    folder = Path("/sys/dev/block") / number
    numbers = numbers_of(path)
    said: list[str] = []
    for mount in read_mounts():
        if mount.device_number in numbers or number_at(mount.source) in numbers:
            said.append(f"mounted on {mount.directory}")
    for line in Path("/proc/swaps").read_text().splitlines()[1:]:
        if number_at(line.split()[0]) in numbers:
            said.append("swap space")
    for holder in sorted({*folder.glob("holders/*"), *folder.glob("*/holders/*")}):
        said.append(f"part of {holder.name}")
    disk = folder.resolve().parent if (folder / "partition").exists() else folder.resolve()
    loops_on = {*loops.on_device(numbers), *loops.of_same_file(disk.name)}
    said += [f"the loop device /dev/{name}" for name in sorted(loops_on)]
    if not said:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            said.append(ANOTHER_PROGRAM)
    return list(dict.fromkeys(said))
