"""What a sleeping thread waits for, from its state, system call and wait channel (proc(5)).

A thread that sleeps in a read or write of a file waits for the storage of that file. One that
sleeps in another call (a timer, a lock, a poll) waits for what this call is for. Otherwise its wait
channel (the kernel function that it sleeps in) and the path of its call (open, stat) tell, and in
state D (uninterruptible) the files it has mapped. The system call needs the right to trace the
process (ptrace(2): its owner, or root); without it only state D is seen, and the storage is not
known.
"""

from __future__ import annotations

import contextlib
import platform

from headrace.system.wait_channels import WaitChannel, channel_of
from headrace.watching.ledger import UNKNOWN_STORAGE, State, StorageWait
from headrace.watching.path_calls import path_of
from headrace.watching.places import Places
from headrace.watching.polls import POLLS, Polls
from headrace.watching.process import ProcessReader

# System calls whose first argument is the descriptor of what is waited for.
_BY_DESCRIPTOR = {
    # read, write, pread64, pwrite64, readv, writev, recvfrom, recvmsg,
    # fsync, fdatasync, ftruncate, getdents64, fallocate, sync_file_range, preadv, pwritev,
    # preadv2, pwritev2, copy_file_range
    "x86_64": {0, 1, 17, 18, 19, 20, 45, 47, 74, 75, 77, 217, 285, 277, 295, 296, 327, 328, 326},
    "aarch64": {63, 64, 67, 68, 65, 66, 207, 212, 82, 83, 46, 61, 47, 84, 69, 70, 286, 287, 285},
}
_READ = {"x86_64": 0, "aarch64": 63}.get(platform.machine(), -1)
_CALLS = frozenset(_BY_DESCRIPTOR.get(platform.machine(), set()))
# sendfile: its second argument is read from. Python copies files with it.
_SENDFILE = {"x86_64": b"40", "aarch64": b"71"}.get(platform.machine(), b"")
# System calls that only sleep interruptibly, for no storage, and what for. Of threads beside the
# first it says nothing: those of libraries wait all the time.
_IDLE: dict[str, dict[bytes, str]] = {
    # nanosleep, clock_nanosleep; futex, semop, semtimedop; flock, fcntl; wait4, waitid; pause,
    # rt_sigsuspend, rt_sigtimedwait; accept, accept4
    "x86_64": {
        b"35": "timer", b"230": "timer", b"202": "locks", b"65": "locks", b"220": "locks",
        b"73": "a file lock", b"72": "a file lock", b"61": "", b"247": "", b"34": "a signal",
        b"130": "a signal", b"128": "a signal", b"43": "clients", b"288": "clients",
    },
    "aarch64": {
        b"101": "timer", b"115": "timer", b"98": "locks", b"193": "locks", b"192": "locks",
        b"32": "a file lock", b"25": "a file lock", b"260": "", b"95": "", b"133": "a signal",
        b"137": "a signal", b"202": "clients", b"242": "clients",
    },
}  # fmt: skip
# io_getevents, io_pgetevents, io_uring_enter: wait in state S for requests made before.
_ASYNCHRONOUS = {"x86_64": {208, 333, 426}, "aarch64": {4, 292, 426}}
_REQUESTS = frozenset(_ASYNCHRONOUS.get(platform.machine(), set[int]()))
_IDLE_CALLS = _IDLE.get(platform.machine(), {})

RUNNING = State(StorageWait("cpu", ""))
IDLE = State(None)
_AT_PIPE = State(StorageWait("pipe", "a pipe"))
_EVENTS = State(StorageWait("idle", "events"))
_STOPPED = State(StorageWait("idle", "SIGCONT"))
_FOR = {name: State(StorageWait("idle", name)) if name else IDLE for name in _IDLE_CALLS.values()}
_OF_CHILDREN = ("", "a signal")


class StateReader:
    """Reads the states of threads. `denied` tells whether a system call could not be read,
    `for_child` whether the thread waits for something that a child of its process may give."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._polls = Polls(places.peers)
        self.denied = False
        self.for_child = False

    def read(self, pid: int, reader: ProcessReader, thread: int, *, still: bool = False) -> State:
        """Return what a thread does now. Raises OSError when it has ended.

        `still`: it may be stopped, which its system call does not tell.
        """
        self.for_child = False
        # Most threads sleep in a call that says all: the state is read only for the others.
        words = self._call_words(reader, thread)
        if still and _letter(reader, thread) in b"Tt":
            return _STOPPED if thread == pid else IDLE
        if words is not None and (call := words[0]) in _IDLE_CALLS:
            self.for_child = _IDLE_CALLS[call] in _OF_CHILDREN
            return _FOR[_IDLE_CALLS[call]] if thread == pid else IDLE
        if words is not None and words[0] in POLLS:
            return self._polling(pid, reader, thread, words)
        letter = _letter(reader, thread)
        if letter == b"R":
            return RUNNING
        if letter not in (b"S", b"D"):
            return _STOPPED if letter in b"Tt" and thread == pid else IDLE
        if words is not None and words[0] == b"running":  # it fell asleep in between
            words = self._call_words(reader, thread)
        if letter == b"S":
            return self._interruptible(pid, reader, thread, words)
        return self._uninterruptible(pid, reader, thread, words)

    def _call_words(self, reader: ProcessReader, thread: int) -> list[bytes] | None:
        """Return the words of `syscall`; None when it may not be read."""
        try:
            return reader.read_thread(thread, "syscall").split()
        except (ProcessLookupError, FileNotFoundError):
            raise  # the thread has ended
        except OSError:
            self.denied = True
            return None

    def _interruptible(
        self, pid: int, reader: ProcessReader, thread: int, words: list[bytes] | None
    ) -> State:
        call = _call(words)
        if call is not None and call[0] in _REQUESTS:
            wait = self._places.of_open_files(pid)
            return State(wait) if wait is not None else IDLE
        if call is None or call[0] not in _CALLS:
            # open, stat, close … of FUSE sleep in this state, as its reads do.
            channel = channel_of(_function(reader, thread))
            return State(self._network(pid, words, channel)) if channel.filesystems else IDLE
        # Block devices are waited for in state D: a file in this one is a named pipe.
        wait = self._places.of_descriptor(pid, call[1])
        if wait is not None and wait.kind == "network":
            return State(wait)
        if thread != pid or not self._places.is_pipe(pid, call[1]):
            return IDLE
        self.for_child = True
        return _AT_PIPE

    def _polling(self, pid: int, reader: ProcessReader, thread: int, words: list[bytes]) -> State:
        """Return what a poll waits for. One of a library's thread, while the program itself sleeps
        for a time, is for no answer that the program needs."""
        if server := self._polls.server(pid, words):
            if thread == pid:
                return State(StorageWait("poll", server))
            first = self._call_words(reader, pid)
            if first is None or _IDLE_CALLS.get(first[0]) != "timer":
                return State(StorageWait("poll", server))
        self.for_child = True
        return _EVENTS if thread == pid else IDLE

    def _uninterruptible(
        self, pid: int, reader: ProcessReader, thread: int, words: list[bytes] | None
    ) -> State:
        call = _call(words)
        function = _function(reader, thread)
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
        elif not channel.filesystems:
            wait = self._of_path(pid, words)
        if wait is None and channel.filesystems:
            wait = self._network(pid, words, channel)
        return State(wait or UNKNOWN_STORAGE, counted)

    def _network(self, pid: int, words: list[bytes] | None, channel: WaitChannel) -> StorageWait:
        """Return the wait for a network file system whose function a thread sleeps in."""
        wait = self._of_path(pid, words)
        if wait is None or wait.kind != "network":  # by a symbolic link, perhaps
            wait = self._places.of_kind(pid, channel.filesystems)
        return wait or StorageWait("network", "")

    def _of_path(self, pid: int, words: list[bytes] | None) -> StorageWait | None:
        with contextlib.suppress(OSError, ValueError):
            if words is not None and (path := path_of(pid, words)) is not None:
                return self._places.of_path(pid, path)
        return None


def _letter(reader: ProcessReader, thread: int) -> bytes:
    """Return the state of a thread (proc(5)). Raises OSError when it has ended."""
    fields = reader.read_thread(thread, "stat")
    return fields[fields.rindex(b")") + 2 :][:1]


def _function(reader: ProcessReader, thread: int) -> bytes:
    """Return the kernel function that a thread sleeps in. Raises OSError when it has ended."""
    try:
        return reader.read_thread(thread, "wchan")
    except (ProcessLookupError, FileNotFoundError):
        raise
    except OSError:
        return b"0"


def _call(words: list[bytes] | None) -> tuple[int, int] | None:
    """Return number and first argument of a system call; None when it may not be read."""
    if words is None:
        return None
    if len(words) < 3 or words[0].startswith(b"-"):
        return -1, 0
    if words[0] == _SENDFILE:
        return _READ, int(words[2], 16)
    return int(words[0]), int(words[1], 16)
