"""Base layer: the page cache: empty it, fill it, and count the cached bytes of files."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

from headrace.errors import HeadraceError, MissingError

_CACHESTAT = 451  # Linux 6.5, the same number on every architecture
_PAGE = mmap.PAGESIZE
_DROP = Path("/proc/sys/vm/drop_caches")
_COUNTERS = Path("/proc/vmstat")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _CacheStat(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    )


def can_drop_all() -> bool:
    """Return True when this process may empty the whole page cache."""
    return os.access(_DROP, os.W_OK)


def drop_all() -> None:
    """Empty the page cache: write back all dirty pages of the machine, then drop clean ones.

    Directory entries and inodes are dropped too. Raises MissingError without root; use `drop_files`
    then.
    """
    os.sync()
    try:
        _DROP.write_text("3")
    except OSError as error:
        raise MissingError(
            "emptying the whole page cache needs root", hint="run as root"
        ) from error


def drops() -> int | None:
    """Return how often the whole page cache was dropped since the boot, by any program.

    None if the kernel does not count it.
    """
    try:
        lines = _COUNTERS.read_text().splitlines()
    except OSError:
        return None
    counts = (line.split()[1] for line in lines if line.startswith("drop_pagecache "))
    return next((int(count) for count in counts), None)


def drop_files(paths: Iterable[Path | str]) -> int:
    """Write back and drop the pages of these files; needs no root.

    Return the bytes that stayed resident (pages that a process has mapped or that are being
    written). Raises HeadraceError for a file that cannot be read.
    """
    left = 0
    for path in paths:
        handle = _open(path)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            left += _resident(handle)
        finally:
            os.close(handle)
    return left


def resident_bytes(paths: Iterable[Path | str]) -> int:
    """Return the cached bytes of these files, in whole pages.

    Raises HeadraceError for an unreadable file.
    """
    total = 0
    for path in paths:
        handle = _open(path)
        try:
            total += _resident(handle)
        finally:
            os.close(handle)
    return total


def warm(paths: Iterable[Path | str]) -> int:
    """Read these files completely into the page cache; return their cached bytes afterwards.

    These are fewer than the files' size when memory is short. Raises HeadraceError for an
    unreadable file.
    """
    buffer = bytearray(1 << 20)
    names = list(paths)
    for path in names:
        handle = _open(path)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            while os.readv(handle, [buffer]):
                pass
        except OSError as error:
            raise HeadraceError(f"{path} cannot be read: {error.strerror}") from error
        finally:
            os.close(handle)
    return resident_bytes(names)


def _open(path: Path | str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise HeadraceError(f"{path} cannot be read: {error.strerror}") from error


def _resident(handle: int) -> int:
    span, found = _Range(0, 0), _CacheStat()
    if _libc.syscall(_CACHESTAT, handle, ctypes.byref(span), ctypes.byref(found), 0) == 0:
        return found.cached * _PAGE
    if ctypes.get_errno() not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return _resident_by_mincore(handle)


def _resident_by_mincore(handle: int) -> int:
    """Count with mmap and mincore, for kernels before 6.5."""
    size = os.fstat(handle).st_size
    if size == 0:
        return 0
    address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, handle, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    try:
        pages = ctypes.create_string_buffer((size + _PAGE - 1) // _PAGE)
        if _libc.mincore(address, size, pages) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(byte & 1 for byte in pages.raw) * _PAGE
    finally:
        _libc.munmap(address, size)
