"""Forks job processes from one that has everything imported, so that a job starts in milliseconds and unmeasured.

The nursery is a process of one thread. It is told which workload to warm, forks a process for each job, and says how each
ended, with its resource usage (wait4). It and its jobs die with the process that started it (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import gc
import json
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

from headrace.workloads import SET_FOR_JOBS

_PR_SET_PDEATHSIG = 1
_THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_LENGTH = struct.Struct("!I")


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Channel:
    """Whole messages (pickled, between processes of ours only) over a stream socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def fileno(self) -> int:
        """For select."""
        return self.sock.fileno()

    def send(self, message: Any, descriptor: int | None = None) -> None:
        """Sends one message, and with it an open file when given."""
        body = pickle.dumps(message)
        data = _LENGTH.pack(len(body)) + body
        if descriptor is not None:
            extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
            sent = self.sock.sendmsg([data], extra)
            data = data[sent:]
        self.sock.sendall(data)

    def receive(self) -> tuple[Any, int | None]:
        """Waits for one message and the open file that came with it. Raises EOFError at the end."""
        descriptors = array.array("i")
        data, extra, _, _ = self.sock.recvmsg(_LENGTH.size, socket.CMSG_LEN(descriptors.itemsize))
        if not data:
            raise EOFError
        for _level, _kind, content in extra:
            descriptors.frombytes(content[: descriptors.itemsize])
        head = data + self._exactly(_LENGTH.size - len(data))
        body = self._exactly(_LENGTH.unpack(head)[0])
        return pickle.loads(body), (descriptors[0] if descriptors else None)

    def _exactly(self, size: int) -> bytes:
        pieces = bytearray()
        while len(pieces) < size:
            piece = self.sock.recv(size - len(pieces))
            if not piece:
                raise EOFError
            pieces += piece
        return bytes(pieces)

    def close(self) -> None:
        """Closes it."""
        self.sock.close()


@dataclass(frozen=True)
class Exit:
    """How a job process ended."""

    pid: int
    status: int
    """As of wait(2)."""
    user_s: float
    system_s: float
    peak_rss_bytes: int


class Nursery:
    """The parent's side. `spawn` returns the channel to a new job process that waits to be told what to do."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        # Not by `-m`: what it sends would be of classes of `__main__`, which nobody else knows.
        command = [
            sys.executable,
            "-c",
            "from headrace.engine.measure.nursery import main; main()",
            str(theirs.fileno()),
        ]
        # One thread a job: a numerical library that starts a pool a process would measure itself. What the user has set
        # stands; what is set here is named, so that a program of the user's own does not inherit it.
        single = {name: "1" for name in _THREAD_COUNTS if name not in os.environ}
        environment = {**os.environ, **single, SET_FOR_JOBS: ",".join(single)}
        self._process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        self._channel = Channel(ours)
        self.exits: list[Exit] = []

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def fileno(self) -> int:
        """For select: readable when an exit can be taken."""
        return self._channel.fileno()

    def warm(self, kind: str, name: str, options: dict[str, Any]) -> str | None:
        """Imports and warms a workload; what went wrong, or None."""
        self._channel.send(("warm", kind, name, options))
        return self._answer("warm")

    def spawn(self) -> tuple[int, Channel]:
        """Forks a job process. Returns its pid and the channel to it."""
        ours, theirs = socket.socketpair()
        self._channel.send(("spawn",), theirs.fileno())
        theirs.close()
        return int(self._answer("pid")), Channel(ours)

    def _answer(self, wanted: str) -> Any:
        while True:
            message, _ = self._channel.receive()
            if message[0] == "exit":
                self.exits.append(message[1])
            elif message[0] == wanted:
                return message[1]

    def take_exits(self) -> list[Exit]:
        """Every exit that has been reported; does not wait."""
        while select.select([self._channel], [], [], 0)[0]:
            message, _ = self._channel.receive()
            if message[0] == "exit":
                self.exits.append(message[1])
        found, self.exits = self.exits, []
        return found

    def close(self) -> None:
        """Ends it and everything that it forked."""
        self._channel.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# -- the nursery's own side ---------------------------------------------------------------------------------


def _serve(channel: Channel) -> None:
    wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, _only_wake_up)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children: set[int] = set()
    try:
        while True:
            ready, _, _ = select.select([channel, wakeup_read], [], [])
            if wakeup_read in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(wakeup_read, 4096)
                _reap(children, channel)
            if channel in ready:
                message, descriptor = channel.receive()
                if message[0] == "warm":
                    channel.send(("warm", _warm(*message[1:])))
                elif message[0] == "spawn" and descriptor is not None:
                    pid = os.fork()
                    if pid == 0:
                        signal.set_wakeup_fd(-1)
                        channel.close()
                        os.close(wakeup_read)
                        os.close(wakeup_write)
                        _become_job(descriptor)
                    os.close(descriptor)
                    children.add(pid)
                    channel.send(("pid", pid))
    except EOFError:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def _only_wake_up(_number: int, _frame: object) -> None:
    """The wake-up descriptor does the work; the default action would be to ignore the signal."""


def _reap(children: set[int], channel: Channel) -> None:
    for pid in list(children):
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if found == pid:
            children.discard(pid)
            channel.send(("exit", Exit(pid, status, usage.ru_utime, usage.ru_stime, usage.ru_maxrss * 1024)))


_warmed: set[str] = set()


def _warm(kind: str, name: str, options: dict[str, Any]) -> str | None:
    from headrace import workloads

    key = f"{kind} {json.dumps(options, sort_keys=True)}"
    if key in _warmed:
        return None
    try:
        part = workloads.kinds()[kind]
        part(name, part.Options.model_validate(options)).warm()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    _warmed.add(key)
    # What is here now lives as long as the jobs: keep the collector from touching (and so copying) it in every fork.
    gc.collect()
    gc.freeze()
    return None


def _become_job(descriptor: int) -> NoReturn:
    from headrace.engine.measure import job

    code = 1
    try:
        os.setsid()
        die_with_parent()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        code = job.serve(Channel(socket.socket(fileno=descriptor)))
    finally:
        os._exit(code)


def main() -> None:
    """Entry of the nursery process."""
    die_with_parent()
    _serve(Channel(socket.socket(fileno=int(sys.argv[1]))))
