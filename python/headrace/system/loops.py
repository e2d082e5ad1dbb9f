"""Base layer: loop devices: files as block devices (loop(4)).

Direct I/O avoids caching their bytes twice. One LOOP_CONFIGURE call (Linux 5.8) attaches a device,
so that a partly configured device never exists.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError, MissingError
from headrace.system.waiting import retry, wait_until

if TYPE_CHECKING:
    from headrace.system.journal import Journal, JournalEntry

# linux/loop.h
_LOOP_CLR_FD = 0x4C01
_LOOP_GET_STATUS64 = 0x4C05
_LOOP_CONFIGURE = 0x4C0A
_LOOP_CTL_GET_FREE = 0x4C82
_LO_FLAGS_DIRECT_IO = 16
_INFO = struct.Struct("=QQQQQIIII64s64s32sQQ")  # struct loop_info64
_CONFIG = struct.Struct(f"=II{_INFO.size}s64s")  # struct loop_config


@dataclass(frozen=True)
class Loop:
    """An attached loop device."""

    name: str
    """Kernel name, such as `loop0`."""
    file: Path
    direct_io: bool
    """False when the file's file system does not support it.

    The page cache then holds the bytes twice.
    """
    entry: JournalEntry

    @property
    def device(self) -> Path:
        """Its device file."""
        return Path("/dev") / self.name


def _status(name: str) -> tuple[Any, ...] | None:
    """Return `struct loop_info64` of a loop device, None when it has no file."""
    try:
        handle = os.open(f"/dev/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _INFO.unpack(fcntl.ioctl(handle, _LOOP_GET_STATUS64, bytes(_INFO.size)))
    except OSError:
        return None
    finally:
        os.close(handle)


def labelled(label: str) -> list[str]:
    """Return the loop devices that were attached with this label."""
    return [name for name in attached() if label_of(name) == label]


def label_of(name: str) -> str | None:
    """Return the label of a loop device (default: its file's path); None without a file."""
    info = _status(name)
    return None if info is None else info[9].rstrip(b"\0").decode(errors="replace")


def attached() -> dict[str, Path]:
    """Return the attached loop devices by kernel name, with their files."""
    found: dict[str, Path] = {}
    for device in Path("/sys/block").glob("loop*"):
        try:
            text = (device / "loop" / "backing_file").read_text().rstrip("\n")
        except OSError:
            continue
        found[device.name] = Path(text.removesuffix(" (deleted)"))
    return found


def backed_by(file: Path, inode: int) -> list[str]:
    """Return the loop devices backed by exactly this file."""
    names: list[str] = []
    for name, path in attached().items():
        if path == file:
            info = _status(name)
            if info is not None and info[1] == inode:
                names.append(name)
    return names


def on_device(numbers: set[str]) -> list[str]:
    """Return the loop devices that are made of a block device of these numbers `major:minor`.

    The kernel lets a program claim such a device all the same.
    """
    found: list[str] = []
    for name in attached():
        info = _status(name)
        if info is not None and f"{os.major(info[2])}:{os.minor(info[2])}" in numbers:
            found.append(name)
    return found


def of_same_file(name: str) -> list[str]:
    """Return the other loop devices with the file of a loop device; none for another device."""
    own = _status(name) if name in attached() else None
    if own is None:
        return []
    others = ((other, _status(other)) for other in attached() if other != name)
    return [other for other, info in others if info is not None and info[:2] == own[:2]]


def detach_backed_by(file: Path, inode: int, patience_s: float = 8.0) -> list[str]:
    """Detach every loop device of exactly this file; return their names.

    A device that is still open disappears when it is closed: this waits for up to `patience_s`,
    then raises HeadraceError.
    """
    return _detach(lambda: backed_by(file, inode), patience_s)


def detach_labelled(label: str, patience_s: float = 8.0) -> list[str]:
    """Detach every loop device with this label; return their names.

    Raises HeadraceError when one stays in use.
    """
    return _detach(lambda: labelled(label), patience_s)


def _detach(find: Callable[[], list[str]], patience_s: float) -> list[str]:
    names = find()
    for name in names:
        handle = os.open(f"/dev/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(handle, _LOOP_CLR_FD)
        except OSError as error:
            if error.errno != errno.ENXIO:  # already detached
                raise
        finally:
            os.close(handle)
    if not wait_until(lambda: not find(), patience_s, 0.02) and (left := find()):
        raise HeadraceError(f"/dev/{left[0]} is still in use")
    return names


def attach(journal: Journal, file: Path, *, direct_io: bool = True) -> Loop:
    """Attach a file as a block device; `journal.undo` of its entry detaches it.

    Raises MissingError when loop devices are unavailable, in the kernel or by rights; HeadraceError
    for other errors.
    """
    file = file.resolve()
    try:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise MissingError("this kernel has no loop devices", hint="modprobe loop") from error
    except PermissionError as error:
        raise MissingError("making a loop device needs root", hint="run as root") from error
    backing = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    entry = journal.begin("detach_loop", file=str(file), inode=os.fstat(backing).st_ino)
    try:
        name = _configure(
            control, backing, os.fsencode(file)[:63], _LO_FLAGS_DIRECT_IO if direct_io else 0
        )
    except Exception:
        journal.end(entry)
        raise  # after Ctrl-C the device may exist: the entry stays
    finally:
        os.close(backing)
        os.close(control)
    reached = Path(f"/sys/block/{name}/loop/dio").read_text().strip() == "1"
    return Loop(name, file, reached, entry)


def attach_labelled(backing: int, label: str) -> str:
    """Attach an open file with direct I/O under a label instead of its path.

    Return the kernel name. The caller has journalled it. Raises MissingError without loop devices,
    HeadraceError for other errors.
    """
    try:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise MissingError(
            f"/dev/loop-control: {error.strerror}", hint="run as root; modprobe loop"
        ) from error
    try:
        return _configure(control, backing, label.encode(), _LO_FLAGS_DIRECT_IO)
    finally:
        os.close(control)


def _configure(control: int, backing: int, label: bytes, flags: int) -> str:
    info = _INFO.pack(0, 0, 0, 0, 0, 0, 0, 0, flags, label, b"", b"", 0, 0)
    config = _CONFIG.pack(backing, 0, info, b"")
    for _ in range(100):
        name = f"loop{fcntl.ioctl(control, _LOOP_CTL_GET_FREE)}"
        device = _open_when_there(name)
        try:
            fcntl.ioctl(device, _LOOP_CONFIGURE, config)
        except OSError as error:
            if error.errno == errno.EBUSY:  # another program took it first: try the next one
                continue
            if error.errno == errno.EINVAL and flags:
                flags, config = (
                    0,
                    _CONFIG.pack(backing, 0, _INFO.pack(*[0] * 9, label, b"", b"", 0, 0), b""),
                )
                continue
            raise HeadraceError(
                f"{os.fsdecode(label)} cannot be made a loop device: {error.strerror}"
            ) from error
        finally:
            os.close(device)
        return name
    raise HeadraceError(f"no free loop device for {os.fsdecode(label)}")


def _open_when_there(name: str) -> int:
    def opened() -> int:
        return os.open(f"/dev/{name}", os.O_RDWR | os.O_CLOEXEC)

    try:
        # udev creates the new device file a moment later.
        return retry(opened, FileNotFoundError, 5.0, 0.01)
    except FileNotFoundError as error:
        raise HeadraceError(f"/dev/{name} was not created") from error
