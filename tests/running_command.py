"""A command that `command_server.py` has forked, used as a `subprocess.Popen`."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Sequence
from typing import IO


class RunningCommand:
    """A process that another has forked: that one waits for it, and tells how it ended."""

    def __init__(
        self, words: Sequence[str], pid: int, channel: socket.socket, out: IO[str], err: IO[str]
    ) -> None:
        """Made before the process goes on: it is alive, and `pid` is its own."""
        self.args = ["headrace", *words]
        self.pid = pid
        self.stdout, self.stderr = out, err
        self.returncode: int | None = None
        self._channel = channel
        self._pidfd = os.pidfd_open(pid)
        self._readers: list[_Reader] = []
        self._telling = threading.Lock()
        weakref.finalize(self, _close, channel, self._pidfd)

    def poll(self) -> int | None:
        """Return how it ended, as `Popen.returncode`; None while it runs."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """Raise TimeoutExpired."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return what it has written, once it has ended. Raise TimeoutExpired.

        What it left running may still hold its end of a pipe; that is waited for, too.
        """
        end_s = None if timeout is None else time.monotonic() + timeout
        self._readers = self._readers or [_Reader(self.stdout), _Reader(self.stderr)]
        self.wait(timeout)
        for each in self._readers:
            each.join(None if end_s is None else max(0, end_s - time.monotonic()))
            if each.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        out, err = (each.text for each in self._readers)
        return out, err

    def send_signal(self, number: int) -> None:
        """Do nothing once it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _ended(self, timeout: float | None) -> int | None:
        """Several threads may ask."""
        if self.returncode is None and select.select([self._channel], [], [], timeout)[0]:
            with self._telling:
                if self.returncode is None:
                    self.returncode = number_from(self._channel)
        return self.returncode


def _close(channel: socket.socket, pidfd: int) -> None:
    channel.close()
    os.close(pidfd)


class _Reader(threading.Thread):
    """Reads a file to its end while the command runs."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__(daemon=True)
        self._file = file
        self.text = ""
        self.start()

    def run(self) -> None:
        with self._file:
            self.text = self._file.read()


def number_from(channel: socket.socket) -> int:
    return int.from_bytes(exactly(channel, 8), "big", signed=True)


def exactly(channel: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = channel.recv(size - len(found))
        if not more:
            raise EOFError("the process that forks commands has ended")
        found += more
    return found


def tell(channel: socket.socket, number: int) -> None:
    channel.sendall(number.to_bytes(8, "big", signed=True))
