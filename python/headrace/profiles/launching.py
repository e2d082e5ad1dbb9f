"""Runs a program as a shell does, and reads the kernel's counts for it.

Arguments, files, signals and exit status are the same as in a shell. The program waits at a gate
until its entries in /proc are open: those of an ended process belong to root, but a descriptor
opened before still reads them.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType

from headrace.system.closed_streams import close_at_exec

_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_CHANGED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_NOT_EXECUTED = 127


@dataclass(frozen=True)
class KernelCounts:
    """The contents of /proc/PID/io for a process and the children that it waited for."""

    read_bytes: int
    """Bytes of read calls (`rchar`), from files, pipes and terminals alike."""
    written_bytes: int
    """Bytes of write calls (`wchar`)."""
    device_bytes: int = 0
    """Bytes that block devices read for it (`read_bytes`)."""


@dataclass(frozen=True)
class EndedProgram:
    """A program that has ended."""

    exit_code: int
    """As in `subprocess`: negative for a signal."""
    begin_ns: int
    """Start, on the monotonic clock."""
    end_ns: int
    usage: resource.struct_rusage
    """Resources of the program and the children that it waited for."""
    counts: KernelCounts | None
    """None if the kernel keeps no such counts or denies access (the program became another
    user)."""
    cpu_wait_ns: int
    """How long its first thread waited for a CPU."""


Watching = Callable[[int], AbstractContextManager[object]]
"""Makes what observes a process from its first instruction until it has ended, before it is reaped.
"""


def unwatched(_pid: int) -> AbstractContextManager[object]:
    """Observe nothing."""
    return contextlib.nullcontext()


def launch(
    program: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    watching: Watching = unwatched,
) -> EndedProgram:
    """Run `program` with the arguments in `command` until it ends.

    SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to it; Ctrl-C reaches it from the terminal,
    and it decides. Raises the OSError of `execve` for a program that the kernel does not execute.
    """
    with _Gate() as gate, _Signals() as children:
        begin_ns = time.monotonic_ns()
        pid = _fork(program, command, environment, gate)
        children.begun(pid)
        facts = _Facts(pid)
        try:
            with watching(pid):
                gate.open()
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
                end_ns = time.monotonic_ns()
            counts, cpu_wait_ns = facts.counts(), facts.cpu_wait_ns()
        finally:
            children.pid = None
            _, status, usage = os.wait4(pid, 0)
            facts.close()
        if (error := gate.error()) is not None:
            raise error
    return EndedProgram(
        os.waitstatus_to_exitcode(status), begin_ns, end_ns, usage, counts, cpu_wait_ns
    )


class _Gate:
    """Two pipes: the child waits at one and reports on the other why it could not execute the
    program."""

    def __enter__(self) -> _Gate:
        self.wait, self._go = os.pipe()
        self._said, self.say = os.pipe()
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self.wait, self._go, self._said, self.say):
            os.close(descriptor)

    def close_parent_s(self) -> None:
        """In the child: close the parent's ends, so that it sees at the gate if the parent dies."""
        os.close(self._go)
        os.close(self._said)

    def open(self) -> None:
        """Let the child continue."""
        os.write(self._go, b"g")

    def error(self) -> OSError | None:
        """Return the error of `execve`; None if the program began."""
        os.set_blocking(self._said, False)
        with contextlib.suppress(BlockingIOError):
            if number := os.read(self._said, 16):
                return OSError(int(number), os.strerror(int(number)))
        return None


def _fork(program: str, command: Sequence[str], environment: Mapping[str, str], gate: _Gate) -> int:
    with warnings.catch_warnings():
        # The child only calls execve, so threads of numeric libraries cannot cause deadlocks.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    try:
        gate.close_parent_s()
        for number in (*_PASSED_ON, signal.SIGINT):
            if signal.getsignal(number) not in (signal.SIG_IGN, signal.SIG_DFL):
                signal.signal(number, signal.SIG_DFL)
        for number in _CHANGED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        close_at_exec()
        if os.read(gate.wait, 1):
            os.execve(program, list(command), environment)
    except OSError as error:
        os.write(gate.say, str(error.errno).encode())
    finally:
        os._exit(_NOT_EXECUTED)


class _Signals:
    """Passes signals on to the program; ignored signals stay ignored, by the program too."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self._early: list[int] = []

    def begun(self, pid: int) -> None:
        """The program exists: send it the signals that came before."""
        self.pid = pid
        for number in self._early:
            os.kill(pid, number)

    def __enter__(self) -> _Signals:
        self._before = {number: signal.getsignal(number) for number in (*_PASSED_ON, signal.SIGINT)}
        for number, handler in self._before.items():
            if handler != signal.SIG_IGN:
                signal.signal(number, self._leave if number == signal.SIGINT else self._pass_on)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        if self.pid is None:
            self._early.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        """Ignore Ctrl-C: it reaches the program from the terminal; the program decides, and we wait
        for it."""


class _Facts:
    """Files of /proc about a process, held open until after its end."""

    def __init__(self, pid: int) -> None:
        self._open = {name: _held(f"/proc/{pid}/{name}") for name in ("io", "schedstat")}

    def close(self) -> None:
        for descriptor in self._open.values():
            if descriptor is not None:
                os.close(descriptor)

    def _text(self, name: str) -> str | None:
        descriptor = self._open[name]
        with contextlib.suppress(OSError):
            if descriptor is not None:
                return os.pread(descriptor, 4096, 0).decode()
        return None

    def counts(self) -> KernelCounts | None:
        text = self._text("io")
        if text is None:
            return None
        values = dict(line.split(": ") for line in text.splitlines())
        return KernelCounts(
            int(values["rchar"]), int(values["wchar"]), int(values.get("read_bytes", 0))
        )

    def cpu_wait_ns(self) -> int:
        text = self._text("schedstat")
        return int(text.split()[1]) if text else 0


def _held(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
