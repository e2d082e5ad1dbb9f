"""Runs a profile's operations on real files, in order, each after the recorded work and sleep.

Work is CPU time of this thread, spent in a loop: it takes longer if cores are shared, as it did for
the job. Sleep is wall time. Both are accurate to 0.1 ms: sleeps end a little early, and the rest is
busy-waited.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.profiles.primitives import Primitive

_PR_SET_TIMERSLACK = 29
_EARLY_NS = 60_000
"""A sleep is requested to end this much early: waking takes some 10 to 50 us."""
_WRITE_CHUNK_BYTES = 1 << 20


@dataclass
class Replayed:
    """What was replayed."""

    read_calls: int = 0
    bytes_asked: int = 0
    bytes_written: int = 0
    read_wait_s: float = 0.0
    events: int = 0
    operations: int = 0
    work_ns: int = 0
    """Requested work."""
    wait_ns: int = 0
    late_ns_max: int = 0
    """The longest overrun of a sleep."""
    ranges: dict[str, list[tuple[int, int]]] = field(
        default_factory=dict[str, list[tuple[int, int]]]
    )

    @property
    def bytes_unique(self) -> int:
        """Bytes read, each counted once."""
        total = 0
        for ranges in self.ranges.values():
            end = 0
            for start, stop in sorted(ranges):
                total += max(0, stop - max(start, end))
                end = max(end, stop)
        return total


class Replayer:
    """Replays one job on its own files."""

    def __init__(
        self,
        files: Mapping[str, Path],
        *,
        new: frozenset[str] = frozenset(),
        directs: frozenset[str] = frozenset(),
        kept: frozenset[str] = frozenset(),
    ) -> None:
        """`files`: the path of each file set's file. `new`: files that the job creates. `directs`:
        files opened with O_DIRECT. `kept`: the user's own files: opened read-only, never
        changed."""
        self._files = files
        self._new = new
        self._directs = directs
        self._kept = kept
        self._open: dict[str, int] = {}
        self._maps: dict[str, mmap.mmap] = {}
        self._buffer = mmap.mmap(-1, _WRITE_CHUNK_BYTES)
        self._noise = os.urandom(_WRITE_CHUNK_BYTES)
        self._buffer.write(self._noise)

    def run(self, operations: Iterable[Primitive], *, think: bool = True) -> Replayed:
        """Run all operations; without `think`, skip their work and sleep. Raises HeadraceError that
        names a missing file."""
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        done = Replayed()
        free_since_ns, free_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
        try:
            for each in operations:
                if think:
                    if each.cpu_ns:
                        done.work_ns += each.cpu_ns
                        until = free_cpu_ns + each.cpu_ns
                        while time.thread_time_ns() < until:
                            pass
                    if each.wait_ns:
                        done.wait_ns += each.wait_ns
                        begin = free_since_ns if not each.cpu_ns else time.perf_counter_ns()
                        self._sleep(begin + each.wait_ns, done)
                done.events += each.events
                self._do(each, done)
                # Our own overhead of the operation counts as part of the work that follows.
                free_since_ns, free_cpu_ns = self._after
        except OSError as error:
            raise self._said(error) from error
        finally:
            self.close()
        return done

    def close(self) -> None:
        """Close all open files and maps."""
        for mapped in self._maps.values():
            mapped.close()
        for descriptor in self._open.values():
            os.close(descriptor)
        self._maps.clear()
        self._open.clear()

    def _sleep(self, until_ns: int, done: Replayed) -> None:
        left = until_ns - time.perf_counter_ns()
        if left > 2 * _EARLY_NS:
            time.sleep((left - _EARLY_NS) * 1e-9)
        while (now := time.perf_counter_ns()) < until_ns:
            pass
        done.late_ns_max = max(done.late_ns_max, now - until_ns)

    _after: tuple[int, int] = (0, 0)

    def _do(self, each: Primitive, done: Replayed) -> None:
        if each.file in self._kept and each.do in ("create", "delete", "write"):
            raise HeadraceError(
                f"{self._files[each.file]}: the profile would change this file ({each.do})",
                hint='leave place = "recorded" out: each slot then has files of its own',
            )
        if each.do == "read":
            self._read(each, done)
        elif each.do == "write":
            self._write(each, done)
        elif each.do == "open":
            self._descriptor(each.file, anew=True)
        elif each.do == "create":
            self._close(each.file)
            self._open[each.file] = self._open_file(each.file, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        elif each.do == "close":
            self._close(each.file)
        elif each.do == "stat":
            with contextlib.suppress(FileNotFoundError):
                self._files[each.file].stat()
        elif each.do == "fsync":
            os.fsync(self._descriptor(each.file))
        elif each.do == "delete":
            self._close(each.file)
            with contextlib.suppress(FileNotFoundError):
                self._files[each.file].unlink()
        elif each.do in ("truncate", "allocate", "reserve"):
            self._size(each)
        done.operations += each.do != "nothing"
        self._after = time.perf_counter_ns(), time.thread_time_ns()

    def _open_file(self, name: str, flags: int) -> int:
        path = self._files[name]
        direct = os.O_DIRECT if name in self._directs else 0
        try:
            return os.open(path, flags | os.O_CLOEXEC | direct, 0o644)
        except OSError as error:
            if direct and error.errno == errno.EINVAL:
                # A filesystem without O_DIRECT (tmpfs).
                return os.open(path, flags | os.O_CLOEXEC, 0o644)
            raise

    def _descriptor(self, name: str, *, anew: bool = False) -> int:
        if anew:
            self._close(name)
        if name not in self._open:
            if name in self._new:
                flags = os.O_RDWR | os.O_CREAT
            else:
                writable = name not in self._kept and os.access(self._files[name], os.W_OK)
                flags = os.O_RDWR if writable else os.O_RDONLY
            self._open[name] = self._open_file(name, flags)
        return self._open[name]

    def _close(self, name: str) -> None:
        if (mapped := self._maps.pop(name, None)) is not None:
            mapped.close()
        if (descriptor := self._open.pop(name, None)) is not None:
            os.close(descriptor)

    def _room(self, size: int) -> memoryview:
        """Return a page-aligned buffer of `size` bytes."""
        if size > len(self._buffer):
            self._buffer = mmap.mmap(-1, size)
            for at in range(0, size, _WRITE_CHUNK_BYTES):
                self._buffer[at : at + _WRITE_CHUNK_BYTES] = self._noise[: size - at]
        return memoryview(self._buffer)[:size]

    def _size(self, each: Primitive) -> None:
        """Give a file a size or space; the user's files, which are open read-only, stay
        unchanged."""
        if each.file in self._kept:
            return
        descriptor = self._descriptor(each.file)
        if each.do == "truncate":
            os.ftruncate(descriptor, each.offset_bytes)
            return
        size = os.fstat(descriptor).st_size
        if each.length_bytes:
            os.posix_fallocate(descriptor, each.offset_bytes, each.length_bytes)
        if each.do == "reserve":
            os.ftruncate(descriptor, size)

    def _mapping(self, name: str, end: int) -> mmap.mmap | None:
        """Return a map of the whole file at its current size; None while it is empty."""
        size = os.fstat(self._descriptor(name)).st_size
        mapped = self._maps.get(name)
        if (mapped is not None and len(mapped) < min(end, size)) or (
            mapped is not None and len(mapped) > size
        ):
            self._maps.pop(name).close()
            mapped = None
        if mapped is None and size:
            mapped = self._maps[name] = mmap.mmap(
                self._descriptor(name), 0, access=mmap.ACCESS_READ
            )
        return mapped

    def _read(self, each: Primitive, done: Replayed) -> None:
        descriptor = self._descriptor(each.file)
        done.bytes_asked += each.length_bytes
        done.read_calls += 1
        done.ranges.setdefault(each.file, []).append(
            (each.offset_bytes, each.offset_bytes + each.length_bytes)
        )
        if each.access == "mapped":
            mapped = self._mapping(each.file, each.offset_bytes + each.length_bytes)
            if mapped is None:
                return
            end = min(each.offset_bytes + each.length_bytes, len(mapped))
            for at in range(each.offset_bytes, end, mmap.PAGESIZE):
                _ = mapped[at]
            return
        view = self._room(each.length_bytes)
        begin = time.perf_counter()
        at, filled = each.offset_bytes, 0
        while filled < each.length_bytes:
            got = os.preadv(descriptor, [view[filled:]], at + filled)
            if got == 0:
                break
            filled += got
        done.read_wait_s += time.perf_counter() - begin

    def _write(self, each: Primitive, done: Replayed) -> None:
        descriptor = self._descriptor(each.file)
        at = each.offset_bytes if each.offset_bytes >= 0 else os.fstat(descriptor).st_size
        view, written = self._room(each.length_bytes), 0
        while written < each.length_bytes:
            written += os.pwritev(descriptor, [view[written:]], at + written)
        done.bytes_written += each.length_bytes

    def _said(self, error: OSError) -> HeadraceError:
        if error.errno == errno.ENOENT:
            return HeadraceError(
                f"{error.filename}: the file is gone, and the profile reads it",
                hint='replay lays out files of its own, unless place = "recorded"',
            )
        return HeadraceError(f"{error.filename or 'a file'}: {error.strerror or error}")
