"""The kernel's taskstats: waits of each process, in nanoseconds.

The job ledger (probes/ledger.py) reads them over generic netlink
(Documentation/accounting/taskstats.rst and delay-accounting.rst of the kernel). This needs root in
the initial user and process namespaces; block I/O delays need `kernel.task_delayacct = 1` since
before the process started. No netlink library is used, because the slot process reads this around
every job: a socket, two requests and one structure are enough.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterator

import msgspec

_NETLINK_GENERIC = 16
_GENL_ID_CTRL = 16
_CTRL_CMD_GETFAMILY = 3
_CTRL_ATTR_FAMILY_ID = 1
_CTRL_ATTR_FAMILY_NAME = 2
_NLM_F_REQUEST = 1
_NLMSG_ERROR = 2
_SO_RCVBUFFORCE = 33

_CMD_GET = 1
_ATTR_PID, _ATTR_TGID, _ATTR_REGISTER_CPUMASK = 1, 2, 3
_TYPE_PID, _TYPE_TGID, _TYPE_STATS, _TYPE_AGGR_PID, _TYPE_AGGR_TGID = 1, 2, 3, 4, 5

_MESSAGE_BYTES = 65536
_EVENT_BUFFER_BYTES = 8 << 20
"""Holds about ten thousand exit events between two reads."""


class _Taskstats(ctypes.Structure):
    """`struct taskstats` of linux/taskstats.h up to version 12; later fields are not needed.

    Kernels 6.14 and 6.15 (version 15) moved fields; `TaskstatsSocket` detects this and refuses.
    """

    _fields_ = (
        ("version", ctypes.c_uint16),
        ("ac_exitcode", ctypes.c_uint32),
        ("ac_flag", ctypes.c_uint8),
        ("ac_nice", ctypes.c_uint8),
        ("cpu_count", ctypes.c_uint64),
        ("cpu_delay_total", ctypes.c_uint64),
        ("blkio_count", ctypes.c_uint64),
        ("blkio_delay_total", ctypes.c_uint64),
        ("swapin_count", ctypes.c_uint64),
        ("swapin_delay_total", ctypes.c_uint64),
        ("cpu_run_real_total", ctypes.c_uint64),
        ("cpu_run_virtual_total", ctypes.c_uint64),
        ("ac_comm", ctypes.c_char * 32),
        ("ac_sched", ctypes.c_uint64),
        ("ac_uid", ctypes.c_uint32),
        ("ac_gid", ctypes.c_uint32),
        ("ac_pid", ctypes.c_uint32),
        ("ac_ppid", ctypes.c_uint32),
        ("ac_btime", ctypes.c_uint32),
        ("ac_etime", ctypes.c_uint64),
        ("ac_utime", ctypes.c_uint64),
        ("ac_stime", ctypes.c_uint64),
        ("ac_minflt", ctypes.c_uint64),
        ("ac_majflt", ctypes.c_uint64),
        ("coremem", ctypes.c_uint64),
        ("virtmem", ctypes.c_uint64),
        ("hiwater_rss", ctypes.c_uint64),
        ("hiwater_vm", ctypes.c_uint64),
        ("read_char", ctypes.c_uint64),
        ("write_char", ctypes.c_uint64),
        ("read_syscalls", ctypes.c_uint64),
        ("write_syscalls", ctypes.c_uint64),
        ("read_bytes", ctypes.c_uint64),
        ("write_bytes", ctypes.c_uint64),
        ("cancelled_write_bytes", ctypes.c_uint64),
        ("later_than_io", ctypes.c_uint64 * 8),
        ("thrashing_delay_total", ctypes.c_uint64),
        ("ac_btime64", ctypes.c_uint64),
        ("compact", ctypes.c_uint64 * 2),
        ("ac_tgid", ctypes.c_uint32),
    )


_NAMED = (
    "version",
    "cpu_delay_total",
    "blkio_delay_total",
    "swapin_delay_total",
    "cpu_run_virtual_total",
    "ac_pid",
    "ac_ppid",
    "ac_etime",
    "hiwater_rss",
    "thrashing_delay_total",
    "ac_tgid",
)


def _unpacker() -> struct.Struct:
    """Return what reads `_NAMED` from the structure: every job reads the ends of all others'."""
    words, at = "=", 0
    for name in _NAMED:
        part = getattr(_Taskstats, name)
        words += f"{part.offset - at}x" + {2: "H", 4: "I", 8: "Q"}[part.size]
        at = part.offset + part.size
    return struct.Struct(words)


_FIELDS = _unpacker()
_EXIT = struct.Struct("=22xH2xH4x2xH")
_EXIT_OF_A_THREAD = (_TYPE_AGGR_PID, _TYPE_PID, _TYPE_STATS)
"""The message of one thread's exit, as most kernels send it: kinds of its three attributes, before
the structure."""
_ANSWER_OF_A_PROCESS = (_TYPE_AGGR_TGID, _TYPE_TGID, _TYPE_STATS)
"""The same of the answer for a process."""
_QUESTION = struct.Struct("=IHHIIBBHHHI")


class TaskDelays(msgspec.Struct, frozen=True):
    """Use and waits of a process (all its threads, ended ones too) or one ended thread, in ns."""

    pid: int
    """The thread of an exit event; 0 in the answer for a whole process."""
    process: int
    """The thread's process; 0 when the kernel does not provide it (before 5.19)."""
    parent: int
    """0 in the answer for a whole process."""
    run_ns: int
    wait_cpu_ns: int
    wait_block_ns: int
    """Block I/O without swap-in; 0 when delay accounting was off when the process started."""
    peak_rss_bytes: int
    """0 in the answer for a whole process."""
    lived_ns: int = 0
    """Lifetime of the thread of an exit event, to 1 us. Invalid for a whole process."""
    wait_memory_ns: int = 0
    """For pages that had been dropped or swapped out for lack of memory; part of `wait_block_ns`
    except for swap-in on kernels before 5.19."""


class TaskstatsSocket:
    """One netlink socket for queries of processes and, after `listen`, for exit events of threads.

    Raises OSError (EPERM, EINVAL, ENOENT, ENOSYS) when this process lacks the right or the kernel
    the feature.
    """

    def __init__(self) -> None:
        self._requests = _generic_socket()
        self._events: socket.socket | None = None
        try:
            self._family = _family_id(self._requests)
            # Detects another layout of the structure: our own pid would be in another place.
            mine = self._ask(_ATTR_PID, os.getpid())
            if mine.pid != os.getpid():
                raise OSError(0, "the kernel's struct taskstats has another layout")
        except OSError:
            self.close()
            raise

    def of_process(self, pid: int) -> TaskDelays:
        """Return the delays of a process with all its threads, ended ones too.

        Raises OSError (ESRCH) when it no longer exists.
        """
        return self._ask(_ATTR_TGID, pid)

    def listen(self) -> None:
        """Collect every thread that ends on any CPU from now on, for `ended`."""
        if self._events is not None:
            return
        events = _generic_socket()
        try:
            try:
                events.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _EVENT_BUFFER_BYTES)
            except OSError:
                events.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _EVENT_BUFFER_BYTES)
            cpus = _possible_cpus().encode() + b"\0"
            events.send(_message(self._family, _CMD_GET, _attribute(_ATTR_REGISTER_CPUMASK, cpus)))
            events.setblocking(False)
            with contextlib.suppress(BlockingIOError):  # the kernel answers only errors
                _check_error(events.recv(65536))
        except OSError:
            events.close()
            raise
        self._events = events

    def ended(self) -> tuple[list[TaskDelays], bool]:
        """Return (threads of the machine that ended since the last call, whether none was lost)."""
        found: list[TaskDelays] = []
        complete, data = True, bytearray(_MESSAGE_BYTES)
        while self._events is not None:
            try:
                size = self._events.recv_into(data)
            except BlockingIOError:
                break
            except OSError:  # ENOBUFS: the kernel dropped some
                complete = False
                continue
            if size > _EXIT.size + _FIELDS.size and _EXIT.unpack_from(data) == _EXIT_OF_A_THREAD:
                found.append(_delays(data, _EXIT.size))
                continue
            parsed = _parse(bytes(data[:size]))
            found.extend(delays for kind, delays in parsed if kind == _TYPE_AGGR_PID)
        return found, complete

    def close(self) -> None:
        """Close the sockets; this also removes the listener in the kernel."""
        self._requests.close()
        if self._events is not None:
            self._events.close()
            self._events = None

    def _ask(self, attribute: int, pid: int) -> TaskDelays:
        # A watch asks this for every process with threads at every look.
        self._requests.send(
            _QUESTION.pack(
                _QUESTION.size,
                self._family,
                _NLM_F_REQUEST,
                0,
                0,
                _CMD_GET,
                1,
                0,
                8,
                attribute,
                pid,
            )
        )
        data = self._requests.recv(_MESSAGE_BYTES)
        if (
            len(data) >= _EXIT.size + _FIELDS.size
            and _EXIT.unpack_from(data) == _ANSWER_OF_A_PROCESS
        ):
            return _delays(data, _EXIT.size)
        _check_error(data)
        for _, delays in _parse(data):
            return delays
        raise OSError(0, "the kernel's answer held no taskstats")


def listening_socket() -> TaskstatsSocket | None:
    """Return a socket that receives exit events of threads, None without the right to it."""
    try:
        made = TaskstatsSocket()
    except OSError:
        return None
    try:
        made.listen()
    except OSError:
        made.close()
        return None
    return made


def _generic_socket() -> socket.socket:
    made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_GENERIC)
    made.bind((0, 0))
    return made


def _attribute(kind: int, payload: bytes) -> bytes:
    length = 4 + len(payload)
    return struct.pack("=HH", length, kind) + payload + b"\0" * (-length % 4)


def _message(kind: int, command: int, attributes: bytes) -> bytes:
    body = struct.pack("=BBH", command, 1, 0) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, _NLM_F_REQUEST, 0, 0) + body


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, offset)
        if length < 4:
            return
        yield kind & 0x3FFF, data[offset + 4 : offset + length]
        offset += length + (-length % 4)


def _check_error(data: bytes) -> None:
    kind = struct.unpack_from("=H", data, 4)[0]
    if kind == _NLMSG_ERROR:
        code = -struct.unpack_from("=i", data, 16)[0]
        if code:
            raise OSError(code, os.strerror(code))


def _family_id(requests: socket.socket) -> int:
    requests.send(
        _message(
            _GENL_ID_CTRL, _CTRL_CMD_GETFAMILY, _attribute(_CTRL_ATTR_FAMILY_NAME, b"TASKSTATS\0")
        )
    )
    data = requests.recv(65536)
    _check_error(data)
    for kind, payload in _attributes(data[20:]):
        if kind == _CTRL_ATTR_FAMILY_ID:
            return int(struct.unpack_from("=H", payload)[0])
    raise OSError(0, "the kernel has no taskstats")


def _parse(data: bytes) -> Iterator[tuple[int, TaskDelays]]:
    """Yield (aggregate kind, delays) of each message in `data`."""
    offset = 0
    while offset + 16 <= len(data):
        length = struct.unpack_from("=I", data, offset)[0]
        if length < 16:
            return
        for kind, payload in _attributes(data[offset + 20 : offset + length]):
            if kind not in (_TYPE_AGGR_PID, _TYPE_AGGR_TGID):
                continue
            inner = dict(_attributes(payload))
            raw = inner.get(_TYPE_STATS)
            if raw is not None:
                yield kind, _delays(raw)
        offset += length + (-length % 4)


def _delays(raw: bytes | bytearray, offset: int = 0) -> TaskDelays:
    if len(raw) < _FIELDS.size:  # of an older kernel
        raw += b"\0" * (_FIELDS.size - len(raw))
    version, wait_cpu, wait_block, swap, run, pid, parent, lived_us, peak_kib, thrash, process = (
        _FIELDS.unpack_from(raw, offset)
    )
    return TaskDelays(
        pid,
        process if version >= 12 else 0,
        parent,
        run,
        wait_cpu,
        wait_block,
        peak_kib * 1024,
        lived_us * 1000,
        swap + thrash,
    )


def _possible_cpus() -> str:
    with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:  # noqa: PTH123
        return file.read().strip()
