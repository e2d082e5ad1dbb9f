"""What a sleeping thread waits for, from its state, system call and wait channel (proc(5)).

A thread that sleeps in a read or write of a file waits for the storage of that file. In state D
(uninterruptible) outside such a call, its wait channel (the kernel function that it sleeps in) and
the files it has mapped tell. The system call needs the right to trace the process (ptrace(2): its
owner, or root); without it only state D is seen, and the storage is not known.
"""

from __future__ import annotations

import platform

from headrace.system.wait_channels import channel_of
from headrace.watching.ledger import UNKNOWN_STORAGE, State, StorageWait
from headrace.watching.places import Places
from headrace.watching.process import Threads

# System calls whose first argument is the descriptor of what is waited for.
_BY_DESCRIPTOR = {
    # read, write, pread64, pwrite64, readv, writev, sendfile (from: second), recvfrom, recvmsg,
    # fsync, fdatasync, ftruncate, getdents64, fallocate, sync_file_range, preadv, pwritev,
    # preadv2, pwritev2, copy_file_range
    "x86_64": {0, 1, 17, 18, 19, 20, 45, 47, 74, 75, 77, 217, 285, 277, 295, 296, 327, 328, 326},
    "aarch64": {63, 64, 67, 68, 65, 66, 207, 212, 82, 83, 46, 61, 47, 84, 69, 70, 286, 287, 285},
}
_CALLS = frozenset(_BY_DESCRIPTOR.get(platform.machine(), set()))
# System calls that only sleep interruptibly, for no storage: poll, select, nanosleep, futex,
# epoll_wait, wait4, clock_nanosleep, waitid, pselect6, ppoll, epoll_pwait, epoll_pwait2.
_IDLE = {
    "x86_64": {b"7", b"23", b"35", b"202", b"232", b"61", b"230", b"247", b"270", b"271", b"281"},
    "aarch64": {b"101", b"98", b"22", b"260", b"115", b"95", b"72", b"73", b"441"},
}
_IDLE_CALLS = frozenset(_IDLE.get(platform.machine(), set[bytes]()))

RUNNING = State(StorageWait("cpu", ""))
IDLE = State(None)


class StateReader:
    """Reads the states of threads. `denied` tells whether a system call could not be read."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self.denied = False

    def read(self, pid: int, threads: Threads, thread: int) -> State:
        """Return what a thread does now. Raises OSError when it has ended."""
        # Most threads sleep in a call that says all: the state is read only for the others.
        words = self._call_words(threads, thread)
        if words is not None and words[0] in _IDLE_CALLS:
            return IDLE
        fields = threads.read(thread, "stat")
        letter = fields[fields.rindex(b")") + 2 :][:1]
        if letter == b"R":
            return RUNNING
        if letter not in (b"S", b"D"):
            return IDLE
        if words is not None and words[0] == b"running":  # it fell asleep in between
            words = self._call_words(threads, thread)
        call = _call(words)
        if letter == b"S":
            return self._interruptible(pid, threads, thread, call)
        return self._uninterruptible(pid, threads, thread, call)

    def _call_words(self, threads: Threads, thread: int) -> list[bytes] | None:
        """Return the words of `syscall`; None when it may not be read."""
        try:
            return threads.read(thread, "syscall").split()
        except (ProcessLookupError, FileNotFoundError):
            raise  # the thread has ended
        except OSError:
            self.denied = True
            return None

    def _interruptible(
        self, pid: int, threads: Threads, thread: int, call: tuple[int, int] | None
    ) -> State:
        if call is None or call[0] not in _CALLS:
            return IDLE
        # Block devices are waited for in state D: a file in this one is a named pipe.
        wait = self._places.of_descriptor(pid, call[1])
        return State(wait) if wait is not None and wait.kind == "network" else IDLE

    def _uninterruptible(
        self, pid: int, threads: Threads, thread: int, call: tuple[int, int] | None
    ) -> State:
        try:
            function = threads.read(thread, "wchan")
        except (ProcessLookupError, FileNotFoundError):
            raise
        except OSError:
            function = b"0"
        channel = channel_of(function)
        if channel.kind == "memory":
            return State(StorageWait("memory", ""))
        if channel.kind == "child":
            return IDLE
        counted = function == b"0" or channel.kind == "block"
        wait: StorageWait | None = None
        if call is not None and call[0] in _CALLS:
            wait = self._places.of_descriptor(pid, call[1])
        elif call is not None and call[0] == -1:
            wait = self._places.of_largest_map(pid)
        if wait is None and channel.filesystems:
            wait = self._places.of_kind(pid, channel.filesystems) or StorageWait("network", "")
        return State(wait or UNKNOWN_STORAGE, counted)


def _call(words: list[bytes] | None) -> tuple[int, int] | None:
    """Return number and first argument of a system call; None when it may not be read."""
    if words is None:
        return None
    if len(words) < 2 or words[0].startswith(b"-"):
        return -1, 0
    return int(words[0]), int(words[1], 16)
