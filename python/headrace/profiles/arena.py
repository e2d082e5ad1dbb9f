"""The unnamed file that recorded processes write into (crates/recorder).

Processes open it by its link in /proc; it is read at the end. Because it has no name, no program
finds it in a directory, not even the recorded one, and none of it remains, however the recording
ends.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
import secrets
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path

import numpy as np
import numpy.typing as npt

from headrace.errors import HeadraceError

_MAGIC = b"HRREC\0\0\x02"
_SEGMENT_BYTES = 64 << 10
_SLOT_BYTES = 64
_READ_BYTES = 1 << 30
_LEAST_ROOM_BYTES = 256 << 10
"""Free bytes of a filesystem: less ends a recording before its first records."""
_SLOTS = _SEGMENT_BYTES // _SLOT_BYTES
_SIZES = (1 << 40, 1 << 34)
"""Sizes of the file, which is sparse: they limit the length of a recording."""
_HEAD = struct.Struct("<8sQQQIIIIII")
"""Magic, token, limit, next; files, threads, images, directories, facts, freed."""
_TEXT, _MORE, _SEGMENT = 64, 65, 66
_HIGHEST_OP = 63
RECORD = np.dtype(
    [
        ("op", "u1"),
        ("failed", "u1"),
        ("flags", "<u2"),
        ("file", "<u4"),
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("cpu_start_ns", "<u8"),
        ("cpu_within_ns", "<u4"),
        ("thread", "<u4"),
        ("offset", "<u8"),
        ("length", "<u8"),
        ("asked", "<u8"),
    ]
)
assert RECORD.itemsize == _SLOT_BYTES


class Fact(IntFlag):
    """Facts that hold for the whole recording (crates/recorder, `arena.rs`)."""

    FULL = 1
    UNMAPPED = 2
    SANDBOX = 4
    STREAMS = 8
    IO_URING = 16
    LIBAIO = 32
    POSIX_AIO = 64
    MAPS = 128
    PAGES = 256
    HOLES = 512
    SYNCS = 1024
    DESCRIPTORS = 2048


@dataclass(frozen=True)
class Text:
    """One text of a recording (crates/recorder, `names.rs` defines the fields of each letter)."""

    letter: str
    number: int
    fields: list[str]


@dataclass(frozen=True)
class Written:
    """What the recorded processes wrote."""

    records: npt.NDArray[np.void]
    """Records of type `RECORD`, unordered."""
    texts: list[Text]
    other_read_bytes: int
    """Bytes that the kernel counts as read and that no record covers: of pipes, terminals, the
    recorder itself."""
    other_written_bytes: int
    facts: Fact


class Arena:
    """The file, open while the recording is made and read."""

    def __init__(self, places: Sequence[Path]) -> None:
        """Create it in the first of the folders that can hold it. Raises HeadraceError with the
        first folder's problem if none can."""
        problems: list[OSError] = []
        for place in places:
            try:
                self._descriptor, self._size = _make(place)
                break
            except OSError as error:
                problems.append(error)
        else:
            raise HeadraceError(
                f"{places[0]}: the recording cannot be kept: {problems[0].strerror or problems[0]}"
            ) from problems[0]
        self._token = secrets.randbits(63)
        head = _HEAD.pack(_MAGIC, self._token, self._size // _SEGMENT_BYTES, 1, 0, 0, 0, 0, 0, 0)
        os.pwrite(self._descriptor, head, 0)

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def variable(self) -> tuple[str, str]:
        """Return the environment variable by which programs find it, and its value."""
        facts = os.fstat(self._descriptor)
        path = f"/proc/{os.getpid()}/fd/{self._descriptor}"
        return "HEADRACE_RECORD", f"{facts.st_dev}:{facts.st_ino}:{self._token}:{path}"

    def read(self) -> Written:
        """Return what has been written so far."""
        *_, segments, _, _, _, _, facts, _ = _HEAD.unpack(os.pread(self._descriptor, _HEAD.size, 0))
        segments = min(segments, self._size // _SEGMENT_BYTES)
        slots = self._slots(_SEGMENT_BYTES, segments * _SEGMENT_BYTES)
        heads = np.ascontiguousarray(slots[::_SLOTS]).view("<i8").reshape(-1, _SLOT_BYTES // 8)
        others = heads[slots[::_SLOTS]["op"] == _SEGMENT].sum(axis=0)
        return Written(
            slots[(slots["op"] > 0) & (slots["op"] <= _HIGHEST_OP)].copy(),
            list(_texts(slots)),
            int(others[2]),
            int(others[3]),
            Fact(facts),
        )

    def _slots(self, begin: int, end: int) -> npt.NDArray[np.void]:
        """Read instead of map: touching a hole of a mapping on a full disk kills the process."""
        slots = np.zeros((end - begin) // _SLOT_BYTES, RECORD)
        view = slots.view(np.uint8).data
        while begin < end and (got := os.preadv(self._descriptor, [view[:_READ_BYTES]], begin)):
            begin += got
            view = view[got:]
        return slots


def _make(place: Path) -> tuple[int, int]:
    """Return a descriptor of an unnamed file, and its size. Raises OSError if the filesystem does
    not support it or is full."""
    room = os.statvfs(place)
    # Some filesystems do not know their size: they say 0 blocks.
    if room.f_blocks and room.f_bavail * room.f_frsize < _LEAST_ROOM_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    descriptor = _nameless(place)
    try:
        size = _stretch(descriptor)
        # Processes write to the first segment without claiming it.
        os.pwrite(descriptor, bytes(_SEGMENT_BYTES), 0)
        with mmap.mmap(descriptor, _SEGMENT_BYTES) as mapped:
            mapped[0] = 0
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, size


def _stretch(descriptor: int) -> int:
    """Give the file the largest possible size. The user's limit of file sizes (`ulimit -f`) must
    not apply to it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    try:
        for size in _SIZES[:-1]:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)
                return size
        os.ftruncate(descriptor, _SIZES[-1])
        return _SIZES[-1]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _nameless(place: Path) -> int:
    with contextlib.suppress(OSError):
        return os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    descriptor, name = tempfile.mkstemp(prefix=".headrace-", dir=place)
    Path(name).unlink()
    if os.fstat(descriptor).st_nlink:
        # NFS keeps an open file under another name.
        os.close(descriptor)
        raise OSError(0, "its filesystem has no files without a name")
    return descriptor


def _texts(slots: npt.NDArray[np.void]) -> Iterator[Text]:
    """Yield the complete texts: a head, followed by as many slots as it announces."""
    raw = slots.view("u1").reshape(-1, _SLOT_BYTES)
    ops = slots["op"]
    for at in np.flatnonzero(ops == _TEXT).tolist():
        head = raw[at].tobytes()
        letter, length, number = head[1:2].decode(), *struct.unpack_from("<HI", head, 2)
        more = max(0, -(-(length - 56) // 63))
        if (ops[at + 1 : at + 1 + more] != _MORE).any():
            continue
        text = (head[8:] + raw[at + 1 : at + 1 + more, 1:].tobytes())[:length]
        yield Text(letter, number, text.decode(errors="surrogateescape").split("\t"))
